"""Whatever is done to a tree, in the end what is known is what is there."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from tests.ingester.sync.conftest import World, make_world, tree

from haiku.ingester.items.model import State
from haiku.rag.uris import uri_to_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ("a", "b", "c d", "é#%", "A")


class Tree:
    """Random operations on a folder; each may do nothing when what it needs is not there."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root = root
        self.dice = dice

    def place(self) -> Path:
        """A path that may or may not be there."""
        depth = self.dice.randint(1, 3)
        return self.root.joinpath(*(self.dice.choice(NAMES) for _ in range(depth)))

    def entry(self) -> Path | None:
        """Something that is there."""
        entries = sorted(self.root.rglob("*"))
        return self.dice.choice(entries) if entries else None

    def write(self) -> None:
        path = self.place()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(self.dice.randint(0, 5)))

    def replace(self) -> None:
        temporary = self.root / "x.tmp"
        temporary.write_text(str(self.dice.randint(0, 5)))
        os.replace(temporary, self.place())

    def rename(self) -> None:
        if (entry := self.entry()) is not None:
            os.rename(entry, self.place())

    def remove(self) -> None:
        if (entry := self.entry()) is not None:
            entry.unlink() if entry.is_file() else shutil.rmtree(entry)

    def copy(self) -> None:
        if (entry := self.entry()) is not None and entry.is_file():
            shutil.copy2(entry, self.place())

    def swap_out_and_in(self) -> None:
        entry, outside = self.entry(), self.root.parent / "outside"
        if entry is not None and not outside.exists():
            os.rename(entry, outside)
            os.rename(outside, self.place())

    def step(self) -> None:
        operations: list[Callable[[], None]] = [
            self.write,
            self.write,
            self.replace,
            self.rename,
            self.rename,
            self.remove,
            self.copy,
            self.swap_out_and_in,
        ]
        try:
            self.dice.choice(operations)()
        except OSError:
            return  # a file where a folder was wanted, or the other way round


async def agrees(world: World) -> bool:
    """Known names and indexed contents against the tree."""
    await world.work()
    if await world.names() != tree(world.root):
        return False
    items = await world.items.list("docs", limit=1000)
    return all(
        item.state == State.INDEXED
        and item.content_hash == sha256(uri_to_path(item.uri).read_bytes()).hexdigest()
        for item in items
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("watch", ["native", "poll"])
async def test_tree_and_items_agree_in_the_end(tmp_path: Path, seed: int, watch: str) -> None:
    async with make_world(
        tmp_path, settle=0.02, watch=watch, poll_interval=0.05, delete_guard=1.0
    ) as world:
        dice = random.Random(seed)
        model = Tree(world.root, dice)
        for _ in range(40):
            for _ in range(dice.randint(1, 5)):
                model.step()
            await asyncio.sleep(dice.choice((0, 0, 0.01, 0.04)))
            await world.work() if dice.random() < 0.2 else None
        leftover = tmp_path / "outside"
        if leftover.is_dir():
            shutil.rmtree(leftover)
        await world.until(lambda: agrees(world), lambda: f"seed {seed}: {tree(world.root)}")
        documents = [item.document_id for item in await world.items.list("docs", limit=1000)]
        assert len(documents) == len(set(documents))
