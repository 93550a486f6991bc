"""One page's segments → blocks in reading order."""

from collections.abc import Container

from haiku.rag.convert.pdf import columns, geometry, paragraphs, tables
from haiku.rag.convert.pdf.columns import Piece
from haiku.rag.convert.pdf.page import Page, Segment
from haiku.rag.convert.pdf.paragraphs import Block, Span

#: Pictures of a page beyond which only the largest are kept: the rest is a pattern.
MOST_PICTURES = 60
#: Share of the page from which a picture under text is a background.
BACKGROUND = 0.25


def blocks_of(page: Page, words: Container[str], titles: Container[str] = ()) -> list[Block]:
    """The blocks of a page, first its backgrounds, last what runs in another direction.

    `words` and `titles` are those of `paragraphs.blocks_of`.
    """
    pieces, segments = _ruled(page)
    behind, pictures = _pictures(page)
    pieces += [Piece(box) for box in pictures]
    pieces += [Piece(segment.box, segment=segment) for segment in segments]
    blocks = [Block("", [Span(page.number, box, 0, 0)], picture=True) for box in behind]
    for region in columns.regions(pieces):
        blocks += paragraphs.blocks_of(page.number, region, words, titles)
    blocks += [_aside(page.number, segment) for segment in page.asides]
    return blocks


def _ruled(page: Page) -> tuple[list[Piece], list[Segment]]:
    """The tables that rules outline, and the segments outside them."""
    segments = page.segments
    pieces: list[Piece] = []
    for grid in page.grids:
        found = tables.ruled(grid, segments)
        if found:
            table, used = found
            pieces.append(Piece(table.box, table=table))
            segments = _without(segments, used)
    for outline in page.stacks:
        inside = [one for one in segments if outline.holds(one.box.centre, one.box.middle, 1.0)]
        found_here = tables.aligned(inside, fewest=2)
        if len(found_here) == 1 and len(found_here[0][1]) >= 0.75 * len(inside):
            table, used = found_here[0]
            pieces.append(Piece(table.box, table=table))
            segments = _without(segments, used)
    return pieces, segments


def _without(segments: list[Segment], used: list[Segment]) -> list[Segment]:
    ids = {id(segment) for segment in used}
    return [segment for segment in segments if id(segment) not in ids]


def _pictures(page: Page) -> tuple[list[geometry.Box], list[geometry.Box]]:
    """Pictures that lie behind text, and those that stand by themselves."""
    width, height = page.frame.size
    merged = merge_strips(page.pictures)
    merged.sort(key=lambda box: -box.width * box.height)
    behind: list[geometry.Box] = []
    apart: list[geometry.Box] = []
    for box in merged[:MOST_PICTURES]:
        large = box.width * box.height > BACKGROUND * width * height
        covered = large and any(box.holds(one.box.centre, one.box.middle) for one in page.segments)
        (behind if covered else apart).append(box)
    return behind, apart


def merge_strips(boxes: list[geometry.Box]) -> list[geometry.Box]:
    """Join images that were cut into strips: equally wide and touching, one below the other."""
    merged: list[geometry.Box] = []
    for box in sorted(set(boxes), key=lambda box: (round(box.left), box.top)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and abs(last.left - box.left) <= 1
            and abs(last.right - box.right) <= 1
            and abs(box.top - last.bottom) <= 1
        ):
            merged[-1] = geometry.union([last, box])
        else:
            merged.append(box)
    return merged


def _aside(page: int, segment: Segment) -> Block:
    span = Span(page, segment.box, 0, len(segment.text))
    return Block(segment.text, [span], size=segment.size, role="aside")
