"""Tables: text put into ruled grids, and tables found by the alignment of their text alone.

Without rules a table is a run of consecutive rows that share the same empty vertical strips
(as in the stream method of Nurminen, 2013), taken only when its cells are short and aligned, so
that columns of prose are never mistaken for one.
"""

from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from haiku.rag.convert.pdf import geometry, text
from haiku.rag.convert.pdf.page import Cell, Grid, Segment, Table

#: Rows a table without rules must have; two are enough between rules.
FEWEST_ROWS = 3
#: Characters of a cell beyond which a column is prose, at the median.
LONGEST_CELL = 32
#: Width of an empty strip between columns, in font sizes.
NARROWEST_GAP = 0.9
#: Edges of one column may differ by this, in font sizes.
SLACK = 0.35


class Row(NamedTuple):
    """Segments that stand beside each other, from left to right."""

    segments: list[Segment]
    top: float
    bottom: float


def rows_of(segments: Sequence[Segment]) -> list[Row]:
    """Segments grouped into rows by vertical overlap, from the top."""
    rows: list[Row] = []
    for segment in sorted(segments, key=lambda segment: segment.box.middle):
        box = segment.box
        if rows:
            row = rows[-1]
            common = min(row.bottom, box.bottom) - max(row.top, box.top)
            if common > 0.5 * min(row.bottom - row.top, box.height):
                row.segments.append(segment)
                rows[-1] = Row(row.segments, min(row.top, box.top), max(row.bottom, box.bottom))
                continue
        rows.append(Row([segment], box.top, box.bottom))
    for row in rows:
        row.segments.sort(key=lambda segment: segment.box.left)
    return rows


def ruled(grid: Grid, segments: Sequence[Segment]) -> tuple[Table, list[Segment]] | None:
    """The table of a grid and the segments it takes, or None if it is a drawing or a form box.

    A grid counts when text stands in at least two of its cells in two rows and two columns.
    """
    inside = [
        segment
        for segment in segments
        if grid.box.holds(segment.box.centre, segment.box.middle, slack=1.0)
    ]
    held: dict[tuple[int, int, int, int], list[Segment]] = {span: [] for span in grid.cells}
    owners = _owners(grid)
    for segment in inside:
        row, column = _place(grid.ys, segment.box.middle), _place(grid.xs, segment.box.centre)
        held[owners[row, column]].append(segment)
    filled = [span for span, content in held.items() if content]
    tall = len({span[0] for span in filled}) > 1 and len({span[1] for span in filled}) > 1
    if not tall or len(filled) < 3 or len(filled) < 0.2 * len(held):
        return None
    cells = []
    for (row, column, row_end, column_end), content in held.items():
        box = geometry.Box(grid.xs[column], grid.ys[row], grid.xs[column_end], grid.ys[row_end])
        cells.append(_cell(content, box, (row, column, row_end, column_end)))
    table = Table(grid.box, len(grid.ys) - 1, len(grid.xs) - 1, cells)
    table.headers = _headers(table)
    return table, inside


def _owners(grid: Grid) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """The cell that covers each row and column of the grid."""
    return {
        (row, column): span
        for span in grid.cells
        for row in range(span[0], span[2])
        for column in range(span[1], span[3])
    }


def _place(edges: Sequence[float], at: float) -> int:
    """The interval between sorted edges in which a place lies, or the outermost one."""
    return min(max(bisect(edges, at) - 1, 0), len(edges) - 2)


def _cell(content: Sequence[Segment], box: geometry.Box, span: tuple[int, int, int, int]) -> Cell:
    words = [segment.text for row in rows_of(content) for segment in row.segments]
    chars = sum(segment.chars for segment in content)
    bold = sum(segment.bold for segment in content) / chars if chars else 0.0
    row, column, row_end, column_end = span
    return Cell(" ".join(words), box, row, column, row_end, column_end, bold)


def _headers(table: Table) -> int:
    """How many leading rows are headers.

    Those in bold above others; without any, the first row if all its cells hold words.
    """
    lines: list[list[Cell]] = [[] for _ in range(table.rows)]
    for cell in table.cells:
        lines[cell.row].append(cell)
    count = 0
    for line in lines[:-1]:
        texts = [cell for cell in line if cell.text]
        if not texts or min(cell.bold for cell in texts) < 0.5:
            break
        count += 1
    if count and count < table.rows - 1:
        return min(count, 3)
    first = [cell.text for cell in lines[0]]
    plain = all(first) and not any(map(_numeric, first))
    return 1 if plain and table.rows > 1 else 0


def _numeric(words: str) -> bool:
    digits = sum(character.isdigit() for character in words)
    return digits * 2 > len(words.replace(" ", ""))


def aligned(
    segments: Sequence[Segment], fewest: int = FEWEST_ROWS
) -> list[tuple[Table, list[Segment]]]:
    """Tables among the segments of one region, by alignment, with the segments they take."""
    rows = rows_of(segments)
    found = []
    index = 0
    while index < len(rows):
        stop, strips = _grow(rows, index)
        while stop - index >= fewest and len(rows[stop - 1].segments) < 2:
            stop -= 1
        taken = rows[index:stop]
        if strips and sum(len(row.segments) > 1 for row in taken) >= fewest:
            table = _from_rows(taken, strips)
            if table is not None:
                found.append((table, [segment for row in taken for segment in row.segments]))
                index = stop
                continue
        index += 1
    return found


Strip = tuple[float, float]


def _grow(rows: Sequence[Row], start: int) -> tuple[int, list[Strip]]:
    """The rows from `start` that share empty strips: the end of the run, and the strips."""
    strips = _gaps(rows[start])
    if not strips:
        return start, []
    stop, single = start + 1, 0
    count = len(strips)
    while stop < len(rows):
        row = rows[stop]
        narrowed = _narrow(strips, row)
        single = single + 1 if len(row.segments) == 1 else 0
        height = row.bottom - row.top
        far = row.top - rows[stop - 1].bottom > 2.2 * height
        if len(narrowed) < count or far or single > 2 or (single and _across(strips, row)):
            break
        strips = narrowed
        stop += 1
    return stop, strips


def _gaps(row: Row) -> list[Strip]:
    """The empty strips between the segments of a row."""
    strips = []
    for before, after in pairwise(row.segments):
        width = after.box.left - before.box.right
        if width >= NARROWEST_GAP * max(before.size, after.size):
            strips.append((before.box.right, after.box.left))
    return strips


def _narrow(strips: Sequence[Strip], row: Row) -> list[Strip]:
    """What is left of the strips beside the segments of one more row."""
    left = []
    size = row.segments[0].size
    for start, end in strips:
        for segment in row.segments:
            box = segment.box
            if box.right <= start or box.left >= end:
                continue
            if box.centre < (start + end) / 2:
                start = max(start, box.right)
            else:
                end = min(end, box.left)
        if end - start >= 0.5 * size:
            left.append((start, end))
    return left


def _across(strips: Sequence[Strip], row: Row) -> bool:
    """Whether a lone segment reaches over a strip, as a heading or a paragraph does."""
    box = row.segments[0].box
    return any(box.left < start and box.right > end for start, end in strips)


def _from_rows(rows: Sequence[Row], strips: Sequence[Strip]) -> Table | None:
    """The table that the rows make, or None when they read like prose."""
    box = geometry.union(segment.box for row in rows for segment in row.segments)
    edges = [box.left, *((start + end) / 2 for start, end in strips), box.right]
    columns: list[list[tuple[int, Segment]]] = [[] for _ in range(len(edges) - 1)]
    for number, row in enumerate(rows):
        for segment in row.segments:
            column = sum(segment.box.centre > edge for edge in edges[1:-1])
            columns[column].append((number, segment))
    if not _convincing(columns, len(rows)):
        return None
    cells = []
    tops = [rows[0].top, *((a.bottom + b.top) / 2 for a, b in pairwise(rows))]
    ends = [*tops[1:], rows[-1].bottom]
    for column, content in enumerate(columns):
        for number in range(len(rows)):
            held = [segment for at, segment in content if at == number]
            area = geometry.Box(edges[column], tops[number], edges[column + 1], ends[number])
            cells.append(_cell(held, area, (number, column, number + 1, column + 1)))
    table = Table(box, len(rows), len(columns), cells)
    _absorb_continuations(table)
    table.headers = _headers(table)
    return table


def _convincing(columns: Sequence[list[tuple[int, Segment]]], rows: int) -> bool:
    """Whether columns look like those of a table: short cells, aligned, most rows filled."""
    aligned_columns = numeric = 0
    for column in columns:
        texts = [segment.text for _, segment in column]
        if len(column) < 0.5 * rows or median(map(len, texts)) > LONGEST_CELL:
            return False
        if all(text.marker(words) == words for words in texts):
            return False
        size = median(segment.size for _, segment in column)
        for edge in ("left", "right", "centre"):
            places = [getattr(segment.box, edge) for _, segment in column]
            middle = median(places)
            near = sum(abs(place - middle) <= SLACK * size for place in places)
            if near >= 0.7 * len(places):
                aligned_columns += 1
                break
        numeric += sum(map(_numeric, texts)) * 2 > len(texts)
    if _justified(columns) or all(_wordy(column) for column in columns):
        return False
    return aligned_columns == len(columns) or (numeric > 0 and aligned_columns >= len(columns) - 1)


def _wordy(column: Sequence[tuple[int, Segment]]) -> bool:
    """Whether most entries of a column are phrases of four words or more."""
    return median(segment.text.count(" ") for _, segment in column) >= 3


def _justified(columns: Sequence[list[tuple[int, Segment]]]) -> bool:
    """Whether most lines of every column fill it, as set prose does."""
    for column in columns:
        widths = sorted(segment.box.width for _, segment in column)
        full = sum(width > 0.93 * widths[-1] for width in widths)
        long = median(len(segment.text) for _, segment in column) > 16
        if full < 0.6 * len(widths) or not long:
            return False
    return True


def _absorb_continuations(table: Table) -> None:
    """Move text of rows that only carry a wrapped cell on into the row above."""
    by_row: dict[int, list[Cell]] = {}
    for cell in table.cells:
        by_row.setdefault(cell.row, []).append(cell)
    keep: list[list[Cell]] = []
    for row in sorted(by_row):
        cells = by_row[row]
        filled = [cell for cell in cells if cell.text]
        wrapped = len(filled) == 1 and filled[0].column > 0 and len(cells) > 2
        if keep and wrapped and not filled[0].text[:1].isdigit():
            above = keep[-1][filled[0].column]
            above.text = f"{above.text} {filled[0].text}".strip()
            for cell, more in zip(keep[-1], cells, strict=True):
                cell.box = geometry.union([cell.box, more.box])
        else:
            keep.append(cells)
    for row, cells in enumerate(keep):
        for cell in cells:
            cell.row, cell.row_end = row, row + 1
    table.cells = [cell for cells in keep for cell in cells]
    table.rows = len(keep)
