"""An items database in a temporary file, with a clock that tests turn."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from haiku.ingester.config import WorkConfig
from haiku.ingester.items import Claim, Indexed, Items, Observation, Observed, State


class Clock:
    """Epoch seconds that stand still until somebody turns them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.001  # time never stands quite still
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def config() -> WorkConfig:
    return WorkConfig(max_attempts=3, backoff=2.0, backoff_max=60.0, lease=60.0)


Opener = Callable[..., Awaitable[Items]]


@pytest.fixture
async def open_items(tmp_path: Path, clock: Clock, config: WorkConfig) -> AsyncIterator[Opener]:
    """Opens the same database as another instance each time; closes all at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def opener(instance: str = "one", **changes: object) -> Items:
            settings = config.model_copy(update=changes)
            items = await Items.open(
                f"sqlite:///{tmp_path / 'items.db'}", instance, settings, clock=clock
            )
            stack.push_async_callback(items.close)
            return items

        yield opener


@pytest.fixture
async def items(open_items: Opener) -> Items:
    return await open_items()


class Driver:
    """Short ways to say what sources and workers do, on one source."""

    source = "docs"

    def __init__(self, items: Items) -> None:
        self.items = items

    async def see(self, uri: str, mark: str = "1", *, live: bool = False, **more: Any) -> Observed:
        return await self.items.observe(self.source, [Observation(uri, mark, **more)], live=live)

    async def take(self, limit: int = 1) -> list[Claim]:
        return await self.items.claim(limit)

    async def one(self) -> Claim:
        (claim,) = await self.items.claim(1)
        return claim

    async def index(self, uri: str, mark: str = "1", **more: Any) -> None:
        """See an object and bring it to INDEXED."""
        await self.see(uri, mark, **more)
        assert await self.items.finish(await self.one(), indexed(mark)) == State.INDEXED

    async def state(self, uri: str) -> State | None:
        item = await self.items.get(self.source, uri)
        return item.state if item else None


def indexed(mark: str = "1", **more: Any) -> Indexed:
    """A success."""
    values = {"content_hash": "h" + mark, "fingerprint": "f", "document_id": "d", "chunk_count": 2}
    return Indexed(mark=mark, **values | more)


@pytest.fixture
def drive(items: Items) -> Driver:
    return Driver(items)


@pytest.fixture
def success() -> Callable[..., Indexed]:
    return indexed
