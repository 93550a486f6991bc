"""The watch of a folder: what it reports, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from haiku.ingester.exceptions import SourceMissing, WatchUnavailable
from haiku.ingester.sources import fs, inotify
from haiku.ingester.sources.protocol import Event, EventKind
from haiku.rag.uris import path_to_uri

if TYPE_CHECKING:
    from pathlib import Path


class Heard(list[Event]):
    """Events, and a way to wait for one."""

    async def of(self, path: Path, kind: EventKind = EventKind.OBJECT) -> Event:
        uri = path_to_uri(path) + ("/" if kind is EventKind.TREE else "")
        async with asyncio.timeout(20):
            while True:
                for event in self:
                    if event.uri == uri and event.kind is kind:
                        return event
                await asyncio.sleep(0.01)


async def test_files_and_folders(root: Path, make_source: Any) -> None:
    heard = Heard()
    (root / "old").mkdir()
    watch = await make_source().watch(heard.append)
    (root / "old/a b").write_text("x")
    await heard.of(root / "old/a b")
    (root / "new/deep").mkdir(parents=True)
    await heard.of(root / "new", EventKind.TREE)
    (root / "new/deep/c").write_text("x")
    await heard.of(root / "new/deep/c")
    (root / "new").rename(root / "newer")
    await heard.of(root / "new", EventKind.TREE)
    await heard.of(root / "newer", EventKind.TREE)
    (root / "newer/deep/d").write_text("x")
    await heard.of(root / "newer/deep/d")
    outside = root.parent / "outside"
    (root / "newer").rename(outside)
    heard.clear()
    await asyncio.sleep(0.05)
    (outside / "deep/e").write_text("x")
    outside.rename(root / "back")
    await heard.of(root / "back", EventKind.TREE)
    (root / "back/deep/f").write_text("x")
    await heard.of(root / "back/deep/f")
    assert not any("newer/deep/e" in event.uri for event in heard)
    await watch.stop()
    heard.clear()
    (root / "after").write_text("x")
    await asyncio.sleep(0.1)
    assert not heard


async def test_writer_has_finished(root: Path, make_source: Any) -> None:
    heard = Heard()
    watch = await make_source().watch(heard.append)
    with (root / "f").open("w") as file:
        file.write("x")
        file.flush()
        assert not (await heard.of(root / "f")).closed
        heard.clear()
    assert (await heard.of(root / "f")).closed
    await watch.stop()


async def test_ignored_folders_are_not_watched(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "node_modules/deep").mkdir(parents=True)
    heard = Heard()
    watch = await make_source().watch(heard.append)
    (root / "node_modules/deep/f").write_text("x")
    (root / ".git").mkdir()
    (root / ".git/f").write_text("x")
    (root / "f").write_text("x")
    await heard.of(root / "f")
    assert {event.uri for event in heard} == {path_to_uri(root / "f")}
    await watch.stop()


async def test_gitignore_that_changes_has_its_folder_listed(root: Path, make_source: Any) -> None:
    (root / "sub").mkdir()
    heard = Heard()
    watch = await make_source(gitignore=True).watch(heard.append)
    (root / "sub/.gitignore").write_text("x")
    await heard.of(root / "sub", EventKind.TREE)
    await watch.stop()


@pytest.mark.parametrize("how", ["renamed", "deleted", "replaced", "parent renamed"])
async def test_root_that_goes_ends_the_watch(root: Path, make_source: Any, how: str) -> None:
    (root / "deep").mkdir()
    watch = await make_source(path=root / "deep").watch(lambda event: None)
    if how == "renamed":
        (root / "deep").rename(root / "away")
    elif how == "deleted":
        (root / "deep").rmdir()
    elif how == "replaced":
        (root / "deep").rename(root / "away")
        (root / "deep").mkdir()
    else:
        root.rename(root.parent / "elsewhere")
    reason = await asyncio.wait_for(watch.ended(), 20)
    assert "folder" in reason
    await watch.stop()
    await watch.stop()


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (errno.ENOSPC, "fs.inotify.max_user_watches"),
        (errno.EMFILE, "fs.inotify.max_user_instances"),
    ],
)
async def test_limits_name_the_setting(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch, code: int, setting: str
) -> None:
    """F04, at the start: also when only a folder below the root cannot be watched."""
    (root / "sub").mkdir()
    add = inotify.InotifyFD.add_callback

    def refuse(self: Any, path: bytes, *args: Any) -> Any:
        if path.endswith(b"/sub"):
            raise OSError(code, "no")
        return add(self, path, *args)

    monkeypatch.setattr(inotify.InotifyFD, "add_callback", refuse)
    with pytest.raises(WatchUnavailable, match=f"sysctl -w {setting}="):
        await make_source().watch(lambda event: None)


async def test_limit_reached_later_ends_the_watch(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F04, when a folder is made."""
    watch = await make_source().watch(lambda event: None)

    def refuse(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(inotify.InotifyFD, "add_callback", refuse)
    (root / "sub").mkdir()
    assert "max_user_watches" in await asyncio.wait_for(watch.ended(), 20)
    await watch.stop()


async def test_dropped_events_are_reported(root: Path, make_source: Any) -> None:
    heard = Heard()
    watch = await make_source().watch(heard.append)
    await asyncio.to_thread(watch._tree.on_queue_overflow)
    async with asyncio.timeout(20):
        while Event(EventKind.LOST) not in heard:
            await asyncio.sleep(0.01)
    (root / "f").write_text("x")
    await heard.of(root / "f")
    await watch.stop()


async def test_reader_that_dies_ends_the_watch(root: Path, make_source: Any) -> None:
    watch = await make_source().watch(lambda event: None)
    await asyncio.to_thread(watch._tree._reader.stop)
    assert await asyncio.wait_for(watch.ended(), 20)
    await watch.stop()


async def test_who_is_not_watched(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F05"""
    for mode in ("poll", "off"):
        assert await make_source(watch=mode).watch(lambda event: None) is None
    monkeypatch.setattr(fs.mounts, "network_type", lambda path: "nfs4")
    assert await make_source(watch="auto").watch(lambda event: None) is None
    watch = await make_source(watch="native").watch(lambda event: None)
    assert watch.mode == "native"
    await watch.stop()
    shutil.rmtree(root)
    with pytest.raises(SourceMissing):
        await make_source(watch="native").watch(lambda event: None)


async def test_watches_leave_nothing_open(root: Path, make_source: Any) -> None:
    source = make_source()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        watch = await source.watch(lambda event: None)
        await watch.stop()
    assert len(os.listdir("/proc/self/fd")) <= before
