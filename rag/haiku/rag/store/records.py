"""`document_meta` rows as the store sees them: what readers get, and the bookkeeping beside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from haiku.rag import ids
from haiku.rag.store import schema, sql
from haiku.rag.store.changes import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import pyarrow as pa

#: The columns of a `Row`.
ROW_COLUMNS = (
    "uri",
    "id",
    "revision",
    "state",
    "row_version",
    "title",
    "metadata",
    "content_type",
    "content_hash",
    "fingerprint",
    "sources",
    "chunk_count",
    "item_count",
    "created_at",
    "updated_at",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The table versions in which a revision's rows were appended."""

    documents: int
    items: int
    chunks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of `document_meta`, whole."""

    row: Row
    #: None where the revision is gone with the document.
    versions: Versions | None
    #: Revisions this row has replaced that are not collected yet.
    replaced: tuple[str, ...] = ()

    @property
    def live(self) -> bool:
        """Whether readers see the document."""
        return self.row.state == "live"

    @property
    def all_revisions(self) -> tuple[str, ...]:
        """Every revision the row names: what it takes along when it is replaced."""
        return (*self.replaced, self.row.revision) if self.row.revision else self.replaced

    def ended(self, *, collect: bool) -> Record:
        """This row as deleted; with `collect` its revisions wait for collection here.

        Without, another row has taken them over (a move).
        """
        row = replace(self.row, state="deleted", revision="", row_version=ids.new_token())
        return Record(row=row, versions=None, replaced=self.all_revisions if collect else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What a rebuild writes on the head rows of the old and of the new database."""

    #: Of a replaced database: the folder, below that of the whole, whose tables have its place.
    replaced_by: str | None = None
    #: The rebuild that may replace this database: a random token.
    claimed_by: str | None = None
    #: Commits wait while a rebuild changes this; see `Committer`.
    held: str | None = None
    #: Of a database that is being made: the rebuild that makes it, a random token.
    made_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The head row, which every commit rewrites."""

    #: Random, never reused: tells a writer whether the last commit was its own.
    row_version: str
    #: Revisions whose rows are being deleted: no commit may make them live.
    condemned: frozenset[str] = frozenset()
    #: Rises with every restore.
    restore_epoch: int = 0
    #: What rebuilds have written; see `replacing`.
    marks: Marks = field(default_factory=Marks)


def dump_json(value: Mapping[str, Any]) -> str:
    """JSON text of a mapping; values that JSON does not know are stored as their text."""
    return sql.clean(json.dumps(dict(value), ensure_ascii=False, sort_keys=True, default=str))


def load_row(data: Mapping[str, Any]) -> Row:
    """A `Row` of the columns of `ROW_COLUMNS`."""
    values = {name: data[name] for name in ROW_COLUMNS}
    values["metadata"] = json.loads(values["metadata"] or "{}")
    values["sources"] = json.loads(values["sources"] or "{}")
    return Row(**values)


def load_record(data: Mapping[str, Any]) -> Record:
    """A `Record` of all columns."""
    appended = data["documents_version"], data["items_version"], data["chunks_version"]
    documents, items, chunks = appended
    return Record(
        row=load_row(data),
        versions=None
        if documents is None
        else Versions(documents=documents, items=items, chunks=chunks),
        replaced=tuple(data["replaced"] or ()),
    )


def load_head(data: Mapping[str, Any]) -> Head:
    """The head row of all columns."""
    return Head(
        row_version=data["row_version"],
        condemned=frozenset(data["condemned"] or ()),
        restore_epoch=data["restore_epoch"] or 0,
        marks=load_marks(data["metadata"]),
    )


def load_marks(metadata: str | None) -> Marks:
    """The marks in the head row's `metadata`."""
    return Marks(**json.loads(metadata or "{}"))


def meta_table(records: Iterable[Record], head: Head, now: datetime) -> pa.Table:
    """The rows of one commit, head row included."""
    import pyarrow as pa

    rows = [_dump_record(record, now) for record in records]
    return pa.Table.from_pylist([*rows, _dump_head(head, now)], schema=schema.meta())


def record_table(records: Iterable[Record], now: datetime) -> pa.Table:
    """The rows of a part of a commit, without the head row."""
    import pyarrow as pa

    rows = [_dump_record(record, now) for record in records]
    return pa.Table.from_pylist(rows, schema=schema.meta())


def _dump_record(record: Record, now: datetime) -> dict[str, Any]:
    row, versions = record.row, record.versions
    return {
        **{name: getattr(row, name) for name in ROW_COLUMNS},
        "title": None if row.title is None else sql.clean(row.title),
        "metadata": dump_json(row.metadata),
        "sources": dump_json(row.sources),
        "committed_at": now,
        "documents_version": versions and versions.documents,
        "items_version": versions and versions.items,
        "chunks_version": versions and versions.chunks,
        "replaced": list(record.replaced),
        "replaced_count": len(record.replaced),
    }


def _dump_head(head: Head, now: datetime) -> dict[str, Any]:
    return {
        "uri": schema.HEAD,
        "state": "head",
        "row_version": head.row_version,
        "committed_at": now,
        "replaced_count": 0,
        "condemned": sorted(head.condemned),
        "restore_epoch": head.restore_epoch,
        "metadata": dump_json({name: v for name, v in asdict(head.marks).items() if v}),
    }
