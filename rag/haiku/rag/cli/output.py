"""What commands print: tables and passages for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from haiku.rag import uris
from haiku.rag.cli.escaping import json_safe, one_line, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from haiku.rag.models import Document, SearchResult

#: Columns when there is no terminal: wide enough that nothing is cut.
UNLIMITED = 10_000
#: Characters of a hit that are shown when it is not expanded.
SNIPPET = 320


def console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessing at colours."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        markup=False,
        emoji=False,
        highlight=False,
        width=None if stream.isatty() else UNLIMITED,
        soft_wrap=not stream.isatty(),
    )


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    print(json_safe(text))  # noqa: T201


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; cells are text, shown on one line and folded where the terminal is narrow."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(Text(column), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(one_line("" if cell is None else str(cell))) for cell in row))
    console().print(grid)


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """Names with their values, a line each."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value not in (None, "", [], {}):
            grid.add_row(Text(name), Text(one_line(str(value))))
    console().print(grid)


def whole_line(text: str) -> None:
    """A line that is not folded, so that it can be copied from a narrow terminal."""
    console().print(Text(shown(text)), soft_wrap=True)


def documents(found: Sequence[Document]) -> None:
    """A list of documents: a few lines each on a terminal, a row each elsewhere."""
    if sys.stdout.isatty():
        for d in found:
            about = f"{d.chunk_count} chunks, {moment(d.updated_at)}"
            _lines(_title(d.title, d.uri), about, [uris.display(d.uri), d.id])
        return
    rows = (
        (d.id, d.title or "", uris.display(d.uri), d.chunk_count, moment(d.updated_at))
        for d in found
    )
    table(("id", "title", "uri", "chunks", "updated"), rows)


def document(found: Document) -> None:
    """One document: what is known of it, then its text."""
    pairs(
        [
            ("title", found.title),
            ("uri", uris.display(found.uri)),
            ("id", found.id),
            ("type", found.content_type),
            ("chunks", found.chunk_count),
            (
                "metadata",
                json.dumps(found.metadata, ensure_ascii=False) if found.metadata else None,
            ),
            ("created", moment(found.created_at)),
            ("updated", moment(found.updated_at)),
        ]
    )
    console().print(Text("\n" + shown(found.content)))


def hits(found: Sequence[SearchResult], query: str, *, whole: bool) -> None:
    """The hits of a search, best first.

    Args:
        found: the hits.
        query: what was searched, for the choice of the snippet.
        whole: show all of each hit's text instead of a snippet.
    """
    out = console()
    for place, hit in enumerate(found, start=1):
        title = f"{place}. {_title(hit.document_title, hit.document_uri)}"
        _lines(title, f"{hit.score:.4f}", [_where(hit)])
        if hit.headings:
            out.print(_indented(one_line(" › ".join(hit.headings)), "italic"))
        text = shown(hit.content) if whole else one_line(snippet(hit.content, query))
        out.print(_indented(text))
        out.print()


def _title(title: str | None, uri: str) -> str:
    """A document's title, or the last part of its name when it has none."""
    return one_line(title or uris.display(uri).rstrip("/").rsplit("/", 1)[-1])


def _lines(title: str, about: str, more: Iterable[str]) -> None:
    """A bold title with something beside it, and indented lines below."""
    out = console()
    out.print(Text.assemble((title, "bold"), (f"  {about}", "dim")))
    for line in more:
        out.print(_indented(line, "dim"))


def _indented(text: str, style: str = "") -> Padding:
    """A text whose every line, wrapped ones too, is set in."""
    return Padding(Text(text, style=style), (0, 0, 0, 3), expand=False)


def _where(hit: SearchResult) -> str:
    where = uris.display(hit.document_uri)
    if not hit.page_numbers:
        return where
    return f"{where}  p. {', '.join(map(str, hit.page_numbers))}"


def snippet(content: str, query: str, size: int = SNIPPET) -> str:
    """The part of a text where the query's words first come thick, between two words.

    The window that starts at the word before which the most different words of the query follow.
    """
    text = " ".join(content.split())
    if len(text) <= size:
        return text
    words = {word.casefold() for word in re.findall(r"\w+", query)}
    places = [
        (match.start(), match.group().casefold())
        for match in re.finditer(r"\w+", text)
        if match.group().casefold() in words
    ]

    def worth(start: int) -> int:
        return len({word for at, word in places if start <= at < start + size})

    best = max((at for at, _ in places), key=worth, default=0)
    start = max(0, min(best - size // 6, len(text) - size))
    start = text.find(" ", start) + 1 if start else 0
    end = text.rfind(" ", start, start + size) if start + size < len(text) else len(text)
    end = end if end > start else start + size
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def moment(value: datetime) -> str:
    """A time for people, in UTC to the second."""
    return value.strftime("%Y-%m-%d %H:%M:%S UTC")
