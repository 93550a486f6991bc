"""The `local` provider: the embedded model, without a server, a key or a download."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import platformdirs

from haiku.rag.embed import engines, minilm
from haiku.rag.embed.tokenizers import encodable
from haiku.rag.exceptions import EmbedderUnavailable
from haiku.rag.records import EmbeddingIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Lengths are padded up to a multiple of this, so that few shapes are compiled.
LENGTH_STEP = 16
#: Texts in one batch, however short they are.
MAX_BATCH = 64


def default_cache_dir() -> Path:
    """Where compiled models are kept: the user's cache folder."""
    return platformdirs.user_cache_path("haiku.rag") / "models"


class LocalEmbedder:
    """all-MiniLM-L6-v2 on this machine's processors. Loaded on first use, once.

    Texts are cut at 256 tokens, pooled by their mean and normalised. Everything runs in threads;
    any number of callers may call at once, from any event loop.
    """

    identity = EmbeddingIdentity(provider="local", name=minilm.NAME, dim=minilm.DIM)
    max_tokens = minilm.MAX_TOKENS

    def __init__(self, *, cache_dir: Path | None = None, streams: int | None = None) -> None:
        """Nothing is loaded yet.

        Args:
            cache_dir: folder for compiled models; None: the user's cache folder.
            streams: batches computed at once; None: one a processor.
        """
        self._cache_dir = cache_dir or default_cache_dir()
        self._streams = streams
        self._lock = threading.Lock()
        self._loaded: tuple[_Encoder, engines.Engine] | None = None
        self._documents: ThreadPoolExecutor | None = None
        # Apart from the documents' threads, so that a query never queues behind them.
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        self._closed = False

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), 384)."""
        if not texts:
            return np.empty((0, minilm.DIM), np.float32)
        encoder, engine = await asyncio.to_thread(self._load)
        ids = await asyncio.to_thread(encoder.ids, texts)
        vectors = np.empty((len(texts), minilm.DIM), np.float32)

        def run(batch: list[int]) -> None:
            vectors[batch] = engine.run(*_pad([ids[i] for i in batch]))

        assert self._documents is not None
        await _all([self._documents.submit(run, b) for b in _batches(ids, engine.batch_tokens)])
        return vectors

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The unit vector of a query, shape (384,)."""
        return await asyncio.get_running_loop().run_in_executor(self._queries, self._one, text)

    async def warm(self) -> None:
        """Load the model."""
        await asyncio.get_running_loop().run_in_executor(self._queries, self._load)

    async def close(self) -> None:
        """End the threads and free the model, once the batches under way are through."""
        await asyncio.to_thread(self._close)

    def _one(self, text: str) -> NDArray[np.float32]:
        encoder, engine = self._load()
        row: NDArray[np.float32] = engine.run(*_pad(encoder.ids([text])))[0]
        return row

    def _load(self) -> tuple[_Encoder, engines.Engine]:
        with self._lock:
            if self._closed:
                raise EmbedderUnavailable("the embedder is closed; open another one")
            if self._loaded is None:
                with ThreadPoolExecutor(1) as beside:
                    encoder = beside.submit(_Encoder)
                    engine = engines.load_engine(self._cache_dir, self._streams)
                    self._loaded = encoder.result(), engine
                self._documents = ThreadPoolExecutor(engine.streams, thread_name_prefix="embed")
            return self._loaded

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._loaded = None
            pools = [pool for pool in (self._documents, self._queries) if pool]
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)


class _Encoder:
    """Texts to token ids, cut at what the model reads."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_buffer(minilm.read_tokenizer())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(minilm.MAX_TOKENS)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of every text, markers included; never empty."""
        encodings = self._tokenizer.encode_batch_fast([encodable(text) for text in texts])
        return [encoding.ids for encoding in encodings]


async def _all(jobs: list[Future[None]]) -> None:
    """Wait for every job; when one fails or the caller leaves, drop those not begun."""
    try:
        await asyncio.gather(*map(asyncio.wrap_future, jobs))
    finally:
        for job in jobs:
            job.cancel()


def _padded(length: int) -> int:
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def _batches(ids: list[list[int]], limit: int) -> Iterator[list[int]]:
    """Indices in batches of like length whose padded tokens stay within the limit."""
    batch: list[int] = []
    width = 0
    # Longest first: the last batches are short ones, so that all processors end together.
    for index in sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True):
        if batch and (len(batch) == MAX_BATCH or width * (len(batch) + 1) > limit):
            yield batch
            batch = []
        if not batch:
            width = _padded(len(ids[index]))
        batch.append(index)
    if batch:
        yield batch


def _pad(rows: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Token ids and mask, both of shape (len(rows), padded length)."""
    width = _padded(max(map(len, rows)))
    ids = np.zeros((len(rows), width), np.int32)
    mask = np.zeros((len(rows), width), np.float32)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return ids, mask
