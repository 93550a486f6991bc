"""Fetching one file or URL: which URI, which bytes, and what is refused."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag import uris
from haiku.rag.exceptions import (
    SourceChanged,
    SourceTooLarge,
    SourceUnavailable,
    SourceUnreadable,
)
from haiku.rag.write import fetch as room
from haiku.rag.write.fetch import expand, fetch, source_uri

names = st.binary(min_size=1, max_size=40).filter(
    lambda b: b"/" not in b and b"\0" not in b and b not in (b".", b"..")
)


@given(names)
def test_any_file_name_survives_the_uri(name):
    path = Path(os.fsdecode(b"/some folder/" + name))
    uri = uris.path_to_uri(path)
    assert uri.isascii()
    assert uris.uri_to_path(uri) == path
    assert source_uri(path) == source_uri(uri) == uri
    assert uris.display(uri).isprintable()


def test_source_uris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert source_uri("a b.md") == f"file://{tmp_path}/a%20b.md"
    assert source_uri(Path("../x")) == f"file://{tmp_path.parent}/x"
    assert source_uri("https://example.org/a?b=1#part") == "https://example.org/a?b=1"
    with pytest.raises(SourceUnreadable, match="ftp://"):
        source_uri("ftp://example.org/a")


async def test_a_file_is_copied_hashed_and_named(tmp_path):
    source = tmp_path / "report [1].md"
    source.write_bytes(b"# Report\n")
    into = tmp_path / "into"
    into.mkdir()
    got = await fetch(uris.path_to_uri(source), into, max_size=100)
    assert got.path.read_bytes() == b"# Report\n"
    assert (got.name, got.size) == ("report [1].md", 9)
    assert got.content_hash == sha256(b"# Report\n").hexdigest()


async def test_refusals(tmp_path):
    async def get(path, limit=10):
        return await fetch(uris.path_to_uri(path), tmp_path, max_size=limit)

    with pytest.raises(SourceUnreadable, match="No such file"):
        await get(tmp_path / "absent")
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        await get(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        await get(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(SourceTooLarge, match="max_file_size"):
        await get(tmp_path / "large")


def test_a_folder_stands_for_its_files(tmp_path):
    for name in ("b.md", "a/x.txt", "a/y.part", ".git/config", "~$doc.docx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert [uris.uri_to_path(u).relative_to(tmp_path) for u in expand(tmp_path)] == [
        Path("b.md"),
        Path("a/x.txt"),
    ]


async def test_http(httpserver, tmp_path):
    httpserver.expect_request("/doc").respond_with_data("<p>hi", content_type="text/html")
    got = await fetch(httpserver.url_for("/doc"), tmp_path, max_size=100)
    assert got.path.read_bytes() == b"<p>hi"
    assert (got.declared or "").startswith("text/html")
    with pytest.raises(SourceTooLarge):
        await fetch(httpserver.url_for("/doc"), tmp_path, max_size=3)


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, SourceUnreadable), (503, SourceUnavailable), (429, SourceUnavailable)],
)
async def test_http_status(httpserver, tmp_path, status, error):
    httpserver.expect_request("/x").respond_with_data("no", status=status)
    with pytest.raises(error, match=str(status)):
        await fetch(httpserver.url_for("/x"), tmp_path, max_size=100)


async def test_http_redirects(httpserver, tmp_path):
    httpserver.expect_request("/ok").respond_with_data("ok")
    httpserver.expect_request("/to").respond_with_data("", 302, headers={"Location": "/ok"})
    httpserver.expect_request("/loop").respond_with_data("", 302, headers={"Location": "/loop"})
    httpserver.expect_request("/file").respond_with_data(
        "", 302, headers={"Location": "file:///etc/passwd"}
    )
    httpserver.expect_request("/inside").respond_with_data(
        "", 302, headers={"Location": f"http://127.0.0.2:{httpserver.port}/ok"}
    )
    got = await fetch(httpserver.url_for("/to"), tmp_path, max_size=100)
    assert (got.uri, got.path.read_bytes()) == (httpserver.url_for("/to"), b"ok")
    for path, words in (("/loop", "times"), ("/file", "file://"), ("/inside", "private")):
        with pytest.raises(SourceUnreadable, match=words):
            await fetch(httpserver.url_for(path), tmp_path, max_size=100)


async def test_no_server(tmp_path, unused_tcp_port):
    with pytest.raises(SourceUnavailable):
        await fetch(f"http://127.0.0.1:{unused_tcp_port}/", tmp_path, max_size=100)


async def test_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    source = tmp_path / "growing"
    source.write_bytes(b"a" * 10)
    write = room._Sink.write

    def write_and_grow(self, block):
        write(self, block)
        if self.size == 10:
            source.write_bytes(b"b" * 12)

    monkeypatch.setattr(room, "BLOCK", 10)
    monkeypatch.setattr(room._Sink, "write", write_and_grow)
    with pytest.raises(SourceChanged, match="growing"):
        await fetch(uris.path_to_uri(source), tmp_path, max_size=100)
