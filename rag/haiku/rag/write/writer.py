"""Turns files and documents into revisions: the steps before the commit."""

import asyncio
import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from haiku.rag import ids
from haiku.rag.config import AppConfig
from haiku.rag.records import NewChunk
from haiku.rag.store.changes import NewRevision
from haiku.rag.write import worker
from haiku.rag.write.prepared import Prepared

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.convert.pool import WorkerPool
    from haiku.rag.embed import EmbedQueue
    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Store

#: Chunks of one document that are looked up and embedded at a time.
SLICE = 1024


def pipeline_fingerprint(config: AppConfig) -> str:
    """What makes a revision: converter and options, chunker, embedder, as 16 hexadecimal digits.

    Documents whose fingerprint is another are outdated, whatever their bytes.
    """
    from haiku.rag.chunk import chunker_version
    from haiku.rag.convert import pipeline_version
    from haiku.rag.embed import identity, max_tokens

    parts = {
        "convert": pipeline_version(config.processing),
        "chunk": chunker_version(config.processing),
        "tokens": max_tokens(config.embeddings.model),
        "embed": str(identity(config.embeddings.model)),
    }
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def todays_fingerprint(config: AppConfig) -> str:
    """The fingerprint that a `Writer` with this configuration has.

    Raises:
        ConfigError: the configured PDF pipeline cannot run.
    """
    return pipeline_fingerprint(_settled(config))


def _settled(config: AppConfig) -> AppConfig:
    from haiku.rag.convert import settle

    return config.model_copy(update={"processing": settle(config.processing)})


class Writer:
    """Prepares documents in worker processes and gives them vectors. Safe for concurrent use."""

    def __init__(
        self,
        *,
        store: "Store",
        pool: "WorkerPool",
        embedder: "Embedder",
        queue: "EmbedQueue",
        config: AppConfig,
        older: "Store | None" = None,
    ) -> None:
        """Settle what converts.

        Vectors are taken from `older` as well, where its embedder is the same.

        Raises:
            ConfigError: the configured PDF pipeline cannot run.
        """
        self.store = store
        self.config = _settled(config)
        self.fingerprint = pipeline_fingerprint(self.config)
        #: Vectors taken from earlier revisions instead of embedding their text again.
        self.reused = 0
        #: Texts embedded.
        self.embedded = 0
        self._sources = [store]
        if older is not None and older.identity == store.identity:
            self._sources.append(older)
        self._pool = pool
        self._embedder = embedder
        self._queue = queue

    async def warm(self) -> None:
        """Start the workers, have them import what they need, and load the embedder."""
        await asyncio.gather(self._pool.warm(worker.warm_up, self.config), self._embedder.warm())

    async def prepare_file(
        self,
        path: Path,
        *,
        name: str,
        declared: str | None = None,
        forced: bool = False,
        patience: float | None = None,
    ) -> Prepared:
        """Convert and chunk a local file in a worker process.

        After `patience` seconds (None: never) it may be ended while all workers are at slow files
        and others wait.

        Raises:
            ConvertError: any of its tree.
        """
        return await self._pool.run(
            worker.prepare_file, str(path), name, declared, self.config, forced, patience=patience
        )

    async def prepare_packed(self, packed: bytes, *, title: str | None = None) -> Prepared:
        """Chunk a packed DoclingDocument in a worker process."""
        return await self._pool.run(worker.prepare_packed, packed, self.config, title)

    async def convert(
        self, path: Path, *, name: str, declared: str | None = None, forced: bool = False
    ) -> bytes:
        """Convert a local file in a worker process, and pack the document."""
        return await self._pool.run(
            worker.convert_only, str(path), name, declared, self.config, forced
        )

    async def chunk(self, packed: bytes) -> list[NewChunk]:
        """The chunks of a packed document, made in a worker process."""
        return await self._pool.run(worker.chunk_packed, packed, self.config)

    async def revise(
        self, prepared: Prepared, vectors: "NDArray[np.float32] | None" = None
    ) -> NewRevision:
        """The revision of a prepared document.

        Args:
            prepared: the document.
            vectors: shape (len(chunks), dim); None: known texts keep theirs, others are embedded.

        Raises:
            EmbedError: the texts could not be embedded.
        """
        if vectors is None:
            vectors = await self.vectors(prepared.chunks)
        return NewRevision(
            revision=ids.new_id(),
            content=prepared.content,
            docling=prepared.docling,
            chunks=prepared.chunks,
            vectors=vectors,
            items=prepared.items,
        )

    async def vectors(self, chunks: Sequence[NewChunk]) -> "NDArray[np.float32]":
        """Vectors of shape (len(chunks), dim) for the chunks' texts.

        Equal texts are embedded once. A long document is looked up and queued a slice at a time,
        so that what it needs beside the result does not grow with it.

        Raises:
            EmbedError: the texts could not be embedded.
        """
        import numpy as np

        identity = self.store.identity
        result = np.empty((len(chunks), identity.dim), dtype=np.float32)
        #: Hash → the first place that has it, of the whole document.
        first: dict[str, int] = {}
        for start in range(0, len(chunks), SLICE):
            fresh: dict[str, int] = {}
            repeated: list[tuple[int, int]] = []
            for place in range(start, min(start + SLICE, len(chunks))):
                digest = identity.text_hash(chunks[place].text)
                before = first.setdefault(digest, place)
                if before == place:
                    fresh[digest] = place
                else:
                    repeated.append((place, before))
            if fresh:
                await self._fill(result, chunks, fresh)
            for place, before in repeated:
                result[place] = result[before]
            self.reused += len(repeated)
        return result

    async def _fill(
        self, result: "NDArray[np.float32]", chunks: Sequence[NewChunk], fresh: dict[str, int]
    ) -> None:
        """Set the rows of the places (by hash): vectors that are stored already, or new ones."""
        unknown = dict(fresh)
        for source in self._sources:
            known = await source.known_vectors(list(unknown))
            for digest, vector in known.items():
                result[unknown.pop(digest)] = vector
            self.reused += len(known)
        if missing := list(unknown.values()):
            counts = [chunks[place].token_count for place in missing]
            result[missing] = await self._queue.embed(
                [chunks[place].text for place in missing],
                # Chunks that a caller made are not counted yet.
                tokens=counts if all(counts) else None,
            )
            self.embedded += len(missing)

    async def close(self, grace: float = 0.0) -> None:
        """End the workers and the embedding queue."""
        await asyncio.gather(self._pool.close(grace), self._queue.close())
