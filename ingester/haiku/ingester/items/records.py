"""What is remembered of sources themselves: suspended deletions, sweeps, leases, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, or_, select, update

from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items.listing import moment
from haiku.ingester.items.model import Request, RequestKind, SourceRecord, Suspension
from haiku.ingester.items.observing import know_source
from haiku.ingester.items.tables import requests, sources

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.tables import AnyRow


async def suspend(
    connection: AsyncConnection, source_id: str, count: int, reason: str, *, now: float
) -> None:
    """Suspend the source's deletions; a suspension that stands keeps its beginning."""
    await know_source(connection, source_id)
    mine = sources.c.source_id == source_id
    since = await connection.scalar(select(sources.c.suspended_since).where(mine))
    await connection.execute(
        update(sources)
        .where(mine)
        .values(suspended_count=count, suspended_reason=reason, suspended_since=since or now)
    )


async def resume(connection: AsyncConnection, source_id: str) -> None:
    """Let the source's deletions happen again."""
    await connection.execute(
        update(sources)
        .where(sources.c.source_id == source_id)
        .values(suspended_count=None, suspended_since=None, suspended_reason=None)
    )


async def swept(connection: AsyncConnection, source_id: str, *, now: float) -> None:
    """Record that a complete listing has ended."""
    await know_source(connection, source_id)
    await connection.execute(
        update(sources).where(sources.c.source_id == source_id).values(swept_at=now)
    )


async def take(
    connection: AsyncConnection, source_id: str, owner: str, *, lease: float, now: float
) -> bool:
    """Take or renew the lease of a source; False: another instance has it."""
    await know_source(connection, source_id)
    free = or_(
        sources.c.lease_owner.is_(None),
        sources.c.lease_owner == owner,
        sources.c.lease_until < now,
    )
    result = await connection.execute(
        update(sources)
        .where(sources.c.source_id == source_id, free)
        .values(lease_owner=owner, lease_until=now + lease)
    )
    return bool(result.rowcount)


async def check_holder(
    connection: AsyncConnection, source_id: str, owner: str, *, now: float
) -> None:
    """Refuse what an instance saw of a source that another one speaks for by now.

    Raises:
        LeaseLost: another instance holds the source's lease.
    """
    others = (sources.c.lease_owner != owner) & (sources.c.lease_until >= now)
    statement = select(sources.c.lease_owner).where(sources.c.source_id == source_id, others)
    if await connection.scalar(statement.with_for_update(read=True)) is not None:
        raise LeaseLost(
            f"source {source_id} was taken over by another instance; what was seen of it before "
            "is not taken in"
        )


async def give_up(connection: AsyncConnection, source_id: str, owner: str) -> None:
    """Release the lease of a source, if it is the owner's."""
    await connection.execute(
        update(sources)
        .where(sources.c.source_id == source_id, sources.c.lease_owner == owner)
        .values(lease_owner=None, lease_until=None)
    )


async def all_records(connection: AsyncConnection, *, now: float) -> dict[str, SourceRecord]:
    """Source id → its record."""
    rows = await connection.execute(select(sources))
    return {row.source_id: _as_record(row, now) for row in rows}


def _as_record(row: AnyRow, now: float) -> SourceRecord:
    since = moment(row.suspended_since)
    suspension = (
        Suspension(count=row.suspended_count, since=since, reason=row.suspended_reason)
        if since
        else None
    )
    return SourceRecord(
        source_id=row.source_id,
        suspension=suspension,
        last_sweep=moment(row.swept_at),
        owner=row.lease_owner if row.lease_until is not None and row.lease_until >= now else None,
        held_since=moment(row.held_since),
    )


async def ask(
    connection: AsyncConnection, source_id: str, kind: RequestKind, *, now: float
) -> None:
    """Leave a request for whoever runs the source; one that waits already is not doubled."""
    same = (requests.c.source_id == source_id) & (requests.c.kind == kind)
    await connection.execute(delete(requests).where(same))
    await connection.execute(
        insert(requests).values(source_id=source_id, kind=kind, created_at=now)
    )


async def take_requests(connection: AsyncConnection, source_ids: Collection[str]) -> list[Request]:
    """The requests for these sources, oldest first; they are taken off the list."""
    mine = requests.c.source_id.in_(source_ids)
    rows = (
        await connection.execute(
            select(requests).where(mine).order_by(requests.c.created_at).with_for_update()
        )
    ).all()
    if rows:
        await connection.execute(delete(requests).where(mine))
    return [Request(source_id=row.source_id, kind=RequestKind(row.kind)) for row in rows]


async def has_requests(connection: AsyncConnection) -> bool:
    """Whether anything is asked for: a look that takes no write lock."""
    return await connection.scalar(select(requests.c.source_id).limit(1)) is not None
