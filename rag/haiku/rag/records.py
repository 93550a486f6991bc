"""What the write path hands from room to room: plain data, cheap to import and to pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingIdentity:
    """What vectors came from. Two embedders with one identity give interchangeable vectors."""

    provider: str
    name: str
    #: Length of a vector.
    dim: int

    def __str__(self) -> str:
        return f"{self.provider}:{self.name} ({self.dim})"

    def text_hash(self, text: str) -> str:
        """SHA-256 of the exact text under this identity, hexadecimal: the key of vector reuse."""
        prefix = f"{self.provider}\x00{self.name}\x00{self.dim}\x00"
        return sha256((prefix + text).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """Where an item stands: page from 1, points from the page's top left corner."""

    page: int
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NewItem:
    """One Docling element of a revision, in reading order."""

    #: Docling's self reference, e.g. "#/texts/4".
    ref: str
    #: Docling label, e.g. "paragraph", "section_header", "table", "picture".
    label: str
    #: "body" or "furniture".
    layer: str = "body"
    #: Heading level from 1; 0 for anything that is not a heading.
    level: int = 0
    #: Text, a table as Markdown, a picture's caption.
    text: str = ""
    #: The ref of the heading it stands under, or None.
    heading_ref: str | None = None
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NewChunk:
    """One chunk of a revision, as the chunker makes it."""

    #: The chunk's own text.
    content: str
    #: The exact text that is embedded and full-text indexed: headings and content.
    text: str
    headings: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    page_numbers: tuple[int, ...] = ()
    doc_item_refs: tuple[str, ...] = ()
    #: Tokens of `text` by the embedder's tokenizer, special tokens included.
    token_count: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
