"""The documented models that the client returns."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SearchType = Literal["hybrid", "vector", "fts"]


class Model(BaseModel):
    """Common settings: values are checked, unknown fields refused."""

    model_config = ConfigDict(extra="forbid")


class Document(Model):
    """A document as it stands in the database."""

    #: UUIDv7 string; stays the same when the document is changed or moved.
    id: str
    #: Where it came from, encoded; unique. `None` only before it is stored.
    uri: str
    title: str | None = None
    #: The text as Markdown. Empty in listings, which do not read it.
    content: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)
    #: Media type the content was recognised as, e.g. "application/pdf".
    content_type: str | None = None
    #: SHA-256 of the source's bytes, hexadecimal.
    content_hash: str | None = None
    #: UUIDv7 of the revision that is live.
    revision: str
    #: Number of chunks of that revision.
    chunk_count: int = 0
    #: UTC.
    created_at: datetime
    #: UTC; when the content or the metadata last changed.
    updated_at: datetime


class Chunk(Model):
    """A retrieval unit of a document."""

    id: str | None = None
    document_id: str | None = None
    #: The text of the chunk, without its headings.
    content: str
    #: The chunk's place in its document, from 0.
    order: int = 0
    #: The headings it stands under, outermost first.
    headings: list[str] = Field(default_factory=list)
    #: Docling labels of its items, e.g. "paragraph", "table".
    labels: list[str] = Field(default_factory=list)
    #: Pages it stands on, from 1; empty where the format has none.
    page_numbers: list[int] = Field(default_factory=list)
    #: Docling references of its items, e.g. "#/texts/4".
    doc_item_refs: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    #: The embedding, when it is given from outside or asked for.
    embedding: list[float] | None = None


class SearchResult(Model):
    """A hit: a chunk, its document, and its score."""

    chunk_id: str
    document_id: str
    document_uri: str
    document_title: str | None = None
    #: The revision of the document that the chunk belongs to; context is taken from no other.
    revision: str | None = None
    #: Chunk text; after `expand_context` the text around it as well.
    content: str
    #: Higher is better. Fused rank for "hybrid", cosine similarity for "vector", BM25 for "fts".
    score: float
    headings: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    page_numbers: list[int] = Field(default_factory=list)
    doc_item_refs: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
