"""Reading states of the past, and the history of commits."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import lance
import pytest
from tests.rag.store.making import (
    CONFIG,
    IDENTITY,
    check,
    contents,
    dump,
    put,
    text_hits,
    unit,
    vector_hits,
)

from haiku.rag import tagnames
from haiku.rag.exceptions import IdentityMismatch, ReadOnly, StateNotKept, TagNotFound
from haiku.rag.records import EmbeddingIdentity
from haiku.rag.store import Store, schema, travel
from haiku.rag.store.changes import Delete, Move, UpdateMeta


@pytest.fixture
async def states(store: Store) -> list[tuple[int, dict[str, Any]]]:
    """The version and the content after each of a row of commits, index making between them."""
    groups = [
        [put("a", "one"), put("b", "two")],
        [put("a", "one changed"), put("c", "three")],
        [Delete(uri="b"), Move(uri="c", to_uri="d")],
        [UpdateMeta(uri="a", title="T")],
        [put("b", "two again")],
    ]
    found = []
    for number, group in enumerate(groups):
        await store.commit(group)
        snapshot = await store.snapshot()
        found.append((snapshot.version, await dump(snapshot)))
        if number == 1:
            await store.upkeep()
    await store.upkeep()
    return found


async def state(store: Store, as_of: Any) -> dict[str, Any]:
    async with await Store.open(store.path, CONFIG, as_of=as_of) as then:
        snapshot = await then.snapshot()
        await check(snapshot)
        return await dump(snapshot)


def table(store: Store, name: str) -> Any:
    return lance.dataset(f"{store.path}/{name}.lance")


async def test_every_version_reads_as_it_was(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    for version, wanted in states:
        assert await state(store, version) == wanted
        assert await state(store, str(version)) == wanted
    assert await state(store, 1) == {}


async def test_a_time_means_the_last_commit_that_is_not_after_it(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    entries = [entry for entry in reversed(await store.history()) if entry.version > 1]
    assert len(entries) == len(states)
    for entry, (_, wanted) in zip(entries, states, strict=True):
        assert await state(store, entry.at) == wanted
        east = entry.at.astimezone(timezone(timedelta(hours=5)))
        assert await state(store, east.isoformat()) == wanted
        assert await state(store, entry.at.replace(tzinfo=None).isoformat()) == wanted  # UTC
    before = entries[1].at - timedelta(microseconds=1)
    assert await state(store, before) == states[0][1]
    assert await state(store, datetime.now(UTC) + timedelta(days=1)) == states[-1][1]


async def test_an_old_tag_that_looks_like_a_version_or_a_time_is_the_tag(
    store: Store, states: list[tuple[int, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagnames, "check", lambda _: None)  # they are not made any more
    for name in ("1", "2026-01-31"):
        await store.create_tag(name)
        assert await state(store, name) == states[-1][1]
    assert await state(store, 1) == {}


async def test_a_state_of_the_past_is_fixed_and_cannot_be_written(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    version, wanted = states[0]
    async with await Store.open(store.path, CONFIG, as_of=version) as then:
        assert then.read_only
        await store.commit([put("later")])
        snapshot = await then.snapshot()
        assert snapshot.version == version
        assert await dump(snapshot) == wanted
        assert (await then.row("a")) == await snapshot.get_by_uri("a")
        assert await then.row("later") is None
        info = await then.info()
        assert (info.documents, info.chunks) == (2, 4)
        assert info.versions[schema.META] == version
        with pytest.raises(ReadOnly):
            await then.commit([put("x")])
        with pytest.raises(ReadOnly):
            await then.upkeep()


async def test_searches_of_an_old_version_find_what_was_there(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    """Its indexes are other than today's, or cover less."""
    query = unit("one changed part0")
    for version, wanted in states:
        async with await Store.open(store.path, CONFIG, as_of=version) as then:
            snapshot = await then.snapshot()
            hits = await text_hits(snapshot, "TWO", 5)
            assert {h.row.uri for h in hits} == {u for u in wanted if u == "b"}
            (best, *_) = await vector_hits(snapshot, query, 3)
            assert (best.chunk.text == "one changed part0") == (version != states[0][0])
            rows = await snapshot.rows("title = 'T'")
            assert len(rows) == sum(d["row"]["title"] == "T" for d in wanted.values())


async def test_what_is_not_kept_is_told_with_what_is(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    await store.create_tag("first")
    await store.commit([put("later")])
    table(store, schema.META).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    kept = travel.versions(table(store, schema.META))
    assert len(kept) == 2
    assert await state(store, kept[0]) == states[-1][1]
    told = r"Kept: versions [-, 0-9]+ of document_meta, from .* UTC on; the tags first"
    for as_of in (states[0][0], 999, datetime(2020, 1, 1, tzinfo=UTC)):
        with pytest.raises(StateNotKept, match=told):
            await Store.open(store.path, CONFIG, as_of=as_of)


@pytest.mark.parametrize("name", schema.APPENDED)
async def test_a_state_whose_rows_were_collected_is_not_shown_by_half(
    store: Store, states: list[tuple[int, dict[str, Any]]], name: str
) -> None:
    """S1: the version of `document_meta` is kept, the rows it names are not."""
    version, wanted = states[0]
    async with await Store.open(store.path, CONFIG, as_of=version) as then:
        row = await then.row("a")
        assert row is not None
    table(store, name).delete(f"revision = '{row.revision}'")
    assert await state(store, version) == wanted  # its own version of the table is kept
    table(store, name).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(StateNotKept, match="all documents of"):
        await Store.open(store.path, CONFIG, as_of=version)
    assert await state(store, states[-1][0]) == states[-1][1]


async def test_times_without_a_zone_and_nonsense_are_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        await Store.open(store.path, CONFIG, as_of=datetime(2026, 1, 1))
    with pytest.raises(TagNotFound, match=r"no tag of .*, no version number and no time"):
        await Store.open(store.path, CONFIG, as_of="yesterday")


async def test_the_identity_of_the_state_counts(store: Store) -> None:
    await store.create_tag("t")
    other = EmbeddingIdentity(provider="other", name="x", dim=IDENTITY.dim)
    with pytest.raises(IdentityMismatch):
        await Store.open(store.path, CONFIG, identity=other, as_of="t")
    async with await Store.open(store.path, CONFIG, identity=IDENTITY, as_of="t") as then:
        assert await contents(then) == {}


async def test_history_tells_what_each_commit_did(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    await store.create_tag("t")
    await store.create_tag("u")
    await store.commit([Delete(uri="a"), put("z")])
    await store.restore_tag("t")
    found = await store.history()
    counts = [(e.created, e.changed, e.updated, e.moved, e.deleted, e.documents) for e in found]
    assert counts == [
        (1, 0, 0, 0, 1, 3),  # the restore
        (1, 0, 0, 0, 1, 3),
        (1, 0, 0, 0, 0, 3),
        (0, 0, 1, 0, 0, 2),
        (0, 0, 0, 1, 1, 2),
        (1, 1, 0, 0, 0, 3),
        (2, 0, 0, 0, 0, 2),
        (0, 0, 0, 0, 0, 0),  # made
    ]
    assert [e.restored for e in found] == [True] + [False] * 7
    assert found[2].tags == ("t", "u")
    assert found[1].tags[0].startswith("before-restore-")
    assert [e.at for e in found] == sorted((e.at for e in found), reverse=True)
    assert await store.history(2) == found[:2]
    assert await store.history(0) == []


async def test_history_says_nothing_of_changes_to_what_is_not_kept(
    store: Store, states: list[tuple[int, dict[str, Any]]]
) -> None:
    table(store, schema.META).cleanup_old_versions(retain_versions=1, delete_unverified=True)
    (entry,) = await store.history()
    assert entry.documents == 3
    assert (entry.created, entry.changed, entry.deleted) == (None, None, None)


async def test_history_while_others_write_and_clean_up(store: Store) -> None:
    async def write() -> None:
        for n in range(10):
            await store.commit([put("a", f"{n}")])
            table(store, schema.META).cleanup_old_versions(retain_versions=2)

    task = asyncio.create_task(write())
    while not task.done():
        for entry in await store.history(3):
            assert entry.documents <= 1
    await task


def test_spans() -> None:
    assert travel.spans([1, 5, 6, 7, 9]) == "1, 5-7, 9"
    assert travel.spans([]) == ""
