"""The commit: appends, then one pinned merge that wins whole or loses whole."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from haiku.rag import ids
from haiku.rag.exceptions import StoreBusy, StoreError
from haiku.rag.store import appending, indexes, reading, records, revisions, schema
from haiku.rag.store import plan as planning
from haiku.rag.store.changes import Outcome, Put
from haiku.rag.store.tables import LOSSES, is_lost, replaced
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from haiku.rag.records import EmbeddingIdentity
    from haiku.rag.store.changes import Change
    from haiku.rag.store.info import StoreStats
    from haiku.rag.store.plan import Appended, Base, Plan
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

    StillMine = Callable[[], Awaitable[Sequence[bool]]]
    #: Awaited with a name before each step of a commit; tests make it fail or wait.
    Step = Callable[[str], Awaitable[None]]

_log = logging.getLogger(__name__)

#: Lost merges and repeated appends before a commit gives up.
TRIES = 200
#: Seconds a loser waits at most, for each race it lost and in all. Short: the winner has to append
#: before it can merge again, and a loser that waited longer than that would lose again and again.
WAIT_STEP, WAIT_MOST = 0.005, 0.1
#: Seconds for which commits wait for a rebuild that holds them back without a sign of life, and
#: between two looks whether it still does.
HOLD, LOOK = 30.0, 0.1


async def no_step(name: str) -> None:
    """The step hook outside tests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewrite:
    """Rows that upkeep wants written, computed from one version of `document_meta`."""

    #: The head row as it is to be; its `row_version` is replaced.
    head: records.Head
    records: Sequence[records.Record] = ()


class Committer:
    """Commits groups of changes, one at a time."""

    def __init__(
        self,
        tables: Tables,
        threads: Threads,
        identity: EmbeddingIdentity,
        collect_after: float,
        stats: StoreStats,
    ) -> None:
        self._tables = tables
        self._threads = threads
        self._identity = identity
        #: Seconds after which an append is too old to be made visible.
        self._append_age = collect_after / 2
        self._stats = stats
        self._lock = asyncio.Lock()
        self.step: Step = no_step
        #: `Head.restore_epoch` as a commit saw it last; None before the first.
        self.restore_epoch: int | None = None
        #: `Marks.held` as seen last, and `clock()` when it was first seen.
        self._held: tuple[str | None, float] = None, 0.0

    @asynccontextmanager
    async def between_groups(self) -> AsyncIterator[None]:
        """Hold commits of this process back."""
        async with self._lock:
            yield

    async def commit(
        self, changes: Sequence[Change], *, still_mine: StillMine | None, whole: bool
    ) -> list[Outcome]:
        """See `Store.commit`."""
        for change in changes:
            if isinstance(change, Put):
                revisions.check_vectors(change.uri, change.revision, self._identity)
        group = _Group(changes, still_mine, whole)
        async with self._lock:
            return await self._commit(group)

    async def _commit(self, group: _Group) -> list[Outcome]:
        lost = 0
        for _ in range(TRIES):
            await self.step("read")
            try:
                meta, base = await self._look(group)
            except LOSSES as error:
                if not is_lost(error):
                    raise
                continue  # halted for so long that the version was removed
            if group.token == base.head.row_version:
                return group.outcomes()
            await self.step("check")
            missing = await group.check(base, self._append_age)
            if not missing:
                missing = await self._threads.run(self._collected, group, meta)
            if missing:
                await self._append(group, missing)
                continue
            if not group.plan.written:
                return group.outcomes()
            await self.step("merge")
            if await self._merge(meta, base, group):
                return group.outcomes()
            lost += 1
            await self.lost(lost)
        raise StoreBusy(
            f"{self._tables.name}: the commit of {len(group.changes)} changes lost against "
            f"other writers {lost} times; nothing of it is visible, try again"
        )

    async def rewrite(
        self, compute: Callable[[Any], Rewrite | None], step: Step, name: str
    ) -> bool:
        """Commit what `compute` makes of the newest version, as often as others win meanwhile.

        Args:
            compute: given `document_meta`; None when there is nothing to write. Runs in a thread.
            step: awaited before each merge with `name`.

        Returns:
            Whether anything was written.

        Raises:
            StoreBusy: other writers were faster too often.
            StoreError: the storage failed.
        """
        for lost in range(1, TRIES + 1):
            async with self._lock:
                meta = await self._threads.run(self._tables.latest, schema.META)
                wanted = await self._threads.run(compute, meta)
                if wanted is None:
                    return False
                head = replace(wanted.head, row_version=ids.new_token())
                rows = records.meta_table(wanted.records, head, datetime.now(UTC))
                await step(name)
                if await self._threads.finish(self._merge_rows, meta, rows, head.row_version):
                    return True
            await self.lost(lost)
        raise StoreBusy(
            f"{self._tables.name}: {name!r} lost against other writers {TRIES} times; what was "
            "begun goes on when it is run again"
        )

    async def lost(self, times: int) -> None:
        """Count a lost race, the `times`th of one commit, and wait a moment."""
        self._stats.lost_races += 1
        await asyncio.sleep(random.uniform(0, min(WAIT_MOST, WAIT_STEP * times)))

    async def _look(self, group: _Group) -> tuple[Any, Base]:
        """`_read`, again and again while a rebuild holds commits back.

        Raises:
            DatabaseReplaced: a rebuild has taken the place of the database.
        """
        while True:
            meta, base = await self._threads.run(self._read, group)
            self.refuse_replaced(base.head)
            if not self._is_held(base.head.marks.held):
                return meta, base
            await asyncio.sleep(LOOK)

    def _is_held(self, held: str | None) -> bool:
        """Whether to wait: not for a rebuild that was killed, or is frozen. By its clock of ours
        it has had its time, and it will see that it was not waited for."""
        if held != self._held[0]:
            self._held = held, clock()
        return held is not None and clock() - self._held[1] < HOLD

    def refuse_replaced(self, head: records.Head) -> None:
        """Refuse to commit upon a head row that a rebuild has marked.

        Raises:
            DatabaseReplaced: it has.
        """
        if head.marks.replaced_by is not None:
            raise replaced(self._tables.database)

    def _read(self, group: _Group) -> tuple[Any, Base]:
        """The rows of the newest version; those of the last look when there was no commit since."""
        meta = self._tables.latest(schema.META)
        if group.seen is None or group.seen[0] != meta.version:
            group.seen = meta.version, reading.base(meta, group.uris, group.wanted_ids)
            self.restore_epoch = group.seen[1].head.restore_epoch
        return meta, group.seen[1]

    async def _append(self, group: _Group, missing: Mapping[int, str]) -> None:
        self._stats.appended_again += sum(index in group.appended for index in missing)
        started = clock()
        assert group.seen is not None
        read_at = group.seen[0]
        names = {index: ids.new_id() for index in missing}
        versions = await self.append(await self._threads.run(self._gather, group, missing, names))
        for index, document_id in missing.items():
            group.appended[index] = planning.Appended(
                document_id=document_id,
                revision=names[index],
                versions=versions,
                at=started,
                present_at=read_at,
            )

    def _collected(self, group: _Group, meta: Any) -> dict[int, str]:
        """The winning puts whose rows a collector has taken away as a crash's leavings.

        That is possible only when somebody has committed since before they were appended, and no
        clock of this process says whether: one that was halted may have stood still as well.
        """
        doubtful = {
            index: group.appended[index]
            for index in group.plan.winners
            if group.appended[index].present_at != meta.version
        }
        if not doubtful:
            return {}
        names = [appended.revision for appended in doubtful.values()]
        there = reading.revisions_there(self._tables.latest(schema.DOCUMENTS), names)
        for index, appended in doubtful.items():
            group.appended[index] = replace(appended, present_at=meta.version)
        return {i: a.document_id for i, a in doubtful.items() if a.revision not in there}

    def _gather(
        self, group: _Group, missing: Mapping[int, str], names: Mapping[int, str]
    ) -> dict[str, Any]:
        rows = revisions.Rows(self._identity)
        for index, document_id in missing.items():
            rows.add(document_id, names[index], group.put(index).revision)
        return rows.tables()

    async def append(self, tables: Mapping[str, Any]) -> records.Versions:
        """Append rows to each appended table: Arrow tables, or readers that stream them."""
        versions = {}
        for table in schema.APPENDED:
            await self.step(f"append {table}")
            versions[table] = await self._threads.finish(self._append_table, table, tables[table])
        await self.step("index")
        await self._threads.finish(self._index_words)
        return records.Versions(
            documents=versions[schema.DOCUMENTS],
            items=versions[schema.ITEMS],
            chunks=versions[schema.CHUNKS],
        )

    def _append_table(self, table: str, rows: Any) -> int:
        try:
            return int(appending.append(self._tables.latest(table), rows).version)
        except OSError as error:
            self._tables.check()
            raise StoreError(
                f"{self._tables.name}: rows could not be appended to {table}, nothing of "
                f"them is visible: {error}"
            ) from error

    def _index_words(self) -> None:
        """Make the full-text index before its first rows become visible: a search without it
        would not fold case or find stems. Without success upkeep tries again."""
        try:
            indexes.ensure_full_text(self._tables.latest(schema.CHUNKS))
        except Exception as error:  # noqa: BLE001 - a commit never fails for an index
            self._stats.upkeep_errors += 1
            self._stats.last_upkeep_error = str(error)
            _log.warning("%s: no full-text index yet: %s", self._tables.name, error)

    async def _merge(self, meta: Any, base: Base, group: _Group) -> bool:
        group.token = ids.new_token()
        marks = replace(base.head.marks, held=None)
        head = replace(base.head, row_version=group.token, marks=marks)
        written = [group.plan.records[uri] for uri in sorted(group.plan.written)]
        return await self.merge(meta, records.meta_table(written, head, group.now), head)

    async def merge(self, meta: Any, rows: Any, head: records.Head) -> bool:
        """Commit rows, `head` among them, computed from the version that `meta` is opened at.

        False when somebody has committed since: nothing was written.

        Raises:
            StoreError: the storage failed; nothing was written.
        """
        won = await self._threads.finish(self._merge_rows, meta, rows, head.row_version)
        await self.step("merged")
        if won:
            self._stats.commits += 1
        return won

    def _merge_rows(self, meta: Any, rows: Any, token: str) -> bool:
        """Merge at the version `meta` is opened at; False when somebody committed since.

        An error that is no conflict may have come after the commit was made: the head row tells.
        """
        if meta.latest_version != meta.version:
            return False
        pinned = meta.checkout_version(meta.version)
        merge = pinned.merge_insert("uri").when_matched_update_all().when_not_matched_insert_all()
        try:
            merge.conflict_retries(0).execute(rows)
        except LOSSES as error:
            if is_conflict(error):
                return False
            if self._landed(token):
                return True
            if is_lost(error):
                return False
            raise StoreError(
                f"{self._tables.name}: the commit failed and nothing of it is visible: {error}"
            ) from error
        self._tables.adopt(schema.META, pinned)
        return True

    def _landed(self, token: str) -> bool:
        return reading.head(self._tables.latest(schema.META)).row_version == token


class _Group:
    """One group on its way: what it wants, what is appended, what the last look said."""

    def __init__(
        self, changes: Sequence[Change], still_mine: StillMine | None, whole: bool
    ) -> None:
        self.changes = changes
        self._still_mine = still_mine
        self._whole = whole
        self._new_ids = [ids.new_id() for _ in changes]
        self.uris = sorted(planning.uris_of(changes))
        self.wanted_ids = sorted({c.id for c in changes if isinstance(c, Put) and c.id})
        #: A version of `document_meta`, and the group's rows in it.
        self.seen: tuple[int, Base] | None = None
        self.appended: dict[int, Appended] = {}
        #: `row_version` of the head row that the last merge tried to write.
        self.token: str | None = None
        self.now = datetime.now(UTC)
        self.plan: Plan

    def put(self, index: int) -> Put:
        change = self.changes[index]
        assert isinstance(change, Put)
        return change

    async def check(self, base: Base, append_age: float) -> dict[int, str]:
        """Plan on the rows of `base`; the winning puts that are to be appended, with their ids."""
        mine = await self._still_mine() if self._still_mine else [True] * len(self.changes)
        self.now = datetime.now(UTC)
        self.plan = planning.make_plan(
            self.changes,
            base,
            mine=mine,
            new_ids=self._new_ids,
            appended=self.appended,
            now=self.now,
        )
        if self._whole and any(result != "done" for result in self.plan.results):
            self._give_up(base)
        return {
            index: document_id
            for index, document_id in self.plan.winners.items()
            if not self._usable(index, document_id, base, clock() - append_age)
        }

    def _usable(self, index: int, document_id: str, base: Base, oldest: float) -> bool:
        """Whether a put's rows are there, for this document, young enough and not condemned."""
        appended = self.appended.get(index)
        return (
            appended is not None
            and appended.document_id == document_id
            and appended.at >= oldest
            and appended.revision not in base.head.condemned
        )

    def _give_up(self, base: Base) -> None:
        """Write nothing: one change failed in a group that is all or none."""
        self.plan.results = ["dropped" if r == "done" else r for r in self.plan.results]
        self.plan.records = dict(base.records)
        self.plan.written.clear()
        self.plan.winners.clear()

    def outcomes(self) -> list[Outcome]:
        return [
            Outcome(result=result, row=self.plan.row(index))
            for index, result in enumerate(self.plan.results)
        ]


def is_conflict(error: BaseException) -> bool:
    """Whether Lance says that another commit came first."""
    text = str(error).lower()
    return "concurrent writers" in text or "conflict" in text
