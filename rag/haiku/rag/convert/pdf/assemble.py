"""Pages → DoclingDocument.

Everything that needs to know the whole document happens here: furniture, the style of the body,
headings, paragraphs across pages. The pages themselves are dropped one by one as their blocks are
made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docling_core.types.doc.base import BoundingBox, CoordOrigin, Size
from docling_core.types.doc.common.content_layer import ContentLayer
from docling_core.types.doc.common.reference import ProvenanceItem
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.items.group import ListGroup
from docling_core.types.doc.items.table.table_data import TableCell, TableData
from docling_core.types.doc.items.text import ListItem, TextItem
from docling_core.types.doc.labels import DocItemLabel

from haiku.rag.convert.pdf import furniture, geometry, headings, layout, roles, text
from haiku.rag.convert.pdf.headings import Bookmark
from haiku.rag.convert.pdf.page import Page, Segment
from haiku.rag.convert.pdf.paragraphs import Block, Span

if TYPE_CHECKING:
    from docling_core.types.doc.items.node import DocItem


def fill(doc: DoclingDocument, pages: list[Page], outline: Sequence[Bookmark]) -> None:
    """Add the content of `pages` (sorted by number; emptied here) to an empty document."""
    words = {
        word
        for page in pages
        for segment in page.segments
        for word in text.vocabulary(segment.text)
    }
    aside = furniture.split(pages)
    frames = {page.number: page.frame for page in pages}
    blocks: list[Block] = []
    titles = headings.titles_by_page(outline)
    while pages:
        page = pages.pop(0)
        named = titles.get(page.number, set()) | titles.get(None, set())
        blocks += layout.blocks_of(page, words, named)
    body = headings.body_of(blocks)
    roles.mark(blocks, body, {number: frame.size[1] for number, frame in frames.items()})
    headings.mark(blocks, body, outline)
    blocks = roles.join_runs(blocks, words)
    writer = _Writer(doc, frames)
    writer.write(blocks, aside)


@dataclass(slots=True)
class _Level:
    """A list that is open: its group, the left edge of its items, and the last of them."""

    group: ListGroup
    left: float
    last: ListItem


@dataclass(slots=True)
class _Writer:
    """Turns blocks into items of a document."""

    doc: DoclingDocument
    frames: dict[int, geometry.Frame]
    levels: list[_Level] = field(default_factory=list)

    def write(self, blocks: Sequence[Block], aside: dict[int, list[Segment]]) -> None:
        """Add the blocks in order, the furniture of each page around them."""
        by_page: dict[int, list[int]] = {}
        for index, block in enumerate(blocks):
            by_page.setdefault(block.page, []).append(index)
        captions = self._captions(blocks)
        for number, frame in sorted(self.frames.items()):
            self.doc.add_page(page_no=number, size=Size(width=frame.width, height=frame.height))
            middle = frame.size[1] / 2
            rows = furniture.rows(aside.get(number, []))
            self._furniture(number, [row for row in rows if row[0].box.middle < middle], top=True)
            for index in by_page.get(number, []):
                if blocks[index].role != "caption":
                    self._block(blocks[index], captions.get(id(blocks[index])))
            self._furniture(number, [row for row in rows if row[0].box.middle >= middle], top=False)

    def _captions(self, blocks: Sequence[Block]) -> dict[int, Block]:
        """Caption by the `id` of its table or picture; one that finds none is text again."""
        found: dict[int, Block] = {}
        for index, block in enumerate(blocks):
            if block.role != "caption":
                continue
            owner = roles.owner_of(blocks, index)
            if owner is None or id(owner) in found:
                block.role = "text"
            else:
                found[id(owner)] = block
        return found

    def _block(self, block: Block, caption: Block | None) -> None:
        if block.role == "item":
            self._item(block)
            return
        self.levels.clear()
        if block.table is not None:
            self._table(block, caption)
        elif block.picture:
            self.doc.add_picture(prov=self._prov(block.spans[0]), caption=self._caption(caption))
        else:
            self._text(block)

    def _text(self, block: Block) -> None:
        first, *rest = [self._prov(span) for span in block.spans]
        item: DocItem
        if block.role == "title":
            item = self.doc.add_title(block.text, prov=first)
        elif block.role == "heading":
            item = self.doc.add_heading(block.text, level=block.level, prov=first)
        elif block.role == "code":
            code = "\n".join(block.code)
            first.charspan = (0, len(code))
            item = self.doc.add_code(code, prov=first)
        else:
            note = block.role == "footnote"
            label = DocItemLabel.FOOTNOTE if note else DocItemLabel.TEXT
            item = self.doc.add_text(label, block.text, prov=first)
        item.prov.extend(rest)

    def _item(self, block: Block) -> None:
        """Add a list item, in the list that its left edge belongs to."""
        mark = block.marker or ""
        content = block.text[len(mark) :].lstrip()
        shift = len(block.text) - len(content)
        spans = [
            Span(span.page, span.box, max(0, span.start - shift), max(0, span.end - shift))
            for span in block.spans
        ]
        first, *rest = [self._prov(span) for span in spans]
        self._open_list(block)
        item = self.doc.add_list_item(
            content or block.text,
            enumerated=not text.is_bullet(mark),
            marker=mark,
            orig=block.text,
            parent=self.levels[-1].group,
            prov=first,
        )
        item.prov.extend(rest)
        self.levels[-1].last = item

    def _open_list(self, block: Block) -> None:
        slack = 0.6 * block.size
        while len(self.levels) > 1 and block.left < self.levels[-1].left - slack:
            self.levels.pop()
        if not self.levels:
            self._push(block, None)
            return
        deeper = block.left - self.levels[-1].left
        if slack < deeper < 8 * block.size:
            self._push(block, self.levels[-1].last)
        else:
            self.levels[-1].left = block.left

    def _push(self, block: Block, parent: ListItem | None) -> None:
        group = self.doc.add_list_group(parent=parent)
        # `last` is set as soon as the first item is added.
        self.levels.append(_Level(group, block.left, parent))  # type: ignore[arg-type]

    def _table(self, block: Block, caption: Block | None) -> None:
        table = block.table
        assert table is not None
        cells = [
            TableCell(
                text=cell.text,
                bbox=self._box(block.page, cell.box),
                start_row_offset_idx=cell.row,
                end_row_offset_idx=cell.row_end,
                start_col_offset_idx=cell.column,
                end_col_offset_idx=cell.column_end,
                row_span=cell.row_end - cell.row,
                col_span=cell.column_end - cell.column,
                column_header=cell.row < table.headers,
            )
            for cell in table.cells
        ]
        data = TableData(num_rows=table.rows, num_cols=table.columns, table_cells=cells)
        prov = self._prov(block.spans[0])
        self.doc.add_table(data, caption=self._caption(caption), prov=prov)

    def _caption(self, block: Block | None) -> TextItem | None:
        if block is None:
            return None
        prov = self._prov(block.spans[0])
        item: TextItem = self.doc.add_text(DocItemLabel.CAPTION, block.text, prov=prov)
        return item

    def _furniture(self, number: int, rows: Sequence[list[Segment]], *, top: bool) -> None:
        label = DocItemLabel.PAGE_HEADER if top else DocItemLabel.PAGE_FOOTER
        for row in rows:
            words = " ".join(segment.text for segment in row)
            box = geometry.union(segment.box for segment in row)
            prov = self._prov(Span(number, box, 0, len(words)))
            self.doc.add_text(label, words, prov=prov, content_layer=ContentLayer.FURNITURE)

    def _prov(self, span: Span) -> ProvenanceItem:
        box = self._box(span.page, span.box)
        return ProvenanceItem(page_no=span.page, bbox=box, charspan=(span.start, span.end))

    def _box(self, page: int, box: geometry.Box) -> BoundingBox:
        """A box of a page's frame as docling has it: the shown page, origin at the bottom left."""
        frame = self.frames[page]
        shown = frame.leave(box)
        return BoundingBox(
            l=shown.left,
            t=frame.height - shown.top,
            r=shown.right,
            b=frame.height - shown.bottom,
            coord_origin=CoordOrigin.BOTTOMLEFT,
        )
