"""The commits whose states are kept: when they were made, what they changed. Blocking."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from haiku.rag.store import reading, schema, sql, tags, travel
from haiku.rag.store.states import HistoryEntry
from haiku.rag.store.tables import open_table, versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from haiku.rag.store.records import Head

_log = logging.getLogger(__name__)

_COLUMNS = ["uri", "id", "state", "revision", "row_version"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """The versions of `document_meta` that one commit and upkeep after it left, all alike."""

    head: Head
    at: datetime
    #: The oldest of them, opened.
    meta: Any
    versions: Sequence[int]


def entries(database: str, limit: int) -> list[HistoryEntry]:
    """The newest `limit` commits that are kept, the newest first."""
    tagged: dict[int, list[str]] = {}
    for tag in tags.read_all(database):
        if schema.META in tag.versions:
            tagged.setdefault(tag.versions[schema.META], []).append(tag.name)
    told = _told(_states(open_table(database, schema.META)), tagged)
    return list(islice(told, max(0, limit)))


def _told(states: Iterator[_State], tagged: Mapping[int, Sequence[str]]) -> Iterator[HistoryEntry]:
    state = next(states)
    for before in chain(states, [None]):
        try:
            yield _entry(state, before, tagged)
        except (OSError, ValueError):  # cleaned up meanwhile
            _log.debug("version %s is not kept any more", state.versions[0])
        if before is not None:
            state = before


def _states(meta: Any) -> Iterator[_State]:
    """The kept states, the newest first."""
    latest: _State | None = None
    for version in reversed(versions(meta)):
        try:
            opened = meta.checkout_version(version)
            head, at = reading.head(opened), travel.committed_at(opened)
        except (OSError, ValueError):  # cleaned up meanwhile
            continue
        alike = latest is not None and latest.head.row_version == head.row_version
        if latest is not None and not alike:
            yield latest
        same = (version, *(latest.versions if alike and latest is not None else ()))
        latest = _State(head=head, at=at, meta=opened, versions=same)
    if latest is not None:
        yield latest


def _entry(
    state: _State, before: _State | None, tagged: Mapping[int, Sequence[str]]
) -> HistoryEntry:
    first = state.versions[0]
    follows = before is not None and before.versions[-1] == first - 1
    counts: Mapping[str, int | None] = dict.fromkeys(_KINDS)
    if first == 1:
        counts = dict.fromkeys(_KINDS, 0)
    elif before is not None and follows:
        counts = _changes(before.meta, state)
    return HistoryEntry(
        version=first,
        at=state.at,
        documents=reading.count(state.meta, None),
        restored=before is not None and state.head.restore_epoch > before.head.restore_epoch,
        tags=tuple(name for version in state.versions for name in tagged.get(version, ())),
        **counts,
    )


_KINDS = ("created", "changed", "updated", "moved", "deleted")


def _changes(before: Any, state: _State) -> dict[str, int]:
    """What a commit did, by the rows that it wrote."""
    when = f"committed_at = timestamp '{state.at.isoformat()}'"
    written = _rows(state.meta, f"{when} AND state != 'head'")
    there = _by(before, "uri", [row["uri"] for row in written])
    live = [row for row in written if row["state"] == "live"]
    arrived = [row for row in live if there.get(row["uri"], row)["state"] != "live"]
    arrived += [row for row in live if row["uri"] not in there]
    elsewhere = _by(before, "id", [row["id"] for row in arrived], reading.LIVE)
    counts: Counter[str] = Counter(dict.fromkeys(_KINDS, 0))
    for row in written:
        counts[_kind(row, there.get(row["uri"]), elsewhere)] += 1
    left = sum(row["state"] == "deleted" and row["id"] in elsewhere for row in written)
    counts["deleted"] -= left
    return {kind: counts[kind] for kind in _KINDS}


def _kind(row: Mapping[str, Any], before: Mapping[str, Any] | None, elsewhere: Any) -> str:
    was_live = before is not None and before["state"] == "live"
    if row["state"] != "live":
        return "deleted" if was_live else "nothing"
    if before is None or not was_live:
        return "moved" if row["id"] in elsewhere else "created"
    if before["row_version"] == row["row_version"]:
        return "nothing"
    return "updated" if before["revision"] == row["revision"] else "changed"


def _rows(meta: Any, where: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = meta.to_table(columns=_COLUMNS, filter=where).to_pylist()
    return found


def _by(
    meta: Any, column: str, values: Sequence[str], where: str | None = None
) -> dict[str, dict[str, Any]]:
    return {
        row[column]: row
        for part in sql.parts(values)
        for row in _rows(meta, sql.both(sql.within(column, part), where))
    }
