"""Telling moves from additions and removals."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from haiku.ingester.items.model import Known, Observation, State
from haiku.ingester.sources.entries import same_bytes
from haiku.ingester.sources.protocol import Fetched
from haiku.ingester.sync import moves
from haiku.rag.exceptions import SourceUnreadable

if TYPE_CHECKING:
    import io


def known(uri: str, mark: str = "1-1-1-1", identity: str | None = "i", **more: Any) -> Known:
    values = {"content_hash": None, "size": 1} | more
    return Known(uri, mark, State.INDEXED, identity, **values)


def new(uri: str, mark: str = "1-1-2-1", identity: str | None = "i", **more: Any) -> Observation:
    return Observation(uri, mark, more.pop("size", 1), identity, **more)


def by_identity(there: list[Observation], gone: list[Known]) -> list[tuple[str, str]]:
    return [(m.old.uri, m.to.uri) for m in moves.by_identity(there, gone, same_bytes)]


def test_same_identity_and_bytes() -> None:
    assert by_identity([new("b")], [known("a")]) == [("a", "b")]


def test_no_move_without_proof() -> None:
    assert by_identity([new("b", identity="j")], [known("a")]) == []
    assert by_identity([new("b", identity=None)], [known("a", identity=None)]) == []
    assert by_identity([new("b", mark="1-2-2-1")], [known("a")]) == []  # changed as well
    assert by_identity([new("b", skip="too_large")], [known("a")]) == []


def test_ambiguous_identities_are_new_documents() -> None:
    assert by_identity([new("b"), new("c")], [known("a")]) == []
    assert by_identity([new("c")], [known("a"), known("b")]) == []


class Bytes:
    """A source that has bytes; counts what is read."""

    def __init__(self, **contents: bytes) -> None:
        self.contents = contents
        self.read: list[str] = []

    async def fetch(self, uri: str, into: io.BytesIO, *, max_size: int | None = None) -> Fetched:
        self.read.append(uri)
        if uri not in self.contents:
            raise SourceUnreadable("gone")
        data = self.contents[uri]
        into.write(data)
        return Fetched(
            size=len(data),
            sha256=sha256(data).hexdigest(),
            mark="1-1-2-1",
            declared_type=None,
            name=uri,
            identity=None,
        )


async def by_content(source: Bytes, there: list[Observation], gone: list[Known]) -> Any:
    found = await moves.by_content(source, there, gone)  # type: ignore[arg-type]
    return [(m.old.uri, m.to.uri) for m in found]


def held(uri: str, data: bytes) -> Known:
    return known(uri, content_hash=sha256(data).hexdigest(), size=len(data))


async def test_same_content() -> None:
    source = Bytes(b=b"x", c=b"y")
    assert await by_content(source, [new("b"), new("c")], [held("a", b"x")]) == [("a", "b")]


async def test_only_sizes_that_went_are_read() -> None:
    source = Bytes(b=b"xx", c=b"x")
    there = [new("b", size=2), new("c"), new("d", size=0), new("e", skip="link")]
    assert await by_content(source, there, [held("a", b"x"), held("z", b"")]) == [("a", "c")]
    assert source.read == ["c"]


async def test_ambiguous_contents_are_new_documents() -> None:
    source = Bytes(b=b"x", c=b"x")
    assert await by_content(source, [new("b"), new("c")], [held("a", b"x")]) == []
    assert await by_content(source, [new("b")], [held("a", b"x"), held("d", b"x")]) == []


async def test_what_changed_or_went_meanwhile_is_no_move() -> None:
    source = Bytes(b=b"x")
    assert await by_content(source, [new("b", mark="1-9-9-9")], [held("a", b"x")]) == []
    assert await by_content(source, [new("gone")], [held("a", b"x")]) == []


async def test_reading_is_bounded() -> None:
    source = Bytes()
    many = [new(str(n)) for n in range(moves.MOST_HASHED + 50)]
    assert await by_content(source, many, [held("a", b"x")]) == []
    assert len(source.read) == moves.MOST_HASHED
