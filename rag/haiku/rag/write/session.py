"""What a client needs for writing, made on first use: workers, embedding queue, group commit."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from haiku.rag import uris
from haiku.rag.config import AppConfig
from haiku.rag.exceptions import Conflict, DocumentExists, HaikuRAGError
from haiku.rag.store.changes import ABSENT, NO_ROW, Put, Row, UpdateMeta
from haiku.rag.write.fetch import Fetched, expand, fetch
from haiku.rag.write.group import GroupCommitter
from haiku.rag.write.prepared import Prepared
from haiku.rag.write.writer import Writer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Store

TextFormat = Literal["md", "html", "plain"]

#: Format of given text → file name and media type it is converted as.
_TEXT_TYPES: dict[str, tuple[str, str]] = {
    "md": ("text.md", "text/markdown"),
    "html": ("text.html", "text/html"),
    "plain": ("text.txt", "text/plain"),
}
#: Providers whose vectors this machine's processors compute, and seconds of that in one request.
COMPUTED_HERE = ("local", "sentence-transformers")
BRIEF = 1.0
#: Times a write that lost against another writer is repeated before it is reported.
ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What became of one source."""

    uri: str
    #: The stored row, or None when it failed.
    row: Row | None
    #: Why it failed, or None.
    error: HaikuRAGError | None = None
    #: The stored content was already this; nothing was converted.
    unchanged: bool = False


class WriteSession:
    """Writes documents for one client. Close it to end its worker processes."""

    def __init__(
        self,
        store: "Store",
        embedder: "Embedder",
        config: AppConfig,
        *,
        older: "Store | None" = None,
    ) -> None:
        """Prepare; no process is started yet.

        Args:
            store: what is written to.
            embedder: makes the vectors.
            config: the configuration.
            older: another database, whose vectors are used as well.
        """
        from haiku.rag.convert.pool import WorkerPool
        from haiku.rag.embed import EmbedQueue, load_tokenizer

        self.store = store
        self.config = config
        pool = WorkerPool(config.processing)
        embeddings = config.embeddings
        queue = EmbedQueue(
            embedder,
            embeddings.batch,
            load_tokenizer(embeddings.model),
            max_attempts=embeddings.max_attempts,
            brief=BRIEF if embeddings.model.provider in COMPUTED_HERE else None,
        )
        self.writer = Writer(
            store=store, pool=pool, embedder=embedder, queue=queue, config=config, older=older
        )
        self.workers = pool.size
        #: What has happened to the conversion processes.
        self.worker_stats = pool.stats

    async def close(self) -> None:
        """End the worker processes."""
        await self.writer.close()

    async def prepare_text(self, content: str, text_format: TextFormat) -> Prepared:
        """Convert and chunk a text."""
        name, media_type = text_type(text_format)
        with tempfile.TemporaryDirectory(prefix="haiku-rag-") as folder:
            path = Path(folder) / name
            await asyncio.to_thread(path.write_bytes, content.encode("utf-8", "surrogatepass"))
            return await self.writer.prepare_file(path, name=name, declared=media_type, forced=True)

    async def change(
        self,
        uri: str,
        prepared: Prepared,
        *,
        expected: str = ABSENT,
        document_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        content_hash: str | None = None,
        vectors: "NDArray[np.float32] | None" = None,
    ) -> Put:
        """The change that stores a prepared document: embedded unless `vectors` are given."""
        return Put(
            uri=uri,
            id=document_id,
            revision=await self.writer.revise(prepared, vectors),
            expected=expected,
            title=title if title is not None else prepared.title,
            metadata=metadata or {},
            content_type=prepared.content_type,
            content_hash=content_hash,
            fingerprint=self.writer.fingerprint,
        )

    async def commit(self, change: Put | UpdateMeta) -> Row:
        """Commit one change.

        Raises:
            DocumentExists: it was to create a document, and there is one at the URI already.
            Conflict: another writer changed the document first.
        """
        (outcome,) = await self.store.commit([change])
        if outcome.result == "done" and outcome.row is not None:
            return outcome.row
        if isinstance(change, Put) and change.expected == ABSENT:
            raise taken(change.uri)
        raise Conflict(f"{change.uri} was changed by another writer; read it again and repeat")

    async def add(
        self,
        sources: Iterable[str | Path],
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Added]:
        """Add files, folders and URLs, several at once; yields each as it is done or has failed.

        A file whose bytes and pipeline are those already stored is left as it is.
        """
        wanted = iter(dict.fromkeys(uri for source in sources for uri in expand(source)))
        committer = GroupCommitter(self.store, window=0.02)
        running: set[asyncio.Task[Added]] = set()
        try:
            while True:
                while len(running) < 2 * self.workers and (uri := next(wanted, None)) is not None:
                    running.add(asyncio.create_task(self._add_one(uri, committer, title, metadata)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await committer.close()

    async def _unseen(self, uri: str) -> str:
        """What a creation expects: that nobody creates or deletes the document meanwhile."""
        snapshot = await self.store.snapshot()
        if await snapshot.get_by_uri(uri) is not None:
            return ABSENT  # somebody was faster: this try loses, and the next one sees it
        return await snapshot.row_version(uri) or NO_ROW

    async def _add_one(
        self,
        uri: str,
        committer: GroupCommitter,
        title: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> Added:
        try:
            with tempfile.TemporaryDirectory(prefix="haiku-rag-") as folder:
                fetched = await fetch(
                    uri, Path(folder), max_size=self.config.processing.max_file_size
                )
                return await self._store_fetched(fetched, committer, title, metadata)
        except HaikuRAGError as error:
            return Added(uri=uri, row=None, error=error)

    async def _store_fetched(
        self,
        fetched: Fetched,
        committer: GroupCommitter,
        title: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> Added:
        prepared: Prepared | None = None
        for _ in range(ATTEMPTS):
            row = await self.store.row(fetched.uri)
            expected = row.row_version if row else await self._unseen(fetched.uri)
            change: Put | UpdateMeta
            unchanged = row is not None and _same(row, fetched, self.writer.fingerprint)
            if row is not None and unchanged:
                if title is None and metadata is None:
                    return Added(uri=fetched.uri, row=row, unchanged=True)
                change = UpdateMeta(uri=row.uri, expected=expected, title=title, metadata=metadata)
                size = 0
            else:
                prepared = prepared or await self.writer.prepare_file(
                    fetched.path, name=fetched.name, declared=fetched.declared
                )
                change = await self.change(
                    fetched.uri,
                    prepared,
                    expected=expected,
                    title=title,
                    metadata=metadata if metadata is not None else (row.metadata if row else {}),
                    content_hash=fetched.content_hash,
                )
                size = prepared.size
            outcome = await committer.submit(change, size=size)
            if outcome.result == "done":
                return Added(uri=fetched.uri, row=outcome.row, unchanged=unchanged)
        raise Conflict(
            f"{uris.display(fetched.uri)} kept being changed by another writer; try again"
        )


def text_type(text_format: str) -> tuple[str, str]:
    """File name and media type under which a text of the format is converted.

    Raises:
        ValueError: an unknown format.
    """
    try:
        return _TEXT_TYPES[text_format]
    except KeyError:
        known = ", ".join(_TEXT_TYPES)
        raise ValueError(f"unknown text format {text_format!r}; use one of {known}") from None


def taken(uri: str) -> DocumentExists:
    """The error for a document that was to be new at a URI that has one."""
    return DocumentExists(
        f"a document is already stored at {uri}; update or delete it, or choose another uri"
    )


def _same(row: Row, fetched: Fetched, fingerprint: str) -> bool:
    return row.content_hash == fetched.content_hash and row.fingerprint == fingerprint
