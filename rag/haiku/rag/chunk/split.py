"""Cuts a text into pieces of bounded tokens, at the best places, in linear time.

A piece ends behind a paragraph, line or sentence of its second half; else behind a table cell or
word; else between two characters as people see them. Nothing but blanks at the cuts is lost.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.rag.embed.protocol import Tokenizer

#: Characters a token is worth at most: a word of thousands of letters is one unknown token to
#: some tokenizers, and a run of blanks is none.
CHARS_A_TOKEN = 16
#: Characters that are tokenized at once, so that a text of any length costs the same a character.
WINDOW = 16_384
#: Characters that one visible character may span: marks, joiners, modifiers.
CLUSTER = 32

_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？][」』”）]*")
_JOINER = "\u200d"


def split(text: str, room: int, tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Start and end of pieces that cover the text, each of about `room` tokens at most.

    What a piece counts once it stands alone is for the caller to check: tokens at its edges may
    differ from those they were in the whole text.

    Args:
        text: any text.
        room: tokens of a piece, special tokens aside, from 1.
        tokenizer: says where tokens end.
    """
    room = max(1, room)
    reach = room * CHARS_A_TOKEN
    start = base = 0
    ends: list[int] = []
    covered = -1
    while start < len(text):
        if covered < min(len(text), start + reach):
            base, covered = start, min(len(text), start + reach + WINDOW)
            ends = tokenizer.ends(text[base:covered])
        first = bisect_right(ends, start - base)
        last = first + room - 1
        hard = base + ends[last] if last < len(ends) - 1 else len(text)
        hard = min(hard, start + reach)
        end = _cut(text, start, hard) if hard < len(text) else len(text)
        yield start, end
        start = end


def _cut(text: str, start: int, hard: int) -> int:
    """The best place to end a piece that begins at `start`, not behind `hard`."""
    half = start + (hard - start) // 2
    for mark in ("\n\n", "\n"):
        found = text.rfind(mark, half, hard)
        if found >= 0:
            return found + len(mark)
    sentences = [match.end() for match in _SENTENCE.finditer(text, half, hard)]
    if sentences:
        return sentences[-1]
    for mark in ("; ", " ", "\n", "\t", "\u3000"):
        found = text.rfind(mark, start + 1, hard + 1)
        if found >= 0:
            return found + len(mark)
    return _between_characters(text, start, hard)


def _between_characters(text: str, start: int, hard: int) -> int:
    """The last place up to `hard` that does not tear marks or joined emoji from their base."""
    end = max(hard, start + 1)
    for place in range(end, max(start, end - CLUSTER), -1):
        if not _continues(text, place):
            return place
    return end


def _continues(text: str, place: int) -> bool:
    character = text[place]
    return (
        unicodedata.combining(character) > 0
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or character == _JOINER
        or text[place - 1] == _JOINER
    )
