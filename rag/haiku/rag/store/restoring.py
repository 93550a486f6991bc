"""Restore: the state that a tag names becomes today's, in one commit like any other.

Nothing is taken back: contents that are no longer live are copied out of the tagged versions as
new revisions, and then one pinned merge makes the tagged documents live and the others deleted.
Writers that run meanwhile win before it or lose against it, and readers see one state or the
other. Rows that are as they were when the tag was made are not touched.

Memory grows with the rows of `document_meta` that change, not with the contents copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from haiku.rag import ids
from haiku.rag.exceptions import StoreBusy, StoreError, TagExists
from haiku.rag.store import checking, commit, copying, reading, records, schema, settings, sql, tags
from haiku.rag.store.states import RestoreReport
from haiku.rag.store.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from haiku.rag.store.commit import Committer
    from haiku.rag.store.records import Head, Record, Versions
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

#: Bytes that Lance may keep of a table that is copied from; the default would fill with contents.
CACHE = 32_000_000
#: Columns that tell whether a row is another than it was.
_SLIM = ["uri", "row_version", "state", "revision"]


class Restorer:
    """Restores tags of one open store."""

    def __init__(self, tables: Tables, threads: Threads, committer: Committer) -> None:
        self._tables = tables
        self._threads = threads
        self._committer = committer
        self._tags = tags.Tags(tables, threads, committer)

    async def restore(self, name: str) -> RestoreReport:
        """See `Store.restore_tag`."""
        work = await self._threads.run(self._work, name)
        if not work.differs:
            return RestoreReport(tag=name, safety_tag=None, **work.report())
        safety = await self._safety_tag()
        try:
            await self._restore(work)
        except StoreError:  # nothing was committed
            await self._tags.delete(safety)
            raise
        return RestoreReport(tag=name, safety_tag=safety, **work.report())

    def _work(self, name: str) -> _Work:
        """What there is to do now: perhaps nothing."""
        work = _Work(self._state(name))
        work.head = self._plan(work, self._tables.latest(schema.META))
        return work

    def _state(self, name: str) -> dict[str, Any]:
        """The tagged tables, fit to be restored here."""
        database = self._tables.name
        tag = tags.usable(self._tables.database, name)
        try:
            state = {
                table: open_table(self._tables.database, table, CACHE).checkout_version(version)
                for table, version in tag.versions.items()
            }
            whole = checking.complete(state)
        except (OSError, ValueError) as error:
            raise StoreError(f"the tag {name} of {database} cannot be read: {error}") from error
        if not whole:
            raise StoreError(
                f"the tag {name} of {database} lacks rows of its documents and cannot be restored; "
                "delete it"
            )
        self._check_fit(name, state)
        return state

    def _check_fit(self, name: str, state: Mapping[str, Any]) -> None:
        database = f"the state tagged {name} of {self._tables.name}"
        then = settings.parse(settings.read(state[schema.SETTINGS]), database)
        today = self._tables.latest(schema.SETTINGS)
        now = settings.parse(settings.read(today), self._tables.name)
        settings.check_restorable(then, now, name)

    async def _safety_tag(self) -> str:
        base = f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        for name in chain([base], (f"{base}-{number}" for number in count(2))):
            try:
                return (await self._tags.create(name)).name
            except TagExists:  # another restore of this second
                continue
        raise AssertionError("names never run out")

    async def _restore(self, work: _Work) -> None:
        lost = 0
        for _ in range(commit.TRIES):
            async with self._committer.between_groups():
                if await self._try(work):
                    return
            if work.missing:
                await self._copy(work)
            else:
                lost += 1
                await self._committer.lost(lost)
        raise StoreBusy(
            f"{self._tables.name}: the restore lost against other writers {lost} times; "
            "nothing was changed, try again while less is written"
        )

    async def _try(self, work: _Work) -> bool:
        """One try to commit. False: it lost, or `work.missing` has to be copied first."""
        await self._committer.step("read")
        meta = await self._threads.run(self._tables.latest, schema.META)
        await self._committer.step("check")
        head = await self._threads.run(self._plan, work, meta)
        if work.missing:
            return False
        if head.row_version == work.token:
            return True  # the last try has landed after all
        rows = await self._threads.run(work.rows, meta, head)
        await self._committer.step("merge")
        return await self._committer.merge(meta, rows, work.head)

    def _plan(self, work: _Work, meta: Any) -> Head:
        """Find what is to be done to a version of `document_meta`; its head row."""
        head = reading.head(meta)
        self._committer.refuse_replaced(head)
        if head.row_version != work.token:
            work.compare(meta)
            work.missing = self._missing(work, head, int(meta.version))
        return head

    def _missing(self, work: _Work, head: Head, version: int) -> list[str]:
        """Revisions that are to be live again and have no copy that may be made so.

        A collector may have taken a copy for what a crash left, and no clock says whether: when
        anybody has committed since, the copy has to be seen after the head row was read, without
        being condemned there. (A collector condemns, deletes, and releases, in this order.)
        """
        wanted = work.difference.wanted
        usable = {n: c for n in wanted if (c := work.copies.get(n)) is not None}
        doubtful = [c.revision for c in usable.values() if c.present_at != version]
        gone = set(doubtful) - reading.revisions_there(
            self._tables.latest(schema.DOCUMENTS), doubtful
        )
        lost = gone | head.condemned
        for name, copy in usable.items():
            work.copies[name] = replace(copy, present_at=version)
        return [n for n in wanted if n not in usable or usable[n].revision in lost]

    async def _copy(self, work: _Work) -> None:
        names = {revision: ids.new_id() for revision in work.missing}
        rows = await self._threads.run(copying.copies, work.state, names)
        versions = await self._committer.append(rows)
        for revision, name in names.items():
            work.copies[revision] = _Copy(revision=name, versions=versions, present_at=work.version)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copy:
    """A tagged revision's rows, appended under another name."""

    revision: str
    versions: Versions
    #: The version of `document_meta` at which they are known not to have been collected.
    present_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Difference:
    """What is to be done to a version of `document_meta`."""

    #: URIs whose row is to be as tagged and is not.
    changed: Sequence[str] = ()
    #: URIs of live documents that are not tagged.
    gone: Sequence[str] = ()
    #: Tagged revisions of changed rows that are live now, perhaps at another URI.
    kept: frozenset[str] = frozenset()
    #: Tagged revisions of changed rows that are not live and have to be copied.
    wanted: Sequence[str] = ()


class _Work:
    """A restore under way: what is wanted, what is copied, what the last look said."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        #: The tagged tables.
        self.state = state
        self._tagged = state[schema.META].to_table(columns=_SLIM, filter=reading.LIVE)
        self._tagged = self._tagged.combine_chunks()
        #: Tagged revision → its copy.
        self.copies: dict[str, _Copy] = {}
        self.difference = _Difference()
        #: The version of `document_meta` that was looked at.
        self.version = 0
        #: What has to be copied before anything can be committed.
        self.missing: list[str] = []
        #: `row_version` of the head row that the last merge tried to write.
        self.token: str | None = None
        #: That row; before any try the one that was found.
        self.head: Head

    def compare(self, meta: Any) -> None:
        """Find the rows that are not as they are tagged."""
        self.version = int(meta.version)
        now = meta.to_table(columns=_SLIM, filter="state != 'head'").combine_chunks()
        changed, gone = checking.differing(self._tagged, now)
        live = now.filter(pc.equal(now["state"], "live"))
        kept = pc.is_in(changed["revision"], value_set=live["revision"].combine_chunks())
        self.difference = _Difference(
            changed=changed["uri"].to_pylist(),
            gone=gone,
            kept=frozenset(changed["revision"].filter(kept).to_pylist()),
            wanted=changed["revision"].filter(pc.invert(kept)).to_pylist(),
        )

    @property
    def differs(self) -> bool:
        """Whether anything is to be done to the version that was looked at."""
        return bool(self.difference.changed or self.difference.gone)

    def rows(self, meta: Any, newest: Head) -> pa.Table:
        """The rows to merge into a version of `document_meta` that was compared."""
        now = datetime.now(UTC)
        self.token = ids.new_token()
        self.head = replace(newest, row_version=self.token, restore_epoch=newest.restore_epoch + 1)
        parts = [records.record_table(part, now) for part in self._parts(meta)]
        return pa.concat_tables([records.meta_table([], self.head, now), *parts])

    def _parts(self, meta: Any) -> Iterator[list[Record]]:
        for uris in sql.parts(self.difference.changed):
            tagged = reading.base(self.state[schema.META], uris, ()).records
            there = reading.base(meta, uris, ()).records
            yield [self._as_tagged(record, there.get(uri)) for uri, record in tagged.items()]
        for uris in sql.parts(self.difference.gone):
            there = reading.base(meta, uris, ()).records
            yield [self._ended(record) for record in there.values()]

    def _as_tagged(self, record: Record, there: Record | None) -> Record:
        """A tagged row with the revision that has its content now."""
        row, versions = record.row, record.versions
        if row.revision not in self.difference.kept:
            copy = self.copies[row.revision]
            row, versions = replace(row, revision=copy.revision), copy.versions
        return records.Record(
            row=replace(row, row_version=ids.new_token()),
            versions=versions,
            replaced=() if there is None else self._dead(there),
        )

    def _ended(self, record: Record) -> Record:
        return replace(record.ended(collect=True), replaced=self._dead(record))

    def _dead(self, record: Record) -> tuple[str, ...]:
        """The revisions a row names, without those that another row or itself keeps live."""
        return tuple(r for r in record.all_revisions if r not in self.difference.kept)

    def report(self) -> dict[str, int]:
        """The figures of `RestoreReport`."""
        return {
            "documents": self._tagged.num_rows,
            "changed": len(self.difference.changed),
            "copied": len(self.difference.wanted),
            "deleted": len(self.difference.gone),
            "restore_epoch": self.head.restore_epoch,
        }
