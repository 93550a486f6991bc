"""Questions about items: how many, which, what failed; and asking for failed ones again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, false, func, or_, select, update

from haiku.ingester.items.model import Action, Item, Known, Priority, State
from haiku.ingester.items.observing import FRESH
from haiku.ingester.items.tables import items

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Column, ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.tables import AnyRow

_BATCH = 4000  # rows read between two turns of the event loop
_LOOKUP = 500  # values in one IN list
_MOST = 1 << 62  # more than there ever are; SQLite takes no number beyond 64 bits
_STATES = {state.value: state for state in State}

_LISTED = (
    items.c.source_id,
    items.c.uri,
    items.c.state,
    items.c.action,
    items.c.code,
    items.c.reason,
    items.c.stage,
    items.c.attempts,
    items.c.size,
    items.c.content_hash,
    items.c.document_id,
    items.c.chunk_count,
    items.c.next_attempt_at,
    items.c.created_at,
    items.c.changed_at,
    items.c.indexed_at,
)


def moment(seconds: float | None) -> datetime | None:
    """Epoch seconds as a time with its zone (UTC)."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


_KNOWN = (
    items.c.uri,
    items.c.observed_mark,
    items.c.state,
    items.c.identity,
    items.c.content_hash,
    items.c.size,
    items.c.skip,
)
#: As `Observation.seen`.
_SEEN = (
    items.c.observed_mark
    + "\n"
    + func.coalesce(items.c.skip, "")
    + "\n"
    + func.coalesce(items.c.identity, "")
)
#: Items that are not leaving their source.
_STAYING = or_(items.c.action != Action.REMOVE, items.c.skip.is_not(None))


async def known(
    connection: AsyncConnection, source_id: str, under: str | None = None
) -> dict[str, Known]:
    """URI → what is known, of a source's items that are not leaving; read in batches.

    With `under`, a URI that ends with "/", only those below it.
    """
    statement = select(*_KNOWN).where(items.c.source_id == source_id, _STAYING)
    if under is not None:
        statement = statement.where(func.substr(items.c.uri, 1, len(under)) == under)
    found: dict[str, Known] = {}
    async with connection.stream(statement) as rows:
        async for part in rows.partitions(_BATCH):
            for row in part:
                found[row[0]] = _as_known(row)
    return found


async def seen(connection: AsyncConnection, source_id: str) -> dict[str, str]:
    """URI → `Observation.seen` as it was last, of a source's staying items.

    Half as dear as `known`: it is read of every item in each sweep.
    """
    statement = select(items.c.uri, _SEEN).where(items.c.source_id == source_id, _STAYING)
    found: dict[str, str] = {}
    async with connection.stream(statement) as rows:
        async for part in rows.partitions(_BATCH):
            for uri, last in part:
                found[uri] = last
    return found


async def known_by(
    connection: AsyncConnection, source_id: str, column: Column[str], values: Sequence[str]
) -> list[Known]:
    """What is known of a source's staying items with these URIs, or with these identities."""
    found: list[Known] = []
    for start in range(0, len(values), _LOOKUP):
        part = values[start : start + _LOOKUP]
        statement = select(*_KNOWN).where(
            items.c.source_id == source_id, _STAYING, column.in_(part)
        )
        found.extend(_as_known(row) for row in await connection.execute(statement))
    return found


async def count_known(connection: AsyncConnection, source_id: str) -> int:
    """How many of a source's items are not leaving."""
    statement = select(func.count()).where(items.c.source_id == source_id, _STAYING)
    return int(await connection.scalar(statement) or 0)


def _as_known(row: AnyRow) -> Known:
    uri, mark, state, identity, content_hash, size, skip = row
    return Known(uri, mark, _STATES[state], identity, content_hash, size, skip)


async def counts(connection: AsyncConnection) -> dict[str, dict[State, int]]:
    """Source id → state → number of items; states without items are left out."""
    statement = select(items.c.source_id, items.c.state, func.count()).group_by(
        items.c.source_id, items.c.state
    )
    result: dict[str, dict[State, int]] = {}
    for source_id, state, number in await connection.execute(statement):
        result.setdefault(source_id, {})[State(state)] = number
    return result


async def get(connection: AsyncConnection, source_id: str, uri: str) -> Item | None:
    """One item."""
    statement = select(*_LISTED).where(items.c.source_id == source_id, items.c.uri == uri)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _as_item(row)


async def listed(
    connection: AsyncConnection,
    *,
    source_id: str | None,
    state: State | None,
    limit: int,
    offset: int,
) -> list[Item]:
    """Items by source and URI."""
    statement = select(*_LISTED).order_by(items.c.source_id, items.c.uri)
    if source_id is not None:
        statement = statement.where(items.c.source_id == source_id)
    if state is not None:
        statement = statement.where(items.c.state == state)
    rows = await connection.execute(statement.limit(min(limit, _MOST)).offset(min(offset, _MOST)))
    return [_as_item(row) for row in rows]


async def oldest_waiting(connection: AsyncConnection) -> dict[str, float]:
    """Source id → epoch seconds since when its longest waiting due item could be worked on."""
    statement = (
        select(items.c.source_id, func.min(items.c.next_attempt_at).label("since"))
        .where(items.c.state.in_((State.PENDING, State.GONE)))
        .group_by(items.c.source_id)
    )
    return {row.source_id: row.since for row in await connection.execute(statement)}


async def next_due(connection: AsyncConnection, after: float) -> float | None:
    """When, after a time, the next item is due or the next lease lapses; epoch seconds."""
    attempt = select(func.min(items.c.next_attempt_at)).where(
        items.c.state.in_((State.PENDING, State.GONE)), items.c.next_attempt_at > after
    )
    lease = select(func.min(items.c.lease_until)).where(
        items.c.state == State.WORKING, items.c.lease_until > after
    )
    due = [await connection.scalar(statement) for statement in (attempt, lease)]
    return min((time for time in due if time is not None), default=None)


async def retry(
    connection: AsyncConnection, *, source_id: str | None, uri: str | None, now: float
) -> int:
    """Make failed items work again; a single one that is named also when skipped or empty."""
    states: Collection[State] = (State.FAILED,)
    wanted = []
    if uri is not None:
        states = (State.FAILED, State.SKIPPED, State.EMPTY)
        wanted.append(items.c.uri == uri)
    if source_id is not None:
        wanted.append(items.c.source_id == source_id)
    return await again(
        connection,
        and_(items.c.state.in_(states), items.c.skip.is_(None), *wanted),
        Priority.LIVE,
        now,
    )


def _indexed_by_another(fingerprint: str) -> ColumnElement[bool]:
    states = items.c.state.in_((State.INDEXED, State.EMPTY))
    return and_(states, items.c.fingerprint != fingerprint)


async def count_outdated(connection: AsyncConnection, fingerprint: str) -> int:
    """Number of items that another pipeline indexed."""
    counted = select(func.count()).where(_indexed_by_another(fingerprint))
    return int(await connection.scalar(counted) or 0)


async def sizes(connection: AsyncConnection, limit: int) -> list[tuple[str, int, int]]:
    """URI, bytes and chunks of indexed items."""
    statement = (
        select(items.c.uri, items.c.size, items.c.chunk_count)
        .where(items.c.state == State.INDEXED, items.c.size.is_not(None))
        .limit(limit)
    )
    return [(row.uri, row.size, row.chunk_count) for row in await connection.execute(statement)]


async def reprocess(
    connection: AsyncConnection, fingerprint: str, *, outdated: bool, now: float
) -> int:
    """Make what another pipeline refused work again, and with `outdated` what it indexed."""
    differs = or_(
        and_(
            items.c.state.in_((State.FAILED, State.SKIPPED)),
            items.c.tried_fingerprint.is_not(None),
            items.c.tried_fingerprint != fingerprint,
        ),
        _indexed_by_another(fingerprint) if outdated else false(),
    )
    return await again(connection, differs, Priority.REPROCESS, now)


async def again(connection: AsyncConnection, which: Any, priority: Priority, now: float) -> int:
    """Make the rows for which `which` holds work again; how many there are."""
    result = await connection.execute(
        update(items)
        .where(which)
        .values(
            state=State.PENDING,
            action=Action.INDEX,
            counter=items.c.counter + 1,
            priority=priority,
            next_attempt_at=now,
            changed_at=now,
            **FRESH,
        )
    )
    return int(result.rowcount)


def _as_item(row: AnyRow) -> Item:
    values = row._asdict()
    waits = row.state in (State.PENDING, State.GONE) and row.attempts > 0
    return Item(
        **values
        | {
            "state": State(row.state),
            "action": Action(row.action),
            "next_attempt_at": moment(row.next_attempt_at) if waits else None,
            "created_at": moment(row.created_at),
            "changed_at": moment(row.changed_at),
            "indexed_at": moment(row.indexed_at),
        }
    )
