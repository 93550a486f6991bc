"""Lance in threads: calls that may be left alone when cancelled, and calls that may not."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from haiku.rag.finishing import finish
from haiku.rag.store.forking import check_process

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

#: Calls of one store under way at once. Lance has threads of its own: these mostly wait.
THREADS = 8


def clock() -> float:
    """Seconds since some moment, counting time asleep where the system offers such a clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class Threads:
    """The threads of one store."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="haiku-store")

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read. Cancelled, it is left to end by itself and its result is dropped.

        Raises:
            StoreError: this process was forked with Lance loaded.
        """
        check_process()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(call, *args, **kwargs))

    async def finish(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write. Cancelled, it is waited for first: nothing goes on behind the caller."""
        return await finish(self.run(call, *args, **kwargs))

    def close(self) -> None:
        """Take no more calls; those under way end by themselves."""
        self._pool.shutdown(wait=False)
