"""Lines → blocks: paragraphs, list items, lines of code, tables and pictures in reading order."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from haiku.rag.convert.pdf import geometry, tables, text
from haiku.rag.convert.pdf.columns import Region
from haiku.rag.convert.pdf.page import Segment, Table

#: A distance between baselines over this many times the usual one starts a paragraph.
LOOSE = 1.3
#: A gap within a line, in font sizes, that makes it a row of its own.
PARTED = 3.0
#: Difference in size that separates styles.
SIZE_STEP = 0.07


@dataclass(slots=True)
class Line:
    """A line of a column."""

    text: str
    box: geometry.Box
    size: float
    chars: int
    bold: float
    italic: float
    mono: float
    rtl: bool
    #: x at which the text after a bullet or number starts; the left edge without one.
    hang: float
    #: It has parts far from each other, as a label and its value.
    parted: bool = False
    #: The PDF's outline has an entry of these words for this page.
    named: bool = False

    @property
    def style(self) -> tuple[bool, bool]:
        """Whether it is bold and whether it is in a fixed pitch, as a whole."""
        return self.bold > 0.8, self.mono > 0.9


@dataclass(slots=True)
class Span:
    """A part of a block on one page: its box in the page's frame and its place in the text."""

    page: int
    box: geometry.Box
    start: int
    end: int


@dataclass(slots=True)
class Block:
    """A paragraph, or a table or picture that stands in its place."""

    text: str
    spans: list[Span]
    size: float = 0.0
    bold: bool = False
    italic: bool = False
    mono: bool = False
    lines: int = 1
    #: Left edge, and where the text after a marker starts, in points.
    left: float = 0.0
    hang: float = 0.0
    #: Empty space above it in its column, in font sizes; large at the column's top.
    space: float = 9.0
    #: Whether its last line reaches well to the end of the column.
    full: bool = False
    #: Whether it stands in the middle of its column, away from both edges.
    centred: bool = False
    #: Bullet or number that it starts with.
    marker: str | None = None
    table: Table | None = None
    picture: bool = False
    #: First and last lines' text of code keeps its line breaks.
    code: list[str] = field(default_factory=list)
    #: Set by later steps: "furniture", "heading", "title", "footnote", "caption", "code", "item".
    role: str = "text"
    level: int = 0

    @property
    def page(self) -> int:
        """The page on which it begins."""
        return self.spans[0].page

    @property
    def box(self) -> geometry.Box:
        """Its box on the page on which it begins."""
        return self.spans[0].box

    @property
    def is_text(self) -> bool:
        """Whether it is neither table nor picture."""
        return self.table is None and not self.picture


def blocks_of(
    page: int, region: Region, words: Container[str], titles: Container[str] = ()
) -> list[Block]:
    """The blocks of one region of a page, in reading order.

    `words` are the words of the document; `titles` what the outline names on this page, as
    `text.plain_title` gives them.
    """
    column = geometry.union(piece.box for piece in region.pieces)
    stops = [piece for piece in region.pieces if piece.segment is None]
    segments = [piece.segment for piece in region.pieces if piece.segment]
    blocks: list[Block] = []
    lines = [_line(row, titles) for row in tables.rows_of(segments)]
    for piece in sorted(stops, key=lambda piece: piece.box.top):
        above = [line for line in lines if line.box.middle < piece.box.middle]
        lines = [line for line in lines if line.box.middle >= piece.box.middle]
        blocks += _paragraphs(page, above, column, words)
        span = Span(page, piece.box, 0, 0)
        blocks.append(Block("", [span], table=piece.table, picture=piece.table is None))
    return blocks + _paragraphs(page, lines, column, words)


def _line(row: tables.Row, titles: Container[str]) -> Line:
    """One line from the segments of a row."""
    segments = row.segments
    chars = sum(segment.chars for segment in segments)
    rtl = sum(segment.chars for segment in segments if segment.rtl) * 2 > chars
    mono = sum(segment.mono for segment in segments) / chars
    main = max(segments, key=lambda segment: segment.chars)
    ordered = segments[::-1] if rtl else segments
    content = text.without_leaders(_spaced(ordered) if mono > 0.9 else _plain(ordered))
    box = geometry.union(segment.box for segment in segments)
    return Line(
        text=content,
        box=box,
        size=main.size,
        chars=chars,
        bold=sum(segment.bold for segment in segments) / chars,
        italic=sum(segment.italic for segment in segments) / chars,
        mono=mono,
        rtl=rtl,
        hang=_hang(segments, content, box),
        parted=_parted(segments, content),
        named=len(content) < 200 and text.plain_title(content) in titles if titles else False,
    )


def _parted(segments: Sequence[Segment], content: str) -> bool:
    """Whether a wide gap lies inside a line, other than behind a bullet or number."""
    if len(segments) < 2 or text.marker(content) == segments[0].text:
        return False
    return any(
        after.box.left - before.box.right > PARTED * after.size
        for before, after in pairwise(segments)
    )


def _plain(segments: Iterable[Segment]) -> str:
    return " ".join(segment.text for segment in segments)


def _spaced(segments: Sequence[Segment]) -> str:
    """A line in a fixed pitch, with the gaps between its segments as that many spaces."""
    content = segments[0].text
    for before, after in pairwise(segments):
        pitch = before.box.width / max(len(before.text), 1)
        gap = (after.box.left - before.box.right) / pitch if pitch > 0 else 1
        content += " " * max(1, min(round(gap), 40)) + after.text
    return content


def _hang(segments: Sequence[Segment], content: str, box: geometry.Box) -> float:
    mark = text.marker(content)
    if mark is None:
        return box.left
    if len(segments) > 1 and segments[0].text == mark:
        return segments[1].box.left
    rest = content[len(mark) :]
    skipped = len(mark) + len(rest) - len(rest.lstrip())
    return box.left + box.width * skipped / max(len(content), 1)


def _paragraphs(
    page: int, lines: Sequence[Line], column: geometry.Box, words: Container[str]
) -> list[Block]:
    """Consecutive lines put together into paragraphs."""
    leading = _leading(lines)
    blocks: list[Block] = []
    current: list[Line] = []
    for line in lines:
        if current and _breaks(current, line, column, leading):
            blocks.append(_block(page, current, column, words, _space(blocks, current)))
            current = []
        current.append(line)
    if current:
        blocks.append(_block(page, current, column, words, _space(blocks, current)))
    return blocks


def _leading(lines: Sequence[Line]) -> float:
    """The usual distance between the baselines of a paragraph, in font sizes."""
    steps = sorted(
        (after.box.bottom - before.box.bottom) / after.size
        for before, after in pairwise(lines)
        if after.size > 0 and abs(before.size - after.size) <= SIZE_STEP * after.size
    )
    usual = [step for step in steps if 0.8 <= step <= 2.2]
    return usual[len(usual) // 3] if usual else 1.25


def _space(blocks: Sequence[Block], lines: Sequence[Line]) -> float:
    """Empty space above the lines, in their font size."""
    if not blocks or blocks[-1].picture or blocks[-1].table:
        return 9.0
    return (lines[0].box.top - blocks[-1].box.bottom) / max(lines[0].size, 1.0)


def _breaks(current: Sequence[Line], line: Line, column: geometry.Box, leading: float) -> bool:
    """Whether `line` starts a paragraph after the lines of `current`."""
    last = current[-1]
    if line.named or last.named or line.parted or last.parted:
        return not (line.style[1] and last.style[1])
    size = max(last.size, line.size)
    if abs(last.size - line.size) > SIZE_STEP * size and not _inline(last, line):
        return True
    step = (line.box.bottom - last.box.bottom) / max(line.size, 1.0)
    if line.style[1] != last.style[1] and not _phrase(last, line, step, leading):
        return True
    code = line.style[1] and current[0].style[1]
    if step > LOOSE * leading + 0.05:
        return not (code and step < 2.2 * leading)
    if code:
        return text.is_plain_bullet(line.text)
    if text.marker(line.text) is not None and _marks(current, line):
        return True
    if (line.style[0] != last.style[0]) and _sets_off(current, last, line, column):
        return True
    if text.has_leaders(last.text) or text.has_leaders(line.text):
        return True
    if line.style[0] and _in_middle(last, column):
        # A heading at the edge below a title, or the title's next line.
        return line.box.left - column.left < 0.2 * line.size or not _in_middle(line, column)
    return _indented(current, line, column)


def _in_middle(line: Line, column: geometry.Box) -> bool:
    """Whether a line stands about as far from both edges of its column."""
    left, right = line.box.left - column.left, column.right - line.box.right
    return min(left, right) > 0.8 * line.size and abs(left - right) < 0.08 * column.width


def _phrase(last: Line, line: Line, step: float, leading: float) -> bool:
    """Whether a line in a fixed pitch beside one that is not is a phrase of the same sentence."""
    return (
        step <= LOOSE * leading
        and abs(line.box.left - last.box.left) < 0.5 * line.size
        and not text.ends_sentence(last.text)
    )


def _inline(last: Line, line: Line) -> bool:
    """Whether two sizes may be one paragraph.

    They may when one line is a mere sign or two, as in formulas, and when the sizes differ as those
    of two fonts on one line do and the sentence runs on.
    """
    close = abs(last.size - line.size) < 0.14 * max(last.size, line.size)
    return min(last.chars, line.chars) <= 2 or (close and text.continues(last.text, line.text))


def _marks(current: Sequence[Line], line: Line) -> bool:
    """Whether the bullet or number at the line's start begins an item, not a wrapped line."""
    mark = text.marker(line.text)
    if mark is None:
        return False
    if text.is_bullet(mark) and mark not in "-–—*·":
        return True
    first = current[0]
    known = text.marker(first.text) is not None
    aligned = abs(line.box.left - first.box.left) < 0.5 * line.size
    deeper = line.box.left > first.box.left + 0.5 * line.size
    inside = abs(line.box.left - first.hang) < 0.5 * line.size
    if known:
        return aligned or not inside or text.ends_sentence(current[-1].text)
    return deeper or text.ends_sentence(current[-1].text)


def _sets_off(current: Sequence[Line], last: Line, line: Line, column: geometry.Box) -> bool:
    """Whether a change of weight separates, as at a heading; a bold phrase in a line does not."""
    if line.style[0]:
        return last.bold < 0.2
    short = last.box.right < column.right - 0.15 * column.width
    return line.bold < 0.2 and (short or len(current) > 1 or text.ends_sentence(last.text))


def _indented(current: Sequence[Line], line: Line, column: geometry.Box) -> bool:
    """Whether indents and short lines show the start of a paragraph."""
    last, first = current[-1], current[0]
    em = line.size
    start, before = (
        (column.right - line.box.right, column.right - last.box.right)
        if line.rtl
        else (line.box.left, last.box.left)
    )
    if text.marker(first.text) is not None and len(current) == 1:
        return not line.rtl and start < first.box.left - 0.5 * em
    end = last.box.left - column.left if last.rtl else column.right - last.box.right
    short = end > max(0.12 * column.width, 2 * em)
    if start > before + 0.8 * em:
        return len(current) > 1 or text.ends_sentence(last.text) or short
    if start < before - 0.8 * em and len(current) > 1:
        return True
    return short and text.ends_sentence(last.text) and not line.text[:1].islower()


def _block(
    page: int, lines: Sequence[Line], column: geometry.Box, words: Container[str], space: float
) -> Block:
    content = lines[0].text
    for line in lines[1:]:
        content = text.join(content, line.text, words)
    chars = sum(line.chars for line in lines)
    box = geometry.union(line.box for line in lines)
    mono = sum(line.mono * line.chars for line in lines) > 0.9 * chars
    last = lines[-1]
    edge = last.box.left - column.left if last.rtl else column.right - last.box.right
    return Block(
        text=content,
        spans=[Span(page, box, 0, len(content))],
        size=median(line.size for line in lines),
        bold=sum(line.bold * line.chars for line in lines) > 0.8 * chars,
        italic=sum(line.italic * line.chars for line in lines) > 0.8 * chars,
        mono=mono,
        lines=len(lines),
        left=lines[0].box.left,
        hang=lines[0].hang,
        space=space,
        full=edge < 0.3 * column.width,
        centred=_centred(box, column),
        marker=text.marker(content),
        code=_code(lines) if mono else [],
    )


def _centred(box: geometry.Box, column: geometry.Box) -> bool:
    left, right = box.left - column.left, column.right - box.right
    return min(left, right) > 0.12 * column.width and abs(left - right) < 0.03 * column.width


def _code(lines: Sequence[Line]) -> list[str]:
    """The lines of a listing, indented as on the page; a wide step leaves an empty line."""
    left = min(line.box.left for line in lines)
    pitch = median(line.box.width / max(len(line.text), 1) for line in lines) or 6.0
    leading = _leading(lines)
    out: list[str] = []
    bottom = lines[0].box.bottom
    for line in lines:
        if (line.box.bottom - bottom) / max(line.size, 1.0) > 1.6 * leading:
            out.append("")
        bottom = line.box.bottom
        out.append(" " * round((line.box.left - left) / pitch) + line.text)
    return out
