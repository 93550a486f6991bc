"""What is remembered of scheduled jobs: which slots are done, and who is at one.

A run is leased like a claim, and has two ends: `finish`, which marks its slot as done whether the
run went well or not, and `give_back`, after which it may begin again. A run that has neither, as
its process died, begins again when its lease has lapsed, or at once in the same instance; but
not for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, insert, or_, select, update

from haiku.ingester.items.listing import moment
from haiku.ingester.items.model import Begun, JobRecord
from haiku.ingester.items.tables import schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.items.database import Database
    from haiku.ingester.items.tables import AnyRow
    from haiku.ingester.timetable import Slot

#: Times the run of one slot may begin: once more after its process died.
ATTEMPTS = 2
DIED = f"the process that ran it died, {ATTEMPTS} times"


class Schedules:
    """The scheduled jobs of all instances that share an items database.

    Every method raises `ItemsUnavailable` when the database cannot be used.
    """

    def __init__(
        self, database: Database, instance: str, lease: float, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._instance = instance
        #: Epoch seconds, by which leases and slots are counted.
        self.clock = clock
        #: Seconds that a run lasts without being renewed.
        self.lease = lease

    async def all(self) -> dict[str, JobRecord]:
        """Job → its record."""
        now = self.clock()

        async def read(connection: AsyncConnection) -> dict[str, JobRecord]:
            rows = await connection.execute(select(schedules))
            return {row.job: _record(row, now) for row in rows}

        return await self._database.read(read)

    async def count_from_now(self, job: str) -> None:
        """Let no slot count that has come already."""
        now = self.clock()

        async def write(connection: AsyncConnection) -> None:
            mine = schedules.c.job == job
            if await connection.scalar(select(schedules.c.job).where(mine)) is None:
                await connection.execute(insert(schedules).values(job=job, done_until=now))
            else:
                await connection.execute(update(schedules).where(mine).values(done_until=now))

        await self._database.write(write)

    async def begin(self, job: str, slot: Slot) -> Begun:
        """Take the run of a slot."""
        now = self.clock()

        async def write(connection: AsyncConnection) -> Begun:
            free = and_(
                schedules.c.job == job, schedules.c.done_until < slot.at, self._is_free(now)
            )
            died = and_(schedules.c.begun_until == slot.at, schedules.c.attempts >= ATTEMPTS)
            result = await connection.execute(
                update(schedules).where(free, died).values(_end(str(slot), "failed", DIED, now))
            )
            if result.rowcount:
                return Begun.GIVEN_UP
            values = self._begin(slot, now)
            result = await connection.execute(update(schedules).where(free).values(values))
            return Begun.MINE if result.rowcount else Begun.NOT_MINE

        return await self._database.write(write)

    def _begin(self, slot: Slot, now: float) -> dict[str, Any]:
        again = case((schedules.c.begun_until == slot.at, schedules.c.attempts), else_=0)
        return {
            "begun_at": now,
            "begun_until": slot.at,
            "begun_slot": str(slot),
            "attempts": again + 1,
            "lease_owner": self._instance,
            "lease_until": now + self.lease,
        }

    def _is_free(self, now: float) -> Any:
        return or_(
            schedules.c.lease_owner.is_(None),
            schedules.c.lease_owner == self._instance,
            schedules.c.lease_until < now,
        )

    async def renew(self, job: str) -> bool:
        """Lengthen the lease of a run; False: another instance has begun it."""
        return await self._change(job, lease_until=self.clock() + self.lease)

    async def give_back(self, job: str) -> bool:
        """End a run as if it had not begun; False: another instance has begun it."""
        return await self._change(
            job, attempts=schedules.c.attempts - 1, lease_owner=None, lease_until=None
        )

    async def finish(self, job: str, *, failed: bool, detail: str) -> bool:
        """Mark the slot of a run as done; False: another instance has begun it."""
        now = self.clock()
        outcome = "failed" if failed else "done"
        return await self._change(job, **_end(schedules.c.begun_slot, outcome, detail, now))

    async def _change(self, job: str, **values: Any) -> bool:
        mine = and_(schedules.c.job == job, schedules.c.lease_owner == self._instance)

        async def write(connection: AsyncConnection) -> bool:
            result = await connection.execute(update(schedules).where(mine).values(**values))
            return bool(result.rowcount)

        return await self._database.write(write)


def _end(slot: Any, outcome: str, detail: str, now: float) -> dict[str, Any]:
    values = {
        "done_until": schedules.c.begun_until,
        "slot": slot,
        "outcome": outcome,
        "detail": detail,
        "ended_at": now,
        "lease_owner": None,
        "lease_until": None,
    }
    return values | ({"succeeded_at": now} if outcome == "done" else {})


def _record(row: AnyRow, now: float) -> JobRecord:
    running = row.lease_until is not None and row.lease_until >= now
    return JobRecord(
        job=row.job,
        done_until=row.done_until,
        slot=row.slot,
        outcome=row.outcome,
        detail=row.detail,
        ended_at=moment(row.ended_at),
        succeeded_at=moment(row.succeeded_at),
        running_since=moment(row.begun_at) if running else None,
    )
