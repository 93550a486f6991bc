"""Says what kept an event loop from turning.

Every callback's CPU time is taken (`time.thread_time`), which other processes on a busy machine do
not lengthen. A call that waits, as for a disk, takes none and is not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from asyncio import events
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds of CPU that a callback may take.
LIMIT = 0.05


@dataclass(frozen=True)
class Blocked:
    """A callback that took too long."""

    #: What it was.
    name: str
    #: Seconds of CPU.
    cpu: float


@contextlib.contextmanager
def watched_loop() -> Iterator[list[Blocked]]:
    """Collects what blocks any event loop of this process's main thread for too long."""
    found: list[Blocked] = []
    run = events.Handle._run

    def timed(handle: Any) -> None:
        began = time.thread_time()
        try:
            run(handle)
        finally:
            if (cpu := time.thread_time() - began) > LIMIT:
                found.append(Blocked(_name(handle), cpu))

    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        events.Handle._run = run  # type: ignore[method-assign]


def _name(handle: Any) -> str:
    owner = getattr(handle._callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return repr(handle._callback)
    frames = [f"{os.path.basename(f.f_code.co_filename)}:{f.f_lineno}" for f in owner.get_stack()]
    return f"{owner.get_name()} at {' < '.join(frames) or 'its end'}"
