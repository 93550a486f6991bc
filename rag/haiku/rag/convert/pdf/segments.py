"""Words → segments: runs of words on one line without a wide gap.

A segment ends at a gap wider than a word space, at a vertical rule, and where the baseline or the
size jumps; so the cells of a table row and the lines of two columns are separate segments, and
joining those that belong together is left to the steps that know about columns.
"""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from haiku.rag.convert.pdf import geometry
from haiku.rag.convert.pdf.page import Face, Segment

#: Gap that ends a segment, in font sizes. Word spaces in justified text reach 0.8.
WIDE_GAP = 0.95
#: Height of the buckets in which words look for the segment they continue, in points.
_BUCKET = 8.0


class Word(NamedTuple):
    """A word in the frame in which it reads left to right."""

    text: str
    box: geometry.Box
    face: Face
    #: Font size in points.
    size: float
    rtl: bool
    #: Width of a space in its font, in points.
    space: float


#: A vertical rule: x, top, bottom.
Upright = tuple[float, float, float]


class _Run:
    """A segment while it grows to the right."""

    __slots__ = ("bottom", "size", "top", "words")

    def __init__(self, word: Word) -> None:
        self.words = [word]
        self.top, self.bottom = word.box.top, word.box.bottom
        self.size = word.size

    def fit(self, word: Word, uprights: list[Upright]) -> float | None:
        """How far the word lies behind the run's end in points, or None if it starts another."""
        last = self.words[-1].box
        gap = word.box.left - last.right
        size = max(self.size, word.size)
        if gap > WIDE_GAP * size or gap < -0.5 * size - 0.3 * last.width:
            return None
        common = min(self.bottom, word.box.bottom) - max(self.top, word.box.top)
        lower = min(self.bottom - self.top, word.box.height)
        if common < 0.5 * lower or (common < 0.75 * lower and gap > 0.3 * size):
            return None
        if uprights and _parted(last.right, word.box, uprights):
            return None
        return abs(gap)

    def take(self, word: Word) -> None:
        self.words.append(word)
        if word.size >= 0.8 * self.size:
            self.top = min(self.top, word.box.top)
            self.bottom = max(self.bottom, word.box.bottom)
            self.size = max(self.size, word.size)


def _parted(end: float, box: geometry.Box, uprights: list[Upright]) -> bool:
    """Whether a vertical rule stands between x = `end` and the box."""
    return any(
        end - 1 <= x <= box.left + 1 and top <= box.middle <= bottom for x, top, bottom in uprights
    )


def build(words: list[Word], uprights: list[Upright]) -> list[Segment]:
    """Group the words of one direction into segments, in no particular order."""
    buckets: defaultdict[int, list[_Run]] = defaultdict(list)
    runs: list[_Run] = []
    for word in sorted(words, key=lambda word: word.box.left):
        bucket = int(word.box.middle // _BUCKET)
        best: tuple[float, _Run] | None = None
        for near in (bucket - 1, bucket, bucket + 1):
            for run in buckets.get(near, ()):
                gap = run.fit(word, uprights)
                if gap is not None and (best is None or gap < best[0]):
                    best = (gap, run)
        if best is None:
            run = _Run(word)
            runs.append(run)
            buckets[bucket].append(run)
        elif not _printed_twice(best[1].words[-1], word):
            best[1].take(word)
    return [_finish(run) for run in runs]


def _printed_twice(before: Word, word: Word) -> bool:
    """Whether the word is the one before it again, shifted by a hair to look bold."""
    return (
        word.text == before.text
        and abs(word.box.left - before.box.left) < 0.15 * word.size
        and abs(word.box.top - before.box.top) < 0.15 * word.size
    )


def _finish(run: _Run) -> Segment:
    counts = [(len(word.text), word) for word in run.words]
    chars = sum(count for count, _ in counts)
    sizes: defaultdict[float, int] = defaultdict(int)
    for count, word in counts:
        sizes[round(word.size, 1)] += count
    rtl = sum(count for count, word in counts if word.rtl) * 2 > chars
    return Segment(
        text=_spell(run.words[::-1] if rtl else run.words, rtl),
        box=geometry.union(word.box for word in run.words),
        size=max(sizes, key=lambda size: (sizes[size], size)),
        chars=chars,
        bold=sum(count for count, word in counts if word.face.bold),
        italic=sum(count for count, word in counts if word.face.italic),
        mono=sum(count for count, word in counts if word.face.mono),
        rtl=rtl,
    )


def _spell(words: list[Word], rtl: bool) -> str:
    """The words in reading order, with a space where there is one on the page."""
    text = words[0].text
    for before, word in pairwise(words):
        gap = before.box.left - word.box.right if rtl else word.box.left - before.box.right
        text += f" {word.text}" if gap > 0.3 * min(before.space, word.space) else word.text
    return text
