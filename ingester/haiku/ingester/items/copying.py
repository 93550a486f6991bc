"""A copy of an items database, to try things on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from haiku.ingester.items.database import Database
from haiku.ingester.items.tables import items, sources

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.tables import AnyRow

#: Rows copied at a time.
BATCH = 2000


async def copy_items(url: str, to_url: str) -> None:
    """Copy what is known of items and sources into an empty database; leases are not copied.

    Args:
        url: SQLAlchemy URL of the database to copy, which must be there.
        to_url: of an empty one, of any dialect.

    Raises:
        NotKnown: there is no database to copy.
        ItemsUnavailable: either cannot be used.
    """
    source = await Database.open(url, create=False)
    try:
        target = await Database.open(to_url)
        try:
            async with source.connection() as reading:
                await target.write(lambda writing: _copy(reading, writing))
        finally:
            await target.close()
    finally:
        await source.close()


async def _copy(reading: AsyncConnection, writing: AsyncConnection) -> None:
    for table in (sources, items):
        found = await reading.stream(select(table))
        async for rows in found.partitions(BATCH):
            await writing.execute(insert(table), [_freed(row) for row in rows])


def _freed(row: AnyRow) -> dict[str, object]:
    values = dict(row._mapping)
    values.update({name: None for name in values if name.startswith("lease_")})
    return values
