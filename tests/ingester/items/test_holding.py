"""Sources that are held after a restore: nothing is handed out until a person has decided."""

from collections.abc import Callable
from datetime import UTC, datetime

from tests.ingester.items.conftest import Driver, Opener

from haiku.ingester.items import Indexed, Items, Observation, State
from haiku.rag.store.changes import Row


def row(uri: str, mark: str, **sources: str) -> Row:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Row(
        uri=uri,
        id=f"id of {uri}",
        revision="r",
        state="live",
        row_version="v",
        title=None,
        metadata={},
        content_type=None,
        content_hash=f"h{mark}",
        fingerprint="f",
        sources=sources or {"docs": mark},
        chunk_count=2,
        item_count=1,
        created_at=moment,
        updated_at=moment,
    )


async def states(items: Items, source: str = "docs") -> dict[str, tuple[State, str | None]]:
    return {item.uri: (item.state, item.code) for item in await items.list(source)}


async def test_the_first_epoch_is_learnt_and_a_higher_one_holds(
    items: Items, drive: Driver
) -> None:
    await drive.see("a")
    await items.observe("other", [Observation("b", "1")], live=False)
    assert await items.note_restores(["docs", "other"], 3) == []
    assert await items.note_restores(["docs", "other"], 3) == []
    assert await items.note_restores(["docs"], 4) == ["docs"]
    assert await items.note_restores(["docs"], 4) == []
    assert [claim.uri for claim in await items.claim(5)] == ["b"]
    records = await items.sources()
    assert records["docs"].held_since is not None
    assert records["other"].held_since is None


async def test_an_older_epoch_is_another_database_and_holds_nothing(items: Items) -> None:
    await items.note_restores(["docs"], 4)
    assert await items.note_restores(["docs"], 0) == []
    assert await items.note_restores(["docs"], 1) == ["docs"]


async def test_claims_under_way_are_given_back_uncounted(items: Items, drive: Driver) -> None:
    await items.note_restores(["docs"], 0)
    await drive.see("a")
    claim = await drive.one()
    await items.note_restores(["docs"], 1)
    assert await items.still_held([claim]) == [False]
    assert await states(items) == {"a": (State.PENDING, None)}
    (item,) = await items.list("docs")
    assert item.attempts == 0


async def test_being_held_outlives_a_restart(open_items: Opener) -> None:
    first = await open_items()
    await first.observe("docs", [Observation("a", "1")], live=False)
    await first.note_restores(["docs"], 0)
    await first.note_restores(["docs"], 1)
    second = await open_items("two")
    assert await second.note_restores(["docs"], 1) == []
    assert await second.claim(1) == []


async def test_what_sources_say_meanwhile_is_taken_in(items: Items, drive: Driver) -> None:
    await items.note_restores(["docs"], 0)
    await items.note_restores(["docs"], 1)
    await drive.see("a")
    assert await states(items) == {"a": (State.PENDING, None)}
    assert await items.claim(5) == []


async def test_resync_knows_what_the_database_has(
    items: Items, drive: Driver, success: Callable[..., Indexed]
) -> None:
    """So that a listing finds what differs, what is new and what is gone."""
    await items.note_restores(["docs"], 0)
    await drive.index("changed", "2")
    await drive.index("not in the database", "1")
    await items.note_restores(["docs"], 1)
    rows = [row("changed", "1"), row("lost by the source", "1"), row("x", "1", other="1")]
    assert await items.resync("docs", rows) == 2
    known = await items.known("docs")
    assert {uri: k.mark for uri, k in known.items()} == {"changed": "1", "lost by the source": "1"}
    assert known["changed"].content_hash == "h1"
    observed = await items.observe(
        "docs",
        [Observation("changed", "2"), Observation("not in the database", "1")],
        live=False,
    )
    assert (observed.new, observed.changed) == (1, 1)
    await items.gone("docs", ["lost by the source"], live=False)
    assert {claim.uri for claim in await items.claim(5)} == {
        "changed",
        "not in the database",
        "lost by the source",
    }


async def test_keep_takes_what_the_source_has_for_done(items: Items, drive: Driver) -> None:
    await items.note_restores(["docs"], 0)
    await drive.index("changed", "2")
    await drive.see("deleted by the restore")
    await items.note_restores(["docs"], 1)
    rows = {"changed": row("changed", "1"), "lost by the source": row("lost by the source", "1")}
    seen = [
        Observation("changed", "3", 5, "inode"),
        Observation("deleted by the restore", "1"),
        Observation("big", "1", skip="too_large"),
    ]
    assert await items.keep("docs", rows, seen) == 3
    assert await states(items) == {
        "changed": (State.INDEXED, None),
        "deleted by the restore": (State.SKIPPED, "restored"),
        "big": (State.SKIPPED, "too_large"),
    }
    observed = await items.observe("docs", seen, live=False)
    assert observed.unchanged == 3
    assert await items.claim(5) == []
    assert await items.reprocess("another pipeline") == 0
    assert [k.uri for k in await items.known_as("docs", ["inode"])] == ["changed"]
    # What changes from now on is work.
    await items.observe("docs", [Observation("deleted by the restore", "2")], live=True)
    assert [claim.uri for claim in await items.claim(5)] == ["deleted by the restore"]


async def test_what_was_kept_out_can_be_asked_for(items: Items) -> None:
    await items.keep("docs", {}, [Observation("a", "1")])
    assert await items.retry(uri="a") == 1
    assert [claim.uri for claim in await items.claim(5)] == ["a"]
