"""What sources say, turned into wanted states: one transaction a batch.

Level-triggered: an observation that differs from the last one raises the row's counter, and one
that does not changes nothing, whatever became of the item. Rows under way keep their state; the
raised counter makes them work again when the claim ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from haiku.ingester.items.model import Action, Observation, Observed, Priority, State
from haiku.ingester.items.tables import items, sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.tables import AnyRow

_LOOKUP = 500  # URIs in one IN list

#: What a row forgets when it becomes work again.
FRESH: dict[str, Any] = {"attempts": 0, "crashes": 0, "code": None, "reason": None, "stage": None}
#: What a row says of its document when there is none.
NO_DOCUMENT: dict[str, Any] = {
    "indexed_mark": None,
    "content_hash": None,
    "fingerprint": None,
    "document_id": None,
    "chunk_count": None,
}
#: Why a source does not want an object, for people, by the code it gave.
_REASONS = {
    "too_large": "it is larger than max_file_size of its source allows",
    "link": "it is a link to no file inside its source, or follow_symlinks is off",
    "special": "it is a pipe, a socket or a device, not a file with content",
}
#: States in which a row is in somebody's hands or in the queue.
_OPEN = (State.PENDING, State.GONE, State.WORKING)


async def know_source(connection: AsyncConnection, source_id: str) -> None:
    """Make sure that the source has its record."""
    found = await connection.scalar(
        select(sources.c.source_id).where(sources.c.source_id == source_id)
    )
    if found is None:
        await connection.execute(insert(sources).values(source_id=source_id))


async def observe(
    connection: AsyncConnection,
    source_id: str,
    observations: Iterable[Observation],
    *,
    live: bool,
    now: float,
) -> Observed:
    """Take in a batch of observations; of several for one URI the last counts."""
    latest = {observation.uri: observation for observation in observations}
    known = await _rows(connection, source_id, list(latest))
    new = [
        new_item(source_id, o, live=live, now=now) for o in latest.values() if o.uri not in known
    ]
    changes = [
        _change(known[o.uri], o, live, now)
        for o in latest.values()
        if o.uri in known and _differs(known[o.uri], o)
    ]
    await know_source(connection, source_id)
    if new:
        await connection.execute(insert(items), new)
    if changes:
        await connection.execute(_UPDATE_OBSERVED, changes)
        await _let_go_of_moves(connection, source_id, known, [row["row_id"] for row in changes])
    await _learn_identities(connection, known, latest.values())
    return Observed(
        new=len(new), changed=len(changes), unchanged=len(latest) - len(new) - len(changes)
    )


async def gone(
    connection: AsyncConnection, source_id: str, uris: Iterable[str], *, live: bool, now: float
) -> int:
    """Want these removed; rows that no claim ever touched go at once. Returns how many it was."""
    known = await _rows(connection, source_id, list(dict.fromkeys(uris)))
    leaving = [row for row in known.values() if not _is_leaving(row)]
    untouched = [row.id for row in leaving if _is_untouched(row)]
    wanted = [_removal(row, live, now) for row in leaving if not _is_untouched(row)]
    if untouched:
        await _delete(connection, untouched)
    if wanted:
        await connection.execute(_UPDATE_REMOVAL, wanted)
    await _let_go_of_moves(connection, source_id, known, [row.id for row in leaving])
    return len(leaving)


async def moved(
    connection: AsyncConnection, source_id: str, uri: str, to: Observation, *, now: float
) -> bool:
    """Want the document of `uri` under `to.uri`; False: it became an addition and a removal.

    A document can be moved when it is indexed and nothing else is wanted of it, and nothing of
    the store stands at the new name. The old row is held until the move is over.
    """
    known = await _rows(connection, source_id, [uri, to.uri])
    old, there = known.get(uri), known.get(to.uri)
    origin = await _origin(connection, source_id, old)
    free = there is None or (_is_untouched(there) and there.uri != uri)
    if origin is None or to.skip is not None or not free:
        await observe(connection, source_id, [to], live=True, now=now)
        await gone(connection, source_id, {uri} - {to.uri}, live=True, now=now)
        return False
    for row in (old, there):
        if row is not None and row.id != origin.id:
            await let_go(connection, source_id, row.uri)
            await _delete(connection, [row.id])
    await connection.execute(
        insert(items).values(
            new_item(source_id, to, live=True, now=now)
            | {"action": Action.MOVE, "moved_from": origin.uri}
        )
    )
    await connection.execute(
        _UPDATE_REMOVAL, [_removal(origin, True, now) | {"new_held_by": to.uri}]
    )
    return True


async def let_go(
    connection: AsyncConnection, source_id: str, uri: str, *, moved: bool = False
) -> None:
    """End the hold of the move to `uri`; when the move was made, the old row has nothing left."""
    held = (items.c.source_id == source_id) & (items.c.held_by == uri)
    if moved:
        await connection.execute(delete(items).where(held, items.c.state == State.GONE))
    document = NO_DOCUMENT if moved else {}
    await connection.execute(update(items).where(held).values(held_by=None, **document))


# --- rows -------------------------------------------------------------------------------------

_COLUMNS = (
    items.c.id,
    items.c.uri,
    items.c.state,
    items.c.action,
    items.c.counter,
    items.c.claimed_counter,
    items.c.done_counter,
    items.c.observed_mark,
    items.c.identity,
    items.c.skip,
    items.c.priority,
    items.c.moved_from,
    items.c.held_by,
    items.c.document_id,
)

_UPDATE_OBSERVED = (
    update(items)
    .where(items.c.id == bindparam("row_id"))
    .values(
        state=bindparam("new_state"),
        action=bindparam("new_action"),
        counter=items.c.counter + 1,
        observed_mark=bindparam("new_mark"),
        size=bindparam("new_size"),
        identity=bindparam("new_identity"),
        skip=bindparam("new_skip"),
        priority=bindparam("new_priority"),
        next_attempt_at=bindparam("now"),
        changed_at=bindparam("now"),
        moved_from=None,
        **(FRESH | {"code": bindparam("new_skip"), "reason": bindparam("new_reason")}),
    )
)

_UPDATE_REMOVAL = (
    update(items)
    .where(items.c.id == bindparam("row_id"))
    .values(
        state=bindparam("new_state"),
        action=Action.REMOVE,
        counter=items.c.counter + 1,
        skip=None,
        priority=bindparam("new_priority"),
        next_attempt_at=bindparam("now"),
        changed_at=bindparam("now"),
        moved_from=None,
        held_by=bindparam("new_held_by"),
        **FRESH,
    )
)


async def _rows(
    connection: AsyncConnection, source_id: str, uris: Sequence[str]
) -> dict[str, AnyRow]:
    found: dict[str, AnyRow] = {}
    for part in _parts(uris):
        statement = select(*_COLUMNS).where(items.c.source_id == source_id, items.c.uri.in_(part))
        found.update(
            {row.uri: row for row in await connection.execute(statement.with_for_update())}
        )
    return found


async def _delete(connection: AsyncConnection, ids: Sequence[int]) -> None:
    for part in _parts(ids):
        await connection.execute(delete(items).where(items.c.id.in_(part)))


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _LOOKUP):
        yield values[start : start + _LOOKUP]


def new_item(source_id: str, o: Observation, *, live: bool, now: float) -> dict[str, Any]:
    """The columns of an item that was not known."""
    return {
        "source_id": source_id,
        "uri": o.uri,
        "state": State.SKIPPED if o.skip else State.PENDING,
        "action": Action.INDEX,
        "counter": 1,
        "claimed_counter": 0,
        "done_counter": 0,
        "observed_mark": o.mark,
        "size": o.size,
        "identity": o.identity,
        "skip": o.skip,
        "priority": Priority.LIVE if live else Priority.BACKFILL,
        "next_attempt_at": now,
        "created_at": now,
        "changed_at": now,
        **(FRESH | {"code": o.skip, "reason": _skip_reason(o)}),
    }


def _skip_reason(o: Observation) -> str | None:
    if o.skip == "too_large" and o.size is not None:
        return f"it has {o.size:,} bytes, more than max_file_size of its source allows"
    return _REASONS.get(o.skip, "its source does not want it") if o.skip else None


def _differs(row: AnyRow, o: Observation) -> bool:
    return bool(row.observed_mark != o.mark or row.skip != o.skip or _is_leaving(row))


def _change(row: AnyRow, o: Observation, live: bool, now: float) -> dict[str, Any]:
    state, action = State.PENDING, Action.INDEX
    if o.skip:
        action = Action.INDEX if _is_untouched(row) else Action.REMOVE
        state = State.SKIPPED if _is_untouched(row) else State.GONE
    return {
        "row_id": row.id,
        "new_state": State.WORKING if row.state == State.WORKING else state,
        "new_action": action,
        "new_mark": o.mark,
        "new_size": o.size,
        "new_identity": o.identity,
        "new_skip": o.skip,
        "new_reason": _skip_reason(o),
        "new_priority": _priority(row, live),
        "now": now,
    }


def _removal(row: AnyRow, live: bool, now: float) -> dict[str, Any]:
    return {
        "row_id": row.id,
        "new_state": State.WORKING if row.state == State.WORKING else State.GONE,
        "new_priority": _priority(row, live),
        "new_held_by": row.held_by,
        "now": now,
    }


def _priority(row: AnyRow, live: bool) -> int:
    """A live change that still waits stays ahead when a sweep sees the object as well."""
    waits_live = row.state in _OPEN and row.priority == Priority.LIVE
    return Priority.LIVE if live or waits_live else Priority.BACKFILL


def _is_leaving(row: AnyRow) -> bool:
    """Whether its removal is wanted because the source does not have it any more."""
    return bool(row.action == Action.REMOVE and row.skip is None)


def _is_untouched(row: AnyRow) -> bool:
    """Whether nothing of it can be in the store: never claimed, or skipped after a look."""
    bare = row.claimed_counter == 0 or row.state == State.SKIPPED
    return bare and row.document_id is None and not row.held_by


async def _origin(connection: AsyncConnection, source_id: str, old: AnyRow | None) -> AnyRow | None:
    """The row whose document would be moved, or None when it cannot be.

    A move of a move that has not begun is one move from where the document is.
    """
    if old is None or old.held_by:
        return None
    if old.action == Action.MOVE and _is_untouched(old):
        origin = (await _rows(connection, source_id, [old.moved_from])).get(old.moved_from)
        return origin if origin is not None and _is_leaving(origin) else None
    at_rest = old.state in (State.INDEXED, State.EMPTY) and old.counter == old.done_counter
    return old if at_rest and old.document_id else None


async def _let_go_of_moves(
    connection: AsyncConnection,
    source_id: str,
    known: dict[str, AnyRow],
    changed: Iterable[int],
) -> None:
    """A move that has not begun ends when its target changes or goes."""
    ids = set(changed)
    for row in known.values():
        if row.id in ids and row.action == Action.MOVE and row.state != State.WORKING:
            await let_go(connection, source_id, row.uri)


async def _learn_identities(
    connection: AsyncConnection, known: dict[str, AnyRow], observations: Iterable[Observation]
) -> None:
    """A rebuilt row knows no inode, and a mount may number its devices anew."""
    learned = [
        {"row_id": known[o.uri].id, "new_identity": o.identity, "new_size": o.size}
        for o in observations
        if o.uri in known and o.identity is not None and known[o.uri].identity != o.identity
    ]
    if learned:
        await connection.execute(
            update(items)
            .where(items.c.id == bindparam("row_id"))
            .values(identity=bindparam("new_identity"), size=bindparam("new_size")),
            learned,
        )
