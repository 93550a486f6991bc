"""A clock that tests turn, jobs that are told how to end, and daemons that keep to timetables."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from haiku.ingester.config import WorkConfig
from haiku.ingester.items import Items
from haiku.ingester.schedule.keeping import Keeper
from haiku.ingester.timetable import Slot, Timetable

DAY = 86_400.0


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


class Clock:
    def __init__(self) -> None:
        self.now = moment("2026-05-04T12:00")

    def __call__(self) -> float:
        return self.now


class Recording:
    """A job that remembers its slots; and what its keeper says of them."""

    name = "job"

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.outcomes: list[str] = []
        self.success: float | None = None
        #: What the next runs do.
        self.error: BaseException | None = None
        self.hangs = False
        self.running = asyncio.Event()

    async def run(self, slot: Slot) -> str:
        self.begun.append(str(slot))
        self.running.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return "all of it"

    def scheduled_run(self, job: str, outcome: str) -> None:
        assert job == self.name
        self.outcomes.append(outcome)

    def scheduled_success(self, job: str, at: float) -> None:
        self.success = at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job() -> Recording:
    return Recording()


Maker = Callable[..., Awaitable[Keeper]]


@pytest.fixture
async def daemon(tmp_path: Path, clock: Clock, job: Recording) -> AsyncIterator[Maker]:
    """Makes a daemon's keeper of the job, over one items database that all share."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(
            instance: str = "one",
            cron: str = "30 3 * * *",
            zone: str = "UTC",
            job: Recording = job,
            lease: float = 60.0,
        ) -> Keeper:
            url = f"sqlite:///{tmp_path / 'items.db'}"
            items = await Items.open(url, instance, WorkConfig(lease=lease), clock=clock)
            stack.push_async_callback(items.close)
            return Keeper(job, Timetable(cron, zone), items.schedules, job, grace=DAY)

        yield make
