"""What is kept of a document: its items in reading order, its Markdown, its packed form.

Packed is zstandard over Docling's JSON. Page images are never kept, and the bytes of a picture
only up to `MAX_PICTURE` (icons, small diagrams): the source still has them, and a database of
documents must not become a database of scans. A picture whose bytes were left out keeps its
place, size and captions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haiku.rag.records import Box, NewItem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docling_core.types.doc.document import DoclingDocument
    from docling_core.types.doc.items.node import DocItem
    from docling_core.types.doc.items.table.table import TableItem

#: Characters of a picture's data URI that are kept with the document.
MAX_PICTURE = 32_768
#: Compression level of zstandard: beyond it, time grows faster than size shrinks.
LEVEL = 3
#: Bytes a packed document may unpack to.
MAX_UNPACKED = 2_000_000_000


def to_items(document: DoclingDocument) -> list[NewItem]:
    """Every element in reading order, the furniture after the body.

    Headings carry their level, from 1 (the title; section headers follow it when there is one);
    everything else names the heading it stands under. Tables are Markdown. Boxes are in points
    from the page's top left corner; formats without pages have none.
    """
    items: list[NewItem] = []
    trail: list[tuple[int, str]] = []
    offset = 1 if any(str(t.label) == "title" for t in document.texts) else 0
    for element, layer in _elements(document):
        level = _level(element, offset)
        if level and layer == "body":
            trail = [entry for entry in trail if entry[0] < level]
        heading = trail[-1][1] if trail and layer == "body" else None
        items.append(
            NewItem(
                ref=element.self_ref,
                label=str(getattr(element.label, "value", element.label)),
                layer=layer,
                level=level,
                text=_text(element, document),
                heading_ref=heading,
                boxes=tuple(_boxes(element, document)),
            )
        )
        if level and layer == "body":
            trail.append((level, element.self_ref))
    return items


def to_markdown(document: DoclingDocument) -> str:
    """The body as Markdown, characters as they are: nothing escaped for HTML."""
    return document.export_to_markdown(
        escape_html=False, escape_underscores=False, image_placeholder="", compact_tables=True
    ).strip()


def table_markdown(table: TableItem) -> str:
    """A table as Markdown without padding; the first row is the header, as Markdown wants one."""
    rows = [
        "| " + " | ".join(_cell(cell.text) for cell in row) + " |" for row in table.data.grid if row
    ]
    if not rows:
        return ""
    return "\n".join([rows[0], "|" + "---|" * table.data.num_cols, *rows[1:]])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def pack(document: DoclingDocument) -> bytes:
    """The document as compressed JSON, without large pictures."""
    import zstandard

    raw = document.model_dump_json(by_alias=True, exclude_none=True, exclude=_left_out(document))
    return zstandard.ZstdCompressor(level=LEVEL).compress(raw.encode("utf-8", "replace"))


def _left_out(document: DoclingDocument) -> dict[str, Any]:
    """Page images, large pictures, and the grid of a table, which Docling makes from its cells."""
    large = {
        index: {"image"}
        for index, picture in enumerate(document.pictures)
        if picture.image is not None and len(str(picture.image.uri)) > MAX_PICTURE
    }
    return {
        "pages": {"__all__": {"image"}},
        "tables": {"__all__": {"data": {"grid"}}},
        "pictures": large,
    }


def unpack(packed: bytes) -> DoclingDocument:
    """The document that `pack` made.

    Raises:
        DocumentCorrupt: the bytes are no packed document.
    """
    import zstandard
    from docling_core.types.doc.document import DoclingDocument
    from pydantic import ValidationError

    from haiku.rag.exceptions import DocumentCorrupt

    try:
        raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_UNPACKED)
        return DoclingDocument.model_validate_json(raw)
    except (zstandard.ZstdError, ValidationError) as error:
        raise DocumentCorrupt(
            f"a stored document cannot be unpacked ({type(error).__name__}); "
            "convert its source again"
        ) from error


def _elements(document: DoclingDocument) -> Iterator[tuple[DocItem, str]]:
    """Body, then furniture: what chunks are made of, then what is kept beside it."""
    from docling_core.types.doc.common.content_layer import ContentLayer
    from docling_core.types.doc.items.node import DocItem

    for layer, name in ((ContentLayer.BODY, "body"), (None, "furniture")):
        wanted = {layer} if layer else set(ContentLayer) - {ContentLayer.BODY}
        for item, _ in document.iterate_items(
            traverse_pictures=True, included_content_layers=wanted
        ):
            if isinstance(item, DocItem):
                yield item, name


def _level(element: Any, offset: int) -> int:
    label = str(getattr(element.label, "value", element.label))
    if label == "title":
        return 1
    return int(element.level) + offset if label == "section_header" else 0


def _text(element: Any, document: DoclingDocument) -> str:
    label = str(getattr(element.label, "value", element.label))
    if label in ("table", "document_index"):
        caption = element.caption_text(document)
        return "\n\n".join(part for part in (caption, table_markdown(element)) if part)
    if label in ("picture", "chart"):
        return str(element.caption_text(document))
    return str(getattr(element, "text", ""))


def _boxes(element: Any, document: DoclingDocument) -> Iterator[Box]:
    for place in element.prov:
        page = document.pages.get(place.page_no)
        box = place.bbox.to_top_left_origin(page.size.height) if page else place.bbox
        yield Box(page=place.page_no, left=box.l, top=box.t, right=box.r, bottom=box.b)
