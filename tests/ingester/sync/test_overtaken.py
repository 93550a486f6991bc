"""What goes while a sweep lists is not taken for there when the sweep tells of it."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.ingester.sync.conftest import World, make_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from haiku.ingester.sources.protocol import Listing


def overtake(world: World, meanwhile: Callable[[], None]) -> None:
    """Have something happen, and its events be handled, between a listing and what it tells."""
    listing = world.source.list

    async def slow(under: str | None = None) -> AsyncIterator[Listing]:
        async for part in listing(under):
            if under is None and part.observations:
                meanwhile()
                await asyncio.sleep(0.6)
            yield part

    world.source.list = slow  # type: ignore[method-assign]


@pytest.mark.parametrize("what", ["file", "folder", "moved folder"])
async def test_what_goes_during_the_first_sweep_is_not_known(tmp_path: Path, what: str) -> None:
    async with make_world(tmp_path, run=False) as world:
        for name in ("stays.md", "folder/one.md", "folder/two.md"):
            world.write(name, name)
        await asyncio.sleep(0.2)  # they are settled
        if what == "file":
            overtake(world, lambda: world.path("folder/one.md").unlink(missing_ok=True))
            left = {"stays.md", "folder/two.md"}
        elif what == "folder":
            overtake(world, lambda: shutil.rmtree(world.path("folder"), ignore_errors=True))
            left = {"stays.md"}
        else:

            def move() -> None:
                with suppress(FileNotFoundError):
                    world.path("folder").rename(world.path("other"))

            overtake(world, move)
            left = {"stays.md", "other/one.md", "other/two.md"}
        running = asyncio.create_task(world.sync.run())
        try:
            await world.until(lambda: world.sync.health().last_sweep)
            await world.until_known(left)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
