"""Sources under leases, and what commands ask of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from haiku.ingester.config import FilesystemSource, WorkConfig
from haiku.ingester.items import Observation, RequestKind, State
from haiku.ingester.items.items import Items
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import discovery
from haiku.ingester.service.discovery import Discovery, SourceKeeper
from haiku.ingester.service.restores import Restores
from haiku.ingester.sources.fs import FolderSource

if TYPE_CHECKING:
    from haiku.rag.store import Store

LEASE = 1.5  # seconds


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "REQUEST_INTERVAL", 0.02)


@pytest.fixture
async def items(tmp_path: Path) -> AsyncIterator[Items]:
    opened = await Items.open(f"sqlite:///{tmp_path}/items.sqlite", "one", WorkConfig(lease=LEASE))
    yield opened
    await opened.close()


@pytest.fixture
def section(tmp_path: Path) -> FilesystemSource:
    (tmp_path / "docs").mkdir()
    return FilesystemSource(id="docs", path=tmp_path / "docs", settle=0.05, watch="off")


def unrestored(items: Items) -> Restores:
    """Of a database that nobody restores and nobody asks about it."""
    return Restores(cast("Store", None), items, {})


def keeper_of(section: FilesystemSource, items: Items) -> SourceKeeper:
    source = FolderSource(section, max_file_size=1_000_000)
    return SourceKeeper(section, source, items, unrestored(items), lease=LEASE)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def known(items: Items) -> int:
    return sum((await items.counts()).get("docs", {}).values())


async def test_one_instance_sweeps_and_the_other_takes_over(
    section: FilesystemSource, items: Items, tmp_path: Path
) -> None:
    other_items = await Items.open(
        f"sqlite:///{tmp_path}/items.sqlite", "two", WorkConfig(lease=LEASE)
    )
    first, second = keeper_of(section, items), keeper_of(section, other_items)
    running = asyncio.create_task(first.run())
    await until(lambda: first.settled)
    waiting = asyncio.create_task(second.run())
    await until(lambda: second.settled)
    assert second.sync is None

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: second.sync is not None)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (await items.sources())["docs"].owner is None
    await other_items.close()


async def test_a_lost_lease_ends_the_sweeping(section: FilesystemSource, items: Items) -> None:
    keeper = keeper_of(section, items)
    running = asyncio.create_task(keeper.run())
    await until(lambda: keeper.settled)
    await items.release_source("docs")
    items.instance = "thief"
    assert await items.take_source("docs")
    items.instance = "one"
    await until(lambda: keeper.sync is None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_refresh_that_was_asked_for_is_done(
    section: FilesystemSource, items: Items
) -> None:
    keeper = keeper_of(section, items)
    found = Discovery([keeper], items, unrestored(items), Metrics())
    tasks = [asyncio.create_task(work()) for work in (keeper.run, found.take_requests)]
    await until(lambda: found.settled)
    (section.path / "new.md").write_text("new")
    await items.request("docs", RequestKind.REFRESH)
    async with asyncio.timeout(20):
        while not await known(items):
            await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_wait_for_whoever_holds_the_source(items: Items) -> None:
    found = Discovery([], items, unrestored(items), Metrics())
    await items.request("docs", RequestKind.REFRESH)
    task = asyncio.create_task(found.take_requests())
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(await items.take_requests(["docs"])) == 1


async def test_suspended_deletions_degrade_and_are_confirmed(
    section: FilesystemSource, items: Items
) -> None:
    ghosts = [Observation(f"file://{section.path}/{n}.md", "m") for n in range(30)]
    await items.observe("docs", ghosts, live=False)
    (section.path / "here.md").write_text("here")
    keeper, metrics = keeper_of(section, items), Metrics()
    found = Discovery([keeper], items, unrestored(items), metrics)
    tasks = [asyncio.create_task(work()) for work in (keeper.run, found.take_requests)]
    await until(lambda: found.settled)
    (reason,) = list(found.reasons())
    assert (reason.part, reason.code, reason.fatal) == ("source:docs", "deletes_suspended", False)
    await found.refresh_metrics()
    assert b'haiku_ingester_deletes_suspended{source="docs"} 1.0' in metrics.render()

    await items.request("docs", RequestKind.CONFIRM_DELETES)
    await until(lambda: not list(found.reasons()))
    # The file that is there is taken when it has settled; all the others are no longer known.
    async with asyncio.timeout(10):
        while await items.counts() != {"docs": {State.PENDING: 1}}:
            await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_missing_folder_is_a_reason_and_not_an_obstacle(
    section: FilesystemSource, items: Items
) -> None:
    section.path.rmdir()
    keeper = keeper_of(section, items)
    found = Discovery([keeper], items, unrestored(items), Metrics())
    task = asyncio.create_task(keeper.run())
    await until(lambda: found.settled)
    codes = {reason.code for reason in found.reasons()}
    assert codes == {"source_missing"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
