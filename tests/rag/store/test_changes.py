"""What each change does, alone and in groups."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from tests.rag.store.making import check, contents, put, revision

from haiku.rag.exceptions import IdentityMismatch
from haiku.rag.store import Store
from haiku.rag.store.changes import ABSENT, NO_ROW, Change, Delete, Move, Outcome, Put, UpdateMeta


async def one(store: Store, change: Change) -> Outcome:
    (outcome,) = await store.commit([change])
    return outcome


async def test_a_document_is_stored_whole_and_found_by_id_and_uri(store: Store) -> None:
    change = put("file:///a.md", "alpha", title="A", metadata={"k": [1, None]}, sources={"s": "m"})
    outcome = await one(store, change)
    snapshot = await store.snapshot()
    row = await snapshot.get_by_uri("file:///a.md")
    assert row is not None
    assert row == outcome.row == await snapshot.get(row.id)
    assert (row.title, row.metadata, row.sources) == ("A", {"k": [1, None]}, {"s": "m"})
    assert row.created_at.utcoffset().total_seconds() == 0
    assert await snapshot.docling(row) == b"alpha"
    assert list(await snapshot.items(row)) == list(change.revision.items)
    chunks = await snapshot.chunks(row, vectors=True)
    assert np.allclose([c.vector for c in chunks], change.revision.vectors)
    assert (await snapshot.chunks(row))[0].vector is None
    assert await snapshot.chunk(chunks[1].id) is not None
    assert await check(snapshot) == {"file:///a.md": "alpha"}


async def test_a_new_revision_keeps_id_creation_time_and_owners(store: Store) -> None:
    first = (await one(store, put("a", "one", sources={"x": "1"}, title="T"))).row
    old = await store.snapshot()
    second = (await one(store, put("a", "two", sources={"y": "2"}))).row
    assert first is not None
    assert second is not None
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert second.sources == {"x": "1", "y": "2"}
    assert second.revision != first.revision
    assert second.title is None
    assert await contents(store) == {"a": "two"}
    assert await check(old) == {"a": "one"}  # S4, and a snapshot never changes
    (chunk, *_) = await old.chunks(first)
    assert await (await store.snapshot()).chunk(chunk.id) is None


async def test_metadata_changes_without_a_revision(store: Store) -> None:
    first = (await one(store, put("a", "text", title="T", metadata={"a": 1}))).row
    marked = (await one(store, UpdateMeta(uri="a", sources={"s": "mark"}))).row
    titled = (await one(store, UpdateMeta(uri="a", title="U", content_hash="h"))).row
    assert first is not None
    assert marked is not None
    assert titled is not None
    assert (marked.title, marked.metadata, marked.sources) == ("T", {"a": 1}, {"s": "mark"})
    assert marked.updated_at == first.updated_at < titled.updated_at
    assert (titled.title, titled.content_hash, titled.revision) == ("U", "h", first.revision)
    commits = store.stats.commits
    again = (await one(store, UpdateMeta(uri="a", title="U"))).row
    assert again == titled
    assert store.stats.commits == commits  # nothing to say, nothing committed


async def test_deleting_and_making_again_gives_a_new_document(store: Store) -> None:
    first = (await one(store, put("a", "one"))).row
    assert await one(store, Delete(uri="a")) == Outcome(result="done", row=None)
    assert await contents(store) == {}
    assert (await one(store, Delete(uri="a"))).result == "absent"
    again = (await one(store, put("a", "two", expected=ABSENT))).row
    assert first is not None
    assert again is not None
    assert again.id != first.id
    assert (await store.info()).replaced_revisions == 1


async def test_a_document_goes_when_its_last_owner_lets_go(store: Store) -> None:
    await one(store, put("a", sources={"x": "1", "y": "2"}))
    left = await one(store, Delete(uri="a", source="x"))
    assert left.row is not None
    assert left.row.sources == {"y": "2"}
    stranger = await one(store, Delete(uri="a", source="z"))
    assert (stranger.result, stranger.row) == ("done", left.row)
    assert (await one(store, Delete(uri="a", source="y"))).row is None


async def test_a_move_keeps_id_and_revision(store: Store) -> None:
    first = (await one(store, put("a", "one"))).row
    moved = (await one(store, Move(uri="a", to_uri="b", sources={"s": "m"}))).row
    assert first is not None
    assert moved is not None
    assert (moved.uri, moved.id, moved.revision) == ("b", first.id, first.revision)
    assert await contents(store) == {"b": "one"}
    back = await one(store, Move(uri="b", to_uri="a"))
    assert back.row is not None
    assert (back.row.id, (await store.info()).replaced_revisions) == (first.id, 0)


async def test_a_move_onto_a_live_document_is_refused_unless_that_goes_first(store: Store) -> None:
    await store.commit([put("a", "one"), put("b", "two")])
    assert (await one(store, Move(uri="a", to_uri="b"))).result == "conflict"
    assert await contents(store) == {"a": "one", "b": "two"}
    outcomes = await store.commit([Delete(uri="b"), Move(uri="a", to_uri="b")])
    assert [o.result for o in outcomes] == ["done", "done"]
    assert await contents(store) == {"b": "one"}


async def test_two_documents_swap_names_in_one_group(store: Store) -> None:
    await store.commit([put("a", "one"), put("b", "two")])
    await store.commit(
        [Move(uri="a", to_uri="t"), Move(uri="b", to_uri="a"), Move(uri="t", to_uri="b")]
    )
    assert await contents(store) == {"a": "two", "b": "one"}


async def test_expectations_hold_for_each_change_alone(store: Store) -> None:
    row = (await one(store, put("a", "one"))).row
    assert row is not None
    outcomes = await store.commit(
        [
            put("a", "two", expected=row.row_version),
            put("a", "late", expected=row.row_version),
            put("b", "new", expected=ABSENT),
            put("b", "again", expected=ABSENT),
            put("c", "update", expected="no such version"),
            UpdateMeta(uri="nowhere", title="x"),
            UpdateMeta(uri="a", title="x", expected="no such version"),
        ]
    )
    results = [o.result for o in outcomes]
    assert results == ["done", "conflict", "done", "conflict", "conflict", "absent", "conflict"]
    assert outcomes[1].row is not None  # what is there now
    assert outcomes[1].row == outcomes[0].row
    assert await contents(store) == {"a": "two", "b": "new"}


async def test_a_creation_computed_before_a_deletion_does_not_undo_it(store: Store) -> None:
    await store.commit([put("a"), Delete(uri="a")])
    seen = await (await store.snapshot()).row_version("a")
    assert seen is not None
    await store.commit([put("a"), Delete(uri="a")])
    assert (await one(store, put("a", "late", expected=seen))).result == "conflict"
    now = await (await store.snapshot()).row_version("a")
    assert (await one(store, put("a", "new", expected=now or ""))).result == "done"


async def test_changes_of_one_uri_in_one_group_apply_in_order(store: Store) -> None:
    outcomes = await store.commit(
        [
            put("a", "one"),
            put("a", "two"),
            UpdateMeta(uri="a", title="T"),
            Move(uri="a", to_uri="b"),
        ]
    )
    assert [o.result for o in outcomes] == ["done"] * 4
    assert await contents(store) == {"b": "two"}
    assert outcomes[3].row is not None
    assert outcomes[3].row.title == "T"
    assert (await store.info()).replaced_revisions == 1


async def test_an_id_lives_once(store: Store) -> None:
    await one(store, put("a", id="id-1"))
    taken = await one(store, put("b", id="id-1"))
    assert (taken.result, taken.row) == ("conflict", None)
    assert await store.commit([Delete(uri="a"), put("b", id="id-1")])
    assert await contents(store) == {"b": "text"}


async def test_whole_groups_are_all_or_none(store: Store) -> None:
    await one(store, put("a", "one"))
    changes = [put("b", expected=ABSENT), put("a", "two", expected=ABSENT)]
    outcomes = await store.commit(changes, whole=True)
    assert [o.result for o in outcomes] == ["dropped", "conflict"]
    assert outcomes[0].row is None
    assert await contents(store) == {"a": "one"}
    assert [o.result for o in await store.commit(changes[:1], whole=True)] == ["done"]


async def test_who_lost_the_right_to_commit_is_dropped(store: Store) -> None:
    asked = 0

    async def still_mine() -> list[bool]:
        nonlocal asked
        asked += 1
        return [True, asked < 2]  # lost after the appends

    outcomes = await store.commit([put("a", "one"), put("b", "two")], still_mine=still_mine)
    assert [o.result for o in outcomes] == ["done", "dropped"]
    assert await contents(store) == {"a": "one"}


async def test_a_document_may_have_no_chunks(store: Store) -> None:
    await one(store, put("empty", "", chunks=0))
    snapshot = await store.snapshot()
    row = await snapshot.get_by_uri("empty")
    assert row is not None
    assert (row.chunk_count, await snapshot.chunks(row)) == (0, [])
    assert await snapshot.text_search("anything", 5) == []


async def test_handing_in_a_revision_twice_never_doubles_it(store: Store) -> None:
    shared = revision("same")
    for uri in ("a", "a", "b"):
        await one(store, Put(uri=uri, revision=shared))
    assert await contents(store) == {"a": "same", "b": "same"}


@pytest.mark.parametrize(
    ("vectors", "error"),
    [
        (np.zeros((2, 9), np.float32), IdentityMismatch),
        (np.zeros((1, 8), np.float32), ValueError),
        (np.full((2, 8), np.nan, np.float32), ValueError),
    ],
)
async def test_vectors_that_do_not_fit_are_refused(
    store: Store, vectors: np.ndarray, error: type[Exception]
) -> None:
    with pytest.raises(error, match="bad"):
        await store.commit([put("good"), Put(uri="bad", revision=revision("x", vectors=vectors))])
    assert await contents(store) == {}


async def test_an_empty_uri_is_refused(store: Store) -> None:
    for change in (put(""), Move(uri="a", to_uri="")):
        with pytest.raises(ValueError, match="URI"):
            await store.commit([change])
    assert await store.commit([]) == []
    assert await contents(store) == {}


async def test_commits_of_one_store_wait_for_each_other(store: Store) -> None:
    steps: list[str] = []

    async def step(name: str) -> None:
        steps.append(name)

    store.on_step(step)
    await asyncio.gather(*(store.commit([put(f"u{n}", str(n))]) for n in range(12)))
    assert len(await contents(store)) == 12
    turns = [name for name in steps if name in ("append documents", "merged")]
    assert "append documents" not in [a for a, b in pairwise(turns) if a == b]
    assert turns.count("append documents") == 12


async def test_a_creation_that_saw_no_row_undoes_no_deletion(store: Store) -> None:  # S9
    assert (await one(store, put("a", "first", expected=NO_ROW))).result == "done"
    await store.commit([Delete(uri="a")])
    assert (await one(store, put("a", "late", expected=NO_ROW))).result == "conflict"
    assert (await one(store, put("a", "now", expected=ABSENT))).result == "done"
