"""Keeps look-ups and searches fast: compacts `document_meta`, makes and extends indexes.

Nothing here changes what readers see, and nothing here may fail a commit.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from haiku.rag.store import schema
from haiku.rag.store.commit import is_conflict
from haiku.rag.store.info import IndexCoverage, UpkeepReport

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    async def due(self) -> bool:
        """Whether a call of `run` would do something."""
        return await self._threads.run(self._due)

    async def run(self) -> UpkeepReport:
        """Do what is due. An error is logged, counted and reported, never raised."""
        work = _Work()
        self._stats.upkeeps += 1
        if await self._threads.run(self._fragmented):
            async with self._committer.between_groups():
                await self._threads.finish(self._attempt, work, "compaction", self._compact)
        for table in schema.READ:
            for column in await self._threads.run(self._missing, table):
                await self._threads.finish(
                    self._attempt, work, f"{table}.{column}", self._create, table, column
                )
            if await self._threads.run(self._behind, table):
                await self._threads.finish(self._attempt, work, table, self._update, table)
        self._count(work)
        return work.report()

    def _due(self) -> bool:
        return self._fragmented() or any(
            self._missing(table) or self._behind(table) for table in schema.READ
        )

    def _fragmented(self) -> bool:
        """Whether `document_meta` has gathered fragments: every commit adds one."""
        fragments = len(self._tables.latest(schema.META).get_fragments())
        return fragments > self._config.compact_every

    def _missing(self, table: str) -> list[str]:
        """Columns whose index is not there though there are rows."""
        dataset = self._tables.latest(table)
        if not dataset.count_rows():
            return []
        there = {name for index in dataset.describe_indices() for name in index.field_names}
        return [column for column in columns_of(table) if column not in there]

    def _behind(self, table: str) -> bool:
        """Whether an index leaves too many rows out."""
        found = coverage(self._tables.latest(table), table)
        most = max((index.unindexed_rows for index in found), default=0)
        return most > self._config.max_unindexed_rows

    def _attempt(self, work: _Work, name: str, call: Any, *args: str) -> None:
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - readers and writers do without upkeep
            if is_conflict(error):
                work.postponed.append(name)
                return
            _log.warning("upkeep of %s: %s failed: %s", self._tables.database, name, error)
            work.errors.append(f"{name}: {error}")
        else:
            work.done.append(name)

    def _compact(self) -> None:
        dataset = self._pinned(schema.META)
        dataset.optimize.compact_files()
        dataset.optimize.optimize_indices()
        self._tables.adopt(schema.META, dataset)

    def _create(self, table: str, column: str) -> None:
        dataset = self._pinned(table)
        if (table, column) == schema.FULL_TEXT:
            dataset.create_scalar_index(column, "INVERTED", **schema.FULL_TEXT_OPTIONS)
        else:
            dataset.create_scalar_index(column, "BTREE")

    def _update(self, table: str) -> None:
        self._pinned(table).optimize.optimize_indices()

    def _pinned(self, table: str) -> Any:
        """A handle of our own: what works on it does not move readers' handles."""
        dataset = self._tables.latest(table)
        return dataset.checkout_version(dataset.version)

    def _count(self, work: _Work) -> None:
        report = work.report()
        self._stats.compactions += report.compacted
        self._stats.indexes_created += len(report.created)
        self._stats.indexes_updated += len(report.updated)
        self._stats.upkeep_errors += len(report.errors)
        if report.errors:
            self._stats.last_upkeep_error = report.errors[-1]


class _Work:
    """What one run has done so far, by name."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.postponed: list[str] = []
        self.errors: list[str] = []

    def report(self) -> UpkeepReport:
        return UpkeepReport(
            compacted="compaction" in self.done,
            created=tuple(name for name in self.done if "." in name),
            updated=tuple(name for name in self.done if name in schema.READ),
            postponed=tuple(self.postponed),
            errors=tuple(self.errors),
        )


def columns_of(table: str) -> Iterator[str]:
    """The columns of a table that are to have an index."""
    yield from schema.SCALAR_INDEXES[table]
    if table == schema.FULL_TEXT[0]:
        yield schema.FULL_TEXT[1]


def coverage(dataset: Any, table: str) -> list[IndexCoverage]:
    """How far the indexes of a table reach; one that is not there is left out."""
    rows = dataset.count_rows()
    return [
        IndexCoverage(
            table=table, column=name, unindexed_rows=max(0, rows - index.num_rows_indexed)
        )
        for index in dataset.describe_indices()
        for name in index.field_names
    ]
