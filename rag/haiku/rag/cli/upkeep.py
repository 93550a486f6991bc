"""`haiku-rag vacuum`: takes away what nobody needs, and says what it did and what has to wait."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from haiku.rag.cli import output
from haiku.rag.cli.boundary import fail
from haiku.rag.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.rag.cli.boundary import Target
    from haiku.rag.store import VacuumReport

#: Seconds in each unit of a duration.
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def duration(text: str) -> float:
    """The seconds of a duration such as `0`, `90`, `30m`, `12h` or `7d`.

    Raises:
        ConfigError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise ConfigError(f"{text!r} is no duration; write seconds, or a number with s, m, h, d, w")
    return float(match[1]) * UNITS[match[2] or "s"]


async def vacuum(target: Target, *, history: str | None, as_json: bool) -> None:
    """Vacuum, and report."""
    seconds = None if history is None else duration(history)
    async with target.client(writes=True) as client:
        report = await client.vacuum(seconds)
    if as_json:
        output.print_json(asdict(report))
    else:
        output.pairs(_done(report))
        for line in _left(report):
            output.console(stderr=True).print(line)
    if report.errors:
        fail("; ".join(report.errors))


def _done(report: VacuumReport) -> list[tuple[str, object]]:
    before, after = report.bytes_before, report.bytes_after
    size = None if before is None or after is None else f"{_size(before)} → {_size(after)}"
    return [
        ("on disk", size),
        ("revisions collected", _number(report.collected_revisions)),
        ("rows deleted", _number(report.deleted_rows)),
        ("deleted documents forgotten", _number(report.forgotten_documents)),
        ("rewritten", _size(sum(report.rewritten.values())) if report.rewritten else None),
        ("indexes made", ", ".join(report.created)),
        ("indexes extended", ", ".join(report.updated)),
        ("versions removed", _number(report.removed_versions)),
    ]


def _left(report: VacuumReport) -> Iterator[str]:
    """What could not be done, and when it can."""
    if report.again_in is not None:
        what = "more can be freed"
        if report.waiting_revisions:
            many = "" if report.waiting_revisions == 1 else "s"
            what = f"{report.waiting_revisions:,} revision{many} can be collected"
        yield (
            f"{what} in {spoken(report.again_in)}: run it again then; a program that writes to "
            "the database meanwhile does it by itself"
        )
    yield from (f"left: {text}" for text in report.skipped)
    if report.postponed:
        yield f"another process was at it, run it again: {', '.join(report.postponed)}"


def spoken(seconds: float) -> str:
    """A duration for people: `1 min 40 s`."""
    whole = max(1, round(seconds))
    parts = [(whole // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _number(count: int) -> str | None:
    return f"{count:,}" if count else None
