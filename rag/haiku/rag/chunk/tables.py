"""How a table reads in a chunk: a line of named values a row, or Markdown.

Docling's own narrative ("row, column = value") loses the corner of the header and repeats the
first cell with every value. Ours keeps every cell, in order: first the header as it is, then each
row as `Name: Ada; Born: 1815`, so that a row cut off from its table still says what it is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from docling_core.transforms.serializer.base import BaseTableSerializer, SerializationResult
from docling_core.transforms.serializer.common import create_ser_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from docling_core.transforms.serializer.base import BaseDocSerializer
    from docling_core.types.doc.document import DoclingDocument
    from docling_core.types.doc.items.table.table import TableItem

#: Characters of a column's name where it is repeated; the header line has it whole.
NAME_LENGTH = 40
#: Characters after which a row goes on in another line, under its first value again.
LINE_LENGTH = 600
#: Characters of the first value where it is repeated.
LABEL_LENGTH = 80
CELL_SEPARATOR = "; "

#: A Markdown table's separator row; the line before it is the header.
_SEPARATOR_ROW = re.compile(r"^\|(?: *:?-+:? *\|)+ *$", re.MULTILINE)


class _LinesSerializer(BaseTableSerializer, ABC):
    """A table as lines: the caption, the lines and the footnotes."""

    def serialize(
        self,
        *,
        item: TableItem,
        doc_serializer: BaseDocSerializer,
        doc: DoclingDocument,
        **kwargs: Any,
    ) -> SerializationResult:
        """Docling's entry point; nested tables and line ends in cells become blanks."""

        def table() -> str:
            return "\n".join(
                self._lines(_cells(item, doc_serializer, doc, kwargs), _header_rows(item))
            )

        return _framed(item, doc_serializer, table, kwargs)

    @abstractmethod
    def _lines(self, cells: Sequence[Sequence[_Cell]], headers: int) -> Iterable[str]:
        """The lines of a grid whose first `headers` rows are its header."""


class NarrativeTableSerializer(_LinesSerializer):
    """A table as lines of text: header, then `name: value; …` a row."""

    def _lines(self, cells: Sequence[Sequence[_Cell]], headers: int) -> Iterable[str]:
        return narrate(cells, headers)


class PipeTableSerializer(_LinesSerializer):
    """A table as compact Markdown, whose first row is always its header."""

    def _lines(self, cells: Sequence[Sequence[_Cell]], headers: int) -> Iterable[str]:
        return _pipes(cells, max(1, headers))


def header_of(text: str) -> tuple[str, int]:
    """The header rows of the Markdown table in a text, and where its body begins.

    ("", 0) when there is no table with a header.
    """
    separator = _SEPARATOR_ROW.search(text)
    if separator is None or separator.start() == 0:
        return "", 0
    start = text.rfind("\n", 0, separator.start() - 1) + 1
    return text[start : separator.end()], separator.end()


def _framed(
    item: TableItem, doc_serializer: BaseDocSerializer, table: Any, kwargs: dict[str, Any]
) -> SerializationResult:
    """Caption, table and footnotes, with what each of them came from."""
    parts = [doc_serializer.serialize_captions(item=item, **kwargs)]
    if item.self_ref not in doc_serializer.get_excluded_refs(**kwargs):
        parts.append(create_ser_result(text=table(), span_source=item))
    parts.append(doc_serializer.serialize_footnotes(item=item, **kwargs))
    parts = [part for part in parts if part.text]
    return create_ser_result(text="\n\n".join(part.text for part in parts), span_source=parts)


class _Cell:
    """A cell's text; one object stands in every place that the cell spans."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _cells(
    item: TableItem,
    doc_serializer: BaseDocSerializer,
    doc: DoclingDocument,
    kwargs: dict[str, Any],
) -> list[list[_Cell]]:
    """The table's grid. Cells with content of their own give its text."""
    known: dict[int, _Cell] = {}
    grid = []
    for row in item.data.grid:
        for cell in row:
            if id(cell) not in known:
                text = cell._get_text(doc=doc, doc_serializer=doc_serializer, **kwargs)
                known[id(cell)] = _Cell(" ".join(text.split()))
        grid.append([known[id(cell)] for cell in row])
    return grid


def _header_rows(item: TableItem) -> int:
    """How many rows from the top are marked as column headers."""
    marked = {
        row
        for cell in item.data.table_cells
        if cell.column_header
        for row in range(cell.start_row_offset_idx, cell.end_row_offset_idx)
    }
    count = 0
    while count in marked and count < item.data.num_rows:
        count += 1
    return count


def narrate(cells: Sequence[Sequence[_Cell]], headers: int) -> Iterator[str]:
    """The lines of a table of which the first `headers` rows name the columns."""
    names = _names(cells[:headers])
    for row in cells[:headers]:
        yield CELL_SEPARATOR.join(cell.text for _, cell in _distinct(row))
    for row in cells[headers:]:
        values = [
            f"{names[place]}: {cell.text}" if names and names[place] else cell.text
            for place, cell in _distinct(row)
        ]
        yield from _lines(values)


def _names(rows: Sequence[Sequence[_Cell]]) -> list[str]:
    """A name for each column: the distinct texts above it, shortened."""
    columns = zip(*rows, strict=False) if rows else ()
    return [
        _short(" ".join(dict.fromkeys(c.text for c in column if c.text)), NAME_LENGTH)
        for column in columns
    ]


def _distinct(row: Sequence[_Cell]) -> Iterator[tuple[int, _Cell]]:
    """The cells with text, each once however many columns it spans, with its column."""
    before = None
    for place, cell in enumerate(row):
        if cell.text and cell is not before:
            yield place, cell
        before = cell


def _lines(values: list[str]) -> Iterator[str]:
    """A row in one line, or in several that each begin with the row's first value."""
    line = ""
    for value in values:
        if line and len(line) + len(value) > LINE_LENGTH:
            yield line
            line = _short(values[0], LABEL_LENGTH)
        line = f"{line}{CELL_SEPARATOR}{value}" if line else value
    if line:
        yield line


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _pipes(cells: Sequence[Sequence[_Cell]], headers: int) -> Iterator[str]:
    """The lines of a Markdown table; several header rows become one, as Markdown has one."""
    top = [
        " ".join(dict.fromkeys(cell.text for cell in column if cell.text))
        for column in zip(*cells[:headers], strict=False)
    ]
    yield _pipe_row(top)
    yield "|" + " --- |" * len(top)
    for row in cells[headers:]:
        yield _pipe_row([cell.text for cell in row])


def _pipe_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
