"""A folder kept in step by the real parts: the filesystem source, the watch, items on SQLite."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from haiku.ingester.config import FilesystemSource, WorkConfig
from haiku.ingester.items.items import Items
from haiku.ingester.items.model import Action, Claim, Failed, Indexed, Item, Removed, Retry, State
from haiku.ingester.sources.fs import FolderSource
from haiku.ingester.sync import live
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag.exceptions import SourceChanged, SourceUnreadable
from haiku.rag.ids import new_id
from haiku.rag.uris import path_to_uri, uri_to_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

DEADLINE = 30.0  # seconds; generous, for a busy machine


@pytest.fixture(autouse=True)
def hold_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge departures sooner than in real life."""
    monkeypatch.setattr(live, "QUIET", 0.5)


@dataclass
class World:
    """A root, its source, its items, and a worker that does nothing but say it is done."""

    root: Path
    items: Items
    config: FilesystemSource
    source: FolderSource
    sync: SourceSync
    #: Claims that were worked on, in order.
    worked: list[Claim] = field(default_factory=list)

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, text: str = "text") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def uri(self, name: str) -> str:
        return path_to_uri(self.root / name)

    async def names(self) -> set[str]:
        """Names below the root of what is known and staying, and wanted."""
        known = await self.items.known("docs")
        return {
            str(uri_to_path(uri).relative_to(self.root)) for uri, k in known.items() if not k.skip
        }

    async def item(self, name: str) -> Item | None:
        return await self.items.get("docs", self.uri(name))

    async def work(self) -> int:
        """Do all work there is, as a worker that reads the bytes."""
        done = 0
        while claims := await self.items.claim(100):
            for claim in claims:
                self.worked.append(claim)
                done += 1
                await self.items.finish(claim, await self._result(claim))
        return done

    async def _result(self, claim: Claim) -> Any:
        if claim.action is Action.REMOVE:
            return Removed()
        try:
            with (self.root.parent / "spool").open("wb") as into:
                fetched = await self.source.fetch(claim.uri, into)
        except SourceUnreadable as error:
            return Failed(code=error.code, reason=str(error), stage="fetch")
        except SourceChanged as error:
            return Retry(code=error.code, reason=str(error), stage="fetch", after=0.0)
        document = claim.document_id or new_id()
        if claim.moved_from is not None:
            document = (await self.items.get("docs", claim.moved_from)).document_id
        return Indexed(
            content_hash=fetched.sha256,
            mark=fetched.mark,
            fingerprint="f",
            document_id=document,
            chunk_count=1,
            moved=claim.action is Action.MOVE,
        )

    async def settled(self) -> None:
        """Until the source is in step with the tree and all work is done."""
        await self.until_known(tree(self.root))
        await self.until(self.work_is_done)

    async def work_is_done(self) -> bool:
        await self.work()
        return await self.items.outstanding() == 0

    async def until_known(self, names: set[str]) -> None:
        async def holds() -> bool:
            return await self.names() == names

        await self.until(holds, lambda: f"wanted {names}")

    async def until(self, holds: Callable[[], Any], say: Callable[[], object] = lambda: "") -> None:
        """Poll until a condition (a function, plain or async) holds."""
        end = time.monotonic() + DEADLINE
        while True:
            answer = holds()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if time.monotonic() > end:
                known = await self.names()
                pytest.fail(f"not in time: {say()}; known {known}; {self.sync.health()}")
            await asyncio.sleep(0.02)

    async def state(self, name: str) -> State | None:
        item = await self.item(name)
        return item.state if item else None


def tree(root: Path) -> set[str]:
    """Names of the regular files below a folder that are not ignored."""
    return {
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
        if not name.endswith((".tmp", ".part"))
    }


@asynccontextmanager
async def make_world(
    tmp_path: Path, *, run: bool = True, policy: Policy | None = None, **config: Any
) -> AsyncIterator[World]:
    """A world on `tmp_path/root`; with `run` its source is kept in step meanwhile."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    section = FilesystemSource(**{"id": "docs", "path": root, "settle": 0.1} | config)
    url = f"sqlite:///{tmp_path}/items.db"
    items = await Items.open(url, "instance", WorkConfig())
    source = FolderSource(section, max_file_size=100_000_000)
    sync = SourceSync(source, items, policy or Policy.of(section))
    world = World(root, items, section, source, sync)
    task = asyncio.create_task(sync.run()) if run else None
    try:
        if run:
            await world.until(lambda: sync.health().last_sweep or sync.health().reasons)
        yield world
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await items.close()
