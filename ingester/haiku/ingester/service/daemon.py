"""`Daemon`: all the rooms, running together until a stop is requested."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from haiku.ingester.api import Reason
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import rooms
from haiku.ingester.service.discovery import Discovery, SourceKeeper
from haiku.ingester.service.figures import Figures, WorkObserver, outage_reasons
from haiku.ingester.service.reporting import Reports
from haiku.ingester.service.schedules import failures, make_keepers
from haiku.ingester.service.serving import ControlApi
from haiku.ingester.service.supervising import Stopped, Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.service.places import Places
    from haiku.ingester.service.rooms import Rooms
    from haiku.ingester.service.stopping import Stop
    from haiku.ingester.sources.protocol import Source
    from haiku.ingester.work.worker import Worker

log = logging.getLogger(__name__)

#: Seconds between looks whether the store still answers.
PROBE_INTERVAL = 5.0


class Daemon:
    """Keeps a database in step with its sources.

    Args:
        config: what to do.
        places: where the database and the daemon's own files are.
        stop: how it is told to stop.
        builder: opens the rooms.
    """

    def __init__(
        self,
        config: DaemonConfig,
        places: Places,
        stop: Stop,
        *,
        builder: Callable[[DaemonConfig, Places, AsyncExitStack], rooms.Builder] = rooms.Builder,
    ) -> None:
        self._config = config
        self._places = places
        self._stop = stop
        self._builder = builder
        self._metrics = Metrics()
        self._reports = Reports(self._metrics)
        self._supervisor = Supervisor(self._reports, stop)
        self._observer = WorkObserver(self._metrics)
        #: The worker that runs now; None before and between.
        self._worker: Worker | None = None

    async def serve(self) -> None:
        """Run until a stop is requested, then finish or release what is in flight.

        Raises:
            PortTaken: the API's port is taken and the configuration says to refuse.
            SourceMissing: a `required` source is not there.
            ConfigError, IdentityMismatch, SchemaMismatch: nothing can be done as configured.
            DatabaseReplaced: the database was rebuilt meanwhile; start again.
        """
        sources = rooms.make_sources(self._config, self._places)
        await rooms.check_required(self._config, sources)
        api = ControlApi(self._config.ingester.api, self._reports)
        api.listen()
        self._announce()
        self._reports.degrade(Reason(part="store", code="starting", text="starting", fatal=True))
        async with self._beside("api", api.run), AsyncExitStack() as stack:
            try:
                await self._ingest(sources, stack)
            except Stopped:
                log.info("stopped before everything was up")
        if self._supervisor.ended is not None:
            raise self._supervisor.ended

    def _announce(self) -> None:
        log.info("database %s", self._places.database)
        for source in self._config.ingester.sources:
            log.info("source %s: %s", source.id, source.path)

    async def _ingest(self, sources: Mapping[str, Source], stack: AsyncExitStack) -> None:
        builder = self._builder(self._config, self._places, stack)
        opened = await builder.open(sources, self._supervisor.open, self._observer.committed)
        # What is loaded stays: a full collection that walked it would stop the loop for 150 ms.
        gc.freeze()
        discovery = self._discover(opened)
        self._reports.refresh_with(Figures(self._metrics, opened).refresh)
        self._reports.refresh_with(discovery.refresh_metrics)
        self._reports.ask(discovery.reasons)
        self._reports.ask(lambda: outage_reasons(opened.pipeline.outages))
        self._reports.ready_when(lambda: discovery.settled and not self._stop.requested.is_set())
        async with (
            self._beside("work", lambda: self._work(opened), fatal=True) as working,
            self._by_schedule(opened) as scheduled,
        ):
            async with AsyncExitStack() as beside:
                for keeper in discovery.keepers:
                    part = f"source:{keeper.source_id}"
                    await beside.enter_async_context(self._beside(part, keeper.run))
                for part, run in (
                    ("requests", discovery.take_requests),
                    ("store", lambda: self._probe(opened)),
                    ("workers", opened.session.writer.warm),
                ):
                    await beside.enter_async_context(self._beside(part, run))
                await self._stop.requested.wait()
                for job in scheduled:  # the step it is at ends while the work does
                    job.cancel()
            await self._finish(working)

    def _discover(self, opened: Rooms) -> Discovery:
        lease = self._config.ingester.work.lease
        keepers = [
            SourceKeeper(
                section, opened.sources[section.id], opened.items, opened.restores, lease=lease
            )
            for section in self._config.ingester.sources
        ]
        return Discovery(keepers, opened.items, opened.restores, self._metrics)

    @asynccontextmanager
    async def _by_schedule(self, opened: Rooms) -> AsyncIterator[list[asyncio.Task[None]]]:
        """Keep to the timetables while the context lasts."""
        keepers = make_keepers(self._config.ingester.schedule, opened, self._metrics)
        self._reports.ask(lambda: failures(keepers))
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(self._beside(f"schedule:{each.job}", each.run))
                for each in keepers
            ]

    async def _work(self, opened: Rooms) -> None:
        self._worker = rooms.make_worker(self._config, opened, self._observer)
        try:
            await self._worker.run()
        finally:
            self._worker = None

    async def _finish(self, working: asyncio.Task[None]) -> None:
        """Let what is in flight finish within the grace, or until a second request to stop."""
        if self._worker is None:
            return
        grace = self._config.ingester.shutdown_grace
        stopping = asyncio.create_task(self._worker.stop(grace))
        at_once = asyncio.create_task(self._stop.at_once.wait())
        try:
            await asyncio.wait({stopping, at_once}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            at_once.cancel()
            stopping.cancel()
            working.cancel()
            await asyncio.gather(stopping, working, return_exceptions=True)

    async def _probe(self, opened: Rooms) -> None:
        """Look now and then whether the store answers and was restored, so that health knows."""
        while True:
            await opened.store.snapshot()
            await opened.restores.look()
            await asyncio.sleep(PROBE_INTERVAL)

    @asynccontextmanager
    async def _beside(
        self, part: str, run: Callable[[], Awaitable[None]], *, fatal: bool = False
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Keep a part running while the context lasts."""
        task = asyncio.create_task(self._supervisor.keep(part, run, fatal=fatal), name=part)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
