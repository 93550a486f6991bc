"""A process of its own that vacuums a growing table of large rows and prints the memory it took.

    python -m tests.rag.store.bulky PATH

One line a round: the peak of the resident memory during the vacuum, above what it was before.
"""

import asyncio
import os
import sys
from pathlib import Path

from tests.rag.store.making import CONFIG, IDENTITY, revision

from haiku.rag.store import Store, marks
from haiku.rag.store.changes import Put

#: Rows a round, and the bytes of each: half of them are replaced in the next round.
ROWS, BYTES = 40, 3_000_000
SMALL = CONFIG.model_copy(update={"upkeep_memory": 200_000_000, "history": 0.0})


def status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


async def main(path: str) -> None:
    """Three rounds; in each half of the rows of the last one are replaced."""
    now = 0.0
    marks.here = lambda: ("here", now)
    async with await Store.create(path, IDENTITY, SMALL) as store:
        for round_ in range(3):
            for n in range(ROWS):
                uri = f"{round_ - n % 2}/{n}"
                rows = revision(f"text {n}", docling=os.urandom(BYTES))
                await store.commit([Put(uri=uri, revision=rows)])
            await store.vacuum()
            now += SMALL.collect_after
            Path("/proc/self/clear_refs").write_text("5")
            before = status("VmRSS")
            report = await store.vacuum()
            now += SMALL.collect_after
            assert not report.errors, report.errors
            assert not report.skipped, report.skipped
            print(status("VmHWM") - before)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
