"""A process of its own that vacuums a database and is killed before a step.

    python -m tests.rag.store.killed PATH NOW STEP

NOW is the time by the collector's clock. Prints "done" when it never came to the step.
"""

import asyncio
import os
import signal
import sys

from tests.rag.store.aging import NO_HISTORY

from haiku.rag.store import Store, marks


async def main(path: str, now: float, fatal: str) -> None:
    """Vacuum until the step comes."""
    marks.here = lambda: ("this one", now)

    async def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    async with await Store.open(path, NO_HISTORY) as store:
        store.on_upkeep_step(step)
        await store.vacuum()
    print("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
