"""What a plan says that is not so is left out with a reason, and nothing is lost by it."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from haiku.ingester.config import FilesystemSource, WorkConfig
from haiku.ingester.items import Indexed, Removed, State
from haiku.ingester.items.items import Items
from haiku.ingester.plans.model import Cost, Entry
from haiku.ingester.plans.replaying import PlannedItems, _want
from haiku.ingester.sources.fs import FolderSource
from haiku.rag import uris

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from haiku.ingester.plans.model import Plan
    from haiku.ingester.service.rooms import Rooms

NAMES = ("keep", "other", "went")


class Place:
    """A folder with three indexed files, one of which has gone since, and a new one."""

    def __init__(self, root: Path, items: Items) -> None:
        self.docs = root / "docs"
        self.items = items
        self.sources = {
            name: FolderSource(FilesystemSource(id=name, path=self.docs), max_file_size=10**6)
            for name in ("docs", "twin")
        }

    def uri(self, name: str) -> str:
        return uris.path_to_uri(self.docs / f"{name}.md")

    async def index(self, source: str) -> None:
        for name in NAMES:
            await self.observe(source, name)
            (claim,) = await self.items.claim(1)
            text = (self.docs / f"{name}.md").read_bytes()
            done = Indexed(
                content_hash=hashlib.sha256(text).hexdigest(),
                mark=claim.mark,
                fingerprint="f",
                document_id=name,
                chunk_count=1,
            )
            await self.items.finish(claim, done)

    async def observe(self, source: str, name: str) -> None:
        found = (await self.sources[source].look([self.uri(name)]))[self.uri(name)]
        assert found is not None
        await self.items.observe(source, [found], live=False)

    async def entry(self, uri: str, change: Any, **more: Any) -> Entry:
        now = (await self.sources["docs"].look([uri])).get(uri)
        mark = more.pop("mark", now.mark if now else "?")
        values = {"source": "docs", "size": None, "moved_from": None, "cost": Cost()}
        return Entry(uri=uri, change=change, mark=mark, **values | more)

    async def want(self, *entries: Entry) -> tuple[list[Entry], list[str]]:
        plan, rooms = SimpleNamespace(entries=entries), SimpleNamespace(**vars(self))
        wanted, left_out = await _want(cast("Plan", plan), cast("Rooms", rooms))
        return wanted, [reason for _, reason in left_out]

    async def states(self) -> dict[str, State]:
        return {i.uri.rsplit("/", 1)[-1]: i.state for i in await self.items.list("docs")}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    items = await Items.open(f"sqlite:///{tmp_path}/items.sqlite", "one", WorkConfig())
    made = Place(tmp_path, items)
    made.docs.mkdir()
    for name in NAMES:
        (made.docs / f"{name}.md").write_text(f"The text of {name}.")
    await made.index("docs")
    (made.docs / "went.md").rename(made.docs / "new.md")
    yield made
    await items.close()


BEFORE = {f"{name}.md": State.INDEXED for name in NAMES}


async def test_what_is_as_planned_is_wanted(place: Place) -> None:
    move = await place.entry(place.uri("new"), "moved", moved_from=place.uri("went"))
    assert await place.want(move) == ([move], [])
    (claim,) = await place.items.claim(9)
    assert (claim.uri, claim.moved_from) == (move.uri, move.moved_from)


@pytest.mark.parametrize("before", ["keep", "other"])
async def test_what_is_there_is_not_moved_away(place: Place, before: str) -> None:
    """Its document would be called like another file, with what it has of its own."""
    move = await place.entry(place.uri("new"), "moved", moved_from=place.uri(before))
    wanted, (reason,) = await place.want(move)
    assert not wanted
    assert f"{before}.md, or that is still there" in reason
    assert await place.states() == BEFORE


async def test_what_has_gone_is_not_moved_to_another_content(place: Place) -> None:
    (place.docs / "new.md").unlink()
    (place.docs / "new.md").write_text("Other words.")
    move = await place.entry(place.uri("new"), "moved", moved_from=place.uri("went"))
    wanted, (reason,) = await place.want(move)
    assert not wanted
    assert "it is not what was at" in reason
    assert await place.states() == BEFORE


async def test_a_move_from_nowhere_is_left_out(place: Place) -> None:
    move = await place.entry(place.uri("new"), "moved", moved_from=place.uri("never"))
    wanted, reasons = await place.want(move)
    assert (wanted, reasons) == ([], ["it cannot be moved any more; make the plan again"])
    assert await place.states() == BEFORE | {"new.md": State.PENDING}


async def test_what_is_there_does_not_go(place: Place) -> None:
    wanted, reasons = await place.want(await place.entry(place.uri("keep"), "gone"))
    assert (wanted, reasons) == ([], ["it is there again"])
    assert await place.states() == BEFORE


async def test_a_removal_that_was_made_is_left_out(place: Place) -> None:
    gone = await place.entry(place.uri("went"), "gone")
    assert await place.want(gone) == ([gone], [])
    (claim,) = await place.items.claim(9)
    await place.items.finish(claim, Removed())
    assert await place.want(gone) == ([], ["nothing is left to do: it is gone already"])


OUTSIDE = ("file:///etc/hostname", "https://example.org/a.md", "no uri", "{docs}/")
RESPELT = ("/../docs/keep.md", "/./keep.md", "/%6Beep.md", "/keep.md/", "/a%00b.md")


@pytest.mark.parametrize("where", [*OUTSIDE, *(f"{{docs}}{rest}" for rest in RESPELT)])
@pytest.mark.parametrize("change", ["new", "changed", "gone"])
async def test_a_uri_outside_of_the_source_is_left_out(
    place: Place, where: str, change: str
) -> None:
    """And another spelling of one inside, which would be a second document."""
    uri = where.format(docs=uris.path_to_uri(place.docs))
    wanted, (reason,) = await place.want(await place.entry(uri, change))
    assert not wanted
    assert ("gone already" if change == "gone" else "not there any more") in reason
    assert await place.states() == BEFORE


async def test_what_cannot_be_looked_at_is_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blind(wanted: Any) -> dict[str, Any]:
        return {}

    gone = await place.entry(place.uri("went"), "gone")
    move = await place.entry(place.uri("new"), "moved", moved_from=place.uri("went"))
    monkeypatch.setattr(place.sources["docs"], "look", blind)
    wanted, reasons = await place.want(gone, move)
    assert not wanted
    assert all("it cannot be told whether it is there" in reason for reason in reasons)
    assert await place.states() == BEFORE


async def test_a_file_of_two_sources_is_done_for_each(place: Place) -> None:
    await place.observe("docs", "new")
    await place.observe("twin", "new")
    await place.observe("twin", "keep")
    new = place.uri("new")
    planned = PlannedItems(place.items, [("docs", new), ("twin", new)])
    claimed = []
    while claims := await planned.claim(9):
        for claim in claims:
            claimed.append((claim.source_id, claim.uri))
            done = Indexed(
                content_hash="h", mark=claim.mark, fingerprint="f", document_id="d", chunk_count=1
            )
            await planned.finish(claim, done)
    assert sorted(claimed) == [("docs", new), ("twin", new)]
    assert not planned.left
