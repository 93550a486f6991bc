"""Items and a database that were not written beside each other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from haiku.ingester.config import DaemonConfig, IngesterConfig, WorkConfig
from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.items import Indexed, Observation, State
from haiku.ingester.items.items import Items
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import rooms
from haiku.ingester.service.figures import Figures
from haiku.ingester.service.places import find_places
from haiku.rag.config import AppConfig
from haiku.rag.embed import identity
from haiku.rag.store import Store


@pytest.fixture
async def items(tmp_path: Path) -> AsyncIterator[Items]:
    opened = await Items.open(f"sqlite:///{tmp_path}/items.sqlite", "one", WorkConfig())
    yield opened
    await opened.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    app = AppConfig()
    made = await Store.create(
        str(tmp_path / "x.lancedb"), identity(app.embeddings.model), app.storage
    )
    yield made
    await made.close()


async def index_one(items: Items) -> None:
    await items.observe("docs", [Observation("file:///a.md", "m1", 3)], live=False)
    (claim,) = await items.claim(1)
    done = Indexed(content_hash="h", mark="m1", fingerprint="f", document_id="d", chunk_count=1)
    await items.finish(claim, done)


@pytest.mark.parametrize(("created", "state"), [(True, State.PENDING), (False, State.INDEXED)])
async def test_items_of_a_database_that_was_lost_are_work_again(
    items: Items, store: Store, created: bool, state: State
) -> None:
    await index_one(items)
    await rooms.reconcile(items, store, created=created)
    item = await items.get("docs", "file:///a.md")
    assert item is not None
    assert item.state == state
    assert item.content_hash == (None if created else "h")


async def test_starting_over_is_claimed_and_can_be_finished(items: Items) -> None:
    await index_one(items)
    assert await items.start_over() == 1
    (claim,) = await items.claim(5)
    assert (claim.content_hash, claim.document_id) == (None, None)


def config_of(path: Path, *, required: bool) -> DaemonConfig:
    section = IngesterConfig.model_validate(
        {"sources": [{"id": "docs", "path": str(path), "required": required}]}
    )
    return DaemonConfig(app=AppConfig(), ingester=section)


async def test_only_a_required_source_must_be_there(tmp_path: Path) -> None:
    for required in (False, True):
        config = config_of(tmp_path / "lost", required=required)
        sources = rooms.make_sources(config, find_places(config, tmp_path / "x.lancedb"))
        if not required:
            await rooms.check_required(config, sources)
            continue
        with pytest.raises(SourceMissing, match="lost"):
            await rooms.check_required(config, sources)


async def test_opening_twice_gives_two_instances_and_then_the_first_again(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    config = config_of(tmp_path / "docs", required=True)
    places = find_places(config, tmp_path / "x.lancedb")
    sources = rooms.make_sources(config, places)
    ids = []
    async with AsyncExitStack() as outer:
        for _ in range(2):
            builder = rooms.Builder(config, places, outer)
            opened = await builder.open(sources, rooms.once, lambda outcomes, seconds: None)
            ids.append(opened.items.instance)
        opened.session.worker_stats.crashes = 2
        metrics = Metrics()
        await Figures(metrics, opened).refresh()
        assert b'haiku_ingester_worker_restarts_total{reason="crash"} 2.0' in metrics.render()
    async with AsyncExitStack() as stack:
        builder = rooms.Builder(config, places, stack)
        opened = await builder.open(sources, rooms.once, lambda outcomes, seconds: None)
        ids.append(opened.items.instance)
    assert ids[0] != ids[1]
    assert ids[2] == ids[0]
