"""Claims: who may work on what, for how long, and what became of it.

Order: live changes first, then what sweeps found, then reprocessing; within that the source with
the fewest items under way, and there the longest waiting. One claim in `FOREGO_EVERY` passes the
most urgent priority over, so that a stream of live changes delays a backfill and never stops it.
A live change thus waits for the live changes before it, one in `FOREGO_EVERY` others, and a slot.

An attempt is counted before the work starts. A claim that never comes back, because its process
died, counts as a crash of the item; one with `SUSPECT_AFTER` crashes is worked on alone among
such, so that innocent ones are cleared; after `max_attempts` crashes it is failed.

A source that is held hands out nothing (see `holding`).

Items whose conversion was found to be slow have a lane of their own: an instance works on no more
of them at once than it has conversion workers to spare, whatever waits in front.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update

from haiku.ingester.items.model import Action, Claim, Priority, State
from haiku.ingester.items.observing import let_go
from haiku.ingester.items.tables import items, sources
from haiku.rag.ids import new_token

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.config import WorkConfig
    from haiku.ingester.items.tables import AnyRow

FOREGO_EVERY = 8  # claims; one of so many goes to what is less urgent
SUSPECT_AFTER = 2  # crashes

#: What a row has when nobody holds it.
FREE: dict[str, Any] = {"lease_owner": None, "lease_token": None, "lease_until": None}


@dataclass
class _Lanes:
    """How many more items of a kind may be begun now."""

    #: Whose conversion is slow.
    slow: int
    #: Whose process died before; they go one at a time.
    suspects: int

    def admit(self, row: AnyRow) -> bool:
        """Whether the row may be begun; then it has its place."""
        suspect = row.crashes >= SUSPECT_AFTER
        if (row.slow and self.slow <= 0) or (suspect and self.suspects <= 0):
            return False
        self.slow -= row.slow
        self.suspects -= suspect
        return True


@dataclass
class Turns:
    """Who was served when: what fairness remembers between claims of one process."""

    #: Claims made so far.
    served: int = 0
    #: Source id → the value of `served` at its last claim.
    last: dict[str, int] = field(default_factory=dict)


async def claim(
    connection: AsyncConnection,
    limit: int,
    *,
    owner: str,
    only: Collection[str] | None,
    among: Collection[str] | None,
    slow: int,
    removals: bool,
    config: WorkConfig,
    turns: Turns,
    now: float,
) -> list[Claim]:
    """Take up to `limit` items that are due, in the order the module says."""
    await reclaim(connection, owner=None, config=config, now=now)
    under_way = await _under_way(connection)
    lanes = _Lanes(
        slow=slow - sum(row.slow and row.lease_owner == owner for row in under_way),
        suspects=1 - sum(row.crashes > SUSPECT_AFTER for row in under_way),
    )
    queues = await _queues(connection, limit, only, among, lanes, turns, now, removals=removals)
    load = Counter(row.source_id for row in under_way)
    rows = _choose(queues, limit, load, lanes, turns)
    if not rows:
        return []
    token = new_token()
    await connection.execute(
        update(items)
        .where(items.c.id.in_([row.id for row in rows]))
        .values(
            state=State.WORKING,
            claimed_counter=items.c.counter,
            attempts=items.c.attempts + 1,
            crashes=items.c.crashes + 1,
            lease_owner=owner,
            lease_token=token,
            lease_until=now + config.lease,
            stage=None,
            changed_at=now,
        )
    )
    return [_as_claim(row, token) for row in rows]


async def renew(
    connection: AsyncConnection, claims: Sequence[Claim], *, lease: float, now: float
) -> list[bool]:
    """Lengthen the leases of those that are still held; says which they are.

    A lapsed lease that nobody took is still held: taking is what ends a claim, not time.
    """
    held: set[tuple[int, str | None]] = set()
    for token, ids in _by_token(claims).items():
        mine = (items.c.lease_token == token) & items.c.id.in_(ids)
        await connection.execute(update(items).where(mine).values(lease_until=now + lease))
        held.update(
            (row.id, token) for row in await connection.execute(select(items.c.id).where(mine))
        )
    return [(claim.item_id, claim.token) in held for claim in claims]


async def release(connection: AsyncConnection, claims: Sequence[Claim], *, now: float) -> int:
    """Give claims back as if they had not been made. Those that were lost are left alone."""
    count = 0
    for token, ids in _by_token(claims).items():
        mine = (items.c.lease_token == token) & items.c.id.in_(ids)
        rows = (await connection.execute(select(*_BACK).where(mine))).all()
        for row in rows:
            await _give_back(connection, row, now, attempts=-1, crashes=-1)
        count += len(rows)
    return count


async def reclaim(
    connection: AsyncConnection, *, owner: str | None, config: WorkConfig, now: float
) -> int:
    """Take back claims of `owner`, and those of anybody whose lease lapsed."""
    dead = items.c.lease_until < now
    if owner is not None:
        dead = or_(dead, items.c.lease_owner == owner)
    statement = select(*_BACK).where(items.c.state == State.WORKING, dead)
    rows = (await connection.execute(statement.with_for_update(skip_locked=True))).all()
    for row in rows:
        unchanged = row.counter == row.claimed_counter
        if unchanged and row.crashes >= config.max_attempts and row.action != Action.REMOVE:
            await _fail_as_crashed(connection, row, now)
        else:
            await _give_back(connection, row, now)
    return len(rows)


async def give_all_back(connection: AsyncConnection, source_id: str, *, now: float) -> None:
    """Give all claims of a source back, whoever holds them."""
    under_way = (items.c.state == State.WORKING) & (items.c.source_id == source_id)
    for row in (await connection.execute(select(*_BACK).where(under_way))).all():
        await _give_back(connection, row, now, attempts=-1, crashes=-1)


def waiting_state(action: str) -> State:
    """The state of a row that waits to be claimed for `action`."""
    return State.GONE if action == Action.REMOVE else State.PENDING


async def work_left(connection: AsyncConnection) -> list[Claim]:
    """Rows with something to do, the most urgent first, whether due or not.

    A row that waits for a move is done with that move.
    """
    states = (State.PENDING, State.WORKING, State.GONE)
    order = (items.c.priority, items.c.next_attempt_at, items.c.id)
    statement = (
        select(*_CLAIMED)
        .where(items.c.state.in_(states), items.c.held_by.is_(None))
        .order_by(*order)
    )
    return [_as_claim(row, "") for row in await connection.execute(statement)]


# --- choosing ---------------------------------------------------------------------------------

_CLAIMED = (
    items.c.id,
    items.c.source_id,
    items.c.uri,
    items.c.action,
    items.c.counter,
    items.c.observed_mark,
    items.c.size,
    items.c.identity,
    items.c.moved_from,
    items.c.attempts,
    items.c.crashes,
    items.c.slow,
    items.c.content_hash,
    items.c.fingerprint,
    items.c.document_id,
    items.c.chunk_count,
    items.c.priority,
    items.c.next_attempt_at,
)


async def _under_way(connection: AsyncConnection) -> Sequence[AnyRow]:
    columns = (items.c.source_id, items.c.crashes, items.c.slow, items.c.lease_owner)
    statement = select(*columns).where(items.c.state == State.WORKING)
    return (await connection.execute(statement)).all()


async def _queues(
    connection: AsyncConnection,
    limit: int,
    only: Collection[str] | None,
    among: Collection[str] | None,
    lanes: _Lanes,
    turns: Turns,
    now: float,
    *,
    removals: bool,
) -> dict[str, list[AnyRow]]:
    """Source id → its due rows, first the most urgent."""
    forego = turns.served % FOREGO_EVERY + limit >= FOREGO_EVERY
    queues: dict[str, list[AnyRow]] = {}
    for source_id in (
        await connection.scalars(select(sources.c.source_id).where(sources.c.held_since.is_(None)))
    ).all():
        if only is not None and source_id not in only:
            continue
        due = partial(_due, connection, source_id, now, among)
        if removals:
            queues[source_id] = await due(State.GONE, limit, _PLAIN)
            continue
        rows = await due(State.PENDING, limit, _PLAIN)
        rows += await due(State.GONE, limit, _PLAIN)
        if forego and len(rows) >= limit:  # else they are all there
            behind = await due(State.PENDING, 2, _PLAIN, items.c.priority > Priority.LIVE)
            rows += [row for row in behind if row.id not in {row.id for row in rows}]
        if lanes.slow > 0:
            rows += await due(State.PENDING, lanes.slow, items.c.slow == 1)
        if lanes.suspects > 0:
            for state in (State.PENDING, State.GONE):
                rows += await due(state, 1, items.c.slow == 0, items.c.crashes >= SUSPECT_AFTER)
        queues[source_id] = sorted(rows, key=_urgency)
    return queues


#: Rows that need no lane of their own.
_PLAIN = (items.c.slow == 0) & (items.c.crashes < SUSPECT_AFTER)


async def _due(
    connection: AsyncConnection,
    source_id: str,
    now: float,
    among: Collection[str] | None,
    state: State,
    limit: int,
    *conditions: ColumnElement[bool],
) -> list[AnyRow]:
    statement = (
        select(*_CLAIMED)
        .where(
            items.c.state == state,
            items.c.source_id == source_id,
            items.c.held_by.is_(None),
            items.c.next_attempt_at <= now,
            *conditions,
        )
        .order_by(items.c.priority, items.c.next_attempt_at, items.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if among is not None:
        statement = statement.where(items.c.uri.in_(among))
    return list((await connection.execute(statement)).all())


def _urgency(row: AnyRow) -> tuple[int, float, int]:
    return row.priority, row.next_attempt_at, row.id


def _choose(
    queues: dict[str, list[AnyRow]],
    limit: int,
    load: Counter[str],
    lanes: _Lanes,
    turns: Turns,
) -> list[AnyRow]:
    """Up to `limit` rows in the module's order. Changes `load`, `lanes` and `turns`."""
    waiting = {source_id: deque(rows) for source_id, rows in queues.items() if rows}
    chosen: list[AnyRow] = []
    while waiting and len(chosen) < limit:
        row = _next(waiting, load, turns)
        if not waiting[row.source_id]:
            del waiting[row.source_id]
        if not lanes.admit(row):
            continue
        turns.served += 1
        turns.last[row.source_id] = turns.served
        load[row.source_id] += 1
        chosen.append(row)
    return chosen


def _next(waiting: dict[str, deque[AnyRow]], load: Counter[str], turns: Turns) -> AnyRow:
    fronts = {source_id: rows[0] for source_id, rows in waiting.items()}
    if turns.served % FOREGO_EVERY == FOREGO_EVERY - 1:
        fronts = _behind(waiting, min(row.priority for row in fronts.values())) or fronts
    source_id = min(fronts, key=lambda s: (fronts[s].priority, load[s], turns.last.get(s, 0), s))
    waiting[source_id].remove(fronts[source_id])
    return fronts[source_id]


def _behind(waiting: dict[str, deque[AnyRow]], priority: int) -> dict[str, AnyRow]:
    """Source id → its first row that is less urgent than `priority`."""
    found = {
        source_id: next((row for row in rows if row.priority > priority), None)
        for source_id, rows in waiting.items()
    }
    return {source_id: row for source_id, row in found.items() if row is not None}


def _as_claim(row: AnyRow, token: str) -> Claim:
    return Claim(
        item_id=row.id,
        token=token,
        source_id=row.source_id,
        uri=row.uri,
        action=Action(row.action),
        counter=row.counter,
        mark=row.observed_mark,
        size=row.size,
        identity=row.identity,
        moved_from=row.moved_from,
        attempts=row.attempts + 1,
        content_hash=row.content_hash,
        fingerprint=row.fingerprint,
        document_id=row.document_id,
        chunk_count=row.chunk_count,
        priority=Priority(row.priority),
        slow=bool(row.slow),
    )


# --- giving back ------------------------------------------------------------------------------

_BACK = (
    items.c.id,
    items.c.source_id,
    items.c.uri,
    items.c.action,
    items.c.counter,
    items.c.claimed_counter,
    items.c.attempts,
    items.c.crashes,
)


def _by_token(claims: Sequence[Claim]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for claim in claims:
        groups.setdefault(claim.token, []).append(claim.item_id)
    return groups


async def _give_back(
    connection: AsyncConnection, row: AnyRow, now: float, *, attempts: int = 0, crashes: int = 0
) -> None:
    await connection.execute(
        update(items)
        .where(items.c.id == row.id)
        .values(
            state=waiting_state(row.action),
            attempts=max(0, row.attempts + attempts),
            crashes=max(0, row.crashes + crashes),
            next_attempt_at=now,
            changed_at=now,
            **FREE,
        )
    )
    if row.action != Action.MOVE:
        await let_go(connection, row.source_id, row.uri)


async def _fail_as_crashed(connection: AsyncConnection, row: AnyRow, now: float) -> None:
    await connection.execute(
        update(items)
        .where(items.c.id == row.id)
        .values(
            state=State.FAILED,
            code="crash",
            reason=f"the process died {row.crashes} times while this was worked on",
            done_counter=row.claimed_counter,
            changed_at=now,
            **FREE,
        )
    )
    await let_go(connection, row.source_id, row.uri)


def backoff(attempts: int, config: WorkConfig, after: float | None) -> float:
    """Seconds until the next attempt: doubling, with jitter, never sooner than was asked for."""
    delay = min(config.backoff * 2 ** min(attempts - 1, 30), config.backoff_max)
    asked = (after or 0.0) * random.uniform(1.0, 1.1)
    return float(max(delay * random.uniform(0.75, 1.25), asked))
