"""Sources that are held because the database was restored: nothing of them is applied until a
person has said which side is right.

Each source remembers the restore epoch of the database that its items belong to. A higher one
means that somebody restored a state of the past: what the items say of documents is not true any
more, and applying what the sources say would undo the restore without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from haiku.ingester.items import claiming, observing, rebuilding
from haiku.ingester.items.model import State
from haiku.ingester.items.tables import items, sources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.model import Observation
    from haiku.rag.store.changes import Row

#: `code` and `reason` of an object that the restored state does not have.
RESTORED = "restored"
_REASON = "the restored state of the database does not have it; taken again when it changes"


async def note(
    connection: AsyncConnection, source_ids: Collection[str], epoch: int, *, now: float
) -> list[str]:
    """Take in the database's restore epoch; returns the sources that are held because of it.

    Claims of theirs are given back, so that what is under way cannot be committed.
    """
    held = []
    for source_id in sorted(source_ids):
        await observing.know_source(connection, source_id)
        mine = sources.c.source_id == source_id
        known = await connection.scalar(select(sources.c.restore_epoch).where(mine))
        if known == epoch:
            continue
        values: dict[str, Any] = {"restore_epoch": epoch}
        if known is not None and known < epoch:
            values["held_since"] = now
            held.append(source_id)
            await claiming.give_all_back(connection, source_id, now=now)
        await connection.execute(update(sources).where(mine).values(values))
    return held


async def resync(
    connection: AsyncConnection, source_id: str, rows: Iterable[Row], *, now: float
) -> int:
    """Know of a source what the database has, so that the next listing is compared with that.

    Ends its being held. Returns the number of items.
    """
    values = [value for value in rebuilding.values(rows, now) if value["source_id"] == source_id]
    return await _replace(connection, source_id, values)


async def keep(
    connection: AsyncConnection,
    source_id: str,
    rows: Mapping[str, Row],
    observations: Iterable[Observation],
    *,
    now: float,
) -> int:
    """Take what a source has now for done, whatever the database has of it.

    Ends its being held. Returns the number of items.

    Args:
        connection: in a transaction.
        source_id: the source.
        rows: its documents in the database, by URI.
        observations: everything it has.
        now: epoch seconds.
    """
    values = [_kept(source_id, o, rows.get(o.uri), now) for o in observations]
    return await _replace(connection, source_id, values)


def _kept(source_id: str, o: Observation, row: Row | None, now: float) -> dict[str, Any]:
    seen = {"size": o.size, "identity": o.identity, "skip": o.skip}
    if row is not None and o.skip is None:
        return rebuilding.value(row, source_id, o.mark, now) | seen
    new = observing.new_item(source_id, o, live=False, now=now)
    if o.skip is None:
        new |= {"state": State.SKIPPED, "code": RESTORED, "reason": _REASON}
    return new | dict.fromkeys(("claimed_counter", "done_counter"), new["counter"])


async def _replace(
    connection: AsyncConnection, source_id: str, values: list[dict[str, Any]]
) -> int:
    await observing.know_source(connection, source_id)
    await connection.execute(delete(items).where(items.c.source_id == source_id))
    for part in _parts(values):
        await connection.execute(insert(items), part)
    await connection.execute(
        update(sources).where(sources.c.source_id == source_id).values(held_since=None)
    )
    return len(values)


def _parts(values: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in batches that name the same columns."""
    columns = sorted({name for value in values for name in value})
    for start in range(0, len(values), rebuilding.BATCH):
        part = values[start : start + rebuilding.BATCH]
        yield [{name: value.get(name) for name in columns} for value in part]
