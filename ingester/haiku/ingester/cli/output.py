"""Printing: tables for people, lines for pipes, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from haiku.ingester.logs import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def print_json(value: Any) -> None:
    """One JSON value on standard output; times in ISO 8601."""
    line(json.dumps(value, indent=2, default=_plain))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their columns: aligned on a terminal, tab-separated otherwise.

    On a terminal a `path` that does not fit loses its front, which all rows share; beside it a
    `source` that all rows share is left out.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(columns), *cells]:
            line("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if "path" in columns:
        columns, cells = _without_shared(columns, cells, "source")
        _shorten(cells, columns, columns.index("path"), Console().width)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        drawn.add_column(name, overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    Console().print(drawn)


def _without_shared(
    columns: Sequence[str], cells: list[list[str]], name: str
) -> tuple[Sequence[str], list[list[str]]]:
    """Without the column `name`, when it is there and all rows have the same in it."""
    if name not in columns:
        return columns, cells
    at = columns.index(name)
    if len({row[at] for row in cells}) != 1:
        return columns, cells
    first, *others = ([*row[:at], *row[at + 1 :]] for row in [list(columns), *cells])
    return first, others


def _shorten(cells: list[list[str]], columns: Sequence[str], at: int, width: int) -> None:
    """Cut column `at` from the left to what the others leave of the width."""
    others = (
        max(len(name), *(len(row[place]) for row in cells), 0) + 3
        for place, name in enumerate(columns)
        if place != at
    )
    room = max(width - sum(others) - 3, 20)
    for row in cells:
        if len(row[at]) > room:
            row[at] = "…" + row[at][1 - room :]


def line(text: str) -> None:
    """A line on standard output. A reader that has gone away (`| head`) ends the command."""
    try:
        print(text, flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def note(text: str) -> None:
    """A line for people on standard error."""
    print(text, file=sys.stderr)  # noqa: T201


def ago(moment: datetime | None) -> str:
    """How long ago, in the largest fitting unit."""
    if moment is None:
        return "never"
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _cell(value: object) -> str:
    return "" if value is None else escape(str(value))


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
