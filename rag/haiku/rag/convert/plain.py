"""Plain text and source code as documents: paragraphs, and code kept together by its blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import CodeLanguageLabel, DocItemLabel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Characters of one paragraph item at most; longer ones are cut at the best place before it.
MAX_PARAGRAPH = 8_000
#: Characters up to which neighbouring blocks of code share an item.
CODE_BLOCK = 1_200
#: Characters of one line beyond which a parser of markup is not trusted to end in time.
MAX_LINE = 200_000
#: Where a long paragraph is cut, best first.
_CUTS = ("\n", ". ", "。", "; ", ", ", " ")

_BLANK_LINES = re.compile(r"\n[ \t\u3000]*\n+")


def text_document(text: str, name: str) -> DoclingDocument:
    """A document of one paragraph item a block between blank lines; nothing is left out."""
    document = DoclingDocument(name=name)
    for block in _BLANK_LINES.split(text):
        for part in split_long(block.strip("\n")):
            if part.strip():
                document.add_text(label=DocItemLabel.TEXT, text=part.strip())
    return document


def code_document(text: str, name: str, language: str) -> DoclingDocument:
    """A document of code items: whole top-level blocks, joined while they are small.

    Args:
        text: the source.
        name: the document's name.
        language: as Docling names it; "unknown" for any other.
    """
    document = DoclingDocument(name=name)
    label = CodeLanguageLabel(language)
    for block in code_blocks(text):
        document.add_code(text=block, code_language=label)
    return document


def code_blocks(text: str) -> list[str]:
    """The source in pieces that begin at a line without indent after a blank line.

    Joined with "\\n\\n" they give the source again, up to blank lines between pieces.
    """
    blocks: list[str] = []
    size = 0
    for piece in _top_level(text.split("\n")):
        for part in split_long(piece):
            if blocks and size + len(part) <= CODE_BLOCK:
                blocks[-1] += "\n\n" + part
                size += len(part) + 2
            elif part.strip():
                blocks.append(part)
                size = len(part)
    return blocks


def split_long(text: str, limit: int = MAX_PARAGRAPH) -> Iterator[str]:
    """Pieces of at most `limit` characters that joined give `text`, cut where it reads best."""
    start = 0
    while len(text) - start > limit:
        end = _cut(text, start, start + limit)
        yield text[start:end]
        start = end
    yield text[start:]


def too_wide(text: str) -> bool:
    """Whether a line is longer than `MAX_LINE`."""
    return len(text) > MAX_LINE and any(len(line) > MAX_LINE for line in text.split("\n"))


def _cut(text: str, start: int, end: int) -> int:
    floor = start + (end - start) // 2
    for mark in _CUTS:
        place = text.rfind(mark, floor, end)
        if place >= 0:
            return place + len(mark)
    return end


def _top_level(lines: Iterable[str]) -> Iterator[str]:
    piece: list[str] = []
    blank = False
    for line in lines:
        if blank and line[:1] not in ("", " ", "\t", "}", ")", "]"):
            yield "\n".join(piece).rstrip().lstrip("\n")
            piece = []
        piece.append(line)
        blank = not line.strip()
    yield "\n".join(piece).rstrip().lstrip("\n")
