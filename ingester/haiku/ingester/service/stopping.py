"""Being told to stop: once politely, twice at once."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether, and how urgently, the daemon has been asked to stop."""

    def __init__(self) -> None:
        #: Set by the first request: no new work; what is in flight may finish.
        self.requested = asyncio.Event()
        #: Set by the second: release what is in flight now.
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """A request to stop."""
        if self.requested.is_set():
            log.info("stopping at once: what is in flight is released")
            self.at_once.set()
            return
        log.info("stopping: what is in flight is finished first; ask again to stop at once")
        self.requested.set()

    async def sleep(self, seconds: float) -> bool:
        """Wait so long, or until a stop is requested. True when it was."""
        try:
            async with asyncio.timeout(seconds):
                await self.requested.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask to stop while the context lasts.

        Afterwards they are ignored: the process is about to end, and with its own exit code.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.ask)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)
