"""An items database that was lost, filled again from the store; and one whose store was lost."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from haiku.ingester.items import listing
from haiku.ingester.items.model import Action, Priority, State
from haiku.ingester.items.observing import FRESH, NO_DOCUMENT, know_source
from haiku.ingester.items.tables import items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.rag.store.changes import Row

#: Rows inserted at a time.
BATCH = 1000


async def rebuild(connection: AsyncConnection, rows: Iterable[Row], *, now: float) -> int:
    """Make an item for each owner of each live row, as done; nothing when there are items."""
    if await connection.scalar(select(items.c.id).limit(1)) is not None:
        return 0
    wanted, seen, count = values(rows, now), set[str](), 0
    while part := list(islice(wanted, BATCH)):
        for source_id in {value["source_id"] for value in part} - seen:
            await know_source(connection, source_id)
            seen.add(source_id)
        await connection.execute(insert(items), part)
        count += len(part)
    return count


async def start_over(connection: AsyncConnection, *, now: float) -> int:
    """Make work of everything that was done: the store it was done in is gone."""
    await connection.execute(update(items).values(**NO_DOCUMENT))
    done = items.c.state.in_((State.INDEXED, State.EMPTY))
    return await listing.again(connection, done, Priority.BACKFILL, now)


def values(rows: Iterable[Row], now: float) -> Iterator[dict[str, Any]]:
    """The columns of an item for each owner of each live row."""
    for row in rows:
        if row.state == "live":
            for source_id, mark in row.sources.items():
                yield value(row, source_id, mark, now)


def value(row: Row, source_id: str, mark: str, now: float) -> dict[str, Any]:
    """The columns of an item that is done."""
    return {
        "source_id": source_id,
        "uri": row.uri,
        "state": State.INDEXED if row.chunk_count else State.EMPTY,
        "action": Action.INDEX,
        "counter": 1,
        "claimed_counter": 1,
        "done_counter": 1,
        "observed_mark": mark,
        "indexed_mark": mark,
        "content_hash": row.content_hash,
        "fingerprint": row.fingerprint,
        "document_id": row.id,
        "chunk_count": row.chunk_count,
        "priority": Priority.BACKFILL,
        "next_attempt_at": now,
        "created_at": row.created_at.timestamp(),
        "changed_at": now,
        "indexed_at": row.updated_at.timestamp(),
        **FRESH,
    }
