"""F39: from 384 to 768 dimensions with real parts, while the old database is searched."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.acceptance.embedding import EmbeddingServer, vector

from haiku.rag import ids
from haiku.rag.client import HaikuRAG
from haiku.rag.config import AppConfig
from haiku.rag.exceptions import DatabaseReplaced, IdentityMismatch
from haiku.rag.models import Chunk
from haiku.rag.records import NewChunk
from haiku.rag.store import Store
from haiku.rag.store.changes import NewRevision, Put

DIM = 768
LONG = "# Pumps\n\n" + "\n\n".join(
    f"The gearbox of pump {n} is oiled every {n + 2} weeks by the night shift." for n in range(12)
)


class WideServer(EmbeddingServer):
    """Answers with 768 numbers a text, when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let = threading.Event()
        self.texts: list[str] = []

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        settings["model"] |= {"name": "wide", "vector_dim": DIM}
        return settings | {"timeout": 60.0}

    def answer(self, texts: list[str]) -> tuple[int, dict[str, str], dict[str, Any]]:
        self.texts += texts
        self.asked.set()
        self.let.wait(60)
        data = [{"index": i, "embedding": vector(text, DIM)} for i, text in enumerate(texts)]
        return 200, {}, {"data": data}


@pytest.fixture
def server() -> Iterator[WideServer]:
    with WideServer() as server:
        yield server
        server.let.set()


@pytest.fixture
def narrow() -> AppConfig:
    return AppConfig.model_validate({"processing": {"workers": 1}})


@pytest.fixture
def wide(server: WideServer) -> AppConfig:
    return AppConfig.model_validate(
        {"embeddings": server.settings(), "processing": {"workers": 1, "chunk_size": 48}}
    )


async def unreadable(store: Store) -> None:
    """A document whose Docling document no program of today can read."""
    chunk = NewChunk(content="kettle", text="The kettle is descaled.", token_count=6)
    revision = NewRevision(
        revision=ids.new_id(),
        content="The kettle is descaled.",
        docling=b"of another age",
        chunks=[chunk],
        vectors=np.full((1, 384), 384**-0.5, np.float32),
    )
    await store.commit([Put(uri="urn:old", revision=revision, fingerprint="then")])


async def chunk_texts(client: HaikuRAG, document_id: str) -> list[str]:
    async def look(snapshot: Any) -> list[str]:
        row = await snapshot.get(document_id)
        return [chunk.content for chunk in await snapshot.chunks(row)]

    return await client._store.read(look)


async def test_another_embedder_and_chunk_size(
    tmp_path: Path, server: WideServer, narrow: AppConfig, wide: AppConfig
) -> None:
    path = tmp_path / "docs.lancedb"
    async with HaikuRAG(path, config=narrow, create=True) as old:
        long = await old.create_document(LONG, "urn:long", metadata={"n": 1})
        short = await old.create_document("Lunch is served at noon.", "urn:short", "Lunch")
        own = [Chunk(content="Eggs are fried."), Chunk(content="Bread is baked.")]
        short = await old.update_document(short.id, chunks=own)
        await unreadable(old._store)
        with pytest.raises(IdentityMismatch, match=f"`haiku-rag rebuild --db {path}`"):
            await HaikuRAG(path, config=wide).__aenter__()

        making = asyncio.create_task(HaikuRAG.rebuild(path, config=wide))
        assert await asyncio.to_thread(server.asked.wait, 60)
        # It is under way: the old one is searched and written to.
        assert (await old.search("gearbox of pump 7"))[0].document_uri == "urn:long"
        added = await old.create_document("Umbrellas are lent at the gate.", "urn:late")
        assert (await old.search("umbrella"))[0].document_id == added.id
        server.let.set()
        report = await making
        with pytest.raises(DatabaseReplaced, match="open it again"):
            await old.search("umbrella")

    assert (report.documents, report.kept_chunks, report.embedder[-5:]) == (4, 1, "(768)")
    assert list(report.not_chunked) == ["urn:old"]
    async with HaikuRAG(path, config=wide) as new:
        document = await new.get_document_by_uri("urn:long")
        assert document is not None
        assert (document.id, document.content, document.metadata) == (long.id, LONG, {"n": 1})
        assert document.created_at == long.created_at
        assert document.updated_at == long.updated_at
        assert document.chunk_count > long.chunk_count  # of 48 tokens, not 256
        kept = await new.get_document_by_uri("urn:short")
        assert kept is not None
        assert (kept.title, kept.chunk_count) == ("Lunch", 2)
        assert await chunk_texts(new, short.id) == ["Eggs are fried.", "Bread is baked."]
        for query, uri in [
            (server.texts[0], None),
            ("Umbrellas are lent at the gate.", "urn:late"),
            ("Eggs are fried.", "urn:short"),
            ("The kettle is descaled.", "urn:old"),
        ]:
            for kind in ("vector", "hybrid"):
                hits = await new.search(query, limit=1, search_type=kind)  # type: ignore[arg-type]
                assert uri is None or hits[0].document_uri == uri, (query, kind)
        rows = await new._store.read(lambda snapshot: snapshot.rows())
        outdated = [row.uri for row in rows if row.fingerprint == "then"]
        assert outdated == ["urn:old"]

    # Another chunk size and the same embedder: what is known is not embedded again.
    server.texts.clear()
    same = wide.model_copy(
        update={"processing": wide.processing.model_copy(update={"chunk_size": 64})}
    )
    again = await HaikuRAG.rebuild(path, config=same)
    assert again.rebuilt
    assert again.reused >= 4
    assert len(server.texts) == again.embedded
