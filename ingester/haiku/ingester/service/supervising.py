"""Keeping the parts running: what fails is said, and tried again, and nothing else notices."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from haiku.ingester.api import Reason
from haiku.rag.exceptions import (
    ConfigError,
    DatabaseReplaced,
    HaikuRAGError,
    IdentityMismatch,
    SchemaMismatch,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from haiku.ingester.service.reporting import Reports
    from haiku.ingester.service.stopping import Stop

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Seconds before a part that failed is tried again; doubles up to the second.
FIRST_DELAY, LONGEST_DELAY = 1.0, 30.0
#: Seconds a part must run before its failure is forgotten.
STABLE = 10.0
#: What no waiting mends: the configuration and the database do not fit together.
HOPELESS = (ConfigError, IdentityMismatch, SchemaMismatch)


class Stopped(Exception):
    """A stop was requested while something was waited for."""


class Supervisor:
    """Runs parts and opens what they need, again and again until a stop is requested."""

    def __init__(self, reports: Reports, stop: Stop) -> None:
        self._reports = reports
        self._stop = stop
        #: Why the daemon has to end; None: nobody but a person wants it to.
        self.ended: DatabaseReplaced | None = None

    async def keep(self, part: str, run: Callable[[], Awaitable[None]], *, fatal: bool) -> None:
        """Run a part until it ends by itself; when it fails, say so and run it again.

        Args:
            part: its name in health, logs and reasons.
            run: the part; cancelled from outside when the daemon stops.
            fatal: nothing can be ingested without it.
        """
        delay, loop = FIRST_DELAY, asyncio.get_running_loop()
        while True:
            forget = loop.call_later(STABLE, self._reports.clear, part)
            started = loop.time()
            try:
                await run()
            except DatabaseReplaced as error:
                self._end(error)
                return
            except Exception as error:  # noqa: BLE001 - one part must not take the others down
                self._say(part, error, fatal)
            else:
                self._reports.clear(part)
                return
            finally:
                forget.cancel()
            delay = FIRST_DELAY if loop.time() - started > STABLE else delay
            if await self._stop.sleep(delay):
                return
            delay = min(2 * delay, LONGEST_DELAY)

    def _end(self, error: DatabaseReplaced) -> None:
        """Stop for good: what is open is no more; what is there may need another embedder."""
        self.ended = error
        if not self._stop.requested.is_set():
            self._stop.ask()

    async def open(self, part: str, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, as soon as it does; until then the daemon's health is failing.

        Raises:
            ConfigError, IdentityMismatch, SchemaMismatch: waiting does not help.
            Stopped: a stop was requested first.
        """
        delay = FIRST_DELAY
        while True:
            try:
                made = await make()
            except HOPELESS:
                raise
            except (HaikuRAGError, OSError) as error:
                self._say(part, error, fatal=True)
            else:
                self._reports.clear(part)
                return made
            if await self._stop.sleep(delay):
                raise Stopped
            delay = min(2 * delay, LONGEST_DELAY)

    def _say(self, part: str, error: Exception, fatal: bool) -> None:
        expected = isinstance(error, HaikuRAGError | OSError)
        text = str(error) or type(error).__name__
        code = error.code if isinstance(error, HaikuRAGError) else "unexpected"
        reason = Reason(part=part, code=code, text=text, fatal=fatal)
        if self._reports.degrade(reason) or not expected:
            log.error("%s failed and is tried again: %s", part, text, exc_info=not expected)
