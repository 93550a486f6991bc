"""A restored database, its items and its sources: held, then resynced or kept."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from haiku.ingester.config import FilesystemSource, WorkConfig
from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.items import Claim, Indexed, Removed, State
from haiku.ingester.items.items import Items
from haiku.ingester.metrics import Metrics
from haiku.ingester.service.discovery import Discovery
from haiku.ingester.service.restores import Restores
from haiku.ingester.sources.fs import FolderSource
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag.config.models import StorageConfig
from haiku.rag.records import EmbeddingIdentity
from haiku.rag.store import Store
from haiku.rag.store.changes import Delete, NewRevision, Put
from haiku.rag.uris import path_to_uri

IDENTITY = EmbeddingIdentity(provider="test", name="v", dim=2)


class World:
    """A folder, its items and a database, and a worker that writes texts as they are."""

    def __init__(self, root: Path, store: Store, items: Items) -> None:
        self.docs = root / "docs"
        self.docs.mkdir()
        section = FilesystemSource(id="docs", path=self.docs, settle=0.0, watch="off")
        self.source = FolderSource(section, max_file_size=1_000_000)
        self.store, self.items = store, items
        self.sync = SourceSync(self.source, items, Policy.of(section))
        self.restores = Restores(store, items, {"docs": self.source})

    def uri(self, name: str) -> str:
        return path_to_uri(self.docs / name)

    async def work(self) -> int:
        """List the folder and do everything that is due; how many items were done."""
        await self.sync.run_once()
        claims = await self.items.claim(50)
        for claim in claims:
            await self.do(claim)
        return len(claims)

    async def do(self, claim: Claim) -> None:
        change: Put | Delete = Delete(uri=claim.uri, source="docs")
        path = self.docs / claim.uri.rsplit("/", 1)[-1]
        if path.exists():
            revision = NewRevision(
                revision="", content=path.read_text(), docling=None, chunks=[], vectors=NO_VECTORS
            )
            change = Put(uri=claim.uri, revision=revision, sources={"docs": claim.mark})
        (outcome,) = await self.store.commit(
            [change], still_mine=lambda: self.restores.still_mine([claim])
        )
        assert outcome.result == "done"
        done = Indexed(
            content_hash="h", mark=claim.mark, fingerprint="f", document_id="d", chunk_count=1
        )
        await self.items.finish(claim, done if isinstance(change, Put) else Removed())

    async def contents(self) -> dict[str, str]:
        snapshot = await self.store.snapshot()
        rows = await snapshot.rows()
        return {row.uri.rsplit("/", 1)[-1]: await snapshot.content(row) for row in rows}


NO_VECTORS = np.empty((0, 2), np.float32)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    items = await Items.open(f"sqlite:///{tmp_path}/items.sqlite", "one", WorkConfig())
    async with await Store.create(tmp_path / "db", IDENTITY, StorageConfig()) as store:
        world = World(tmp_path, store, items)
        await world.restores.look()
        (world.docs / "stays").write_text("stays")
        (world.docs / "changes").write_text("before")
        (world.docs / "leaves").write_text("leaves")
        assert await world.work() == 3
        await store.create_tag("t")
        (world.docs / "changes").write_text("after it")
        (world.docs / "comes").write_text("comes")
        (world.docs / "leaves").unlink()
        assert await world.work() == 3
        yield world
    await items.close()


TAGGED = {"stays": "stays", "changes": "before", "leaves": "leaves"}
FOLDER = {"stays": "stays", "changes": "after it", "comes": "comes"}


async def restore(world: World) -> None:
    """By another process."""
    async with await Store.open(world.store.path, StorageConfig()) as other:
        await other.restore_tag("t")


async def test_a_restore_holds_the_source(world: World) -> None:
    assert await world.contents() == FOLDER
    await restore(world)
    await world.restores.look()
    assert list(world.restores.held) == ["docs"]
    (reason,) = world.restores.reasons()
    assert (reason.part, reason.code, reason.fatal) == ("source:docs", "restored", False)
    assert "source resync docs" in reason.text
    assert "source keep docs" in reason.text
    found = Discovery([], world.items, world.restores, Metrics())
    assert list(found.reasons()) == [reason]
    (world.docs / "stays").write_text("changed")
    assert await world.work() == 0
    assert await world.contents() == TAGGED


async def test_a_commit_under_way_never_goes_into_a_restored_database(world: World) -> None:
    (world.docs / "stays").write_text("changed")
    await world.sync.run_once()
    (claim,) = await world.items.claim(5)

    async def overtake(step: str) -> None:
        if step == "merge":
            world.store.on_step(lambda _: asyncio.sleep(0))
            await restore(world)

    world.store.on_step(overtake)
    with pytest.raises(AssertionError, match="dropped"):
        await world.do(claim)
    assert await world.contents() == TAGGED
    assert list(world.restores.held) == ["docs"]
    (item,) = [item for item in await world.items.list() if item.uri == world.uri("stays")]
    assert item.state == State.PENDING


async def test_a_restore_while_nothing_ran_is_noticed_at_the_start(world: World) -> None:
    await restore(world)
    later = Restores(world.store, world.items, {"docs": world.source})
    await later.look()
    assert list(later.held) == ["docs"]


async def test_resync_brings_the_database_in_step_with_the_source(world: World) -> None:
    await restore(world)
    await world.restores.resync("docs")  # before anybody noticed
    assert not world.restores.held
    assert await world.work() == 3
    assert await world.contents() == FOLDER
    await world.restores.look()
    assert not world.restores.held
    assert await world.work() == 0


async def test_keep_keeps_the_restored_state_until_something_changes(world: World) -> None:
    await restore(world)
    await world.restores.look()
    (world.docs / "changes").write_text("changed while it was held")
    await world.restores.keep("docs")
    assert not world.restores.held
    assert await world.work() == 0
    assert await world.contents() == TAGGED
    (world.docs / "comes").write_text("comes now")
    assert await world.work() == 1
    assert await world.contents() == {**TAGGED, "comes": "comes now"}
    row = await world.store.row(world.uri("changes"))
    known = await world.items.known("docs")
    assert row is not None
    assert row.sources["docs"] == known[world.uri("changes")].mark


async def test_what_cannot_be_listed_stays_held(world: World) -> None:
    await restore(world)
    await world.restores.look()
    world.docs.rename(world.docs.with_name("away"))
    with pytest.raises(SourceMissing):
        await world.restores.keep("docs")
    assert list(world.restores.held) == ["docs"]


async def test_a_second_restore_holds_again(world: World) -> None:
    await restore(world)
    await world.restores.resync("docs")
    await restore(world)
    await world.restores.look()
    assert list(world.restores.held) == ["docs"]
