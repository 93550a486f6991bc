"""Sweeps: what a listing says against what was known, without a watch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.ingester.sync.conftest import World, make_world, tree

from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.items.model import Action, State
from haiku.ingester.sources import walk
from haiku.ingester.sources.entries import Rules
from haiku.ingester.sources.protocol import Event, EventKind


async def filled(world: World, number: int = 30) -> None:
    """Files that are known and indexed."""
    for n in range(number):
        world.write(f"{n}.md", f"content {n}")
    await world.sync.run_once()
    await world.work()
    world.worked.clear()


async def test_new_changed_unchanged_gone(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 4)
        world.write("0.md", "changed")
        world.path("1.md").unlink()
        world.write("sub/4.md")
        await world.sync.run_once()
        await world.work()
        assert await world.names() == {"0.md", "2.md", "3.md", "sub/4.md"}
        assert {(c.action, Path(c.uri).name) for c in world.worked} == {
            (Action.INDEX, "0.md"),
            (Action.REMOVE, "1.md"),
            (Action.INDEX, "4.md"),
        }
        world.worked.clear()
        report = await world.sync.run_once()
        assert (report.found, report.new, report.changed, report.gone) == (4, 0, 0, 0)
        assert await world.work() == 0


async def test_first_sweep_is_backfill_and_later_ones_are_live(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False, settle=0) as world:
        world.write("a.md")
        await world.sync.run_once()
        world.write("b.md")
        await world.sync.run_once()
        first, second = await world.items.claim(2)
        assert first.uri.endswith("b.md")
        assert first.priority < second.priority


async def test_moves_while_nobody_looked(tmp_path: Path) -> None:
    """F10, F62: after a stop, and by a sweep."""
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 3)
        ids = {n: (await world.item(f"{n}.md")).document_id for n in range(3)}
    os.rename(world.path("0.md"), world.path("zero.md"))
    world.path("sub").mkdir()
    os.rename(world.path("1.md"), world.path("sub/1.md"))
    os.rename(world.path("sub"), world.path("sub2"))
    os.rename(world.path("2.md"), world.path("2.MD"))  # F08
    async with make_world(tmp_path, run=False) as world:
        await world.sync.run_once()
        await world.work()
        assert {claim.action for claim in world.worked} == {Action.MOVE}
        for old, name in enumerate(("zero.md", "sub2/1.md", "2.MD")):
            assert (await world.item(name)).document_id == ids[old]
        assert await world.names() == tree(world.root)


async def test_hard_link_is_another_document(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 1)
        os.link(world.path("0.md"), world.path("twin.md"))
        await world.sync.run_once()
        await world.work()
        assert await world.names() == {"0.md", "twin.md"}
        world.path("0.md").unlink()
        await world.sync.run_once()
        await world.work()
        assert await world.names() == {"twin.md"}
        assert Action.MOVE not in {claim.action for claim in world.worked}


async def test_root_missing_and_back(tmp_path: Path) -> None:
    """F06"""
    async with make_world(tmp_path, run=False) as world:
        await filled(world)
        os.rename(world.root, tmp_path / "away")
        for _ in range(2):
            with pytest.raises(SourceMissing, match=r"ingester\.sources\[docs\]\.path"):
                await world.sync.run_once()
        health = world.sync.health()
        assert health.missing
        assert not health.ok
        assert (await world.items.suspension("docs")).count == 30
        assert len(await world.names()) == 30
        world.root.mkdir()  # the mount point without the mount
        await world.sync.run_once()
        assert len(await world.names()) == 30
        assert any("suspended" in reason for reason in world.sync.health().reasons)
        world.root.rmdir()
        os.rename(tmp_path / "away", world.root)
        await world.sync.run_once()
        assert world.sync.health().ok
        assert await world.items.suspension("docs") is None
        assert await world.work() == 0


async def test_guard_and_confirm(tmp_path: Path) -> None:
    """F06"""
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 40)
        for n in range(30):
            world.path(f"{n}.md").unlink()
        world.write("new.md")
        report = await world.sync.run_once()
        await world.work()
        assert (report.gone, report.held_back) == (0, 30)
        assert len(await world.names()) == 41  # additions go on
        health = world.sync.health()
        assert health.suspension.count == 30
        assert "confirm-deletes docs" in health.reasons[0]
    async with make_world(tmp_path, run=False) as world:  # a restart changes nothing
        assert (await world.sync.run_once()).held_back == 30
        assert not world.sync.health().ok
        report = await world.sync.confirm_deletes()
        await world.work()
        assert report.gone == 30
        assert await world.names() == tree(world.root)
        assert world.sync.health().ok
        world.path("35.md").unlink()
        assert (await world.sync.run_once()).gone == 1


async def test_unreadable_part_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_world(tmp_path, run=False) as world:
        for name in ("shut/a", "shut/deep/b", "shutter", "open/c", "open/d"):
            world.write(name)
        await world.sync.run_once()
        await world.work()
        scandir = os.scandir

        def refuse(path: str) -> Any:
            if path.endswith("/shut"):
                raise PermissionError(13, "Permission denied", path)
            return scandir(path)

        world.path("open/c").unlink()
        world.path("shut/a").unlink()  # which nobody can see
        monkeypatch.setattr(walk.os, "scandir", refuse)
        report = await world.sync.run_once()
        assert [unread.reason for unread in report.incomplete] == ["Permission denied"]
        assert await world.names() == {"shut/a", "shut/deep/b", "shutter", "open/d"}
        assert "shut/ cannot be read" in world.sync.health().reasons[0]
        await world.sync.run_once()
        assert caplog.text.count("shut/ cannot be read") == 1
        record = (await world.items.sources())["docs"]
        monkeypatch.undo()
        shutil.rmtree(world.path("shut"))
        await world.sync.run_once()
        assert await world.names() == {"shutter", "open/d"}
        assert world.sync.health().ok
        assert (await world.items.sources())["docs"].last_sweep > record.last_sweep


async def test_file_that_is_back_before_the_verdict_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11: the listing misses it, the look before the verdict does not."""
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 3)
        observe, missed = Rules.observe, []

        def miss_once(self: Rules, path: str, uri: str, status: os.stat_result) -> Any:
            if path.endswith("/1.md") and not missed:
                missed.append(path)
                raise FileNotFoundError(2, "No such file or directory", path)
            return observe(self, path, uri, status)

        monkeypatch.setattr(Rules, "observe", miss_once)
        report = await world.sync.run_once()
        assert missed
        assert (report.found, report.gone) == (2, 0)
        assert await world.work() == 0


async def test_event_that_is_outdated_before_the_verdict(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 1)
        world.path("0.md").unlink()
        waiting = world.sync._live
        waiting.take(Event(EventKind.OBJECT, world.uri("0.md")))
        while not waiting.leaving:
            await waiting.step()
        world.write("0.md", "back")
        await waiting.drain()
        assert await world.names() == {"0.md"}
        await waiting.drain()
        await world.work()
        assert {claim.action for claim in world.worked} == {Action.INDEX}


async def test_failed_content_is_not_work_again(tmp_path: Path) -> None:
    """F26, as far as discovery goes: the same mark is nothing new."""
    from haiku.ingester.items.model import Failed

    async with make_world(tmp_path, run=False) as world:
        world.write("bad.md")
        await world.sync.run_once()
        (claim,) = await world.items.claim(1)
        await world.items.finish(claim, Failed(code="corrupt", reason="no", stage="convert"))
        for _ in range(3):
            await world.sync.run_once()
        assert await world.state("bad.md") == State.FAILED
        assert not await world.items.claim(1)


async def test_what_is_not_wanted_says_why(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False, max_file_size=100) as world:
        world.write("big.md", "x" * 101)
        world.write("ok.md")
        world.path("loop").symlink_to(".")
        os.mkfifo(world.path("pipe"))
        report = await world.sync.run_once()
        await world.work()
        items = {Path(i.uri).name: i for i in await world.items.list("docs")}
        assert {name: (i.state, i.code) for name, i in items.items()} == {
            "big.md": (State.SKIPPED, "too_large"),
            "ok.md": (State.INDEXED, None),
            "loop": (State.SKIPPED, "link"),
            "pipe": (State.SKIPPED, "special"),
        }
        reasons = {name: i.reason or "" for name, i in items.items()}
        assert "101 bytes" in reasons["big.md"]
        assert "follow_symlinks" in reasons["loop"]
        assert "pipe" in reasons["pipe"]
        assert report.found == 4
    async with make_world(tmp_path, run=False) as world:  # a larger limit makes it work
        await world.sync.run_once()
        assert await world.state("big.md") == State.PENDING


async def test_patterns_that_change_remove_what_they_exclude(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False) as world:
        await filled(world, 3)
    async with make_world(tmp_path, run=False, ignore=["1.*"]) as world:
        report = await world.sync.run_once()
        assert (report.ignored, report.gone) == (1, 1)
        assert await world.names() == {"0.md", "2.md"}


async def test_file_being_written_during_the_sweep_waits(tmp_path: Path) -> None:
    async with make_world(tmp_path, run=False, settle=0.3) as world:
        world.write("a.md", "half")
        sweep = await world.sync._sweep()
        assert (sweep.found, sweep.unsettled, sweep.new) == (1, 1, 0)
        world.write("a.md", "whole")
        await world.sync._live.drain()
        await world.work()
        assert len(world.worked) == 1
        assert await world.names() == {"a.md"}
