"""Commands about states of the past: tags and history."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from haiku.rag.cli import output

if TYPE_CHECKING:
    from haiku.rag.cli.boundary import Target
    from haiku.rag.store.states import HistoryEntry, RestoreReport, Tag


async def create(target: Target, name: str, *, as_json: bool) -> None:
    """Name the state of this moment."""
    async with target.client(writes=True) as client:
        made = await client.create_tag(name)
    if as_json:
        output.print_json(_described(made))
    else:
        output.pairs([("tagged", made.name), ("documents", f"{made.documents:,}")])


async def listing(target: Target, *, as_json: bool) -> None:
    """Every tag."""
    async with target.client() as client:
        found = await client.list_tags()
    if as_json:
        output.print_json([_described(tag) for tag in found])
    elif found:
        output.table(("tag", "made", "documents", "state"), (_row(tag) for tag in found))
    else:
        output.console(stderr=True).print("no tags")


def _row(tag: Tag) -> tuple[object, ...]:
    state = "complete" if tag.complete else f"partial: missing on {', '.join(tag.missing)}"
    return tag.name, output.moment(tag.created_at), _number(tag.documents), state


def _described(tag: Tag) -> dict[str, Any]:
    return {**asdict(tag), "missing": list(tag.missing), "complete": tag.complete}


async def restore(target: Target, name: str, *, as_json: bool) -> None:
    """Make a tagged state today's, and say how to undo it."""
    async with target.client(writes=True) as client:
        report = await client.restore_tag(name)
    if as_json:
        output.print_json(asdict(report))
        return
    output.pairs(_restored(report))
    if report.safety_tag is not None:
        output.whole_line("undo with  " + target.command("tag", "restore", report.safety_tag))


def _restored(report: RestoreReport) -> list[tuple[str, object]]:
    if report.safety_tag is None:
        return [("nothing to do", f"nothing differs from {report.tag}; nothing was changed")]
    copied = f", {report.copied:,} with their content" if report.copied else ""
    return [
        ("restored", report.tag),
        ("documents", f"{report.documents:,}"),
        ("set back", f"{report.changed:,}{copied}" if report.changed else None),
        ("deleted", f"{report.deleted:,}" if report.deleted else None),
    ]


async def delete(target: Target, name: str, *, as_json: bool) -> None:
    """Delete a tag."""
    async with target.client(writes=True) as client:
        tag = await client.delete_tag(name)
    if as_json:
        output.print_json(_described(tag))
    else:
        output.pairs([("deleted", tag.name)])


async def history(target: Target, limit: int, *, as_json: bool) -> None:
    """The newest commits that are kept."""
    async with target.client() as client:
        found = await client.history(limit)
    if as_json:
        output.print_json([asdict(entry) for entry in found])
        return
    columns = ("version", "time", "documents", "what changed", "tags")
    output.table(columns, (_entry(entry) for entry in found))
    if any(newer.version - older.version > 1 for newer, older in pairwise(found)):
        output.console(stderr=True).print(
            "versions between these changed no document (upkeep), or are not kept any more"
        )


def _entry(entry: HistoryEntry) -> tuple[object, ...]:
    return (
        entry.version,
        output.moment(entry.at),
        _number(entry.documents),
        _changes(entry),
        ", ".join(entry.tags),
    )


def _changes(entry: HistoryEntry) -> str:
    """What a commit did, in words: "restored: 2 changed, 1 deleted"."""
    kinds = ("created", "changed", "updated", "moved", "deleted")
    counts = [(kind, getattr(entry, kind)) for kind in kinds]
    if entry.created is None:
        told = "not known: the state before is not kept"
    else:
        told = ", ".join(f"{count:,} {kind}" for kind, count in counts if count)
    return f"restored: {told or 'nothing'}" if entry.restored else told


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
