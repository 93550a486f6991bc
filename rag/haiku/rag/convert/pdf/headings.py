"""Headings and their levels, from the whole document.

A heading is a short block that stands out: larger than the body text, or bold, or numbered, or in
capitals, and set off from what surrounds it. Its level comes from the PDF's own outline where that
names it, else from its numbering ("2.1" is one below "2"), else from the rank of its style.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from haiku.rag.convert.pdf import text
from haiku.rag.convert.pdf.paragraphs import Block

#: Signs of mathematics, whose large brackets look like large type.
_FORMULA = re.compile(r"[=∼∂∑∏∫√⊤≤≥∈∀≈]")
#: A block this many times larger than body text stands out by size alone.
LARGER = 1.12
#: Headings nest at most this deep.
DEEPEST = 6
#: Characters beyond which a block is no heading, however it looks.
LONGEST = 220


class Bookmark(NamedTuple):
    """An entry of the PDF's outline: its title, depth from 0, and page from 1 if known."""

    title: str
    depth: int
    page: int | None


class Body(NamedTuple):
    """How running text looks in this document."""

    #: Font size in points.
    size: float
    bold: bool
    mono: bool


def body_of(blocks: Sequence[Block]) -> Body:
    """The style of most characters; paragraphs of several lines count double."""
    sizes: Counter[float] = Counter()
    bold = mono = total = 0
    for block in blocks:
        if not block.is_text:
            continue
        weight = len(block.text) * (2 if block.lines > 2 else 1)
        sizes[round(block.size * 2) / 2] += weight
        total += weight
        bold += weight * block.bold
        mono += weight * block.mono
    if not sizes:
        return Body(10.0, bold=False, mono=False)
    return Body(sizes.most_common(1)[0][0], bold=bold * 2 > total, mono=mono * 2 > total)


def titles_by_page(outline: Sequence[Bookmark]) -> dict[int | None, set[str]]:
    """Comparable titles of the outline by page; under None those of unknown page."""
    titles: dict[int | None, set[str]] = defaultdict(set)
    for entry in outline:
        if name := text.plain_title(entry.title):
            titles[entry.page].add(name)
    return titles


def mark(blocks: Sequence[Block], body: Body, outline: Sequence[Bookmark]) -> None:
    """Give headings their `role` and `level`; blocks with another role already are left alone."""
    named = _match(blocks, outline)
    found = [
        block
        for index, block in enumerate(blocks)
        if block.role == "text" and (id(block) in named or _stands_out(blocks, index, body))
    ]
    title = _title(found, body)
    for block in found:
        block.role = "title" if block is title else "heading"
    rest = [block for block in found if block is not title]
    if named:
        _levels_by_outline(rest, named)
    else:
        _levels_by_style(rest)


def _stands_out(blocks: Sequence[Block], index: int, body: Body) -> bool:
    """Whether a block looks like a heading."""
    block = blocks[index]
    words = block.text.split()
    if not _eligible(block, words):
        return False
    ratio = block.size / body.size
    closed = block.text.endswith((".", ",", ";")) and not block.text.endswith("...")
    if ratio >= LARGER:
        if block.text[:1].islower() and len(words) > 8:
            return False
        return block.lines <= 3 and len(words) <= 25 and not (closed and len(words) > 12)
    if ratio < 0.9 or block.lines > 2 or closed or block.mono:
        return False
    followed = index + 1 < len(blocks) and not (blocks[index + 1].picture)
    apart = block.space >= 0.35
    if block.bold and not body.bold:
        return len(words) <= 18 and apart and followed
    if not apart or not followed or block.lines > 1 or len(words) > 12 or block.full:
        return False
    depth = depth_of(block.text)
    if depth is not None and depth >= 2 and not block.italic:
        return _capital(text.NUMBERING.sub("", block.text, count=1))
    if block.centred and (depth is not None or block.space >= 1.0):
        return _capital(text.NUMBERING.sub("", block.text, count=1)) and _wordy(words)
    letters = [character for character in block.text if character.isalpha()]
    return len(letters) >= 4 and all(map(str.isupper, letters)) and ratio >= 0.97


def _eligible(block: Block, words: Sequence[str]) -> bool:
    letters = sum(character.isalpha() for character in block.text)
    if not block.is_text or not letters or len(block.text) > LONGEST:
        return False
    if (block.marker and text.is_bullet(block.marker)) or text.has_leaders(block.text):
        return False
    if letters * 2 < len(block.text.replace(" ", "")) or _FORMULA.search(block.text):
        return False
    return any(sum(map(str.isalpha, word)) > 2 or text.wide(word[-1]) for word in words)


def _wordy(words: Sequence[str]) -> bool:
    """Whether the words are words, not the parts of a formula."""
    long = sum(len(word.strip(".,:()")) > 3 for word in words if word.strip(".,:()").isalpha())
    return long * 2 >= len(words)


def _capital(rest: str) -> bool:
    return not rest[:1].islower()


def depth_of(words: str) -> int | None:
    """How deep a heading's number is: 1 for "2 Methods", 2 for "2.1 Data", None without one."""
    match = text.NUMBERING.match(words)
    if match is None:
        return 1 if text.CHAPTER.match(words) else None
    number = match.group(1) or match.group(2)
    return min(number.count(".") + 1, DEEPEST)


def _title(found: Sequence[Block], body: Body) -> Block | None:
    """The document's title: the one largest heading on the first page, unlike any later one."""
    if not found:
        return None
    page = found[0].page
    first = [block for block in found if block.page == page]
    best = max(first, key=lambda block: (block.size, -first.index(block)))
    alone = all(other.size < 0.97 * best.size for other in found if other is not best)
    above = [block for block in first[: first.index(best)] if block.size > 0.9 * best.size]
    large = best.size >= 1.15 * body.size
    return best if page == 1 and alone and large and not above else None


Style = tuple[float, bool]


def _style(block: Block) -> Style:
    return round(block.size * 2) / 2, block.bold


def _levels_by_style(found: Sequence[Block]) -> None:
    """Rank the styles by size, then weight; numbering overrides within its own scale."""
    ranks = _ranks(found)
    depths: dict[int, list[int]] = defaultdict(list)
    for block in found:
        depth = depth_of(block.text)
        if depth is not None:
            depths[depth].append(ranks[_style(block)])
    shallowest = min(depths, default=1)
    offset = round(median(depths[shallowest])) - shallowest if depths else 0
    trusted = sum(map(len, depths.values())) >= 2
    for block in found:
        depth = depth_of(block.text)
        level = depth + offset if depth is not None and trusted else ranks[_style(block)]
        block.level = min(max(level, 1), DEEPEST)


def _ranks(found: Sequence[Block]) -> dict[Style, int]:
    """Rank from 1 of each style; sizes that differ by less than four per cent are one."""
    ranks: dict[Style, int] = {}
    rank = 0
    previous: Style | None = None
    for style in sorted(
        {_style(block) for block in found}, key=lambda style: (-style[0], not style[1])
    ):
        alike = previous and style[1] == previous[1] and style[0] > 0.96 * previous[0]
        if not alike:
            rank += 1
        ranks[style] = rank
        previous = style
    return ranks


def _match(blocks: Sequence[Block], outline: Sequence[Bookmark]) -> dict[int, int]:
    """Level by block (its `id`) for blocks that the outline names, or nothing if few are.

    An outline that matches hardly any text is of another kind (file names, thumbnails).
    """
    by_name: dict[str, list[Bookmark]] = defaultdict(list)
    for entry in outline:
        if name := text.plain_title(entry.title):
            by_name[name].append(entry)
    named: dict[int, int] = {}
    for block in blocks:
        if (
            not block.is_text
            or block.role != "text"
            or block.lines > 3
            or len(block.text) > LONGEST
        ):
            continue
        entries = by_name.get(text.plain_title(block.text), ())
        for entry in entries:
            if entry.page is None or entry.page == block.page:
                named[id(block)] = min(entry.depth + 1, DEEPEST)
                break
    return named if len(named) >= max(1, 0.3 * len(outline)) else {}


def _levels_by_outline(found: Sequence[Block], named: dict[int, int]) -> None:
    """Levels of named headings; others take that of their style, or of the one nearest in size."""
    by_style: dict[Style, Counter[int]] = defaultdict(Counter)
    for block in found:
        if id(block) in named:
            by_style[_style(block)][named[id(block)]] += 1
    for block in found:
        size, bold = _style(block)
        near = min(by_style, key=lambda style: (abs(style[0] - size), style[1] != bold))
        block.level = named.get(id(block), by_style[near].most_common(1)[0][0])
