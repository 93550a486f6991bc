"""Keeping to a timetable: begins what is due, keeps it leased, records what became of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from haiku.ingester.items.model import Begun
from haiku.ingester.items.schedules import DIED
from haiku.rag.exceptions import HaikuRAGError

if TYPE_CHECKING:
    from haiku.ingester.items import JobRecord
    from haiku.ingester.items.schedules import Schedules
    from haiku.ingester.schedule.jobs import Job
    from haiku.ingester.timetable import Slot, Timetable

log = logging.getLogger(__name__)

#: Seconds between looks at most: the clock may be set, another instance may die.
LOOK_INTERVAL = 30.0
#: Times a run is renewed before it would lapse.
RENEWALS = 3
#: Seconds by which what is done may be ahead of the clock. Further: the clock was wrong when that
#: was written, and waiting until it is reached might take years.
AHEAD = 86_400.0


class RunObserver(Protocol):
    """Is told what became of runs."""

    def scheduled_run(self, job: str, outcome: str) -> None:
        """A run ended: "done", "failed", or "cut_short"."""
        ...

    def scheduled_success(self, job: str, at: float) -> None:
        """When a run last ended well, epoch seconds."""
        ...


class Keeper:
    """Runs one job by its timetable.

    Args:
        job: what is done.
        timetable: when.
        records: what is done already, by any instance.
        observer: is told of runs.
        grace: seconds after which a missed slot is not made up for.
    """

    def __init__(
        self,
        job: Job,
        timetable: Timetable,
        records: Schedules,
        observer: RunObserver,
        *,
        grace: float,
    ) -> None:
        self.job = job.name
        self._job = job
        self._timetable = timetable
        self._records = records
        self._observer = observer
        self._grace = grace
        self._extra = {"job": job.name}
        #: As of the last look; None before the first.
        self.record: JobRecord | None = None

    async def run(self) -> None:
        """Until cancelled: run each slot as it comes."""
        while True:
            await self.look()
            now = self._records.clock()
            await asyncio.sleep(min(LOOK_INTERVAL, self._timetable.after(now).at - now))

    async def look(self) -> None:
        """Run what is due, if anything is."""
        record = await self._known()
        slot = self._timetable.latest(self._records.clock(), self._grace)
        if slot is None or slot.at <= record.done_until:
            return
        begun = await self._records.begin(self.job, slot)
        if begun is Begun.MINE:
            await self._hold(slot)
        elif begun is Begun.GIVEN_UP:
            log.error("%s of %s failed: %s", self.job, slot, DIED, extra=self._extra)
            self._observer.scheduled_run(self.job, "failed")
        await self._refresh()

    async def _known(self) -> JobRecord:
        record = await self._refresh()
        if record is None or record.done_until > self._records.clock() + AHEAD:
            if record is not None:
                log.warning(
                    "the clock was put back by more than a day; slots count from now on",
                    extra=self._extra,
                )
            await self._records.count_from_now(self.job)
            record = await self._refresh()
        assert record is not None
        return record

    async def _refresh(self) -> JobRecord | None:
        self.record = (await self._records.all()).get(self.job)
        if self.record is not None and self.record.succeeded_at is not None:
            self._observer.scheduled_success(self.job, self.record.succeeded_at.timestamp())
        return self.record

    async def _hold(self, slot: Slot) -> None:
        """Run the job while the lease is renewed; whoever loses it stops."""
        log.info("%s of %s begins", self.job, slot, extra=self._extra)
        work = asyncio.create_task(self._job.run(slot), name=f"{self.job} {slot}")
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=self._records.lease / RENEWALS)
                if not work.done() and not await self._records.renew(self.job):
                    log.warning("another instance took the run over", extra=self._extra)
                    return
        finally:
            work.cancel()
            await asyncio.wait({work})
            await self._end(work, slot)

    async def _end(self, work: asyncio.Task[str], slot: Slot) -> None:
        """Record what became of a run that has ended, in whatever way."""
        if work.cancelled():
            await self._records.give_back(self.job)
            mine = False
        else:
            failed, detail = self._outcome(work, slot)
            mine = await self._records.finish(self.job, failed=failed, detail=detail)
        if mine:
            self._observer.scheduled_run(self.job, "failed" if failed else "done")
        else:
            self._observer.scheduled_run(self.job, "cut_short")
            log.info("%s of %s was cut short", self.job, slot, extra=self._extra)

    def _outcome(self, work: asyncio.Task[str], slot: Slot) -> tuple[bool, str]:
        """Whether it failed, and what it did or why."""
        error = work.exception()
        if error is None:
            log.info("%s of %s is done: %s", self.job, slot, work.result(), extra=self._extra)
            return False, work.result()
        text = str(error) or type(error).__name__
        unexpected = None if isinstance(error, HaikuRAGError | OSError) else error
        what = "%s of %s failed: %s"
        log.error(what, self.job, slot, text, extra=self._extra, exc_info=unexpected)
        return True, text
