"""Changes as they happen: the real watch on a real folder, items on SQLite."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.ingester.sync.conftest import World, make_world, tree

from haiku.ingester.items.model import Action, State
from haiku.ingester.sources import fs, inotify
from haiku.ingester.sources.protocol import Event, EventKind
from haiku.ingester.sync import syncer

if TYPE_CHECKING:
    from pathlib import Path


async def is_pending(world: World, name: str) -> bool:
    return await world.state(name) == State.PENDING


async def documents(world: World, *names: str) -> list[str | None]:
    """The documents' ids; each name must be known."""
    items = [await world.item(name) for name in names]
    return [item.document_id if item else None for item in items]


def actions(world: World) -> set[Action]:
    return {claim.action for claim in world.worked}


async def test_new_changed_deleted(tmp_path: Path) -> None:
    async with make_world(tmp_path) as world:
        assert world.sync.health().mode == "native"
        world.write("a.md", "one")
        await world.settled()
        first = await world.item("a.md")
        world.write("a.md", "two")
        await world.until(lambda: is_pending(world, "a.md"))
        await world.settled()
        second = await world.item("a.md")
        assert first.content_hash != second.content_hash
        assert first.document_id == second.document_id
        world.path("a.md").unlink()
        await world.settled()
        assert await world.item("a.md") is None
        assert world.sync.health().ok


async def test_slow_copy_is_taken_once(tmp_path: Path) -> None:
    """F01"""
    async with make_world(tmp_path, settle=0.5) as world:
        with world.path("big.bin").open("wb") as file:
            for _ in range(8):
                file.write(os.urandom(100_000))
                file.flush()
                await asyncio.sleep(0.15)
                assert await world.item("big.bin") is None
        await world.settled()
        assert len(world.worked) == 1
        assert (await world.item("big.bin")).size == 800_000


async def test_atomic_saves_never_remove(tmp_path: Path) -> None:
    """F02"""
    async with make_world(tmp_path) as world:
        world.write("a.md", "first")
        await world.settled()
        for n in range(50):
            world.write("a.md.new", f"version {n}")
            os.replace(world.path("a.md.new"), world.path("a.md"))
            await asyncio.sleep(0.005)
            assert "a.md" in await world.names()
        await world.until(lambda: is_pending(world, "a.md"))
        await world.settled()
        assert actions(world) == {Action.INDEX}
        assert {world.uri("a.md")} == {claim.uri for claim in world.worked}


async def test_removed_and_made_again_is_a_change(tmp_path: Path) -> None:
    """F02, with the delete first."""
    async with make_world(tmp_path) as world:
        world.write("a.md", "first")
        await world.settled()
        document = await documents(world, "a.md")
        world.path("a.md").unlink()
        await world.until(lambda: world.sync._live.leaving)
        world.write("a.md", "second")
        await world.until(lambda: is_pending(world, "a.md"))
        await world.settled()
        assert await documents(world, "a.md") == document
        assert actions(world) == {Action.INDEX}


async def test_partial_download_is_one_job_in_the_end(tmp_path: Path) -> None:
    """F03"""
    async with make_world(tmp_path) as world:
        world.write("x.pdf.part", "half")
        world.write("witness.md")
        await world.until_known({"witness.md"})
        world.write("x.pdf.part", "whole")
        os.rename(world.path("x.pdf.part"), world.path("x.pdf"))
        await world.until_known({"witness.md", "x.pdf"})
        await world.settled()
        assert sum(claim.uri == world.uri("x.pdf") for claim in world.worked) == 1
        assert not any(claim.uri.endswith(".part") for claim in world.worked)


async def test_limit_of_watches_falls_back_to_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F04"""
    add = inotify.InotifyFD.add_callback

    def refuse(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(inotify.InotifyFD, "add_callback", refuse)
    monkeypatch.setattr(syncer, "WATCH_RETRY", 2.0)
    async with make_world(tmp_path, poll_interval=0.1) as world:
        world.write("a.md")
        await world.settled()
        health = world.sync.health()
        assert health.mode == "poll"
        assert "sysctl -w fs.inotify.max_user_watches=" in health.reasons[0]
        monkeypatch.setattr(inotify.InotifyFD, "add_callback", add)
        await world.until(lambda: world.sync.health().mode == "native")
        assert world.sync.health().ok


async def test_limit_reached_by_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F04, while running."""
    add = inotify.InotifyFD.add_callback

    def refuse(self: Any, path: bytes, *args: Any) -> Any:
        if path.endswith(b"one too many"):
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return add(self, path, *args)

    monkeypatch.setattr(inotify.InotifyFD, "add_callback", refuse)
    async with make_world(tmp_path, poll_interval=0.1) as world:
        assert world.sync.health().mode == "native"
        world.write("one too many/a.md")
        await world.settled()
        await world.until(lambda: world.sync.health().mode == "poll")
        world.write("one too many/b.md")
        await world.settled()


@pytest.mark.parametrize("watch", ["poll", "auto"])
async def test_polling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: str) -> None:
    """F05"""
    monkeypatch.setattr(fs.mounts, "network_type", lambda path: "nfs4")
    async with make_world(tmp_path, watch=watch, poll_interval=0.1) as world:
        assert world.sync.health().mode == "poll"
        assert world.sync.health().ok
        world.write("a.md", "one")
        world.write("b.md", "b")
        await world.settled()
        (document,) = await documents(world, "b.md")
        world.write("a.md", "two")
        await world.until(lambda: is_pending(world, "a.md"))
        os.rename(world.path("b.md"), world.path("c.md"))
        world.path("a.md").unlink()
        await world.settled()
        assert await documents(world, "c.md") == [document]


async def test_without_a_watch_only_sweeps_find_changes(tmp_path: Path) -> None:
    async with make_world(tmp_path, watch="off") as world:
        assert (world.sync.health().mode, world.sync.health().ok) == ("off", True)
        world.write("a.md")
        world.sync.refresh()
        await world.until_known({"a.md"})


async def test_files_in_folders_made_just_now(tmp_path: Path) -> None:
    """F07"""
    async with make_world(tmp_path) as world:
        for n in range(100):
            world.write(f"{n}/a/b/c/f", str(n))
        await world.until_known({f"{n}/a/b/c/f" for n in range(100)})


async def test_case_only_rename(tmp_path: Path) -> None:
    """F08"""
    async with make_world(tmp_path) as world:
        world.write("Report.md")
        await world.settled()
        before = await documents(world, "Report.md")
        os.rename(world.path("Report.md"), world.path("report.md"))
        await world.settled()
        assert await documents(world, "report.md") == before
        assert await world.item("Report.md") is None


async def test_move_keeps_the_document(tmp_path: Path) -> None:
    """F10"""
    async with make_world(tmp_path) as world:
        world.write("a.md")
        await world.settled()
        before = await documents(world, "a.md")
        world.worked.clear()
        os.rename(world.path("a.md"), world.path("b.md"))
        await world.settled()
        assert await documents(world, "b.md") == before
        assert actions(world) == {Action.MOVE}


async def test_move_over_filesystems_is_told_by_content(tmp_path: Path) -> None:
    """F10: copied, then removed, so that the inode is another one."""
    async with make_world(tmp_path) as world:
        world.write("a.md", "the content")
        world.write("other.md", "CONTENT the")
        await world.settled()
        before = await documents(world, "a.md")
        world.worked.clear()
        shutil.copyfile(world.path("a.md"), world.path("b.md"))
        world.path("a.md").unlink()
        await world.settled()
        assert await documents(world, "b.md") == before
        assert actions(world) == {Action.MOVE}


async def test_move_that_changed_as_well_is_a_new_document(tmp_path: Path) -> None:
    async with make_world(tmp_path) as world:
        world.write("a.md", "old")
        await world.settled()
        world.worked.clear()
        os.rename(world.path("a.md"), world.path("b.md"))
        world.write("b.md", "new, and longer")
        await world.settled()
        assert actions(world) == {Action.INDEX, Action.REMOVE}


async def test_folders_renamed_moved_in_and_out(tmp_path: Path) -> None:
    """F62"""
    async with make_world(tmp_path) as world:
        names = [f"sub/deep/{n}.md" for n in range(25)]
        for name in names:
            world.write(name, name)
        for n in range(5):
            path = tmp_path / f"outside/tree/{n}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"outside {n}")
        await world.settled()
        before = await documents(world, *names)
        world.worked.clear()
        os.rename(world.path("sub"), world.path("sub2"))
        await world.settled()
        moved = [name.replace("sub", "sub2") for name in names]
        assert await documents(world, *moved) == before
        assert actions(world) == {Action.MOVE}
        os.rename(tmp_path / "outside/tree", world.path("tree"))
        await world.settled()
        world.write("tree/later.md")
        await world.until_known(tree(world.root))
        os.rename(world.path("tree"), tmp_path / "outside/tree")
        await world.settled()
        assert await world.names() == set(moved)


async def test_changes_under_way_while_folders_are_renamed(tmp_path: Path) -> None:
    """F07, F62"""
    async with make_world(tmp_path) as world:
        for n in range(20):
            world.write(f"dir{n}/a.md", str(n))
            os.rename(world.path(f"dir{n}"), world.path(f"moved{n}"))
            world.write(f"moved{n}/b.md", str(n))
            os.rename(world.path(f"moved{n}/b.md"), world.path(f"moved{n}/c.md"))
        await world.until_known({f"moved{n}/{name}.md" for n in range(20) for name in "ac"})


async def test_many_files_at_once(tmp_path: Path) -> None:
    """F63: all are known although nobody works on any; and again after a restart."""
    names = {f"{n % 100}/{n}.md" for n in range(10_000)}
    outside = tmp_path / "outside"
    for name in names:
        path = outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    async with make_world(tmp_path) as world:
        half = [n for n in range(100) if n % 2]
        await asyncio.to_thread(
            lambda: [shutil.copytree(outside / str(n), world.path(str(n))) for n in half]
        )
        await world.until(lambda: known_count(world, 5_000))
    await asyncio.to_thread(shutil.copytree, outside, world.root, dirs_exist_ok=True)
    async with make_world(tmp_path) as world:
        await world.until(lambda: known_count(world, 10_000))
        assert await world.names() == names


async def known_count(world: World, wanted: int) -> bool:
    return await world.items.count_known("docs") == wanted


async def test_a_thousand_rewrites_are_one_row_and_few_jobs(tmp_path: Path) -> None:
    async with make_world(tmp_path) as world:
        world.write("other.md")
        for n in range(1000):
            world.write("a.md", f"version {n}")
            if n % 50 == 0:
                await world.work()
        await world.until_known({"a.md", "other.md"})
        await world.settled()
        assert sum(claim.uri == world.uri("a.md") for claim in world.worked) <= 5
        assert len(await world.items.list("docs")) == 2


async def test_file_that_is_never_still_is_taken_now_and_then(tmp_path: Path) -> None:
    async with make_world(tmp_path) as world:

        async def append_for_ever() -> None:
            while True:
                with world.path("log.txt").open("a") as file:
                    file.write("line\n")
                await asyncio.sleep(0.01)

        task = asyncio.create_task(append_for_ever())
        await world.until_known({"log.txt"})
        task.cancel()
        await world.settled()


async def test_root_away_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F06"""
    async with make_world(tmp_path) as world:
        for n in range(25):
            world.write(f"{n}.md", str(n))
        await world.settled()
        os.rename(world.root, tmp_path / "away")
        await world.until(lambda: world.sync.health().missing)
        await world.until(lambda: world.sync.health().suspension)
        assert await world.work() == 0
        assert len(await world.names()) == 25
        (tmp_path / "away/new.md").write_text("x")
        os.rename(tmp_path / "away", world.root)
        await world.until(lambda: world.sync.health().ok)
        await world.settled()
        assert len(world.worked) == 26
        world.write("later.md")  # the watch is armed again
        await world.settled()
        assert world.sync.health().mode == "native"
        assert world.sync.health().watch_restarts > 0


async def test_root_missing_at_start(tmp_path: Path) -> None:
    """F12"""
    async with make_world(tmp_path, path=tmp_path / "nowhere") as world:
        health = world.sync.health()
        assert health.missing
        assert "nowhere (ingester.sources[docs].path)" in health.reasons[0]
        assert health.suspension is None
        (tmp_path / "nowhere").mkdir()
        (tmp_path / "nowhere/a.md").write_text("x")
        await world.until(lambda: known_count(world, 1))
        await world.until(lambda: world.sync.health().ok)


async def test_most_of_the_tree_deleted_at_once_waits(tmp_path: Path) -> None:
    """F06, as it happens: nothing goes until a person agrees."""
    async with make_world(tmp_path) as world:
        for n in range(60):
            world.write(f"{n % 3}/{n}.md", str(n))
        world.write("stays.md")
        await world.settled()
        world.worked.clear()
        for n in range(3):
            shutil.rmtree(world.path(str(n)))
        await world.until(lambda: world.sync.health().suspension)
        assert len(await world.names()) == 61
        world.write("new.md")
        await world.until(lambda: world.item("new.md"))
        await world.sync.confirm_deletes()
        await world.settled()
        assert await world.names() == {"stays.md", "new.md"}
        assert world.sync.health().ok


async def test_dropped_events_lead_to_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_world(tmp_path) as world:
        world.write("a.md")
        await world.settled()
        monkeypatch.setattr(world.sync._live, "take", lambda event: None)
        world.write("b.md")
        world.path("a.md").unlink()
        await asyncio.sleep(0.3)
        assert await world.names() == {"a.md"}
        world.sync._take(Event(EventKind.LOST))
        await world.settled()


async def test_busy_items_database_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncer, "FIRST_RETRY", 0.1)
    async with make_world(tmp_path) as world:
        observe, failures = world.items.observe, []

        async def busy(*args: Any, **more: Any) -> Any:
            if len(failures) < 3:
                failures.append(args)
                raise syncer.ItemsUnavailable("locked")
            return await observe(*args, **more)

        monkeypatch.setattr(world.items, "observe", busy)
        world.write("a.md")
        await world.settled()
        assert len(failures) == 3
        await world.until(lambda: world.sync.health().ok)
