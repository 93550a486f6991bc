"""Figures and reasons that are gathered from the rooms while they run."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from haiku.ingester.api import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from haiku.ingester.metrics import Metrics
    from haiku.ingester.service.rooms import Rooms
    from haiku.ingester.work.outages import Outages
    from haiku.rag.store.changes import Outcome

log = logging.getLogger(__name__)

#: Seconds that item counts may be old: counting a million rows takes a moment.
COUNTS_AGE = 1.0


class WorkObserver:
    """What the work loop tells, into the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def outcome(self, source: str, outcome: str, code: str = "") -> None:
        """An item ended."""
        self._metrics.outcome(source, outcome, code)

    def stage(self, name: str, seconds: float) -> None:
        """An item spent so long in a stage."""
        self._metrics.stage(name, seconds)

    def working(self, count: int) -> None:
        """How many items are under way."""
        self._metrics.working(count)

    def committed(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """A group was committed: one line in the log."""
        done = [outcome for outcome in outcomes if outcome.result == "done"]
        lost = sum(outcome.result == "conflict" for outcome in outcomes)
        self._metrics.committed(len(done), conflicts=lost)
        chunks = sum(o.row.chunk_count for o in done if o.row and o.row.state == "live")
        if done:
            extra = {"documents": len(done), "chunks": chunks, "duration": seconds}
            log.info("committed", extra=extra)


def outage_reasons(outages: Outages) -> Iterator[Reason]:
    """What does not answer, for health."""
    for outage in outages:
        text = f"{outage.text}; work waits for it and goes on by itself"
        yield Reason(part=outage.part, code=outage.code, text=text)


class Figures:
    """Brings the figures that are kept elsewhere into the metrics, when somebody asks."""

    def __init__(self, metrics: Metrics, rooms: Rooms) -> None:
        self._metrics = metrics
        self._rooms = rooms
        self._counted = 0.0

    async def refresh(self) -> None:
        """Take them over."""
        totals, writer = self._metrics.totals, self._rooms.session.writer
        self._metrics.outages({outage.part for outage in self._rooms.pipeline.outages})
        totals.embedded_chunks = writer.embedded
        totals.reused_vectors = writer.reused
        totals.upkeep_failures = self._rooms.store.stats.upkeep_errors
        workers = self._rooms.session.worker_stats
        totals.worker_restarts = {
            "recycled": workers.recycled,
            "timeout": workers.timeouts,
            "crash": workers.crashes,
            "memory": workers.memory_kills,
            "slow": workers.deferred,
        }
        if time.monotonic() - self._counted >= COUNTS_AGE:
            await self._count()
            self._counted = time.monotonic()

    async def _count(self) -> None:
        items = self._rooms.items
        counts = {
            source: {state.value: number for state, number in states.items()}
            for source, states in (await items.counts()).items()
        }
        fingerprint = self._rooms.session.writer.fingerprint
        self._metrics.outdated(await items.outdated(fingerprint))
        waiting = await items.waiting_since()
        oldest = min(waiting.values(), default=time.time())
        self._metrics.items(counts, max(0.0, time.time() - oldest))
