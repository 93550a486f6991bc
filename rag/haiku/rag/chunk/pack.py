"""From blocks to chunks that keep to the limit: split what is too long, join what is too short.

The guarantee: the text that is embedded, headings and special tokens included, never counts more
than the limit by the embedder's own tokenizer. Every chunk is counted as it leaves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from haiku.rag.chunk.split import CHARS_A_TOKEN, split
from haiku.rag.records import NewChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from haiku.rag.chunk.blocks import Block, Place
    from haiku.rag.embed.protocol import Tokenizer

#: Between the joined contents of one chunk.
JOINT = "\n\n"
ELLIPSIS = "…"

_start = attrgetter("start")


@dataclass(frozen=True, slots=True)
class Piece:
    """Content that fits under its headings, with the items it stands on."""

    content: str
    headings: tuple[str, ...]
    places: tuple[Place, ...]
    #: Tokens of the text made of it, headings and special tokens included.
    tokens: int


@dataclass(frozen=True, slots=True)
class _Prefix:
    """Headings as they stand over a chunk's content, and what they cost."""

    text: str
    #: Tokens, special tokens included.
    tokens: int


class Packer:
    """Makes the chunks of one document.

    Args of the constructor: the tokenizer of the embedder, the limit in tokens (special tokens
    included), and whether neighbours under the same headings are joined.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int, *, join: bool) -> None:
        self._tokenizer = tokenizer
        self._limit = limit
        self._join = join
        self._special = tokenizer.count("")
        #: Characters of a chunk at most, however few tokens they are.
        self._most_characters = limit * CHARS_A_TOKEN
        #: Tokens that joining costs.
        self._joint = tokenizer.count(f"a{JOINT}a") - 2 * tokenizer.count("a") + self._special
        self._prefixes: dict[tuple[str, ...], _Prefix] = {}

    def chunks(self, blocks: Iterable[Block]) -> Iterator[NewChunk]:
        """The chunks, in the order of the blocks."""
        pieces = (piece for block in blocks for piece in self._pieces(block))
        for piece in self._joined(pieces) if self._join else pieces:
            yield self._chunk(piece)

    def _chunk(self, piece: Piece) -> NewChunk:
        pages = {page for place in piece.places for page in place.pages}
        return NewChunk(
            content=piece.content,
            text=self._text(piece.headings, piece.content),
            headings=piece.headings,
            labels=tuple(dict.fromkeys(place.label for place in piece.places)),
            page_numbers=tuple(sorted(pages)),
            doc_item_refs=tuple(dict.fromkeys(place.ref for place in piece.places)),
            token_count=piece.tokens,
        )

    def _text(self, headings: tuple[str, ...], content: str) -> str:
        prefix = self._prefix(headings).text
        return f"{prefix}\n{content}" if prefix else content

    # --- splitting ---

    def _pieces(self, block: Block) -> Iterator[Piece]:
        content = _trim(block.text)
        # A long block is counted piece by piece only.
        if len(content) <= self._most_characters:
            tokens = self._tokenizer.count(self._text(block.headings, content))
            if tokens <= self._limit:
                yield Piece(content, block.headings, block.places, tokens)
                return
        header = self._repeatable(block)
        room = self._limit - self._prefix(block.headings).tokens - header.tokens
        yield from self._fitting(block, 0, len(block.text), room, header.text)

    def _repeatable(self, block: Block) -> _Prefix:
        """The block's header where it leaves at least half the room to the body."""
        if not block.header:
            return _Prefix("", 0)
        tokens = self._tokenizer.count(block.header) - self._special + 1
        room = self._limit - self._prefix(block.headings).tokens
        return _Prefix(block.header, tokens) if tokens <= room // 2 else _Prefix("", 0)

    def _shown(self, block: Block, start: int, end: int, header: str) -> str:
        """The piece's content, under the header where the piece lies behind it."""
        content = _trim(block.text[start:end])
        return f"{header}\n{content}" if content and header and start >= block.body else content

    def _fitting(
        self, block: Block, start: int, end: int, room: int, header: str
    ) -> Iterator[Piece]:
        """Pieces of a part of the block that are within the limit, as counted."""
        for a, b in split(block.text[start:end], room, self._tokenizer):
            part = start + a, start + b
            content = self._shown(block, *part, header)
            if not content:
                continue
            tokens = self._tokenizer.count(self._text(block.headings, content))
            over = tokens - self._limit
            if over > 0 and b - a > 1:
                # Alone it counts more than within the whole.
                yield from self._fitting(block, *part, min(room - over, room - 1), header)
            else:
                yield Piece(content, block.headings, _places(block, *part), tokens)

    # --- joining ---

    def _joined(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Neighbours under the same headings in one piece, as long as they fit."""
        held: list[Piece] = []
        total = size = 0
        for piece in pieces:
            added = piece.tokens - self._prefix(piece.headings).tokens + self._joint
            size += len(piece.content) + len(JOINT)
            fits = total + added <= self._limit and size <= self._most_characters
            if held and not (fits and piece.headings == held[0].headings):
                yield from self._together(held)
                held = []
            if not held:
                total, size = piece.tokens, len(piece.content)
            else:
                total += added
            held.append(piece)
        yield from self._together(held)

    def _together(self, pieces: list[Piece]) -> Iterator[Piece]:
        """The pieces as one; as several when their text counts more than they did."""
        while len(pieces) > 1:
            for count in range(len(pieces), 0, -1):
                joined = self._join_all(pieces[:count])
                if joined.tokens <= self._limit or count == 1:
                    break
            yield joined
            pieces = pieces[count:]
        yield from pieces

    def _join_all(self, pieces: list[Piece]) -> Piece:
        headings = pieces[0].headings
        content = JOINT.join(piece.content for piece in pieces)
        places = tuple(place for piece in pieces for place in piece.places)
        if self._tokenizer.additive or len(pieces) == 1:
            repeated = self._prefix(headings).tokens * (len(pieces) - 1)
            tokens = sum(piece.tokens for piece in pieces) - repeated
        else:
            tokens = self._tokenizer.count(self._text(headings, content))
        return Piece(content, headings, places, tokens)

    # --- headings ---

    def _prefix(self, headings: tuple[str, ...]) -> _Prefix:
        """The headings over a chunk: shortened from the outside when they take over half of it."""
        if headings not in self._prefixes:
            most = self._limit // 2
            shown = list(headings)
            while len(shown) > 1 and self._tokenizer.count("\n".join(shown)) > most:
                del shown[0]
            text = "\n".join(shown)
            if self._tokenizer.count(text) > most:
                text = self._shortened(text, most)
            self._prefixes[headings] = _Prefix(text, self._tokenizer.count(text))
        return self._prefixes[headings]

    def _shortened(self, heading: str, most: int) -> str:
        """The beginning of a heading that is too long by itself; nothing when none fits."""
        room = most - self._tokenizer.count(ELLIPSIS)
        while room > 0:
            _, end = next(split(heading, room, self._tokenizer))
            text = heading[:end].rstrip() + ELLIPSIS
            over = self._tokenizer.count(text) - most
            if over <= 0:
                return text
            room -= over
        return ""


def _trim(text: str) -> str:
    """Without blank lines around it and blanks behind it; a first line keeps its indentation."""
    text = text.rstrip()
    while (end := text.find("\n")) >= 0 and not text[:end].strip():
        text = text[end + 1 :]
    return text


def _places(block: Block, start: int, end: int) -> tuple[Place, ...]:
    """The items that stand in a part of the block: the one it begins in, and those begun in it."""
    first = bisect_right(block.places, start, key=_start) - 1
    return block.places[max(0, first) : bisect_left(block.places, end, key=_start)]
