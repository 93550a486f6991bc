"""Commands that show what the items database knows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from haiku.ingester.cli import opening, output, scheduled
from haiku.ingester.items import State, instance
from haiku.ingester.logs import redact
from haiku.rag import uris
from haiku.rag.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from haiku.ingester.cli.opening import Opened
    from haiku.ingester.items import Item, SourceRecord


def status(config: Path | None, db: str | None, *, as_json: bool) -> None:
    """Counts by source and state, and who works on them."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            found: dict[str, Any] = {
                "database": here.places.database,
                "items_database": redact(here.places.items_url),
                "daemons": instance.running(here.places.state),
                "sources": await _sources(here),
                "schedules": await scheduled.listed(here),
            }
        if as_json:
            output.print_json(found)
            return opening.OK
        _print_status(found)
        for each in found["sources"]:
            if each["held_since"]:
                output.line(_held(each, config, db))
        scheduled.show(found["schedules"])
        return opening.OK

    opening.run(work())


def _print_status(found: dict[str, Any]) -> None:
    output.line(f"database  {found['database']}")
    output.line(f"items     {found['items_database']}")
    output.line(f"daemon    {', '.join(found['daemons']) or 'not running'}")
    states = [state.value for state in State]
    output.table(
        ["source", *states, "listed", "deletions"],
        (
            [
                source["id"],
                *(source["items"].get(state, 0) for state in states),
                output.ago(source["last_sweep"]),
                _suspended(source),
            ]
            for source in found["sources"]
        ),
    )


def _held(source: dict[str, Any], config: Path | None, db: str | None) -> str:
    resync, keep = (
        opening.command("source", word, source["id"], config=config, db=db)
        for word in ("resync", "keep")
    )
    return (
        f"{source['id']} is held since the database was restored, "
        f"{output.ago(source['held_since'])}. The source is right: {resync}; the restored state "
        f"is: {keep}"
    )


def sources(config: Path | None, db: str | None, *, as_json: bool) -> None:
    """Configured sources, and those that are remembered though no longer configured."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            found = await _sources(here)
        if as_json:
            output.print_json(found)
        else:
            columns = ["source", "type", "place", "items", "listed", "deletions"]
            output.table(columns, (_source_row(source) for source in found))
        return opening.OK

    opening.run(work())


def _source_row(source: dict[str, Any]) -> list[object]:
    return [
        source["id"],
        source["type"] or "not configured",
        source["place"],
        sum(source["items"].values()),
        output.ago(source["last_sweep"]),
        _suspended(source),
    ]


def _suspended(source: dict[str, Any]) -> str:
    suspension = source["deletes_suspended"]
    return f"{suspension['count']} suspended: {suspension['reason']}" if suspension else ""


async def _sources(here: Opened) -> list[dict[str, Any]]:
    counts = await here.items.counts()
    records = await here.items.sources()
    configured = {source.id: source for source in here.config.ingester.sources}
    found = []
    for name in sorted({*configured, *counts, *records}):
        source = configured.get(name)
        record: SourceRecord | None = records.get(name)
        suspension = record.suspension if record else None
        found.append(
            {
                "id": name,
                "type": source.type if source else None,
                "place": str(source.path) if source else None,
                "items": {str(state): number for state, number in counts.get(name, {}).items()},
                "last_sweep": record.last_sweep if record else None,
                "deletes_suspended": asdict(suspension) if suspension else None,
                "held_since": record.held_since if record else None,
            }
        )
    return found


def items(
    config: Path | None,
    db: str | None,
    source: str | None,
    state: str | None,
    limit: int,
    offset: int,
    *,
    as_json: bool,
) -> None:
    """Items by source and path."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            await here.check_filter(source)
            wanted = _state(state)
            found = await here.items.list(source, wanted, limit=limit, offset=offset)
            total = _number(await here.items.counts(), source, wanted)
        if as_json:
            output.print_json([describe(item) for item in found])
        else:
            _print_items(found)
        if total > len(found):
            output.note(f"{len(found)} of {total} items; more with --limit and --offset")
        return opening.OK

    opening.run(work())


def failed(
    config: Path | None, db: str | None, source: str | None, limit: int, *, as_json: bool
) -> None:
    """Failed items with their reasons."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            await here.check_filter(source)
            found = await here.items.failed(source, limit=limit)
            total = _number(await here.items.counts(), source, State.FAILED)
        if as_json:
            output.print_json([describe(item) for item in found])
        else:
            print_failed(found)
        if total > len(found):
            output.note(f"{len(found)} of {total} failed items; more with --limit")
        return opening.OK

    opening.run(work())


def _number(
    counts: Mapping[str, Mapping[State, int]], source: str | None, state: State | None
) -> int:
    """Items of a source, or of all, in a state, or in any."""
    return sum(
        number
        for name, states in counts.items()
        if source in (None, name)
        for each, number in states.items()
        if state in (None, each)
    )


def print_failed(found: Sequence[Item]) -> None:
    """A table of failed items."""
    output.table(
        ["source", "path", "stage", "code", "attempts", "reason"],
        ([i.source_id, uris.display(i.uri), i.stage, i.code, i.attempts, i.reason] for i in found),
    )


def _print_items(found: Sequence[Item]) -> None:
    output.table(
        ["state", "source", "path", "chunks", "changed", "reason"],
        (
            [
                i.state.value,
                i.source_id,
                uris.display(i.uri),
                i.chunk_count,
                output.ago(i.changed_at),
                ": ".join(part for part in (i.code, i.reason) if part),
            ]
            for i in found
        ),
    )


def _state(text: str | None) -> State | None:
    try:
        return State(text) if text is not None else None
    except ValueError:
        known = ", ".join(State)
        raise ConfigError(f"no state {text!r}; use one of {known}") from None


def describe(item: Item) -> dict[str, Any]:
    """An item for programs."""
    return {**asdict(item), "path": uris.display(item.uri)}
