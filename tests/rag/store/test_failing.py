"""S3 and S9: failures, cancellations and stalls at every step of a commit."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import lance
import pytest
from lance.dataset import MergeInsertBuilder
from tests.rag.store.making import CONFIG, IDENTITY, contents, put

from haiku.rag.exceptions import StoreBusy, StoreError
from haiku.rag.store import Store, commit, indexes, reading, records, schema
from haiku.rag.store.changes import Delete, Move, Outcome, UpdateMeta

STEPS = [
    "read",
    "check",
    "append documents",
    "append document_items",
    "append chunks",
    "index",
    "read",
    "check",
    "merge",
    "merged",
]
BEFORE = {"a": "one", "b": "two", "c": "three"}
AFTER = {"a": "one changed", "d": "three", "e": "new"}


async def write_group(store: Store) -> list[Outcome]:
    return await store.commit(
        [
            put("a", "one changed"),
            Delete(uri="b"),
            Move(uri="c", to_uri="d"),
            put("e", "new"),
            UpdateMeta(uri="a", title="T"),
        ]
    )


@pytest.fixture
async def filled(store: Store) -> Store:
    await store.commit([put(uri, text) for uri, text in BEFORE.items()])
    await store.upkeep()  # no index is made in the middle of a test's commit
    return store


def at(number: int, action: Callable[[], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    """A step hook that acts at the `number`th step."""
    seen: list[str] = []

    async def step(name: str) -> None:
        seen.append(name)
        if len(seen) == number + 1:
            await action()

    step.seen = seen  # type: ignore[attr-defined]
    return step


async def test_failing_at_every_step_until_nothing_fails(filled: Store) -> None:
    async def fail() -> None:
        raise RuntimeError("injected")

    number = 0
    while True:
        step = at(number, fail)
        filled.on_step(step)
        held = await filled.snapshot()
        try:
            await write_group(filled)
        except RuntimeError:
            committed = step.seen[-1] == "merged"  # type: ignore[attr-defined]
            assert await contents(filled) == (AFTER if committed else BEFORE)
            async with await Store.open(filled.path, CONFIG, read_only=True) as other:
                assert await contents(other) == (AFTER if committed else BEFORE)
            assert {r.uri for r in await held.rows()} == set(BEFORE)
            if committed:
                await filled.commit([put("b", "two"), Move(uri="d", to_uri="c"), put("a", "one")])
                await filled.commit([Delete(uri="e")])
        else:
            break
        number += 1
    assert step.seen == STEPS  # type: ignore[attr-defined]
    assert number == len(STEPS)
    assert await contents(filled) == AFTER


async def test_cancelling_at_every_step(filled: Store) -> None:
    for number, name in enumerate(STEPS):
        reached = asyncio.Event()

        async def stall(reached: asyncio.Event = reached) -> None:
            reached.set()
            await asyncio.sleep(60)

        filled.on_step(at(number, stall))
        task = asyncio.create_task(write_group(filled))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        filled.on_step(commit.no_step)
        assert await contents(filled) == (AFTER if name == "merged" else BEFORE), name
    await filled.commit([UpdateMeta(uri="a", title="still writable")])


async def test_cancelling_during_the_merge_waits_for_it(filled: Store) -> None:
    started = asyncio.Event()

    async def tell() -> None:
        asyncio.get_running_loop().call_soon(started.set)

    filled.on_step(at(STEPS.index("merge"), tell))
    task = asyncio.create_task(write_group(filled))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    filled.on_step(commit.no_step)
    found = await contents(filled)
    assert found in (BEFORE, AFTER)
    await asyncio.sleep(0.1)
    assert await contents(filled) == found  # nothing goes on behind the caller


@pytest.mark.parametrize("number", range(len(STEPS) - 1), ids=lambda n: f"{n} {STEPS[n]}")
async def test_a_stalled_writer_never_undoes_what_came_meanwhile(
    filled: Store, number: int
) -> None:
    """S9: held at any step while another writer updates, moves and deletes the same documents."""
    seen = {row.uri: row.row_version for row in await (await filled.snapshot()).rows()}
    async with await Store.open(filled.path, CONFIG) as other:

        async def overtake() -> None:
            await other.commit([put("a", "newer"), Delete(uri="b"), Move(uri="c", to_uri="z")])

        filled.on_step(at(number, overtake))
        outcomes = await filled.commit(
            [
                put("a", "stale", expected=seen["a"]),
                put("b", "stale", expected=seen["b"]),
                UpdateMeta(uri="c", title="stale", expected=seen["c"]),
                put("fresh", "fresh"),
            ]
        )
        assert [o.result for o in outcomes] == ["conflict", "conflict", "absent", "done"]
        assert await contents(other) == {"a": "newer", "z": "three", "fresh": "fresh"}


async def test_whatever_is_there_is_changed_when_anything_may_be(filled: Store) -> None:
    """ANY reads again: the id another writer gave the document is the one its rows carry."""
    async with await Store.open(filled.path, CONFIG) as other:

        async def overtake() -> None:
            await other.commit([put("new", "theirs", sources={"o": "1"}), Delete(uri="a")])

        filled.on_step(at(STEPS.index("merge"), overtake))
        new, changed = await filled.commit([put("new", "ours", sources={"m": "2"}), put("a", "x")])
        assert (new.result, changed.result) == ("done", "done")
        assert new.row is not None
        assert new.row.sources == {"o": "1", "m": "2"}
        assert filled.stats.appended_again == 2
        assert (await contents(other))["new"] == "ours"


async def test_the_right_to_commit_is_asked_for_before_each_try(filled: Store) -> None:
    asked = 0

    async def still_mine() -> list[bool]:
        nonlocal asked
        asked += 1
        return [asked < 3]

    async with await Store.open(filled.path, CONFIG) as other:

        async def overtake() -> None:
            await other.commit([put("other")])

        filled.on_step(at(STEPS.index("merge"), overtake))
        (outcome,) = await filled.commit([put("a", "late")], still_mine=still_mine)
        assert (outcome.result, asked) == ("dropped", 3)
        assert (await contents(other))["a"] == "one"


async def test_an_append_that_got_too_old_is_made_again(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(commit, "clock", lambda: now)

    async def sleep_long() -> None:
        nonlocal now
        now += CONFIG.collect_after

    filled.on_step(at(STEPS.index("index"), sleep_long))
    await write_group(filled)
    assert filled.stats.appended_again == 2
    assert await contents(filled) == AFTER


async def test_a_condemned_revision_is_appended_again(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a collector of dead revisions does to an append it took for a crash's."""

    async def condemn() -> None:
        meta = lance.dataset(f"{filled.path}/document_meta.lance")
        appended = lance.dataset(f"{filled.path}/documents.lance").to_table()["revision"]
        head = records.Head(row_version="c", condemned=frozenset(appended.to_pylist()))
        rows = records.meta_table([], head, commit.datetime.now(commit.UTC))
        meta.merge_insert("uri").when_matched_update_all().execute(rows)

    filled.on_step(at(STEPS.index("merge"), condemn))
    (outcome,) = await filled.commit([put("a", "one changed")])
    assert outcome.result == "done"
    assert outcome.row is not None
    assert filled.stats.appended_again == 1
    head = reading.head(lance.dataset(f"{filled.path}/document_meta.lance"))
    assert outcome.row.revision not in head.condemned
    assert head.condemned  # kept: only the collector takes them off


async def test_a_commit_that_always_loses_says_so(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "TRIES", 4)
    async with await Store.open(filled.path, CONFIG) as other:

        async def spoil(name: str) -> None:
            if name == "merge":
                await other.commit([UpdateMeta(uri="b", sources={"n": str(other.stats.commits)})])

        filled.on_step(spoil)
        with pytest.raises(StoreBusy, match=r"lost against other writers 3 times"):
            await write_group(filled)
        assert await contents(other) == BEFORE


async def test_an_error_after_the_commit_landed_is_no_failure(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = MergeInsertBuilder.execute
    monkeypatch.setattr(MergeInsertBuilder, "execute", _then_fail(merge))
    assert [o.result for o in await write_group(filled)] == ["done"] * 5
    monkeypatch.setattr(MergeInsertBuilder, "execute", _fail)
    with pytest.raises(StoreError, match="nothing of it is visible"):
        await filled.commit([put("f")])
    monkeypatch.undo()
    assert await contents(filled) == AFTER


def _then_fail(merge: Callable[..., Any]) -> Callable[..., Any]:
    def execute(self: Any, rows: Any) -> Any:
        merge(self, rows)
        raise OSError("the answer was lost")

    return execute


def _fail(*args: Any, **kwargs: Any) -> None:
    raise OSError("No space left on device")


async def test_a_full_disk_during_an_append_is_an_error_of_the_tree(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance.fragment, "write_fragments", _fail)
    with pytest.raises(StoreError, match=r"documents.*No space left"):
        await write_group(filled)
    monkeypatch.undo()
    assert await contents(filled) == BEFORE


async def test_failing_upkeep_is_counted_and_never_fails_a_commit(
    path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(indexes, "create", _fail)
    async with await Store.create(path, IDENTITY, CONFIG) as store:
        (outcome,) = await store.commit([put("a", "alpha")])
        assert outcome.result == "done"
        report = await store.upkeep()
        assert len(report.errors) == len(schema.READ)
        assert store.stats.upkeep_errors >= len(report.errors)
        assert "No space left" in (store.stats.last_upkeep_error or "")
        assert "No space left" in caplog.text
        monkeypatch.undo()
        await store.upkeep()
        found = (await store.info()).indexes
        assert schema.FULL_TEXT in {(index.table, index.column) for index in found}
        assert await (await store.snapshot()).text_search("ALPHA", 5)
