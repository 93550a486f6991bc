"""One decoded page → `page.Page`.

The decoder's words are taken rather than its lines: its lines run across the gutters of tables and
narrow columns. Native objects are read directly; docling's models of the same cells cost as much
as the decoding itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from haiku.rag.convert.pdf import fonts, geometry, rules, text
from haiku.rag.convert.pdf.page import Page
from haiku.rag.convert.pdf.segments import Word, build

#: Images smaller than this, in points, are ornaments.
SMALLEST_PICTURE = 12.0


class _Raw(NamedTuple):
    word: str
    box: geometry.Box
    signature: fonts.Signature
    rtl: bool
    turns: int
    space: float


def read(number: int, decoder: Any, table: fonts.FontTable) -> Page:
    """Reduce a decoded page (docling-parse's `PdfPageDecoder`); `number` counts from 1."""
    left, bottom, right, top = decoder.get_page_dimension().get_crop_bbox()
    width, height = abs(right - left), abs(top - bottom)
    raw = list(_words(decoder.get_word_cells(), width, height))
    _learn(number, raw, table)
    frame = geometry.Frame(width, height, _direction(raw))
    ruling = rules.find(_shapes(decoder.get_page_shapes(), frame), frame.size)
    by_turn: dict[int, list[Word]] = {}
    for item in raw:
        face = table[item.signature]
        turned = geometry.Frame(width, height, item.turns).enter(item.box)
        size = turned.height * face.scale
        by_turn.setdefault(item.turns, []).append(
            Word(item.word, turned, face, size, item.rtl, min(item.space, 0.3 * size))
        )
    segments = build(by_turn.pop(frame.turns, []), ruling.uprights)
    asides = [
        _turned(segment, geometry.Frame(width, height, turns), frame)
        for turns, words in by_turn.items()
        for segment in build(words, [])
    ]
    return Page(
        number=number,
        frame=frame,
        segments=segments,
        asides=asides,
        pictures=[frame.enter(box) for box in _pictures(decoder.get_page_images(), width, height)],
        grids=ruling.grids,
        stacks=ruling.stacks,
        separators=ruling.separators,
    )


def _words(cells: Iterable[Any], width: float, height: float) -> Iterator[_Raw]:
    """The words inside the page, with boxes of the shown page."""
    for cell in cells:
        word = text.clean(cell.text)
        if not word:
            continue
        box = geometry.Box(cell.x0, height - cell.y1, cell.x1, height - cell.y0)
        if box.right < 0 or box.bottom < 0 or box.left > width or box.top > height:
            continue
        run, rise = cell.r_x1 - cell.r_x0, cell.r_y1 - cell.r_y0
        turns = 0
        if run <= abs(rise):
            turns = 2 if abs(rise) <= -run else (1 if rise > 0 else 3)
        extent = box.width if turns % 2 else box.height
        space = cell.space_width
        proportion = round(space / extent, 1) if extent > 0 else 0.0
        name, key = cell.font_name, cell.font_key
        signature = fonts.Signature(name, key if key == name else "", proportion)
        yield _Raw(word, box, signature, not cell.left_to_right, turns, space)


def _learn(number: int, raw: list[_Raw], table: fonts.FontTable) -> None:
    samples: dict[fonts.Signature, fonts.Sample] = {}
    for item in raw:
        signature, box = item.signature, item.box
        if signature in samples or signature in table:
            continue
        extent = box.width if item.turns % 2 else box.height
        along = min(0.5 * max(box.width, box.height) / len(item.word), 0.25 * extent)
        x = box.centre if item.turns % 2 else box.left + along
        y = box.bottom - along if item.turns % 2 else box.middle
        samples[signature] = fonts.Sample(x, y, extent)
    if samples:
        table.learn(number, samples)


def _direction(raw: list[_Raw]) -> int:
    """The direction in which most of the page's characters run."""
    counts: Counter[int] = Counter()
    for item in raw:
        counts[item.turns] += len(item.word)
    return max(counts, key=lambda turns: (counts[turns], -turns)) if counts else 0


def _turned(segment: Any, own: geometry.Frame, page: geometry.Frame) -> Any:
    segment.box = page.enter(own.leave(segment.box))
    return segment


def _pictures(images: Iterable[Any], width: float, height: float) -> Iterator[geometry.Box]:
    """Boxes of the visible parts of images, on the shown page."""
    for image in images:
        if not image.is_visible:
            continue
        x0, y0, x1, y1 = image.x0, image.y0, image.x1, image.y1
        if image.has_visible_bbox:
            x0, y0, x1, y1 = image.visible_x0, image.visible_y0, image.visible_x1, image.visible_y1
        box = geometry.Box(
            max(0.0, min(x0, x1)),
            max(0.0, height - max(y0, y1)),
            min(width, max(x0, x1)),
            min(height, height - min(y0, y1)),
        )
        if min(box.width, box.height) >= SMALLEST_PICTURE:
            yield box


def _shapes(shapes: Iterable[Any], frame: geometry.Frame) -> Iterator[rules.Path]:
    """The polylines of the page's vector graphics, as points in the frame."""
    height = frame.height
    for shape in shapes:
        xs, ys, ends = shape.get_x(), shape.get_y(), shape.get_i()
        for start, stop in zip(ends[::2], ends[1::2], strict=False):
            if stop - start > rules.LONGEST_PATH:
                continue
            path = []
            for x, y in zip(xs[start:stop], ys[start:stop], strict=True):
                point = frame.enter(geometry.Box(x, height - y, x, height - y))
                path.append((point.left, point.top))
            yield path
