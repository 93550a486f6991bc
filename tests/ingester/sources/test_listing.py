"""What a listing and a look say of a tree."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haiku.ingester.config import FilesystemSource
from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.sources import walk
from haiku.ingester.sources.entries import Rules
from haiku.ingester.sources.fs import FolderSource
from haiku.rag.uris import path_to_uri, uri_to_path

# bytes that a name may have: all but NUL and "/"
_NAMES = st.binary(min_size=1, max_size=20).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(names=st.lists(_NAMES, min_size=1, max_size=4, unique=True))
async def test_names_with_any_bytes(tmp_path: Path, listing_of: Any, names: list[bytes]) -> None:
    """F13"""
    root = os.fsencode(tmp_path / f"root {len(os.listdir(tmp_path))}")
    os.mkdir(root)
    for name in names:
        os.makedirs(os.path.join(root, b"d%20", name), exist_ok=True)
        with open(os.path.join(root, b"d%20", name, name), "wb") as file:
            file.write(name)
    section = FilesystemSource(
        id="docs", path=Path(os.fsdecode(root)), default_ignore=False, settle=0
    )
    source = FolderSource(section, max_file_size=1000)
    found, unread = await listing_of(source)
    paths = {os.path.join(root, b"d%20", name, name) for name in names}
    assert {os.fsencode(uri_to_path(uri)) for uri in found} == paths
    assert {path_to_uri(os.fsdecode(path)) for path in paths} == set(found)
    assert await source.look(list(found)) == found
    assert not unread
    for uri in found:
        with open(os.path.join(os.fsencode(tmp_path), b"spool"), "w+b") as into:
            await source.fetch(uri, into)
            into.seek(0)
            assert into.read() == os.path.basename(os.fsencode(uri_to_path(uri)))


async def test_only_files_are_documents(root: Path, make_source: Any, listing_of: Any) -> None:
    (root / "file").write_text("x")
    (root / "big").write_text("x" * 11)
    (root / "link").symlink_to("file")
    (root / "dangling").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(root / "socket"))
    source = make_source(limit=10)
    found, unread = await listing_of(source)
    reasons = {uri_to_path(uri).name: o.skip for uri, o in found.items()}
    assert reasons == {
        "file": None,
        "big": "too_large",
        "link": "link",
        "dangling": "link",
        "pipe": "special",
        "socket": "special",
    }
    assert await source.look(list(found)) == found
    assert not unread


async def test_link_to_a_folder_is_never_entered(
    root: Path, make_source: Any, listing_of: Any
) -> None:
    """F09"""
    (root / "sub").mkdir()
    (root / "sub/file").write_text("x")
    (root / "loop").symlink_to(".")
    (root / "sub/up").symlink_to("..")
    source = make_source(follow_symlinks=True)
    found, _ = await listing_of(source)
    assert {uri for uri, o in found.items() if not o.skip} == {path_to_uri(root / "sub/file")}
    inside = path_to_uri(root / "loop/sub/file")
    assert await source.look([inside]) == {inside: None}
    assert (await listing_of(source, path_to_uri(root / "loop") + "/"))[0] == {}


async def test_links_inside_the_root_are_followed_when_asked(
    tmp_path: Path, root: Path, make_source: Any, listing_of: Any
) -> None:
    (tmp_path / "secret").write_text("x")
    (root / "file").write_text("x")
    (root / "in").symlink_to("file")
    (root / "out").symlink_to("../secret")
    (root / "rooted").symlink_to(tmp_path / "root-not")
    found, _ = await listing_of(make_source(follow_symlinks=True))
    skips = {uri_to_path(uri).name: o.skip for uri, o in found.items()}
    assert skips == {"file": None, "in": None, "out": "link", "rooted": "link"}
    assert found[path_to_uri(root / "in")].identity is None


async def test_folder_without_permission_is_incomplete_not_empty(
    root: Path, make_source: Any, listing_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open", "shut"):
        (root / name).mkdir()
        (root / name / "file").write_text("x")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("/shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(walk.os, "scandir", refuse)
    found, unread = await listing_of(make_source())
    assert set(found) == {path_to_uri(root / "open/file")}
    assert [(u.tree, u.reason) for u in unread] == [
        (path_to_uri(root / "shut") + "/", "Permission denied")
    ]


async def test_file_that_vanishes_during_the_walk_is_left_out(
    root: Path, make_source: Any, listing_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11"""
    for name in "abc":
        (root / name).write_text("x")
    observe = Rules.observe

    def vanish(self: Rules, path: str, uri: str, status: os.stat_result) -> Any:
        if path.endswith("/b"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return observe(self, path, uri, status)

    monkeypatch.setattr(Rules, "observe", vanish)
    found, unread = await listing_of(make_source())
    assert {uri_to_path(uri).name for uri in found} == {"a", "c"}
    assert not unread


async def test_missing_root_names_key_and_path(root: Path, make_source: Any) -> None:
    """F12"""
    source = make_source()
    root.rmdir()
    for call in (source.check(), source.look([path_to_uri(root / "x")])):
        with pytest.raises(
            SourceMissing, match=r"root \(ingester\.sources\[docs\]\.path\).*mounted"
        ):
            await call
    with pytest.raises(SourceMissing):
        async for _ in source.list():
            pass
    root.write_text("a file")
    with pytest.raises(SourceMissing, match="is not a folder"):
        await source.check()


async def test_root_replaced_during_the_listing(root: Path, make_source: Any) -> None:
    (root / "file").write_text("x")
    source = make_source()

    async def replace_meanwhile() -> None:
        async for _ in source.list():
            if (root / "file").exists():
                root.rename(root.parent / "away")
                root.mkdir()

    with pytest.raises(SourceMissing, match="replaced"):
        await replace_meanwhile()


async def test_gitignore_files_rule_their_folders(
    root: Path, make_source: Any, listing_of: Any
) -> None:
    for name in ("a.log", "keep.log", "sub/a.log", "sub/b.txt", "build/x", "sub/build/x"):
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text("x")
    (root / ".gitignore").write_text("*.log\n!keep.log\n/build/\n.gitignore\n")
    (root / "sub/.gitignore").write_text("!a.log\nb.*\n")
    source = make_source(gitignore=True)
    found, _ = await listing_of(source)
    wanted = {path_to_uri(root / n) for n in ("keep.log", "sub/a.log", "sub/build/x")}
    assert set(found) == wanted
    everything = [path_to_uri(path) for path in root.rglob("*") if path.is_file()]
    looks = await source.look(everything)
    assert {uri for uri, o in looks.items() if o} == wanted
    below, _ = await listing_of(source, path_to_uri(root / "sub") + "/")
    assert set(below) == {uri for uri in wanted if "/sub/" in uri}


async def test_uri_of_somewhere_else_is_not_there(root: Path, make_source: Any) -> None:
    source = make_source()
    (root.parent / "secret").write_text("x")
    for uri in (
        path_to_uri(root) + "/../secret",
        path_to_uri(root) + "/%2e%2e/secret",
        "file:///etc/passwd",
        path_to_uri(root) + "x/y",
        path_to_uri(root) + "/",
    ):
        assert await source.look([uri]) == {uri: None}


async def test_recent_changes_are_unsettled(root: Path, make_source: Any) -> None:
    (root / "file").write_text("x")
    uri = path_to_uri(root / "file")
    async for listing in make_source(settle=60).list():
        assert uri in listing.unsettled
    async for listing in make_source(settle=0).list():
        assert not listing.unsettled


async def test_large_folder_comes_in_batches(
    root: Path, make_source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "BATCH", 10)
    for n in range(35):
        (root / str(n)).touch()
    sizes = [len(listing.observations) async for listing in make_source().list()]
    assert sizes == [10, 10, 10, 5]


async def test_a_path_with_two_dots_is_the_folder_it_means(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a")
    section = FilesystemSource(id="docs", path=tmp_path / "b" / ".." / "docs")
    source = FolderSource(section, max_file_size=10**6)
    uri = f"file://{tmp_path}/docs/a.md"
    listed = [o.uri async for listing in source.list() for o in listing.observations]
    assert listed == [uri]
    assert (await source.look([uri]))[uri] is not None
