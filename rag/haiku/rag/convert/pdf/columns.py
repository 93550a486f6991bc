"""Reading order: a page cut into columns and bands (XY-cut).

Recursive XY-cut (Nagy & Seth, 1984, "Hierarchical representation of optically scanned documents"),
with one addition: where something spans the columns (a title, a wide figure) the region is first
cut into bands above and below it, so that each band can be cut into its columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from haiku.rag.convert.pdf import geometry, tables, text
from haiku.rag.convert.pdf.page import Segment, Table

#: Narrowest gutter between columns, in font sizes.
GUTTER = 0.7
#: Distance between two short blocks, in font sizes, that makes them columns.
WIDE = 6.0
#: Lines on each side of a gutter before it counts.
FEWEST_LINES = 3


@dataclass(slots=True)
class Piece:
    """Something that stands as a whole: a run of text, a table, or a picture."""

    box: geometry.Box
    segment: Segment | None = None
    table: Table | None = None

    @property
    def size(self) -> float:
        """Font size in points; a table or picture has none and counts as 10."""
        return self.segment.size if self.segment else 10.0


@dataclass(slots=True)
class Region:
    """A block that reads from top to bottom, with nothing beside it that belongs elsewhere."""

    pieces: list[Piece] = field(default_factory=list)


def regions(pieces: Sequence[Piece]) -> list[Region]:
    """The pieces of a page as blocks in reading order."""
    found: list[Region] = []
    _cut(list(pieces), found, depth=0)
    merged: list[Region] = []
    for region in found:
        if merged and _flows(merged[-1], region):
            merged[-1].pieces += region.pieces
        else:
            merged.append(region)
    return merged


def _flows(above: Region, below: Region) -> bool:
    """Whether a region goes on right below another, cut from it by something beside the two."""
    upper = geometry.union(piece.box for piece in above.pieces)
    lower = geometry.union(piece.box for piece in below.pieces)
    size = median(piece.size for piece in below.pieces)
    gap = lower.top - upper.bottom
    return -2 <= gap < 3 * size and abs(lower.left - upper.left) < 2 * size


def _cut(pieces: list[Piece], found: list[Region], depth: int) -> None:
    if len(pieces) < 2 or depth > 24:
        if pieces:
            found.append(Region(pieces))
        return
    pieces = _with_tables(pieces)
    gutter = _gutter(pieces)
    if gutter is None:
        parts = _parts_of(pieces)
        if len(parts) > 1:
            for part in parts:
                _cut(part, found, depth + 1)
        else:
            found.append(Region(sorted(pieces, key=lambda piece: (piece.box.top, piece.box.left))))
        return
    for band in _bands(pieces, gutter):
        left = [piece for piece in band if piece.box.centre < gutter]
        right = [piece for piece in band if piece.box.centre >= gutter]
        crossing = any(_crosses(piece, gutter) for piece in band)
        if crossing or not left or not right or not _side_by_side(left, right):
            _whole(band, found, depth)
        else:
            before, left, right, after = _trim(left, right)
            for part in (before, left, right, after):
                _cut(part, found, depth + 1)


def _whole(band: list[Piece], found: list[Region], depth: int) -> None:
    """A band that this gutter does not part: cut it by another, if there is one."""
    _cut(band, found, depth + 1) if depth < 24 else found.append(Region(band))


def _with_tables(pieces: list[Piece]) -> list[Piece]:
    """The pieces, with aligned text that makes a table put together."""
    segments = [
        piece.segment
        for piece in pieces
        if piece.segment and piece.segment.mono < 0.9 * piece.segment.chars
    ]
    taken: set[int] = set()
    made = []
    for table, used in tables.aligned(segments):
        taken.update(map(id, used))
        made.append(Piece(table.box, table=table))
    if not made:
        return pieces
    return [piece for piece in pieces if id(piece.segment) not in taken] + made


def _parts_of(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces in parts from the top, so that short columns among long lines are by themselves.

    A part is a run of pieces narrower than most of the region whose columns show once the long
    lines above and below are away; without any the region stays whole.
    """
    box = geometry.union(piece.box for piece in pieces)
    parts: list[list[Piece]] = []
    narrow = False
    for piece in sorted(pieces, key=lambda piece: (piece.box.top, piece.box.left)):
        short = piece.box.width < 0.6 * box.width
        if not parts or short != narrow:
            parts.append([])
            narrow = short
        parts[-1].append(piece)
    joined: list[list[Piece]] = []
    columned = False
    for part in parts:
        if len(part) >= 4 and _gutter(part) is not None:
            joined.append(part)
            columned = True
        elif joined and not columned:
            joined[-1] += part
        else:
            joined.append(list(part))
            columned = False
    return joined


def _crosses(piece: Piece, x: float) -> bool:
    return piece.box.left < x - 1 and piece.box.right > x + 1


def _gutter(pieces: Sequence[Piece]) -> float | None:
    """The x of the emptiest vertical strip that has prose on both sides, or None.

    Counts, for strips of two points, how many pieces lie over each; the least covered runs in the
    inner part of the region are tried, widest first.
    """
    box = geometry.union(piece.box for piece in pieces)
    step = 2.0
    bins = int(box.width // step) + 1
    if bins < 10:
        return None
    cover = [0] * (bins + 1)
    for piece in pieces:
        cover[int((piece.box.left - box.left) // step)] += 1
        cover[min(int((piece.box.right - box.left) // step) + 1, bins)] -= 1
    for index in range(1, bins + 1):
        cover[index] += cover[index - 1]
    size = median(piece.size for piece in pieces)
    strips = _strips(cover[:bins], max(2, int(GUTTER * size // step)))
    for start, end in strips:
        x = box.left + step * (start + end) / 2
        if _parts(pieces, x):
            return x
    return None


def _strips(cover: Sequence[int], narrowest: int) -> list[tuple[int, int]]:
    """Runs of bins that are covered less than what is beside them, emptiest and widest first."""
    found = []
    limit = 0.4 * max(cover)
    for level in sorted({count for count in cover if count <= limit}):
        start = None
        for index in range(len(cover) + 1):
            low = index < len(cover) and cover[index] <= level
            if low and start is None:
                start = index
            elif not low and start is not None:
                if start > 0 and index < len(cover) and index - start >= narrowest:
                    found.append((level, start - index, start, index))
                start = None
    found.sort()
    return list(dict.fromkeys((start, end) for _, _, start, end in found))[:12]


def _parts(pieces: Sequence[Piece], x: float) -> bool:
    """Whether some band has columns on both sides of x."""
    for band in _bands(pieces, x):
        if any(_crosses(piece, x) for piece in band):
            continue
        left = [piece for piece in band if piece.box.centre < x]
        right = [piece for piece in band if piece.box.centre >= x]
        if left and right and _side_by_side(left, right):
            return True
    return False


def _bands(pieces: Sequence[Piece], x: float) -> list[list[Piece]]:
    """The pieces in bands from the top: those across x by themselves, the others between them."""
    bands: list[list[Piece]] = []
    spanning = False
    for piece in sorted(pieces, key=lambda piece: (piece.box.top, piece.box.left)):
        across = _crosses(piece, x)
        if not bands or across != spanning:
            bands.append([])
            spanning = across
        bands[-1].append(piece)
    return bands


def _side_by_side(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Whether the two sides are columns to be read one after the other.

    They are not when one holds only the bullets or numbers of the other, or when every line of one
    goes with a line of the other (labels and values, a short table).
    """
    left_box = geometry.union(piece.box for piece in left)
    right_box = geometry.union(piece.box for piece in right)
    if left_box.overlap_y(right_box) <= 0:
        return False
    if _only_markers(left) or _labels(left) or _listing(left, right):
        return False
    if any(piece.segment is None for piece in (*left, *right)):
        return True
    paired = sum(
        any(one.box.overlap_y(other.box) > 0.6 * one.box.height for other in right) for one in left
    )
    few = min(len(left), len(right))
    prose = _filled(left) and _filled(right)
    if few >= FEWEST_LINES and prose:
        return True
    apart = right_box.left - left_box.right > WIDE * median(piece.size for piece in left)
    return few >= 2 and (apart or (paired < 0.5 * len(left) and len(left) + len(right) >= 5))


def _trim(
    left: list[Piece], right: list[Piece]
) -> tuple[list[Piece], list[Piece], list[Piece], list[Piece]]:
    """Short blocks side by side, without what stands above or below them on one side only.

    Columns of prose are left alone: there the longer one simply goes on.
    """
    if min(len(left), len(right)) >= FEWEST_LINES and _filled(left) and _filled(right):
        return [], left, right, []
    sides = geometry.union(piece.box for piece in left), geometry.union(p.box for p in right)
    top = max(side.top for side in sides)
    bottom = min(side.bottom for side in sides)
    reach = 1.5 * median(piece.size for piece in (*left, *right))
    before = [piece for piece in (*left, *right) if piece.box.bottom < top - reach]
    after = [piece for piece in (*left, *right) if piece.box.top > bottom + reach]
    away = {id(piece) for piece in (*before, *after)}
    return (
        before,
        [piece for piece in left if id(piece) not in away],
        [piece for piece in right if id(piece) not in away],
        after,
    )


def _labels(pieces: Sequence[Piece]) -> bool:
    """Whether most of the texts announce something beside them."""
    texts = [piece.segment.text for piece in pieces if piece.segment]
    return sum(words.endswith((":", "：")) for words in texts) * 2 > len(texts)


def _listing(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Whether most lines on both sides are in a fixed pitch: one listing with its own columns."""
    for side in (left, right):
        mono = sum(p.segment.mono * 2 > p.segment.chars for p in side if p.segment)
        if mono < 0.7 * len(side):
            return False
    return True


def _only_markers(pieces: Sequence[Piece]) -> bool:
    texts = [piece.segment.text for piece in pieces if piece.segment]
    return bool(texts) and all(
        len(words) <= 8
        and (text.marker(words) == words or (words.rstrip(".)").isalnum() and len(words) <= 4))
        for words in texts
    )


def _filled(pieces: Sequence[Piece]) -> bool:
    """Whether the lines of a column are about as wide as the column, as in running text."""
    widths = sorted((piece.box.width for piece in pieces), reverse=True)
    texts = [len(piece.segment.text) for piece in pieces if piece.segment]
    return bool(texts) and median(texts) >= 12 and median(widths) >= 0.55 * widths[0]
