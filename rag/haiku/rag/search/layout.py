"""A document's items as one running text with sections, measured without being joined.

`Layout` gives every visible item a stretch of character offsets, headings their sections, and
grows a stretch around a hit by the rules of context expansion (`grow`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from haiku.rag.records import NewItem

#: A section shorter than this share of the cap is too small to be returned alone.
WORTH_RETURNING = 0.1

#: Docling labels that interrupt the text of a page rather than belong to it.
_NOISE = frozenset({"footnote", "page_header", "page_footer"})
#: Words of a chunk that are looked for where it begins and where it ends.
_EDGE_WORDS = 12


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Character offsets in a layout: from `start` up to, not including, `end`."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def contains(self, other: Span) -> bool:
        """Whether the other lies within."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: Span) -> bool:
        """Whether the two share a character."""
        return self.start < other.end and other.start < self.end

    def union(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class Layout:
    """The visible items of one document in reading order.

    Args:
        items: the document's items. Furniture, footnotes and items without text are left out.
        keep: references that stay visible whatever they are, because a hit stands on them.
    """

    def __init__(self, items: Sequence[NewItem], keep: Collection[str] = ()) -> None:
        self.items = [item for item in items if item.ref in keep or _reads(item)]
        #: Item reference → its place in `items`.
        self.index = {item.ref: at for at, item in enumerate(self.items)}
        self._texts = [_written(item) for item in self.items]
        self._gaps = ["", *(_gap(a, b) for a, b in zip(self.items, self.items[1:], strict=False))]
        self._starts: list[int] = []
        self._ends: list[int] = []
        at = 0
        for gap, text in zip(self._gaps, self._texts, strict=False):
            self._starts.append(at + len(gap))
            at += len(gap) + len(text)
            self._ends.append(at)
        self._parents = self._find_parents()
        self._last = self._find_last()

    # --- measuring ----------------------------------------------------------------------------

    @property
    def whole(self) -> Span:
        """All of the document."""
        return Span(0, self._ends[-1] if self._ends else 0)

    def span(self, first: int, last: int) -> Span:
        """The stretch of the items from `first` to `last`, both included."""
        return Span(self._starts[first], self._ends[last])

    def items_in(self, span: Span) -> range:
        """The places of the items that have a character within the span."""
        return range(bisect_right(self._ends, span.start), bisect_left(self._starts, span.end))

    def text(self, span: Span) -> str:
        """The text of a stretch."""
        parts: list[str] = []
        for at in self.items_in(span):
            start = self._starts[at]
            parts.append(self._gaps[at] if parts else "")
            parts.append(self._texts[at][max(span.start - start, 0) : span.end - start])
        return "".join(parts)

    # --- sections -----------------------------------------------------------------------------

    def sections(self, span: Span) -> Iterable[Span]:
        """What encloses the span, innermost first; the last is the whole document."""
        at = self.items_in(span).start
        first: int | None = at if self.items[at].level else self._parents[at]
        if first is None:
            yield from self._loose(at, span)
        while first is not None:
            section = self.span(first, self._last[first])
            if section.contains(span):
                yield section
            first = self._parents[first]
        yield self.whole

    def _loose(self, at: int, span: Span) -> Iterable[Span]:
        """The run of items around one that stands under no heading, such as a preamble."""
        first = last = at
        while first > 0 and self._is_loose(first - 1):
            first -= 1
        while last + 1 < len(self.items) and self._is_loose(last + 1):
            last += 1
        if self.span(first, last).contains(span):
            yield self.span(first, last)

    def _is_loose(self, at: int) -> bool:
        return not self.items[at].level and self._parents[at] is None

    def _find_parents(self) -> list[int | None]:
        """For each item the place of its heading; only an earlier heading counts as one."""
        parents: list[int | None] = []
        for at, item in enumerate(self.items):
            parent = self.index.get(item.heading_ref) if item.heading_ref is not None else None
            valid = parent is not None and parent < at and self.items[parent].level
            parents.append(parent if valid else None)
        return parents

    def _find_last(self) -> list[int]:
        """For each heading the place of the last item of its section, subsections included."""
        last = list(range(len(self.items)))
        for at in reversed(range(len(self.items))):
            parent = self._parents[at]
            if parent is not None:
                last[parent] = max(last[parent], last[at])
        return last

    # --- growing ------------------------------------------------------------------------------

    def grow(self, anchor: Span, cap: int, *, bounded: bool) -> Span:
        """The context of a hit: at most `cap` characters, and the anchor in it.

        The section around the anchor when it fits; inside a larger one, item by item outward; a
        section too small to be worth returning gives way to what encloses it.

        Args:
            anchor: where the hit stands. Longer than the cap, it is cut to it.
            cap: characters at most.
            bounded: never leave the innermost section (pictures and tables).
        """
        items = self.items_in(anchor)
        own = self.span(items.start, items.stop - 1)
        if len(own) > cap:
            return self._cut(anchor, own, cap)
        worth = 0 if bounded else cap * WORTH_RETURNING
        for section in self.sections(own):
            if len(section) > cap:
                return self._outward(own, section, cap)
            if len(section) >= worth:
                return section
        return self.whole

    def _outward(self, own: Span, section: Span, cap: int) -> Span:
        """From `own` one item before, one after, and so on, while whole items fit."""
        room, items = self.items_in(section), self.items_in(own)
        low, high = items.start, items.stop - 1
        before = after = True
        while before or after:
            if before:
                before = low > room.start and len(self.span(low - 1, high)) <= cap
                low -= before
            if after:
                after = high + 1 < room.stop and len(self.span(low, high + 1)) <= cap
                high += after
        while high >= items.stop and self.items[high].level:
            high -= 1  # a heading without its text says nothing
        return self.span(low, high)

    def _cut(self, anchor: Span, own: Span, cap: int) -> Span:
        """A stretch of `own` around the anchor, from one line or word to another."""
        if len(anchor) >= cap:
            return Span(anchor.start, anchor.start + cap)
        spare = cap - len(anchor)
        right = min(spare - min(spare // 2, anchor.start - own.start), own.end - anchor.end)
        left = min(spare - right, anchor.start - own.start)
        start, end = anchor.start - left, anchor.end + right
        if start > own.start:
            start += _edge(self.text(Span(start, anchor.start)))
        if end < own.end:
            end -= _edge(self.text(Span(anchor.end, end))[::-1])
        return Span(start, end)

    def locate(self, content: str, within: Span) -> Span | None:
        """Where a chunk's content stands in a stretch, white space aside; None if it does not."""
        words, exact = content.split(), content.strip()
        text = self.text(within)
        if exact and (start := text.find(exact)) >= 0:
            return Span(within.start + start, within.start + start + len(exact))
        head = _words(words[:_EDGE_WORDS]).search(text) if words else None
        if head is None:
            return None
        limit = head.start() + 2 * len(content)
        ends = list(_words(words[-_EDGE_WORDS:]).finditer(text, head.start(), limit))
        if not ends:
            return None
        reach = head.start() + len(content)
        tail = min(ends, key=lambda match: abs(match.end() - reach))
        return Span(within.start + head.start(), within.start + tail.end())


def _reads(item: NewItem) -> bool:
    return bool(item.text) and item.layer == "body" and item.label not in _NOISE


def _written(item: NewItem) -> str:
    """An item's text; a heading as Markdown, and a note where there is a picture without words."""
    if item.level:
        return f"{'#' * min(item.level, 6)} {item.text}"
    return item.text or f"<!-- {item.label} -->"


def _gap(before: NewItem, after: NewItem) -> str:
    return "\n" if before.label == after.label == "list_item" else "\n\n"


def _words(words: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, words)))


def _edge(text: str) -> int:
    """How much to leave out so that the text begins with a line (if one begins soon) or a word."""
    line = text.find("\n", 0, len(text) // 2)
    if line >= 0:
        return line + 1
    word = re.search(r"\s", text)
    return word.end() if word else 0
