"""Running headers, footers and page numbers, told apart from the text of the page.

A line is furniture when the same words, numbers masked, stand at the same place on several pages,
when it is a number that counts with the pages, or when it stands on one row with such a one at
the page's edge. A document of one page keeps everything but a plain page number.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from haiku.rag.convert.pdf import geometry, text
from haiku.rag.convert.pdf.page import Page, Segment

#: Share of the page's height, above and below, in which furniture may stand anyhow.
MARGIN = 0.1
#: The same for the outermost rows of the page.
OUTER_MARGIN = 0.2
#: Furniture is not larger than this many times the page's text: titles of slides stay.
LARGEST = 1.25
#: Places on different pages that differ by less, in points, are the same.
NEAR = 4.0

_NUMBER = re.compile(
    r"(?:page|seite|p\.|pagina|página|S\.)?\s*[-–—|]*\s*(\d{1,4}|[ivxl]{1,6})\s*[-–—|]*"
    r"(?:\s*(?:of|/|von|de|sur|aus)\s*\d{1,4})?",
    re.I,
)
_PLAIN = re.compile(
    r"(?:page|seite|página|pagina)\s+\d{1,4}(?:\s*(?:of|/|von|de|sur)\s*\d{1,4})?|[-–—]\s*\d{1,4}\s*[-–—]",
    re.I,
)


def split(pages: Sequence[Page]) -> dict[int, list[Segment]]:
    """Take the furniture out of the pages; returns it by page number, in no special order."""
    edges = {page.number: _edges(page) for page in pages}
    repeated = _repeated(edges)
    counting = _counting(edges)
    numbered = bool(counting)
    taken: dict[int, list[Segment]] = {}
    for page in pages:
        mine = [
            segment
            for segment in edges[page.number]
            if _key(segment) in repeated
            or _count_key(page.number, segment) in counting
            or _PLAIN.fullmatch(segment.text)
            or (numbered and _lone_number(page, segment))
        ]
        mine = _with_mates(page, mine, edges[page.number])
        if page.asides and len(pages) > 1:
            _take_stamps(page, repeated, mine)
        if mine:
            ids = {id(segment) for segment in mine}
            page.segments = [one for one in page.segments if id(one) not in ids]
            taken[page.number] = mine
    return taken


def _edges(page: Page) -> list[Segment]:
    """The segments in the page's margins, and the stamps, which stand anywhere."""
    height = page.frame.size[1]
    tops = sorted(one.box.middle for one in page.segments)
    if not tops:
        return list(page.asides)
    low = max(MARGIN * height, min(OUTER_MARGIN * height, tops[0] + NEAR))
    high = min((1 - MARGIN) * height, max((1 - OUTER_MARGIN) * height, tops[-1] - NEAR))
    usual = median(one.size for one in page.segments)
    found = [
        one
        for one in page.segments
        if not low < one.box.middle < high and one.size <= LARGEST * usual
    ]
    return found + page.asides


Key = tuple[str, int]


def _key(segment: Segment) -> Key:
    return text.masked(segment.text), round(segment.box.middle / NEAR)


def _repeated(edges: dict[int, list[Segment]]) -> set[Key]:
    """Masked texts that stand at the same height on enough pages.

    Neighbouring heights count together. Two pages are enough for a document of two or three; a
    longer one needs three, as headers of chapters and alternating pages have.
    """
    seen: Counter[Key] = Counter()
    for segments in edges.values():
        seen.update({_key(segment) for segment in segments})
    need = 2 if len(edges) <= 3 else 3
    keys = set()
    for words, place in seen:
        around = sum(seen[(words, place + step)] for step in (-1, 0, 1))
        if around >= need and words not in ("", "#") and len(edges) > 1:
            keys.add((words, place))
    return keys


def _count_key(number: int, segment: Segment) -> tuple[int, int] | None:
    """The height of a page number and how far it is from the page's place in the document."""
    match = _NUMBER.fullmatch(segment.text)
    if match is None or len(segment.text) > 24:
        return None
    value = _value(match.group(1))
    return (value - number, round(segment.box.middle / NEAR / 3)) if value is not None else None


def _lone_number(page: Page, segment: Segment) -> bool:
    """Whether a number stands alone at the very edge of the page."""
    if len(segment.text) > 6 or _NUMBER.fullmatch(segment.text) is None:
        return False
    others = [one.box for one in page.segments if one is not segment]
    beside = any(segment.box.overlap_y(box) > 0 for box in others)
    return not beside and _outermost(segment.box, others, page.frame.size[1])


def _value(digits: str) -> int | None:
    """A decimal or roman numeral as a number."""
    if digits.isdigit():
        return int(digits)
    values = {"i": 1, "v": 5, "x": 10, "l": 50}
    numbers = [values[letter] for letter in digits.lower()]
    return sum(
        -number if number < max([*numbers[index:], 0]) else number
        for index, number in enumerate(numbers)
    )


def _counting(edges: dict[int, list[Segment]]) -> set[tuple[int, int] | None]:
    """Page numbers that keep their distance from the page's place on at least two pages."""
    seen: Counter[tuple[int, int]] = Counter()
    for number, segments in edges.items():
        seen.update({key for one in segments if (key := _count_key(number, one)) is not None})
    return {key for key, count in seen.items() if count >= 2}


def _with_mates(page: Page, mine: list[Segment], edges: list[Segment]) -> list[Segment]:
    """The furniture and what stands on one row with it at the very edge of the page."""
    if not mine:
        return mine
    height = page.frame.size[1]
    body = [one.box for one in page.segments if not any(one is other for other in mine)]
    out = list(mine)
    for segment in edges:
        if any(segment is other for other in out):
            continue
        beside = any(segment.box.overlap_y(one.box) > 0.5 * segment.box.height for one in mine)
        if beside and _outermost(segment.box, body, height):
            out.append(segment)
    return out


def _outermost(box: geometry.Box, body: Sequence[geometry.Box], height: float) -> bool:
    """Whether nothing but its own row stands between the box and the page's edge."""
    if box.middle < height / 2:
        return not any(other.bottom < box.top for other in body)
    return not any(other.top > box.bottom for other in body)


def _take_stamps(page: Page, repeated: set[Key], mine: list[Segment]) -> None:
    stamps = [segment for segment in page.asides if _key(segment) in repeated]
    ids = {id(segment) for segment in (*stamps, *mine)}
    page.asides = [segment for segment in page.asides if id(segment) not in ids]
    mine.extend(one for one in stamps if not any(one is other for other in mine))


def rows(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Furniture of one page by rows, from the top, each from left to right."""
    by_row: defaultdict[int, list[Segment]] = defaultdict(list)
    for segment in segments:
        by_row[round(segment.box.middle / NEAR)].append(segment)
    return [sorted(by_row[row], key=lambda segment: segment.box.left) for row in sorted(by_row)]
