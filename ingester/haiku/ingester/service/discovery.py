"""The sources of a running daemon: each kept in step by whichever instance holds its lease."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from haiku.ingester.api import Reason
from haiku.ingester.items import RequestKind
from haiku.ingester.service.restores import Restores
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag.exceptions import HaikuRAGError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from haiku.ingester.config import FilesystemSource
    from haiku.ingester.items import Request
    from haiku.ingester.items.items import Items
    from haiku.ingester.metrics import Metrics
    from haiku.ingester.sources.protocol import Source
    from haiku.ingester.sync.model import Health

log = logging.getLogger(__name__)

#: Times a source's lease is renewed before it would lapse.
RENEWALS = 3
#: Seconds between looks for what commands ask.
REQUEST_INTERVAL = 0.8


#: What is done for a person's word after a restore.
ANSWERS: Mapping[RequestKind, Callable[[Restores, str], Awaitable[None]]] = {
    RequestKind.RESYNC: Restores.resync,
    RequestKind.KEEP: Restores.keep,
}


class SourceKeeper:
    """Keeps one source in step while this instance holds its lease."""

    def __init__(
        self,
        section: FilesystemSource,
        source: Source,
        items: Items,
        restores: Restores,
        *,
        lease: float,
    ) -> None:
        """Take a source.

        Args:
            section: its configuration.
            source: where it is.
            items: what is known of it.
            restores: those of the database.
            lease: seconds its lease lasts without being renewed.
        """
        self.source_id = section.id
        self._source = source
        self._items = items
        self._restores = restores
        self._policy = Policy.of(section)
        self._interval = lease / RENEWALS
        #: While the lease is held.
        self.sync: SourceSync | None = None
        self._elsewhere = False

    @property
    def settled(self) -> bool:
        """It was listed, or cannot be, or is another instance's."""
        if self.sync is None:
            return self._elsewhere
        health = self.sync.health()
        return health.last_sweep is not None or bool(health.reasons)

    async def run(self) -> None:
        """Until cancelled: wait for the lease, then watch and sweep while it is renewed."""
        while True:
            mine = await self._items.take_source(self.source_id)
            self._elsewhere = not mine
            if mine:
                try:
                    await self._hold()
                finally:
                    self.sync = None
                    await self._items.release_source(self.source_id)
            await asyncio.sleep(self._interval)

    async def _hold(self) -> None:
        sync = self.sync = SourceSync(self._source, self._items, self._policy)
        running = asyncio.create_task(sync.run(), name=f"sync {self.source_id}")
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=self._interval)
                if not await self._items.take_source(self.source_id):
                    log.warning("another instance took the source over", extra=self._extra)
                    return
            running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def answer(self, request: Request) -> None:
        """Do what a command asked. Never raises an error of ours."""
        if self.sync is None:
            return
        if request.kind is RequestKind.REFRESH:
            log.info("listed again because it was asked for", extra=self._extra)
            self.sync.refresh()
            return
        try:
            await self._answer(request.kind, self.sync)
        except HaikuRAGError as error:
            log.warning("%s was not done, ask again: %s", request.kind, error, extra=self._extra)

    async def _answer(self, kind: RequestKind, sync: SourceSync) -> None:
        if kind is RequestKind.CONFIRM_DELETES:
            report = await sync.confirm_deletes()
            log.info("deletions confirmed: %d items go", report.gone, extra=self._extra)
        elif kind in ANSWERS:
            await ANSWERS[kind](self._restores, self.source_id)
            sync.refresh()

    @property
    def _extra(self) -> dict[str, str]:
        return {"source": self.source_id}


class Discovery:
    """All sources of the daemon, as the service sees them."""

    def __init__(
        self, keepers: list[SourceKeeper], items: Items, restores: Restores, metrics: Metrics
    ) -> None:
        self.keepers = keepers
        self._restores = restores
        self._items = items
        self._metrics = metrics
        self._restarts: dict[str, int] = {}

    @property
    def settled(self) -> bool:
        """Every source of this instance was listed, or is known to be away."""
        return all(keeper.settled for keeper in self.keepers)

    async def take_requests(self) -> None:
        """Until cancelled: hand over what commands ask of the sources held here."""
        while True:
            held = {keeper.source_id: keeper for keeper in self.keepers if keeper.sync}
            for request in await self._items.take_requests(held) if held else ():
                await held[request.source_id].answer(request)
            await asyncio.sleep(REQUEST_INTERVAL)

    def reasons(self) -> Iterator[Reason]:
        """What is wrong with the sources."""
        for health in self._healths():
            code = _code(health)
            for text in dict.fromkeys(health.reasons):
                yield Reason(part=f"source:{health.source_id}", code=code, text=text)
        yield from self._restores.reasons()

    async def refresh_metrics(self) -> None:
        """Bring the sources' figures up to date."""
        for health in self._healths():
            swept = health.last_sweep_at
            self._metrics.source_state(
                health.source_id,
                up=health.ok,
                suspended=health.suspension is not None,
                held=health.source_id in self._restores.held,
                last_sweep=swept.timestamp() if swept else None,
            )
            known = self._restarts.get(health.source_id, 0)
            for _ in range(health.watch_restarts - known):
                self._metrics.watch_restarted(health.source_id)
            self._restarts[health.source_id] = health.watch_restarts

    def _healths(self) -> list[Health]:
        return [keeper.sync.health() for keeper in self.keepers if keeper.sync]


def _code(health: Health) -> str:
    if health.missing:
        return "source_missing"
    return "deletes_suspended" if health.suspension else "source_degraded"
