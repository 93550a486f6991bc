"""Changes as they happen, with the real watch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.ingester.sync.conftest import make_world

if TYPE_CHECKING:
    from pathlib import Path


async def test_new_changed_deleted(tmp_path: Path) -> None:
    async with make_world(tmp_path) as world:
        assert world.sync.health().mode == "native"
        world.write("a.md", "one")
        await world.settled()
        first = await world.item("a.md")
        world.write("a.md", "two")
        await world.until(lambda: _is_pending(world, "a.md"))
        await world.settled()
        second = await world.item("a.md")
        assert first
        assert second
        assert first.content_hash != second.content_hash
        world.path("a.md").unlink()
        await world.settled()
        assert await world.item("a.md") is None


async def _is_pending(world, name):
    item = await world.item(name)
    return item.state == "pending"


async def test_folder_made_in_one_go(tmp_path: Path) -> None:
    """F07"""
    async with make_world(tmp_path) as world:
        names = set()
        for n in range(100):
            folder = world.root / f"{n}/a/b/c"
            folder.mkdir(parents=True)
            (folder / "f").write_text("x")
            names.add(f"{n}/a/b/c/f")
        await world.until_known(names)


async def test_folder_renamed(tmp_path: Path) -> None:
    """F62"""
    async with make_world(tmp_path) as world:
        for n in range(5):
            world.write(f"sub/deep/{n}.md", str(n))
        await world.settled()
        ids = {(await world.item(f"sub/deep/{n}.md")).document_id for n in range(5)}
        os.rename(world.root / "sub", world.root / "sub2")
        world.worked.clear()
        await world.settled()
        print([(c.action, c.uri, c.moved_from, c.document_id) for c in world.worked])
        print(world.sync.health())
        assert {(await world.item(f"sub2/deep/{n}.md")).document_id for n in range(5)} == ids
        assert {claim.action for claim in world.worked} == {"move"}
