"""Upkeep: keeps look-ups and searches fast, memory bounded and the disk free of what is dead.

After commits, by itself, what is due: `document_meta` and small fragments are compacted, indexes
brought up to date; now and then dead revisions are collected and old versions removed. By hand
(`Store.vacuum`) all of it at once. The order is: collect, compact, index, clean, and at last a
mark of what the versions are then, so that the next time it can be seen what has been superseded.

Nothing here changes what readers see, nothing here fails a commit, and it may be killed anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from haiku.rag.exceptions import DatabaseReplaced, StoreBusy
from haiku.rag.store import cleaning, commit, compacting, indexes, marks, reading, schema
from haiku.rag.store.collecting import Collected, Collector
from haiku.rag.store.commit import is_conflict
from haiku.rag.store.info import UpkeepReport, VacuumReport
from haiku.rag.store.tables import size_on_disk, versions
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from haiku.rag.config.models import StorageConfig
    from haiku.rag.store.commit import Committer, Step
    from haiku.rag.store.info import StoreStats
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

_log = logging.getLogger(__name__)

#: Seconds between two full looks for rows that no document names, by schedule.
FULL_LOOK_EVERY = 86_400.0
#: The part of `storage.upkeep_memory` that the bytes of one run may take.
RUN_SHARE = 1 / compacting.MEMORY_FACTOR


class Upkeep:
    """The upkeep of one open store."""

    def __init__(
        self,
        tables: Tables,
        threads: Threads,
        committer: Committer,
        config: StorageConfig,
        stats: StoreStats,
    ) -> None:
        self._tables = tables
        self._threads = threads
        self._committer = committer
        self._config = config
        self._stats = stats
        self._lock = asyncio.Lock()
        self._collector = Collector(tables, threads, committer)
        #: `clock()` before which the marks need not be looked at again.
        self._next_sweep = 0.0
        self._step: Step = commit.no_step

    def on_step(self, step: Step) -> None:
        """Have `step` awaited with a name before each step: for fault injection."""
        self._step = self._collector.step = step

    async def run(self) -> UpkeepReport:
        """Do what is due. An error is logged, counted and reported, never raised."""
        work = _Work()
        async with self._lock:
            await self._tidy(work, by_hand=False)
            if clock() >= self._next_sweep:
                await self._attempt(work, "sweep", self._sweep, work)
            if not work.swept:
                work.again_in = max(0.0, self._next_sweep - clock())
        self._count(work)
        return work.report()

    async def vacuum(self, history: float | None, *, full: bool) -> VacuumReport:
        """See `Store.vacuum`."""
        work = _Work(history=self._config.history if history is None else history)
        async with self._lock:
            before = await self._threads.run(size_on_disk, self._tables.database)
            await self._attempt(work, "collection", self._collect, work, full)
            await self._tidy(work, by_hand=True)
            await self._attempt(work, "cleanup", self._clean, work)
            await self._mark(work, marks.SPACING_BY_HAND)
            await self._attempt(work, "waiting", self._look_ahead, work)
            after = await self._threads.run(size_on_disk, self._tables.database)
        self._count(work)
        return work.vacuumed(before, after)

    # --- collection and cleanup ---------------------------------------------------------------

    async def _sweep(self, work: _Work) -> None:
        """Collect and clean, when the last time was long enough ago for anything to be due."""
        spacing = marks.SPACING * self._config.collect_after
        book = await self._threads.run(marks.read, self._tables)
        youngest = marks.age(book)
        if youngest is not None and youngest < spacing:
            self._next_sweep = clock() + spacing - youngest
            return
        self._next_sweep = clock() + spacing
        work.swept, work.history = True, self._config.history
        await self._collect(work, time.time() - book.full_look > FULL_LOOK_EVERY)
        await self._clean(work)
        await self._mark(work, marks.SPACING)
        await self._attempt(work, "waiting", self._look_ahead, work)

    async def _collect(self, work: _Work, full: bool) -> None:
        await self._attempt(work, "collection", self._collector.finish, work.collected)
        mark = await self._threads.run(self._mature)
        if mark is not None:
            await self._attempt(work, "collection", self._collect_dead, work, mark, full)
        keep = timedelta(days=self._config.keep_deleted)
        await self._attempt(work, "forgetting", self._collector.forget, keep, work.collected)

    async def _collect_dead(self, work: _Work, mark: marks.Mark, full: bool) -> None:
        await self._collector.collect(mark, work.collected, full=full)
        if full:
            work.full_look = time.time()

    def _mature(self) -> marks.Mark | None:
        """The mark to act on; none when one of its versions was removed from outside."""
        book = marks.read(self._tables)
        mark = marks.mature(book, self._config.collect_after)
        there = mark is not None and all(
            self._keeps(table, mark.versions[table]) for table in schema.READ
        )
        return mark if there else None

    def _keeps(self, table: str, version: int) -> bool:
        return version in versions(self._tables.latest(table))

    async def _clean(self, work: _Work) -> None:
        mark = await self._threads.run(self._mature)
        if mark is None:
            return
        for table in schema.TABLES:
            await self._attempt(work, f"cleanup of {table}", self._clean_table, work, mark, table)

    async def _clean_table(self, work: _Work, mark: marks.Mark, table: str) -> None:
        await self._step(f"clean {table}")
        work.cleaned[table] = await self._threads.finish(
            cleaning.clean,
            self._tables.latest(table),
            table,
            before=mark.versions[table],
            history=work.history,
            keep=self._config.vacuum_keep,
            now=time.time(),
        )

    async def _mark(self, work: _Work, spacing: float) -> None:
        await self._attempt(work, "mark", self._place, work, spacing)

    async def _place(self, work: _Work, spacing: float) -> None:
        await self._step("mark")
        await self._threads.finish(
            marks.place, self._tables, self._config.collect_after, spacing, work.full_look
        )

    async def _look_ahead(self, work: _Work) -> None:
        """Find what is left to do, and when it can be done."""
        work.waiting = await self._threads.run(self._waiting)
        if work.waiting or work.changed:
            book = await self._threads.run(marks.read, self._tables)
            work.again_in = max(0.0, self._config.collect_after - (marks.age(book) or 0.0))

    def _waiting(self) -> int:
        return len(reading.replaced_revisions(self._tables.latest(schema.META)))

    # --- compaction and indexes ---------------------------------------------------------------

    async def _tidy(self, work: _Work, *, by_hand: bool) -> None:
        for table in schema.READ:
            await self._attempt(work, table, self._create_missing, work, table)
            await self._attempt(work, table, self._compact, work, table, by_hand)
            await self._attempt(work, table, self._extend, work, table, by_hand)

    async def _create_missing(self, work: _Work, table: str) -> None:
        dataset = await self._threads.run(self._tables.latest, table)
        for column in await self._threads.run(indexes.missing, dataset, table):
            await self._step(f"create index {table}.{column}")
            await self._threads.finish(indexes.create, self._pinned(table), table, column)
            work.created.append(f"{table}.{column}")

    async def _compact(self, work: _Work, table: str, by_hand: bool) -> None:
        """Rewrite what is worth it: of `document_meta`, which every commit changes, run by run."""
        wanted = await self._threads.run(self._runs, table, by_hand)
        for part in [[run] for run in wanted] if table == schema.META else [wanted] * bool(wanted):
            lacking = await self._threads.run(compacting.lacking, self._tables.database, part)
            if lacking is not None:
                work.skipped.append(f"{table}: {lacking}")
                return
            await self._step(f"compact {table}")
            if table == schema.META:
                async with self._committer.between_groups():
                    await self._threads.finish(self._rewrite, work, table, part)
            else:
                await self._threads.finish(self._rewrite, work, table, part)

    def _runs(self, table: str, by_hand: bool) -> list[compacting.Run]:
        dataset = self._tables.latest(table)
        found = compacting.pieces(dataset)
        most = int(self._config.upkeep_memory * RUN_SHARE)
        wanted = compacting.runs(found, most, by_hand=by_hand)
        if by_hand or self._is_due(dataset):
            return wanted
        return [run for run in wanted if run.pieces[0].coverage]

    def _is_due(self, dataset: Any) -> bool:
        """Whether the indexes leave out so much that it is gathered and taken in."""
        behind = indexes.backlog(dataset)
        return (
            behind.fragments > self._config.compact_every
            or behind.rows > self._config.max_unindexed_rows
        )

    def _rewrite(self, work: _Work, table: str, wanted: Sequence[compacting.Run]) -> None:
        dataset = self._pinned(table)
        there = {fragment.fragment_id for fragment in dataset.get_fragments()}
        runs = [run for run in wanted if all(piece.id in there for piece in run.pieces)]
        compacting.rewrite(dataset, runs)
        self._tables.adopt(table, dataset)
        if runs:  # else another process was faster
            work.rewritten[table] = work.rewritten.get(table, 0) + sum(r.bytes for r in runs)

    async def _extend(self, work: _Work, table: str, by_hand: bool) -> None:
        """Bring the indexes up to date when they leave too much out."""
        if await self._threads.run(self._lags, work, table, by_hand):
            await self._step(f"index {table}")
            await self._threads.finish(indexes.extend, self._pinned(table))
            work.updated.append(table)

    def _lags(self, work: _Work, table: str, by_hand: bool) -> bool:
        dataset = self._tables.latest(table)
        eager = by_hand or table in work.rewritten
        return self._is_due(dataset) or (eager and indexes.backlog(dataset).rows > 0)

    def _pinned(self, table: str) -> Any:
        """A handle of our own: what works on it does not move readers' handles."""
        dataset = self._tables.latest(table)
        return dataset.checkout_version(dataset.version)

    # --- accounts -----------------------------------------------------------------------------

    async def _attempt(
        self, work: _Work, name: str, call: Callable[..., Awaitable[None]], *args: Any
    ) -> None:
        try:
            await call(*args)
        except Exception as error:  # noqa: BLE001 - readers and writers do without upkeep
            if isinstance(error, StoreBusy | DatabaseReplaced) or is_conflict(error):
                work.postponed.append(name)
            else:
                _log.warning("upkeep of %s: %s failed: %s", self._tables.database, name, error)
                work.errors.append(f"{name}: {error}")

    def _count(self, work: _Work) -> None:
        self._stats.upkeeps += 1
        self._stats.compactions += len(work.rewritten)
        self._stats.indexes_created += len(work.created)
        self._stats.indexes_updated += len(work.updated)
        self._stats.collected_revisions += work.collected.revisions
        self._stats.removed_versions += sum(done.versions for done in work.cleaned.values())
        self._stats.upkeep_errors += len(work.errors)
        if work.errors:
            self._stats.last_upkeep_error = work.errors[-1]


@dataclass(kw_only=True, slots=True)
class _Work:
    """What one run has done so far."""

    history: float = 0.0
    #: Whether it was time to collect and clean.
    swept: bool = False
    collected: Collected = field(default_factory=Collected)
    #: Table → bytes that were rewritten.
    rewritten: dict[str, int] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    cleaned: dict[str, cleaning.Cleaned] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    #: When all tables were searched for rows without a document: seconds since 1970.
    full_look: float | None = None
    waiting: int = 0
    again_in: float | None = None

    @property
    def changed(self) -> bool:
        """Whether versions were superseded, or removed, so that there may be more to remove.

        Those of `settings` do not count: every mark makes one.
        """
        removed = sum(self.cleaned[name].versions for name in schema.READ if name in self.cleaned)
        return bool(self.collected.rows or self.rewritten or self.updated or removed)

    def report(self) -> UpkeepReport:
        return UpkeepReport(
            rewritten=dict(self.rewritten),
            created=tuple(self.created),
            updated=tuple(self.updated),
            collected_revisions=self.collected.revisions,
            removed_versions=sum(done.versions for done in self.cleaned.values()),
            skipped=tuple(self.skipped),
            postponed=tuple(self.postponed),
            errors=tuple(self.errors),
            again_in=self.again_in,
        )

    def vacuumed(self, before: int | None, after: int | None) -> VacuumReport:
        return VacuumReport(
            collected_revisions=self.collected.revisions,
            deleted_rows=self.collected.rows,
            forgotten_documents=self.collected.forgotten,
            rewritten=dict(self.rewritten),
            created=tuple(self.created),
            updated=tuple(self.updated),
            removed_versions=sum(done.versions for done in self.cleaned.values()),
            removed_bytes=sum(done.bytes for done in self.cleaned.values()),
            bytes_before=before,
            bytes_after=after,
            waiting_revisions=self.waiting,
            again_in=self.again_in,
            skipped=tuple(self.skipped),
            postponed=tuple(self.postponed),
            errors=tuple(self.errors),
        )
