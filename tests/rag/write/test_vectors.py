"""Vectors of a document's chunks: reused, embedded once, a bounded slice at a time."""

import hashlib

import numpy as np
import pytest

from haiku.rag import ids
from haiku.rag.config import AppConfig
from haiku.rag.convert.pool import WorkerPool
from haiku.rag.embed import EmbedQueue, load_tokenizer
from haiku.rag.records import EmbeddingIdentity, NewChunk
from haiku.rag.store import Store
from haiku.rag.store.changes import NewRevision, Put
from haiku.rag.write import Writer, writer

DIM = 8


def vector(text):
    row = np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIM], np.uint8) + 1.0
    return (row / np.linalg.norm(row)).astype(np.float32)


class Embedder:
    """A vector for each text, and what it was asked."""

    identity = EmbeddingIdentity(provider="test", name="hash", dim=DIM)
    max_tokens = 256

    def __init__(self):
        self.texts = []

    async def embed_documents(self, texts):
        self.texts += texts
        return np.stack([vector(text) for text in texts])

    async def embed_query(self, text):
        return vector(text)

    async def warm(self):
        pass

    async def close(self):
        pass


@pytest.fixture
async def made(tmp_path, monkeypatch):
    """A writer over a real store, and how many hashes each of its look-ups had."""
    monkeypatch.setattr(writer, "SLICE", 10)
    config, embedder = AppConfig(), Embedder()
    async with await Store.create(tmp_path / "db", embedder.identity, config.storage) as store:
        looked, look = [], store.known_vectors

        async def known_vectors(hashes):
            looked.append(len(hashes))
            return await look(hashes)

        monkeypatch.setattr(store, "known_vectors", known_vectors)
        embeddings = config.embeddings
        queue = EmbedQueue(embedder, embeddings.batch, load_tokenizer(embeddings.model))
        pool = WorkerPool(config.processing)
        one = Writer(store=store, pool=pool, embedder=embedder, queue=queue, config=config)
        yield one, embedder, looked
        await one.close()


def chunks(texts):
    return [NewChunk(content=text, text=text, token_count=3) for text in texts]


async def store_them(one, found, vectors):
    revision = NewRevision(
        revision=ids.new_id(), content="", docling=None, chunks=found, vectors=vectors, items=[]
    )
    await one.store.commit([Put(uri="file:///a", revision=revision)])


async def test_every_chunk_has_its_own_vector_and_equal_texts_are_embedded_once(made):
    one, embedder, looked = made
    texts = [f"text {n % 23}" for n in range(57)]
    found = await one.vectors(chunks(texts))
    assert np.array_equal(found, np.stack([vector(text) for text in texts]))
    assert sorted(embedder.texts) == sorted(set(texts))
    assert (one.embedded, one.reused) == (23, 34)
    # Slices of ten places: what an earlier one had is not looked up again.
    assert looked == [10, 10, 3]


async def test_stored_vectors_are_used_in_every_slice(made):
    one, embedder, _ = made
    before = [f"text {n}" for n in range(35)]
    await store_them(one, chunks(before), await one.vectors(chunks(before)))
    embedder.texts.clear()
    after = [*before[:12], "changed", *before[13:], *before[:5]]
    found = await one.vectors(chunks(after))
    assert np.array_equal(found, np.stack([vector(text) for text in after]))
    assert embedder.texts == ["changed"]
    assert (one.embedded, one.reused) == (36, 39)


async def test_chunks_without_counts_are_counted(made):
    one, _, _ = made
    found = await one.vectors([NewChunk(content="a", text="a"), *chunks(["b"])])
    assert np.array_equal(found, np.stack([vector("a"), vector("b")]))


async def test_no_chunks(made):
    one, embedder, looked = made
    assert (await one.vectors([])).shape == (0, DIM)
    assert not embedder.texts
    assert not looked
