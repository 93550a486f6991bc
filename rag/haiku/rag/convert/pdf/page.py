"""What one page of a PDF holds, reduced to what the later steps need.

Everything of a page is in one frame (`geometry.Frame`), in points from its top left.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from haiku.rag.convert.pdf import geometry


class Face(NamedTuple):
    """A font as far as it matters to structure."""

    #: PostScript name without the subset prefix; empty when nobody knows.
    name: str
    bold: bool
    italic: bool
    mono: bool
    #: Font size divided by the height of the parser's character boxes.
    scale: float


@dataclass(slots=True)
class Segment:
    """A run of words on one line with no wide gap in it."""

    text: str
    box: geometry.Box
    #: Font size in points, of most of its characters.
    size: float
    #: Number of characters, and how many of them are bold, italic, in a fixed pitch.
    chars: int
    bold: int
    italic: int
    mono: int
    #: The script runs from right to left.
    rtl: bool = False


@dataclass(slots=True)
class Cell:
    """A cell of a table, by the rows and columns it covers (ends are exclusive)."""

    text: str
    box: geometry.Box
    row: int
    column: int
    row_end: int
    column_end: int
    #: Share of its characters that are bold, 0 to 1.
    bold: float = 0.0


@dataclass(slots=True)
class Table:
    """A table with its text."""

    box: geometry.Box
    rows: int
    columns: int
    cells: list[Cell]
    #: Number of leading rows that are headers.
    headers: int = 0


@dataclass(slots=True)
class Grid:
    """Ruling lines that make cells: `cells` are spans (row, column, row end, column end)."""

    xs: list[float]
    ys: list[float]
    cells: list[tuple[int, int, int, int]]

    @property
    def box(self) -> geometry.Box:
        """The outline."""
        return geometry.Box(self.xs[0], self.ys[0], self.xs[-1], self.ys[-1])


@dataclass(slots=True)
class Page:
    """The content of one page before anything is known of the rest of the document."""

    number: int
    frame: geometry.Frame
    segments: list[Segment]
    #: Text that runs in another direction than the page's own (stamps, axis labels).
    asides: list[Segment] = field(default_factory=list)
    #: Boxes of embedded images.
    pictures: list[geometry.Box] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    #: Outlines of stacks of equally long horizontal rules: tables without vertical lines.
    stacks: list[geometry.Box] = field(default_factory=list)
    #: Short horizontal rules by themselves, such as those above footnotes.
    separators: list[geometry.Box] = field(default_factory=list)
