"""Keeps the wanted states of one source in step with it: watch, sweeps and events together."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from haiku.ingester.exceptions import (
    ItemsUnavailable,
    LeaseLost,
    SourceIncomplete,
    SourceMissing,
    WatchUnavailable,
)
from haiku.ingester.sources.protocol import Event, EventKind
from haiku.ingester.sync.guard import Guard
from haiku.ingester.sync.live import Live
from haiku.ingester.sync.model import Health, Mode, Policy, SweepReport
from haiku.ingester.sync.sweep import Sweep
from haiku.rag.exceptions import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.ingester.sources.protocol import Source, Unread, Watch
    from haiku.ingester.sync.model import Ledger

logger = logging.getLogger(__name__)

#: Seconds before a root that is away, or a source that does not answer, is tried again; doubles.
FIRST_RETRY = 1.0
LAST_RETRY = 30.0
#: Seconds before a watch that the system refused is tried again.
WATCH_RETRY = 300.0
#: A watch that lived this many seconds died of something new: its delay starts again.
WATCH_LIVED = 60.0
#: Polling takes at most one part in this many of the time.
POLL_SHARE = 10

#: What a source or the items database may raise when they are away for a while, or when another
#: instance has the source: then whoever runs this notices it soon, and ends it.
PASSING = (SourceMissing, SourceIncomplete, SourceError, ItemsUnavailable, LeaseLost)


class SourceSync:
    """One source in step. Make it inside the event loop; `run` it until it is cancelled."""

    def __init__(self, source: Source, ledger: Ledger, policy: Policy) -> None:
        self._source = source
        self._ledger = ledger
        self._policy = policy
        self._guard = Guard(source.id, ledger, policy)
        self._live = Live(source, ledger, self._guard, policy.settle)
        self._loop = asyncio.get_running_loop()
        self._mode: Mode = "starting" if policy.watch else "off"
        self._asked = asyncio.Event()
        self._armed = asyncio.Event()
        self._sweeping = asyncio.Lock()
        self._report: SweepReport | None = None
        self._reported_at: datetime | None = None
        self._watch_restarts = 0
        self._watch_problem: str | None = None
        self._problem: str | None = None
        self._missing = False
        self._log = logging.LoggerAdapter(logger, {"source": source.id})

    @property
    def source_id(self) -> str:
        """The source's id."""
        return self._source.id

    async def run(self) -> None:
        """Watch, sweep and take events until cancelled.

        A root that is away, a source that does not answer and an items database that is busy
        degrade the source and are tried again; anything else is a bug and is raised.
        """
        await self._load_guard()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._sweep_for_ever())
            group.create_task(self._take_events())

    async def run_once(self) -> SweepReport:
        """One complete sweep, until everything it found is still; for a run that ends.

        Raises:
            SourceMissing, SourceIncomplete, SourceError, ItemsUnavailable: it could not be done.
        """
        report = await self._sweep()
        await self._live.drain()
        return report

    def refresh(self) -> None:
        """Sweep as soon as possible."""
        self._asked.set()

    async def confirm_deletes(self) -> SweepReport:
        """Sweep now, and remove what is absent although it is much. Raises as `run_once`."""
        return await self._sweep(confirmed=True)

    def health(self) -> Health:
        """How the source fares now."""
        return Health(
            source_id=self._source.id,
            mode=self._mode,
            reasons=tuple(self._reasons()),
            missing=self._missing,
            last_sweep=self._report,
            last_sweep_at=self._reported_at,
            suspension=self._guard.suspension,
            watch_restarts=self._watch_restarts,
            settling=len(self._live),
        )

    def _reasons(self) -> Iterator[str]:
        if self._problem:
            yield self._problem
        if self._guard.suspension is not None:
            yield f"deletions are suspended: {self._guard.suspension.reason}"
        if self._watch_problem:
            yield self._watch_problem
        for unread in [*(self._report.incomplete if self._report else ()), *self._live.unread]:
            yield _told(unread)

    # --- sweeps -------------------------------------------------------------------------------

    async def _sweep(self, *, confirmed: bool = False) -> SweepReport:
        """One sweep, not two at once; notes how it went. Raises what the sweep raises."""
        async with self._sweeping:
            sweep = Sweep(
                source=self._source,
                ledger=self._ledger,
                guard=self._guard,
                live=self._report is not None,
                unsettled=self._live.unsettled,
                doubt_times=self._mode == "poll" and self._report is not None,
                leaving=self._live.leaving,
                confirmed=confirmed,
            )
            try:
                with self._live.beside_sweep():
                    report = await sweep.run()
            except PASSING as error:
                await self._failed(error)
                raise
            self._succeeded(report)
            return report

    def _succeeded(self, report: SweepReport) -> None:
        if self._problem:
            self._log.info("the source is back")
        self._problem, self._missing = None, False
        first = self._report is None
        for unread in report.incomplete:  # once, not with every sweep
            if self._report is None or unread not in self._report.incomplete:
                self._log.warning("%s", _told(unread))
        self._report, self._reported_at = report, datetime.now(UTC)
        news = report.new + report.changed + report.moved + report.gone
        self._log.log(
            logging.INFO if news or first else logging.DEBUG,
            "swept: %d found, %d new, %d changed, %d moved, %d gone in %.1f s",
            report.found,
            report.new,
            report.changed,
            report.moved,
            report.gone,
            report.duration,
        )

    async def _failed(self, error: Exception) -> None:
        """Note what is wrong, and say it once."""
        self._missing = isinstance(error, SourceMissing)
        if self._problem != str(error):
            self._log.warning("%s", error)
        self._problem = str(error)
        if self._missing:
            await self._guard.root_missing(str(error))

    async def _sweep_for_ever(self) -> None:
        await self._armed.wait()
        retry = FIRST_RETRY
        while True:
            self._asked.clear()
            try:
                report = await self._sweep()
            except PASSING:
                delay, retry = retry, min(LAST_RETRY, retry * 2)
            else:
                delay, retry = self._interval(report), FIRST_RETRY
            await _wait(self._asked, delay)

    def _interval(self, report: SweepReport) -> float:
        if self._mode != "poll":
            return self._policy.sweep_interval
        return max(self._policy.poll_interval, POLL_SHARE * report.duration)

    async def _load_guard(self) -> None:
        try:
            await self._guard.load()
        except ItemsUnavailable as error:
            await self._failed(error)

    # --- watching -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Keep a watch armed, and sweep after each arming; poll when there can be none."""
        if not self._policy.watch:
            self._armed.set()
            return
        retry = FIRST_RETRY
        while True:
            began = self._loop.time()
            try:
                watch = await self._source.watch(self._take)
            except WatchUnavailable as error:
                self._poll(str(error))
                await asyncio.sleep(WATCH_RETRY)
                continue
            except PASSING:
                self._armed.set()  # the sweep says what is wrong
                await asyncio.sleep(retry)
                retry = min(LAST_RETRY, retry * 2)
                continue
            if watch is None:
                self._poll(None)
                return
            await self._watched(watch)
            lived = self._loop.time() - began
            retry = FIRST_RETRY if lived > WATCH_LIVED else min(LAST_RETRY, retry * 2)
            await asyncio.sleep(retry / 2)

    async def _watched(self, watch: Watch) -> None:
        """Sweep once the watch is armed, and wait until it dies."""
        try:
            self._mode, self._watch_problem = "native", None
            self._armed.set()
            self._asked.set()
            reason = await watch.ended()
        finally:
            await watch.stop()
        self._watch_restarts += 1
        self._watch_problem = f"the watch ended and is armed again: {reason}"
        self._log.warning("the watch ended and is armed again: %s", reason)
        self._asked.set()

    def _poll(self, problem: str | None) -> None:
        """Poll from now on; a problem says why although the source could be watched."""
        if problem:
            interval = self._policy.poll_interval
            self._watch_problem = (
                f"{problem}; changes are polled for every {interval:g} s meanwhile"
            )
            self._log.warning("%s", self._watch_problem)
        self._mode = "poll"
        self._armed.set()
        self._asked.set()

    # --- events -------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if event.kind is EventKind.LOST:
            self._log.warning("events were lost; everything is listed")
            self._asked.set()
        else:
            self._live.take(event)

    async def _take_events(self) -> None:
        """Handle events; after a failure a sweep finds what they were about."""
        while True:
            try:
                await self._live.run()
            except PASSING as error:
                await self._failed(error)
                self._live.forget()
                self._asked.set()
                await asyncio.sleep(FIRST_RETRY)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, or for some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _told(unread: Unread) -> str:
    return f"{unread.tree} cannot be read ({unread.reason}); nothing is removed there"
