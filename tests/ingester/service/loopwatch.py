"""Says what kept an event loop from turning.

Every callback's CPU time is taken (`time.thread_time`), which other processes on a busy machine do
not lengthen. A call that waits, as for a disk, takes none: it is seen by the clock, where the
thread gave the processor up by itself and was not sent away from it, and with a larger limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import time
from asyncio import events
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds of CPU that a callback may take, and seconds that it may wait.
LIMIT, WAIT_LIMIT = 0.05, 1.0
#: Voluntary switches up to which a long wait is one call that waits, and not many short waits for
#: the interpreter's lock, which the other threads hold for 5 ms at a time.
FEW_SWITCHES = 2


@dataclass(frozen=True)
class Blocked:
    """A callback that took too long."""

    #: What it was.
    name: str
    #: Seconds of CPU and on the clock.
    cpu: float
    wall: float


@contextlib.contextmanager
def watched_loop() -> Iterator[list[Blocked]]:
    """Collects what blocks any event loop of this process's main thread for too long."""
    found: list[Blocked] = []
    run = events.Handle._run

    def timed(handle: Any) -> None:
        before, cpu, wall = _switches(), time.thread_time(), time.perf_counter()
        try:
            run(handle)
        finally:
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            own, forced = (now - then for now, then in zip(_switches(), before, strict=True))
            waited = wall - cpu > WAIT_LIMIT and 0 < own <= FEW_SWITCHES and not forced
            if cpu > LIMIT or waited:
                found.append(Blocked(_name(handle), cpu, wall))

    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        events.Handle._run = run  # type: ignore[method-assign]


def _switches() -> tuple[int, int]:
    """Times the thread gave the processor up, and times it was sent away."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw


def _name(handle: Any) -> str:
    owner = getattr(handle._callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return repr(handle._callback)
    frames = [f"{os.path.basename(f.f_code.co_filename)}:{f.f_lineno}" for f in owner.get_stack()]
    return f"{owner.get_name()} at {' < '.join(frames) or 'its end'}"
