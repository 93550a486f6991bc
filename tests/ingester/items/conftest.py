"""An items database in a temporary file, with a clock that tests turn."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from haiku.ingester.config import WorkConfig
from haiku.ingester.items import Items, Observation


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


def seen(uri: str, mark: str = "1", **more: object) -> Observation:
    """An observation with a mark."""
    return Observation(uri, mark, **more)  # type: ignore[arg-type]
