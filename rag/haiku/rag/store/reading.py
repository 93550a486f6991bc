"""Look-ups in the tables at fixed versions. Blocking: run in the store's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haiku.rag.store import records, revisions, schema, sql
from haiku.rag.store.plan import Base

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from haiku.rag.records import NewItem
    from haiku.rag.store.changes import Row
    from haiku.rag.store.info import StoredChunk

LIVE = "state = 'live'"
#: Rows read at a time when all of them are wanted.
BATCH_ROWS = 1024
#: More rows than a table ever has; Lance takes no count beyond 64 bits.
_MOST = 1 << 40


def base(meta: Any, uris: Iterable[str], ids: Iterable[str]) -> Base:
    """What a plan needs: the head row, the rows at the URIs, the live rows with the ids."""
    filters = [sql.within("uri", part) for part in sql.parts([schema.HEAD, *uris])]
    filters += [sql.both(sql.within("id", part), LIVE) or "" for part in sql.parts(list(ids))]
    found = {row["uri"]: row for f in filters for row in meta.to_table(filter=f).to_pylist()}
    head = records.load_head(found.pop(schema.HEAD))
    return Base(head=head, records={uri: records.load_record(data) for uri, data in found.items()})


def head(meta: Any) -> records.Head:
    """The head row."""
    (data,) = meta.to_table(filter=sql.equals("uri", schema.HEAD)).to_pylist()
    return records.load_head(data)


def row_version(meta: Any, uri: str) -> str | None:
    """The version of the row at a URI in any state, or None."""
    table = meta.to_table(columns=["row_version"], filter=sql.equals("uri", uri))
    return table["row_version"][0].as_py() if table.num_rows else None


def rows_in(meta: Any, column: str, values: Collection[str], where: str | None = None) -> list[Row]:
    """The live rows whose column has one of the values, and that `where` admits."""
    found: list[Row] = []
    for part in sql.parts(list(values)):
        condition = sql.both(sql.within(column, part), LIVE, where)
        table = meta.to_table(columns=list(records.ROW_COLUMNS), filter=condition)
        found += [records.load_row(data) for data in table.to_pylist()]
    return found


def live_revisions(meta: Any, revisions: Collection[str], where: str | None) -> set[str]:
    """Which of the revisions are those of live rows that `where` admits."""
    found: set[str] = set()
    for part in sql.parts(list(revisions)):
        condition = sql.both(sql.within("revision", part), LIVE, where)
        found.update(meta.to_table(columns=["revision"], filter=condition)["revision"].to_pylist())
    return found


def page(meta: Any, where: str | None, limit: int | None, offset: int) -> list[Row]:
    """Live rows, the newest first."""
    from lance.dataset import ColumnOrdering

    if (limit is not None and limit < 1) or offset > _MOST:
        return []
    scanner = meta.scanner(
        columns=list(records.ROW_COLUMNS),
        filter=sql.both(LIVE, where),
        order_by=[ColumnOrdering("created_at", ascending=False), ColumnOrdering("id")],
        limit=None if limit is None else min(limit, _MOST),
        offset=offset or None,
    )
    return [records.load_row(data) for data in scanner.to_table().to_pylist()]


def batches(meta: Any, where: str | None) -> Iterator[list[Row]]:
    """All live rows in no order, a batch at a time."""
    found = meta.to_batches(
        columns=list(records.ROW_COLUMNS),
        filter=sql.both(LIVE, where),
        batch_size=BATCH_ROWS,
    )
    for batch in found:
        yield [records.load_row(data) for data in batch.to_pylist()]


def count(meta: Any, where: str | None) -> int:
    """Number of live rows that `where` admits."""
    return int(meta.count_rows(filter=sql.both(LIVE, where)))


def revisions_matching(meta: Any, where: str, limit: int) -> list[str]:
    """Live revisions whose rows `where` admits, `limit` at most."""
    condition = sql.both(LIVE, where)
    table = meta.to_table(columns=["revision"], filter=condition, limit=limit)
    return list(table["revision"].to_pylist())


def replaced_revisions(meta: Any) -> list[str]:
    """Revisions that rows name as replaced."""
    table = meta.to_table(columns=["replaced"], filter="replaced_count > 0")
    return [revision for row in table["replaced"].to_pylist() for revision in row]


def revisions_there(documents: Any, revisions: Sequence[str]) -> set[str]:
    """Which of the revisions have rows."""
    found: set[str] = set()
    for part in sql.parts(revisions):
        table = documents.to_table(columns=["revision"], filter=sql.within("revision", part))
        found.update(table["revision"].to_pylist())
    return found


def document(documents: Any, revision: str, column: str) -> Any:
    """One column of the `documents` row of a revision; None when there is no such row."""
    table = documents.to_table(columns=[column], filter=sql.equals("revision", revision))
    return table[column][0].as_py() if table.num_rows else None


def items(table: Any, revision: str) -> list[NewItem]:
    """The elements of a revision in reading order."""
    found = table.to_table(filter=sql.equals("revision", revision)).sort_by("order")
    return [revisions.load_item(data) for data in found.to_pylist()]


def chunks(table: Any, revision: str, vectors: bool) -> list[StoredChunk]:
    """The chunks of a revision in order."""
    columns = [*revisions.CHUNK_COLUMNS, *(["vector"] if vectors else [])]
    found = table.to_table(columns=columns, filter=sql.equals("revision", revision))
    return list(revisions.load_chunks(found.sort_by("order")))


def chunks_with_id(table: Any, chunk_id: str) -> list[StoredChunk]:
    """The chunks with an id: one a revision, and a restored revision has those of its original."""
    columns = list(revisions.CHUNK_COLUMNS)
    found = table.to_table(columns=columns, filter=sql.equals("id", chunk_id))
    return list(revisions.load_chunks(found))
