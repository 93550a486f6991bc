"""What a reader sees: the database as one commit left it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from haiku.rag.exceptions import IdentityMismatch, SnapshotExpired, StoreError
from haiku.rag.store import legs, reading, schema, sql
from haiku.rag.store.info import Hit
from haiku.rag.store.tables import LOSSES, is_lost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity, NewItem
    from haiku.rag.store.changes import Row
    from haiku.rag.store.info import Found, StoredChunk
    from haiku.rag.store.records import Record
    from haiku.rag.store.tables import View
    from haiku.rag.store.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")


class Snapshot:
    """The database at one commit; it never changes and needs no closing.

    Its versions stay for `storage.history` and never less than `storage.collect_after` after
    they were superseded; then every method raises `SnapshotExpired`. `Store.read` takes a new one.

    `where` is, everywhere, a validated SQL expression over the columns id, uri, title, metadata
    (JSON text), created_at and updated_at. Timestamps compare with typed literals only:
    `created_at >= timestamp '2026-01-31T00:00:00Z'`.
    """

    def __init__(self, view: View, threads: Threads, identity: EmbeddingIdentity) -> None:
        self._view = view
        self._threads = threads
        self._identity = identity

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a look-up in a thread.

        Raises:
            SnapshotExpired: what it reads was removed.
        """
        try:
            return await self._threads.run(call, *args, **kwargs)
        except LOSSES as error:
            if not is_lost(error):
                raise
            raise SnapshotExpired(
                "this snapshot was held for longer than superseded versions are kept "
                "(storage.history), and what it reads has been removed; take a new one"
            ) from error

    @property
    def version(self) -> int:
        """The version of `document_meta`: equal versions see the same documents."""
        return int(self._view.meta.version)

    async def get(self, document_id: str) -> Row | None:
        """The live document with an id."""
        rows = await self._run(reading.rows_in, self._view.meta, "id", [document_id])
        return rows[0] if rows else None

    async def get_by_uri(self, uri: str) -> Row | None:
        """The live document at a URI."""
        return (await self.by_uris([uri])).get(uri)

    async def by_uris(self, uris: Sequence[str]) -> dict[str, Row]:
        """The live documents at URIs, by the URI as it was given; missing ones are left out."""
        stored = {uri: sql.clean_uri(uri) for uri in uris if uri}
        wanted = sorted(set(stored.values()))
        rows = await self._run(reading.rows_in, self._view.meta, "uri", wanted)
        found = {row.uri: row for row in rows}
        return {uri: found[name] for uri, name in stored.items() if name in found}

    async def row_version(self, uri: str) -> str | None:
        """The version of the row at a URI even if its document is deleted; None for no row.

        As `Put.expected` it keeps a creation from undoing a deletion that came after this look.
        """
        if not uri:
            return None
        return await self._run(reading.row_version, self._view.meta, sql.clean_uri(uri))

    async def rows(
        self, where: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> list[Row]:
        """Live documents, the newest (by `created_at`, then id) first."""
        return await self._run(reading.page, self._view.meta, where, limit, offset)

    async def iter_rows(self, where: str | None = None) -> AsyncIterator[list[Row]]:
        """All live documents in no order, in batches: for sets too large to hold."""
        batches = reading.batches(self._view.meta, where)
        while (batch := await self._run(next, batches, None)) is not None:
            yield batch

    async def records(self, uris: Sequence[str]) -> list[Record]:
        """The rows at URIs in any state, with the store's bookkeeping."""
        base = await self._run(reading.base, self._view.meta, uris, ())
        return list(base.records.values())

    async def count(self, where: str | None = None) -> int:
        """Number of live documents."""
        return await self._run(reading.count, self._view.meta, where)

    async def content(self, row: Row) -> str:
        """The document as Markdown.

        Raises:
            StoreError: its rows are gone: `row` is of an older snapshot and was collected.
        """
        content = await self._document(row, "content")
        if content is None:
            raise StoreError(
                f"the content of {row.uri} (revision {row.revision}) is not in this snapshot; "
                "read the document again"
            )
        return str(content)

    async def docling(self, row: Row) -> bytes | None:
        """The DoclingDocument as JSON compressed with zstandard, or None if there is none."""
        return await self._document(row, "docling")  # type: ignore[no-any-return]

    async def _document(self, row: Row, column: str) -> Any:
        documents = self._view.datasets[schema.DOCUMENTS]
        return await self._run(reading.document, documents, row.revision, column)

    async def items(self, row: Row) -> list[NewItem]:
        """The document's Docling elements in reading order."""
        return await self._run(reading.items, self._view.datasets[schema.ITEMS], row.revision)

    async def chunks(self, row: Row, *, vectors: bool = False) -> list[StoredChunk]:
        """The document's chunks in order, with their vectors when asked for."""
        chunks = self._view.datasets[schema.CHUNKS]
        return await self._run(reading.chunks, chunks, row.revision, vectors)

    async def chunk(self, chunk_id: str) -> StoredChunk | None:
        """The chunk with an id, if its revision is live."""
        chunks = self._view.datasets[schema.CHUNKS]
        found = await self._run(reading.chunks_with_id, chunks, chunk_id)
        named = [chunk.revision for chunk in found]
        live = await self._run(reading.rows_in, self._view.meta, "revision", named)
        wanted = {row.revision for row in live}
        return next((chunk for chunk in found if chunk.revision in wanted), None)

    async def vector_search(
        self, vector: NDArray[np.float32], limit: int, where: str | None = None
    ) -> list[Found]:
        """The live chunks nearest to a vector of shape (dim,), best first; exact.

        Raises:
            IdentityMismatch: the vector has another length than the database's.
        """
        query = np.asarray(vector, np.float32).reshape(-1)
        if len(query) != self._identity.dim:
            raise IdentityMismatch(
                f"a query vector of length {len(query)} does not fit a database of "
                f"{self._identity}; embed the query with that model"
            )
        return await self._run(legs.vector, self._view, query, limit, where)

    async def text_search(self, query: str, limit: int, where: str | None = None) -> list[Found]:
        """The live chunks that hold words of a plain text, best first (BM25).

        No character of the query has a meaning; a query without words finds nothing.
        """
        return await self._run(legs.text, self._view, query, limit, where)

    async def hits(self, found: Sequence[Found]) -> list[Hit]:
        """What this snapshot's searches found, with chunks and documents, in the same order."""
        if not found:
            return []
        chunks, rows = await asyncio.gather(
            self._run(legs.chunks_of, self._view, found), self._run(legs.rows_of, self._view, found)
        )
        return [
            Hit(chunk=chunks[one.chunk_id, one.revision], row=rows[one.revision], score=one.score)
            for one in found
        ]
