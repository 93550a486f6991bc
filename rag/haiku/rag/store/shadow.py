"""A database while a rebuild makes it: rows of another one, with other chunks and vectors.

In: what the other one has, and new revisions of its documents. Out: a database that says of every
document what the other one says. Rules: rows keep their `row_version`, so that a look at both tells
which are to be copied again, and a change that was computed from the old row still fits the new
one; nobody opens it before it is finished; only the rebuild that took it over last writes to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from haiku.rag import ids
from haiku.rag.exceptions import StoreBusy, StoreError
from haiku.rag.store import checking, reading, records, revisions, schema
from haiku.rag.store.commit import Rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haiku.rag.records import EmbeddingIdentity
    from haiku.rag.store.changes import NewRevision
    from haiku.rag.store.commit import Committer
    from haiku.rag.store.records import Head, Record, Versions
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

_SLIM = ["uri", "row_version", "state"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """A row of the other database, and what its document becomes here."""

    record: Record
    #: None of a document that is deleted.
    revision: NewRevision | None = None
    #: What made the revision.
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What is to be done until this database says what the other one does."""

    #: The version of the other's `document_meta`.
    version: int
    #: URIs whose rows are to be copied.
    changed: Sequence[str]
    #: URIs of live rows here that the other has forgotten.
    gone: Sequence[str]
    #: The number of restores the other has seen, when it is another than here.
    restore_epoch: int | None

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.restore_epoch is not None)


class Shadow:
    """The database that a rebuild makes."""

    def __init__(
        self,
        tables: Tables,
        threads: Threads,
        committer: Committer,
        identity: EmbeddingIdentity,
        token: str,
    ) -> None:
        self._tables = tables
        self._threads = threads
        self._committer = committer
        self._identity = identity
        self._token = token

    async def take_over(self) -> None:
        """Be the one rebuild that writes to it."""

        def compute(meta: Any) -> Rewrite:
            head = reading.head(meta)
            return Rewrite(head=replace(head, marks=replace(head.marks, made_by=self._token)))

        await self._committer.rewrite(compute, self._committer.step, "take over")

    async def compare(self, other: Tables) -> Difference:
        """What is to be done until this database says what the newest version of the other does."""
        return await self._threads.run(self._compare, other)

    def _compare(self, other: Tables) -> Difference:
        meta, here = other.latest(schema.META), self._tables.latest(schema.META)
        theirs = meta.to_table(columns=_SLIM, filter="state != 'head'").combine_chunks()
        ours = here.to_table(columns=_SLIM, filter="state != 'head'").combine_chunks()
        changed, gone = checking.differing(theirs, ours)
        epoch = reading.head(meta).restore_epoch
        return Difference(
            version=int(meta.version),
            changed=changed["uri"].to_pylist(),
            gone=gone,
            restore_epoch=None if epoch == reading.head(here).restore_epoch else epoch,
        )

    async def write(self, copies: Sequence[Copied]) -> None:
        """Take copies over, each in the place of what is here at its URI.

        Raises:
            StoreBusy: another rebuild has taken over.
            StoreError: the storage failed.
        """
        names = {c.record.row.uri: ids.new_id() for c in copies if c.revision is not None}
        versions = None
        if names:
            tables = await self._threads.run(self._rows, copies, names)
            versions = await self._committer.append(tables)

        def compute(meta: Any) -> Rewrite:
            base = reading.base(meta, [c.record.row.uri for c in copies], ())
            made = [
                _made(c, names.get(uri := c.record.row.uri), versions, base.records.get(uri))
                for c in copies
            ]
            return Rewrite(head=self._own(base.head), records=made)

        await self._committer.rewrite(compute, self._committer.step, "write")

    def _rows(self, copies: Sequence[Copied], names: dict[str, str]) -> dict[str, Any]:
        rows = revisions.Rows(self._identity)
        for copy in copies:
            if copy.revision is not None:
                row = copy.record.row
                rows.add(row.id, names[row.uri], copy.revision)
        return rows.tables()

    async def adjust(self, difference: Difference) -> None:
        """Let go of what the other has forgotten, and count the restores it has seen."""

        def compute(meta: Any) -> Rewrite:
            base = reading.base(meta, difference.gone, ())
            head = self._own(base.head)
            if difference.restore_epoch is not None:
                head = replace(head, restore_epoch=difference.restore_epoch)
            ended = [record.ended(collect=True) for record in base.records.values()]
            return Rewrite(head=head, records=ended)

        await self._committer.rewrite(compute, self._committer.step, "adjust")

    async def check(self) -> None:
        """Count the rows of all documents.

        Raises:
            StoreError: some are missing.
        """
        view = await self._threads.run(self._tables.newest)
        if not await self._threads.run(checking.complete, view.datasets):
            raise StoreError(
                f"{self._tables.database} lacks rows of its documents and replaces nothing; remove "
                "that folder and rebuild again"
            )

    async def finish(self) -> None:
        """Make it a database like any other."""

        def compute(meta: Any) -> Rewrite:
            head = self._own(reading.head(meta))
            return Rewrite(head=replace(head, marks=replace(head.marks, made_by=None)))

        await self._committer.rewrite(compute, self._committer.step, "finish")

    def _own(self, head: Head) -> Head:
        if head.marks.made_by != self._token:
            raise StoreBusy(
                f"{self._tables.database}: another rebuild goes on with it; this one is given up"
            )
        return head


def _made(copy: Copied, name: str | None, versions: Versions | None, here: Record | None) -> Record:
    """The row as it is to be here."""
    row, replaced = copy.record.row, () if here is None else here.all_revisions
    if copy.revision is None or name is None:
        return records.Record(row=row, versions=None, replaced=replaced)
    row = replace(
        row,
        revision=name,
        fingerprint=copy.fingerprint,
        chunk_count=len(copy.revision.chunks),
        item_count=len(copy.revision.items),
    )
    return records.Record(row=row, versions=versions, replaced=replaced)
