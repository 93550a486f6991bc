"""What a worker process makes of one file, ready to be embedded."""

from dataclasses import dataclass

from haiku.rag.records import NewChunk, NewItem


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A converted and chunked document, without vectors."""

    #: From the document itself, or None.
    title: str | None
    #: Media type the bytes were recognised as; None for documents given ready-made.
    content_type: str | None
    #: The document as Markdown.
    content: str
    #: The DoclingDocument, packed; None when only chunks were given.
    docling: bytes | None
    items: tuple[NewItem, ...]
    chunks: tuple[NewChunk, ...]
    #: What the converter wants known, for people.
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes the rows take in memory, roughly: what bounds a group commit."""
        chunks = sum(2 * len(chunk.text) + 2_000 for chunk in self.chunks)
        return len(self.content) + len(self.docling or b"") + chunks + 200 * len(self.items)
