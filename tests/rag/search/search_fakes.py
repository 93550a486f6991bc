"""A snapshot and an embedder in memory, for tests of what happens between them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from haiku.rag.models import SearchResult
from haiku.rag.records import Box, EmbeddingIdentity, NewItem
from haiku.rag.store import Found, Hit, StoredChunk
from haiku.rag.store.changes import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def row(document_id: str = "d", revision: str = "r1") -> Row:
    return Row(
        uri=f"file:///{document_id}.md",
        id=document_id,
        revision=revision,
        state="live",
        row_version="v",
        title=document_id.title(),
        metadata={},
        content_type=None,
        content_hash=None,
        fingerprint=None,
        sources={},
        chunk_count=1,
        item_count=1,
        created_at=NOW,
        updated_at=NOW,
    )


def hit(chunk_id: str, score: float, document_id: str = "d") -> Hit:
    chunk = StoredChunk(
        id=chunk_id,
        document_id=document_id,
        revision="r1",
        order=0,
        content=f"content of {chunk_id}",
        text="",
        headings=["H"],
        labels=["text"],
        page_numbers=[1],
        doc_item_refs=["#/texts/0"],
        token_count=1,
        metadata={"k": 1},
    )
    return Hit(chunk=chunk, row=row(document_id), score=score)


def _found(hits: Sequence[Hit]) -> list[Found]:
    return [Found(chunk_id=h.chunk.id, revision=h.chunk.revision, score=h.score) for h in hits]


@dataclass
class FakeSnapshot:
    """Answers with what it was given, and remembers what it was asked."""

    vector_hits: list[Hit] = field(default_factory=list)
    text_hits: list[Hit] = field(default_factory=list)
    documents: dict[str, list[NewItem]] = field(default_factory=dict)
    revision: str = "r1"
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    #: Set when the full-text search has begun.
    text_begun: asyncio.Event = field(default_factory=asyncio.Event)
    text_error: Exception | None = None
    #: Set when the full-text search was cancelled.
    text_cancelled: bool = False
    text_waits: bool = False

    async def vector_search(self, vector: Any, limit: int, where: str | None = None) -> list[Found]:
        self.calls.append(("vector", limit, where))
        return _found(self.vector_hits[:limit])

    async def text_search(self, query: str, limit: int, where: str | None = None) -> list[Found]:
        self.calls.append(("text", query, limit, where))
        self.text_begun.set()
        if self.text_error is not None:
            raise self.text_error
        try:
            await asyncio.sleep(60 if self.text_waits else 0)
        except asyncio.CancelledError:
            self.text_cancelled = True
            raise
        return _found(self.text_hits[:limit])

    async def hits(self, found: Sequence[Found]) -> list[Hit]:
        chunks = {h.chunk.id: h for h in (*self.vector_hits, *self.text_hits)}
        return [replace(chunks[one.chunk_id], score=one.score) for one in found]

    async def get(self, document_id: str) -> Row | None:
        return row(document_id, self.revision) if document_id in self.documents else None

    async def items(self, of: Row) -> list[NewItem]:
        return self.documents[of.id]


@dataclass
class FakeEmbedder:
    """One vector for every text; may wait for an event or fail first."""

    after: asyncio.Event | None = None
    error: Exception | None = None
    texts: list[str] = field(default_factory=list)
    identity = EmbeddingIdentity(provider="fake", name="fake", dim=2)
    max_tokens = 256

    async def embed_query(self, text: str) -> Any:
        self.texts.append(text)
        if self.after is not None:
            await self.after.wait()
        if self.error is not None:
            raise self.error
        return np.array([1, 0], dtype=np.float32)


def item(number: int, text: str, *, under: int | None = None, **more: Any) -> NewItem:
    """The item `#/texts/<number>`; `under` is the number of its heading."""
    page = more.pop("page", None)
    boxes = (Box(page=page, left=0, top=0, right=1, bottom=1),) if page else ()
    heading = None if under is None else f"#/texts/{under}"
    label = more.pop("label", "section_header" if more.get("level") else "text")
    return NewItem(
        ref=f"#/texts/{number}", label=label, text=text, heading_ref=heading, boxes=boxes, **more
    )


def result(content: str, *numbers: int, score: float = 1.0, **more: Any) -> SearchResult:
    """A hit on items of document "d"."""
    defaults: dict[str, Any] = {
        "chunk_id": f"c{numbers}",
        "document_id": "d",
        "document_uri": "file:///d.md",
        "doc_item_refs": [f"#/texts/{number}" for number in numbers],
        "score": score,
    }
    return SearchResult(content=content, **{**defaults, **more})
