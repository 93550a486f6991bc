"""`HaikuRAG`: the one façade over a database. Thin: it delegates to the rooms below."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from haiku.rag import ids, uris
from haiku.rag.config import AppConfig, database_path, load_config
from haiku.rag.exceptions import (
    DatabaseNotFound,
    DocumentNotFound,
    HaikuRAGError,
    ReadOnly,
)
from haiku.rag.models import Chunk, Document, SearchResult, SearchType
from haiku.rag.records import NewChunk
from haiku.rag.store.changes import Delete, UpdateMeta

if TYPE_CHECKING:
    from datetime import timedelta

    from docling_core.types.doc.document import DoclingDocument

    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Snapshot, Store
    from haiku.rag.store.changes import Row
    from haiku.rag.store.info import StoreInfo, VacuumReport
    from haiku.rag.store.states import AsOf, HistoryEntry, RestoreReport, Tag
    from haiku.rag.write.copying import Progress
    from haiku.rag.write.rebuild import RebuildReport
    from haiku.rag.write.session import TextFormat, WriteSession


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentImport:
    """One ready-made document for `import_documents`."""

    #: The converted document; its chunks are made when `chunks` is None.
    document: "DoclingDocument"
    #: Chunks of your own; those with an `embedding` keep it.
    chunks: Sequence[Chunk] | None = None
    uri: str | None = None
    title: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AddResult:
    """What became of one file or URL of `add_sources`."""

    #: Where it came from, encoded.
    uri: str
    #: The stored document, without its content; None when it failed.
    document: Document | None
    #: Why it failed, or None.
    error: HaikuRAGError | None
    #: Content and pipeline were those already stored; nothing was converted.
    unchanged: bool


class HaikuRAG:
    """A database of documents: search it, add to it.

    An async context manager. Several clients, in one process or many, may use one database at
    once, for reading and for writing, while the daemon runs.

    Args:
        db_path: the database; None: `HAIKU_RAG_DB`, else under `config.storage.data_dir`.
        config: the configuration; None: loaded from file and environment.
        create: make the database when it is not there.
        read_only: refuse every write; nothing in the database is touched.
        as_of: read the database as it was: a tag, a version as `history` lists it, or a time with
            its zone (the last commit that is not after it). Implies `read_only`.

    Raises:
        DatabaseNotFound: nothing is there and `create` is False; nothing is created.
        TagNotFound, TagUnusable, StateNotKept: on entering; that state cannot be read.
        IdentityMismatch, SchemaMismatch: on entering, with the way out in the message.

    Example:
        async with HaikuRAG("docs.lancedb", create=True) as client:
            await client.create_document_from_source("handbook.pdf")
            for hit in await client.search("holiday allowance"):
                print(hit.score, hit.document_title, hit.content)
    """

    def __init__(
        self,
        db_path: str | Path | None = None,
        *,
        config: AppConfig | None = None,
        create: bool = False,
        read_only: bool = False,
        as_of: "AsOf | None" = None,
    ) -> None:
        self.config = config if config is not None else load_config()
        #: Where the database is: an absolute path, or a URI.
        self.path = database_path(self.config, db_path)
        self.read_only = read_only or as_of is not None
        self.as_of = as_of
        self._create = create
        self._opened: Store | None = None
        self._embedder: Embedder | None = None
        self._session: WriteSession | None = None

    async def __aenter__(self) -> Self:
        from haiku.rag.embed import identity
        from haiku.rag.store import Store

        wanted = identity(self.config.embeddings.model)
        storage = self.config.storage
        try:
            self._opened = await Store.open(
                self.path,
                storage,
                identity=wanted,
                read_only=self.read_only,
                as_of=self.as_of,
            )
        except DatabaseNotFound:
            if not self._create or self.read_only:
                raise
            self._opened = await Store.create(self.path, wanted, storage)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the database, the embedder and any worker processes."""
        if self._session is not None:
            await self._session.close()
        if self._embedder is not None:
            await self._embedder.close()
        if self._opened is not None:
            await self._opened.close()
        self._session = self._embedder = self._opened = None

    # --- writing ---------------------------------------------------------------------------

    async def create_document(
        self,
        content: str,
        uri: str | None = None,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        format: "TextFormat" = "md",
    ) -> Document:
        """Store a text as a new document.

        Args:
            content: the text.
            uri: where it comes from; None: an `urn:uuid:` of its own.
            title: None: taken from the text's structure.
            metadata: anything JSON can hold.
            format: "md", "html" or "plain".

        Raises:
            DocumentExists: `uri` is taken.
            ConvertError, EmbedError, ReadOnly.
        """
        session = self._writing()
        prepared = await session.prepare_text(content, format)
        document_id = ids.new_id()
        change = await session.change(
            uri or f"urn:uuid:{document_id}",
            prepared,
            document_id=document_id,
            title=title,
            metadata=metadata,
        )
        return _document(await session.commit(change), prepared.content)

    async def create_document_from_source(
        self,
        source: str | Path,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Document | list[Document]:
        """Add a file, `file://` or `http(s)://` URL, or every file below a folder.

        A document already stored at the URI is updated; if its bytes are the same, nothing runs.

        Returns:
            The document; for a folder the list of them.

        Raises:
            SourceError, ConvertError, EmbedError: for a folder that of the first file that
                failed, after every file was tried; `add_sources` tells of each.
        """
        from haiku.rag.write.fetch import source_uri

        uri = source_uri(source)
        folder = uri.startswith("file://") and uris.uri_to_path(uri).is_dir()
        results = [result async for result in self.add_sources([source], title, metadata)]
        for result in results:
            if result.error is not None:
                raise result.error
        documents = sorted(
            (result.document for result in results if result.document is not None),
            key=lambda document: document.uri,
        )
        return documents if folder else documents[0]

    async def add_sources(
        self,
        sources: Iterable[str | Path],
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AsyncIterator[AddResult]:
        """Add files, folders and URLs, several at once; yields each when it is done or failed.

        Every source is tried; errors of one are in its result and never stop the others.
        """
        async for added in self._writing().add(sources, title=title, metadata=metadata):
            yield AddResult(
                uri=added.uri,
                document=_document(added.row) if added.row else None,
                error=added.error,
                unchanged=added.unchanged,
            )

    async def import_document(
        self,
        document: "DoclingDocument",
        chunks: Sequence[Chunk] | None = None,
        uri: str | None = None,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Document:
        """Store a document that was converted elsewhere, with chunks of its own if given.

        Raises:
            DocumentExists: `uri` is taken.
            EmbedderRefused: an `embedding` has the wrong length.
        """
        item = DocumentImport(
            document=document, chunks=chunks, uri=uri, title=title, metadata=metadata
        )
        return (await self.import_documents([item]))[0]

    async def import_documents(self, documents: Iterable[DocumentImport]) -> list[Document]:
        """Store ready-made documents together: one commit, all or none.

        Raises:
            DocumentExists: one of the URIs is taken; none is stored.
        """
        from haiku.rag.write.importing import import_all

        rows = await import_all(self._writing(), list(documents))
        return [_document(row, content) for row, content in rows]

    async def update_document(
        self,
        document_id: str,
        content: str | None = None,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        chunks: Sequence[Chunk] | None = None,
        format: "TextFormat" = "md",
    ) -> Document:
        """Change a document; what is None stays as it is.

        Args:
            document_id: its id.
            content: new text; the old revision is readable until the new one is committed.
            title: new title.
            metadata: replaces the metadata.
            chunks: chunks of your own, instead of those made from `content`.
            format: of `content`.

        Raises:
            DocumentNotFound: no document has the id.
            Conflict: another writer changed it meanwhile.
        """
        from haiku.rag.write.importing import replace_chunks

        session = self._writing()
        row = await self._row(document_id)
        if content is None and chunks is None:
            update = UpdateMeta(
                uri=row.uri, expected=row.row_version, title=title, metadata=metadata
            )
            return await self._full(await session.commit(update))
        prepared, vectors = await replace_chunks(session, row, content, chunks, format)
        change = await session.change(
            row.uri,
            prepared,
            expected=row.row_version,
            title=title if title is not None else row.title or prepared.title,
            metadata=metadata if metadata is not None else dict(row.metadata),
            vectors=vectors,
        )
        return _document(await session.commit(change), prepared.content)

    async def delete_document(self, document_id: str) -> bool:
        """Delete a document. False when no document has the id."""
        self._check_writable()
        row = await self._store.read(lambda snapshot: snapshot.get(document_id))
        if row is None:
            return False
        (outcome,) = await self._store.commit([Delete(uri=row.uri)])
        return outcome.result == "done"

    # --- the steps of writing, one by one -----------------------------------------------------

    async def convert(
        self, source: str | Path, format: "TextFormat | None" = None
    ) -> "DoclingDocument":
        """Convert without storing.

        Args:
            source: a path or URL; with `format`, a text.
            format: None, or the format of the text in `source`.
        """
        from haiku.rag.convert.serialize import unpack
        from haiku.rag.write import fetch
        from haiku.rag.write.session import text_type

        session = self._session_for_steps()
        declared: str | None
        with tempfile.TemporaryDirectory(prefix="haiku-rag-") as folder:
            if format is not None:
                name, declared = text_type(format)
                path = Path(folder) / name
                await asyncio.to_thread(path.write_text, str(source), encoding="utf-8")
            else:
                got = await fetch.fetch(
                    fetch.source_uri(source),
                    Path(folder),
                    max_size=self.config.processing.max_file_size,
                )
                path, name, declared = got.path, got.name, got.declared
            packed = await session.writer.convert(
                path, name=name, declared=declared, forced=format is not None
            )
        return await asyncio.to_thread(unpack, packed)

    async def chunk(self, document: "DoclingDocument") -> list[Chunk]:
        """The chunks that storing the document would make, without vectors."""
        from haiku.rag.convert.serialize import pack

        packed = await asyncio.to_thread(pack, document)
        made = await self._session_for_steps().writer.chunk(packed)
        return [_chunk(chunk, order) for order, chunk in enumerate(made)]

    # --- reading -------------------------------------------------------------------------------

    async def get_document_by_id(self, document_id: str) -> Document | None:
        """The document with its content, or None."""

        async def look(snapshot: "Snapshot") -> Document | None:
            row = await snapshot.get(document_id)
            return _document(row, await snapshot.content(row)) if row else None

        return await self._store.read(look)

    async def get_document_by_uri(self, uri: str | Path) -> Document | None:
        """The document with its content, or None. A path is taken as its `file://` URI."""
        named = str(uri)

        async def look(snapshot: "Snapshot") -> Document | None:
            row = await snapshot.get_by_uri(named)
            if row is None and not uris.is_uri(named) and not named.startswith("urn:"):
                row = await snapshot.get_by_uri(uris.path_to_uri(uri))
            return _document(row, await snapshot.content(row)) if row else None

        return await self._store.read(look)

    async def list_documents(
        self, limit: int | None = None, offset: int = 0, filter: str | None = None
    ) -> list[Document]:
        """Documents without their content, newest first.

        Raises:
            FilterError: `filter` is outside the filter language.
        """
        where = _where(filter)
        rows = await self._store.read(lambda s: s.rows(where, limit=limit, offset=offset))
        return [_document(row) for row in rows]

    async def count_documents(self, filter: str | None = None) -> int:
        """How many documents there are, or how many match."""
        where = _where(filter)
        return await self._store.read(lambda snapshot: snapshot.count(where))

    async def search(
        self,
        query: str,
        limit: int | None = None,
        search_type: SearchType = "hybrid",
        filter: str | None = None,
    ) -> list[SearchResult]:
        """The best hits for a query, best first.

        Args:
            query: plain words; never parsed as a query language.
            limit: how many; None: `search.limit`.
            search_type: "hybrid" (vector and full text, fused), "vector" or "fts".
            filter: SQL boolean expression over id, uri, title, created_at, updated_at, metadata.

        Raises:
            FilterError, EmbedError.
        """
        from haiku.rag.search import search

        embedder, where = self._query_embedder(), _where(filter)
        return await self._store.read(
            lambda snapshot: search(
                snapshot,
                embedder,
                query,
                limit=limit if limit is not None else self.config.search.limit,
                search_type=search_type,
                where=where,
            )
        )

    async def expand_context(self, results: Sequence[SearchResult]) -> list[SearchResult]:
        """The hits with the text around them, within `search.max_context_chars`."""
        from haiku.rag.search import expand_context

        most = self.config.search.max_context_chars
        return await self._store.read(
            lambda snapshot: expand_context(snapshot, results, max_chars=most)
        )

    async def info(self) -> "StoreInfo":
        """Counts, versions, sizes, identity and index coverage of the database."""
        return await self._store.info()

    async def warm(self) -> None:
        """Load the embedder, so that the first search does not wait for it.

        May be called before the database is opened, to run beside it.
        """
        await self._query_embedder().warm()

    # --- states of the past --------------------------------------------------------------------

    async def create_tag(self, name: str) -> "Tag":
        """Name the state of this moment; other processes may go on writing.

        What it needs stays until the tag is deleted.

        Raises:
            TagExists: a tag of that name is there, perhaps a partial one.
            StoreError: the name is not allowed: letters from a to z, digits, ".", "-", "_".
            ReadOnly.
        """
        self._check_writable()
        return await self._store.create_tag(name)

    async def list_tags(self) -> "list[Tag]":
        """Every tag, the oldest first. Partial ones, which lack some tables, are listed too."""
        return await self._store.list_tags()

    async def restore_tag(self, name: str) -> "RestoreReport":
        """Make the state that a tag names today's; a safety tag keeps today's before.

        Nothing is converted or embedded. A daemon that keeps the database in step holds its
        sources from then on, until a person says which side is right. When nothing differs,
        nothing is done, and `safety_tag` is None.

        Raises:
            TagNotFound, TagUnusable: there is no tag of that name, or it is partial.
            IdentityMismatch, SchemaMismatch: its rows would not fit beside today's.
            StoreBusy, ReadOnly: nothing was changed.
        """
        self._check_writable()
        return await self._store.restore_tag(name)

    async def delete_tag(self, name: str) -> "Tag":
        """Delete a tag, also a partial one; what only it needs may then be cleaned up.

        Raises:
            TagNotFound, ReadOnly.
        """
        self._check_writable()
        return await self._store.delete_tag(name)

    async def vacuum(
        self, history: "float | timedelta | None" = None, *, full: bool = True
    ) -> "VacuumReport":
        """Take away all that nobody needs any more; safe beside readers and writers.

        What was needed within the last `storage.collect_after`, or is tagged, stays: the report
        says what has to wait. Failures are in the report, never raised.

        Args:
            history: for how long superseded versions stay readable, in seconds; None: as
                `storage.history` says.
            full: also look for rows that a crash left.

        Raises:
            ReadOnly.
        """
        self._check_writable()
        return await self._store.vacuum(history, full=full)

    async def history(self, limit: int = 20) -> "list[HistoryEntry]":
        """The newest commits whose states can still be read, the newest first."""
        return await self._store.history(limit)

    # --- another embedder ----------------------------------------------------------------------

    @staticmethod
    async def rebuild(
        db_path: str | Path | None = None,
        *,
        config: AppConfig | None = None,
        to: str | Path | None = None,
        progress: "Progress | None" = None,
    ) -> "RebuildReport":
        """Make a database anew for the embedder and the chunker that are configured now.

        Everything comes from the database itself: no source is read, nothing is converted. It is
        searched and written to as before meanwhile, by clients with the old configuration, and what
        they commit is taken over. Ids, URIs, titles, metadata, owners and times stay. Tags do not:
        they name states of the old database, which is kept in a folder of its own.

        Args:
            db_path: the database; None: as for the constructor.
            config: the new configuration; None: loaded from file and environment.
            to: make the new database there and leave the old one as it is; for a remote database
                the only way. None: the new one takes the place of the old one at the end, and
                clients that have it open get `DatabaseReplaced` and open it again.
            progress: called with the numbers of documents that are done and of all.

        Raises:
            DatabaseNotFound: there is none.
            DatabaseExists: there is one at `to` already.
            StoreBusy: another rebuild has begun since, or writers were too fast; run it again.
            EmbedError, ConfigError, StoreError: the old database is as it was; what was done so
                far stays for the next try.
        """
        from haiku.rag.write.rebuild import rebuild

        used = config if config is not None else load_config()
        place = database_path(used, db_path)
        new = None if to is None else str(to)
        return await rebuild(place, used, to=new, progress=progress)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _store(self) -> "Store":
        if self._opened is None:
            raise RuntimeError("use `async with HaikuRAG(…) as client:` before calling it")
        return self._opened

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(
                f"{self.path} was opened read-only; open it without read_only and as_of to write"
            )

    def _writing(self) -> "WriteSession":
        self._check_writable()
        return self._session_for_steps()

    def _session_for_steps(self) -> "WriteSession":
        if self._session is None:
            from haiku.rag.write.session import WriteSession

            self._session = WriteSession(self._store, self._query_embedder(), self.config)
        return self._session

    def _query_embedder(self) -> "Embedder":
        if self._embedder is None:
            from haiku.rag.embed import create_embedder

            self._embedder = create_embedder(self.config.embeddings)
        return self._embedder

    async def _row(self, document_id: str) -> "Row":
        row = await self._store.read(lambda snapshot: snapshot.get(document_id))
        if row is None:
            raise DocumentNotFound(f"no document has the id {document_id}")
        return row

    async def _full(self, row: "Row") -> Document:
        content = await self._store.read(lambda snapshot: snapshot.content(row))
        return _document(row, content)


def _where(expression: str | None) -> str | None:
    if expression is None or not expression.strip():
        return None
    from haiku.rag.search.filters import parse_filter

    return parse_filter(expression).sql


def _document(row: "Row", content: str = "") -> Document:
    return Document(
        id=row.id,
        uri=row.uri,
        title=row.title,
        content=content,
        metadata=dict(row.metadata),
        content_type=row.content_type,
        content_hash=row.content_hash,
        revision=row.revision,
        chunk_count=row.chunk_count,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _chunk(chunk: NewChunk, order: int) -> Chunk:
    return Chunk(
        content=chunk.content,
        order=order,
        headings=list(chunk.headings),
        labels=list(chunk.labels),
        page_numbers=list(chunk.page_numbers),
        doc_item_refs=list(chunk.doc_item_refs),
        metadata=dict(chunk.metadata),
    )
