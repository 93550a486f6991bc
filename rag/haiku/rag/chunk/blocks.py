"""From a document to blocks: text in reading order, with the headings over it and its items.

Docling's HierarchicalChunker walks the document; the serializers here say how an item reads in a
chunk: as plain text that a person would quote, without Markdown's emphasis, links and escapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docling_core.transforms.chunker.hierarchical_chunker import (
    ChunkingDocSerializer,
    ChunkingSerializerProvider,
    HierarchicalChunker,
)
from docling_core.transforms.serializer.common import create_ser_result
from docling_core.transforms.serializer.markdown import (
    MarkdownParams,
    MarkdownPictureSerializer,
    MarkdownTextSerializer,
)
from docling_core.types.doc.items.code import CodeItem
from docling_core.types.doc.items.text import (
    FormulaItem,
    ListItem,
    SectionHeaderItem,
    TextItem,
    TitleItem,
)

from haiku.rag.chunk import tables
from haiku.rag.embed.tokenizers import encodable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from docling_core.transforms.chunker.doc_chunk import DocChunk
    from docling_core.transforms.serializer.base import BaseDocSerializer, SerializationResult
    from docling_core.types.doc.document import DoclingDocument
    from docling_core.types.doc.items.node import DocItem

#: How far behind where it should be an item's text is looked for.
SEARCH_WINDOW = 4096
#: Characters of an item's text that identify its place.
NEEDLE = 40


@dataclass(frozen=True, slots=True)
class Place:
    """An item of the document and where its text begins in a block."""

    start: int
    ref: str
    label: str
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the document that belongs together: a paragraph, a list, a table."""

    text: str
    #: The headings it stands under, outermost first.
    headings: tuple[str, ...]
    places: tuple[Place, ...]
    #: Repeated over every further piece when the block is split: a Markdown table's header.
    header: str = ""
    #: Where the block's body begins behind that header.
    body: int = 0


def blocks(
    document: DoclingDocument, table_format: Literal["narrative", "markdown"]
) -> Iterator[Block]:
    """The document's body in reading order. Furniture is left out."""
    chunker = HierarchicalChunker(
        serializer_provider=_Provider(table_format=table_format), always_emit_headings=True
    )
    for chunk in chunker.chunk(document):
        block = _block(chunk, table_format)  # type: ignore[arg-type]
        if block.text.strip():
            yield block


def _block(chunk: DocChunk, table_format: str) -> Block:
    headings = [encodable(text).replace("\0", "�") for text in chunk.meta.headings or ()]
    text = encodable(chunk.text).replace("\0", "�")
    items: Sequence[DocItem] = chunk.meta.doc_items
    if not text and headings:
        # A section without content: its heading is what there is to find.
        text = headings.pop()
        items = items[-1:]
    header, body = tables.header_of(text) if table_format == "markdown" else ("", 0)
    named = tuple(heading for heading in headings if heading.strip())
    return Block(text, named, tuple(_places(text, items)), header, body)


def _places(text: str, items: Sequence[DocItem]) -> Iterator[Place]:
    """Where each item begins: with its line, or its text where the line has others before it.

    Items stand in order; one whose text is not found begins where the one before it ends.
    """
    end = 0
    seen: set[str] = set()
    for item in items:
        if item.self_ref in seen:
            continue
        start = end
        own = getattr(item, "text", "").strip()
        needle = own.split("\n", 1)[0][:NEEDLE]
        found = text.find(needle, end, end + SEARCH_WINDOW) if needle else -1
        if found >= 0:
            line = text.rfind("\n", end, found) + 1
            start = line or (found if seen else 0)
            end = found + (len(own) if text.startswith(own, found) else len(needle))
        seen.add(item.self_ref)
        pages = tuple(sorted({prov.page_no for prov in item.prov}))
        yield Place(start, item.self_ref, item.label.value, pages)


class _Provider(ChunkingSerializerProvider):
    """Gives the chunker a serializer with tables in the wanted format."""

    def __init__(self, table_format: str) -> None:
        self._tables = (
            tables.NarrativeTableSerializer()
            if table_format == "narrative"
            else tables.PipeTableSerializer()
        )

    def get_serializer(self, doc: DoclingDocument) -> BaseDocSerializer:
        return ChunkingDocSerializer(
            doc=doc,
            table_serializer=self._tables,
            text_serializer=_TextSerializer(),
            picture_serializer=_PictureSerializer(),
            params=MarkdownParams(
                image_placeholder="",
                escape_underscores=False,
                escape_html=False,
                include_formatting=False,
                include_hyperlinks=False,
                format_code_blocks=False,
                traverse_pictures=True,
            ),
        )


class _TextSerializer(MarkdownTextSerializer):
    """Text as it stands. What is not plain text is left to Docling's Markdown."""

    def serialize(self, *, item: TextItem, **kwargs: Any) -> SerializationResult:
        """The item's text; a list item after its marker, a formula as it was written."""
        text = item.text
        if isinstance(item, FormulaItem):
            text = text or item.orig
        elif isinstance(item, ListItem):
            # Docling numbers unmarked items by comparing each with all others: quadratic.
            text = f"{item.marker or '-'} {text}"
        if not item.text or isinstance(item, CodeItem | TitleItem | SectionHeaderItem):
            return super().serialize(item=item, **kwargs)
        return create_ser_result(text=text, span_source=item)


class _PictureSerializer(MarkdownPictureSerializer):
    """A picture's caption and descriptions, and its footnotes, which Docling leaves out."""

    def serialize(self, *, doc_serializer: BaseDocSerializer, **kwargs: Any) -> SerializationResult:
        """What there is to read of a picture."""
        picture = super().serialize(doc_serializer=doc_serializer, **kwargs)
        parts = [picture, doc_serializer.serialize_footnotes(**kwargs)]
        parts = [part for part in parts if part.text]
        return create_ser_result(text="\n\n".join(p.text for p in parts), span_source=parts)
