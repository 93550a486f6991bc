"""Bytes: of one moment, of one file, and never of something that makes us wait."""

from __future__ import annotations

import asyncio
import io
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.sources import reading
from haiku.rag.exceptions import (
    SourceChanged,
    SourceTooLarge,
    SourceUnavailable,
    SourceUnreadable,
)
from haiku.rag.uris import path_to_uri

if TYPE_CHECKING:
    from pathlib import Path


class Into(io.BytesIO):
    """A spool file that does something when it is written to first."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def write(self, data: Any) -> int:
        act, self.act = self.act, lambda: None
        act()
        return super().write(data)


async def test_bytes_and_what_is_said_of_them(root: Path, make_source: Any) -> None:
    data = os.urandom(3_000_000)
    (root / "a b.pdf").write_bytes(data)
    source, into, uri = make_source(limit=10**7), io.BytesIO(), path_to_uri(root / "a b.pdf")
    fetched = await source.fetch(uri, into)
    assert into.getvalue() == data
    assert fetched.sha256 == sha256(data).hexdigest()
    assert (fetched.size, fetched.name, fetched.declared_type) == (len(data), "a b.pdf", None)
    look = (await source.look([uri]))[uri]
    assert (fetched.mark, fetched.identity) == (look.mark, look.identity)


@pytest.mark.parametrize("change", ["append", "overwrite", "truncate"])
async def test_change_while_reading(root: Path, make_source: Any, change: str) -> None:
    path = root / "f"
    path.write_bytes(b"x" * 100)

    def act() -> None:
        with path.open({"append": "ab", "overwrite": "r+b", "truncate": "wb"}[change]) as file:
            file.write(b"y" * 100)

    with pytest.raises(SourceChanged):
        await make_source().fetch(path_to_uri(path), Into(act))


async def test_replaced_while_reading_gives_the_old_bytes(root: Path, make_source: Any) -> None:
    """The old file is still whole; that another one has its name is a new event."""
    path = root / "f"
    path.write_text("old")
    (root / "new").write_text("new")
    into = Into(lambda: os.replace(root / "new", path))
    try:
        await make_source().fetch(path_to_uri(path), into)
    except SourceChanged:
        return  # losing its name changed its ctime
    assert into.getvalue() == b"old"


async def test_limits(root: Path, make_source: Any) -> None:
    (root / "f").write_bytes(b"x" * 100)
    uri = path_to_uri(root / "f")
    with pytest.raises(SourceTooLarge, match=r"100 bytes; the limit is 99"):
        await make_source().fetch(uri, io.BytesIO(), max_size=99)
    with pytest.raises(SourceTooLarge):
        await make_source(max_file_size=99).fetch(uri, io.BytesIO(), max_size=1000)
    assert (await make_source().fetch(uri, io.BytesIO(), max_size=100)).size == 100


async def test_what_is_no_regular_file(root: Path, make_source: Any) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    (root.parent / "secret").write_text("x")
    (root / "out").symlink_to("../secret")
    (root / "in").symlink_to("file")
    (root / "file").write_text("x")
    for source in (make_source(), make_source(follow_symlinks=True)):
        for name in ("pipe", "folder", "out", "nothing"):
            with pytest.raises(SourceUnreadable):
                await asyncio.wait_for(source.fetch(path_to_uri(root / name), io.BytesIO()), 10)
    with pytest.raises(SourceUnreadable, match="link"):
        await make_source().fetch(path_to_uri(root / "in"), io.BytesIO())
    followed = await make_source(follow_symlinks=True).fetch(path_to_uri(root / "in"), io.BytesIO())
    assert followed.size == 1


async def test_pipe_that_takes_the_place_of_a_file(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look sees a file, the open finds a pipe: it must not wait for a writer."""
    os.mkfifo(root / "f")
    monkeypatch.setattr(reading.os, "lstat", lambda path: os.stat(__file__))
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        await asyncio.wait_for(make_source().fetch(path_to_uri(root / "f"), io.BytesIO()), 10)


async def test_folder_swapped_for_a_link_out_of_the_root(root: Path, make_source: Any) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (root / "sub").symlink_to(outside)
    into = io.BytesIO()
    with pytest.raises(SourceUnreadable, match="leads out"):
        await make_source().fetch(path_to_uri(root / "sub/f"), into)
    assert not into.getvalue()


async def test_missing_root_is_no_verdict_on_a_file(root: Path, make_source: Any) -> None:
    source = make_source()
    root.rmdir()
    with pytest.raises(SourceMissing):
        await source.fetch(path_to_uri(root / "f"), io.BytesIO())


async def test_error_that_may_pass(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_text("x")

    def fail(descriptor: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(reading.os, "read", fail)
    with pytest.raises(SourceUnavailable):
        await make_source().fetch(path_to_uri(root / "f"), io.BytesIO())


async def test_errors_of_the_spool_are_not_the_files(root: Path, make_source: Any) -> None:
    (root / "f").write_text("x")

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await make_source().fetch(path_to_uri(root / "f"), Into(full))


async def test_cancelling_waits_for_the_thread(root: Path, make_source: Any) -> None:
    (root / "f").write_bytes(b"x" * 100)
    writing, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def act() -> None:
        loop.call_soon_threadsafe(writing.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)

    into = Into(act)
    task = asyncio.create_task(make_source().fetch(path_to_uri(root / "f"), into))
    await writing.wait()
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
