"""What a block is besides text and heading: code, list item, caption, footnote."""

from collections.abc import Sequence

from haiku.rag.convert.pdf import text
from haiku.rag.convert.pdf.headings import Body
from haiku.rag.convert.pdf.paragraphs import Block

#: Bullets that also begin ordinary lines; they count only beside another item.
_DOUBTFUL = "-–—*·∙"
#: Distance between a caption and what it belongs to, in points.
CAPTION_REACH = 45.0
#: Footnotes are set smaller than this share of the body text.
NOTE_SIZE = 0.95


def mark(blocks: Sequence[Block], body: Body, heights: dict[int, float]) -> None:
    """Give code, items, captions and footnotes their role.

    `heights` are the heights of the pages in their frames, in points.
    """
    for index, block in enumerate(blocks):
        if not block.is_text:
            continue
        if block.mono and not body.mono and not text.is_plain_bullet(block.text):
            block.role = "code"
        elif block.marker and _is_item(blocks, index, body):
            block.role = "item"
        elif text.CAPTION.match(block.text) and len(block.text) < 600 and _beside(blocks, index):
            block.role = "caption"
        elif _is_note(block, body, heights[block.page]):
            block.role = "footnote"


def _is_item(blocks: Sequence[Block], index: int, body: Body) -> bool:
    """Whether a block that starts with a marker is an item of a list.

    A plain bullet says so by itself. A number, letter or dash needs a neighbour that goes on
    counting, and is a heading rather than an item when it is set like one.
    """
    block = blocks[index]
    mark = block.marker or ""
    if text.is_bullet(mark) and mark not in _DOUBTFUL:
        return len(block.text) > len(mark)
    if (
        not text.is_bullet(mark)
        and (block.bold or block.size > 1.1 * body.size)
        and block.lines < 3
    ):
        return False
    return any(
        other.marker
        and _goes_on(mark, other.marker)
        and abs(other.left - block.left) < 2 * block.size
        for other in _neighbours(blocks, index)
    )


def _neighbours(blocks: Sequence[Block], index: int) -> list[Block]:
    return [
        blocks[near]
        for near in range(max(0, index - 5), min(len(blocks), index + 6))
        if near != index
    ]


def _goes_on(mark: str, other: str) -> bool:
    """Whether two markers count in one series, such as "a)" and "b)"."""
    if text.is_bullet(mark) or text.is_bullet(other):
        return mark == other
    one, two = mark.strip("()."), other.strip("().")
    if mark.replace(one, "") != other.replace(two, ""):
        return False
    if one.isdigit() and two.isdigit():
        return 0 < abs(int(one) - int(two)) <= 5
    letters = len(one) == len(two) == 1 and one.isalpha() and two.isalpha()
    roman = set((one + two).lower()) <= set("ivx")
    return one != two and (roman or (letters and abs(ord(one) - ord(two)) <= 5))


def _beside(blocks: Sequence[Block], index: int) -> bool:
    return owner_of(blocks, index) is not None


def owner_of(blocks: Sequence[Block], index: int) -> Block | None:
    """The table or picture that a caption belongs to: the nearest above or below on its page."""
    block = blocks[index]
    best: tuple[float, Block] | None = None
    for other in _neighbours(blocks, index):
        if other.is_text or other.page != block.page or other.box.overlap_x(block.box) <= 0:
            continue
        distance = max(0.0, -other.box.overlap_y(block.box))
        if distance <= CAPTION_REACH and (best is None or distance < best[0]):
            best = (distance, other)
    return best[1] if best else None


def _is_note(block: Block, body: Body, height: float) -> bool:
    """Whether a block is a footnote: small, low on the page, and led by a number or sign."""
    low = block.box.top > 0.5 * height
    small = block.size <= NOTE_SIZE * body.size
    return low and small and text.NOTE.match(block.text) is not None


def join_runs(blocks: Sequence[Block], words: set[str]) -> list[Block]:
    """Join paragraphs that run on over a column or page, and code that was cut into pieces.

    Floats and footnotes between the two halves stay where they are, after the joined paragraph.
    """
    out: list[Block] = []
    open_block: Block | None = None
    for block in blocks:
        if open_block is not None and _runs_on(open_block, block):
            _append(open_block, block, words)
            continue
        out.append(block)
        if block.role in ("text", "item", "code") and block.is_text:
            open_block = block
        elif block.role in ("heading", "title"):
            open_block = None
    return out


def _runs_on(before: Block, block: Block) -> bool:
    if block.role == "code":
        return before.role == "code" and _follows(before, block, reach=2.5)
    if block.role != "text" or not block.is_text or before.role == "code":
        return False
    last = before.spans[-1]
    moved = block.page != last.page or block.box.top < last.box.bottom - block.size
    near = 0 <= block.page - last.page <= 2
    alike = abs(block.size - before.size) < 0.07 * before.size and block.bold == before.bold
    return moved and near and alike and before.full and text.continues(before.text, block.text)


def _follows(before: Block, block: Block, reach: float) -> bool:
    """Whether a block stands right below another in the same column."""
    last = before.spans[-1]
    gap = block.box.top - last.box.bottom
    return (
        block.page == last.page
        and -2 <= gap <= reach * block.size
        and block.box.overlap_x(last.box) > 0
    )


def _append(before: Block, block: Block, words: set[str]) -> None:
    if block.role == "code":
        indent = block.box.left - before.spans[0].box.left
        pitch = block.size * 0.6
        pad = " " * max(0, round(indent / pitch))
        before.code += ["", *(pad + line for line in block.code)]
        before.spans += block.spans
        return
    joined = text.join(before.text, block.text, words)
    start = len(joined) - len(block.text)
    before.spans[-1].end = min(before.spans[-1].end, start)
    for span in block.spans:
        before.spans.append(type(span)(span.page, span.box, start + span.start, start + span.end))
    before.text = joined
    before.lines += block.lines
    before.full = block.full
