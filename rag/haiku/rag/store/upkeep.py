"""Keeps look-ups and searches fast: gathers small fragments, makes and extends indexes.

Nothing here changes what readers see, and nothing here may fail a commit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from haiku.rag.store import indexes, schema
from haiku.rag.store.commit import is_conflict
from haiku.rag.store.info import UpkeepReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from haiku.rag.config.models import StorageConfig
    from haiku.rag.store.commit import Committer
    from haiku.rag.store.info import StoreStats
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

_log = logging.getLogger(__name__)


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

    async def run(self) -> UpkeepReport:
        """Do what is due. An error is logged, counted and reported, never raised."""
        work = _Work()
        async with self._lock:
            await self._compact_meta(work)
            for table in schema.READ:
                await self._threads.finish(self._keep_table, work, table)
        report = work.report()
        self._count(report)
        return report

    async def _compact_meta(self, work: _Work) -> None:
        """Compact `document_meta` between two groups: it conflicts with every commit."""
        if await self._threads.run(self._attempt, work, "compaction", self._fragmented):
            async with self._committer.between_groups():
                await self._threads.finish(self._attempt, work, "compaction", self._compact, work)

    def _fragmented(self) -> bool:
        """Whether `document_meta` has gathered fragments: every commit adds one."""
        fragments = len(self._tables.latest(schema.META).get_fragments())
        return fragments > self._config.compact_every

    def _compact(self, work: _Work) -> None:
        dataset = self._pinned(schema.META)
        dataset.optimize.compact_files()
        self._tables.adopt(schema.META, dataset)
        work.compacted = True

    def _keep_table(self, work: _Work, table: str) -> None:
        self._attempt(work, table, self._create_missing, work, table)
        self._attempt(work, table, self._catch_up, work, table)

    def _create_missing(self, work: _Work, table: str) -> None:
        for column in indexes.missing(self._tables.latest(table), table):
            indexes.create(self._pinned(table), table, column)
            work.created.append(f"{table}.{column}")

    def _catch_up(self, work: _Work, table: str) -> None:
        """Bring the indexes up to date when they leave too much out."""
        behind = indexes.backlog(self._tables.latest(table))
        just_compacted = table == schema.META and work.compacted
        if (
            behind.fragments <= self._config.compact_every
            and behind.rows <= self._config.max_unindexed_rows
            and not just_compacted
        ):
            return
        dataset = self._pinned(table)
        if table != schema.META:
            indexes.gather(dataset)
        indexes.extend(dataset)
        work.updated.append(table)

    def _attempt(self, work: _Work, name: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001 - readers and writers do without upkeep
            if is_conflict(error):
                work.postponed.append(name)
            else:
                _log.warning("upkeep of %s: %s failed: %s", self._tables.database, name, error)
                work.errors.append(f"{name}: {error}")
            return None

    def _pinned(self, table: str) -> Any:
        """A handle of our own: what works on it does not move readers' handles."""
        dataset = self._tables.latest(table)
        return dataset.checkout_version(dataset.version)

    def _count(self, report: UpkeepReport) -> None:
        self._stats.upkeeps += 1
        self._stats.compactions += report.compacted
        self._stats.indexes_created += len(report.created)
        self._stats.indexes_updated += len(report.updated)
        self._stats.upkeep_errors += len(report.errors)
        if report.errors:
            self._stats.last_upkeep_error = report.errors[-1]


class _Work:
    """What one run has done so far."""

    def __init__(self) -> None:
        self.compacted = False
        self.created: list[str] = []
        self.updated: list[str] = []
        self.postponed: list[str] = []
        self.errors: list[str] = []

    def report(self) -> UpkeepReport:
        return UpkeepReport(
            compacted=self.compacted,
            created=tuple(self.created),
            updated=tuple(self.updated),
            postponed=tuple(self.postponed),
            errors=tuple(self.errors),
        )
