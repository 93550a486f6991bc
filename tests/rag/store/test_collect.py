"""Collection of dead revisions: what goes, what stays, and when (S6, S9)."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from tests.rag.store.aging import (
    NO_HISTORY,
    Clock,
    all_revisions,
    clock,
    collect,
    condemned,
    live,
    replaced,
    revisions,
    table,
)
from tests.rag.store.making import IDENTITY, contents, put

from haiku.rag.store import Store, collecting, commit, marks, schema
from haiku.rag.store.changes import ABSENT, Delete, Move, UpdateMeta

__all__ = ["clock"]

ROOT = Path(__file__).parents[3]
#: The steps of a vacuum with something to collect, compact, index and clean.
STEPS = ("condemn", "delete chunks", "delete document_items", "delete documents", "release")


@pytest.fixture
async def store(path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with await Store.create(path, IDENTITY, NO_HISTORY) as store:
        yield store


async def rewritten(store: Store) -> None:
    """Three documents: one changed, one moved, one deleted."""
    await store.commit([put(uri, f"{uri} old") for uri in "abc"])
    await store.commit([put("a", "a new"), Move(uri="b", to_uri="d"), Delete(uri="c")])


AFTER = {"a": "a new", "d": "b old"}


async def test_the_dead_go_when_they_were_seen_dead_long_enough(store: Store, clock: Clock) -> None:
    await rewritten(store)
    report = await store.vacuum()
    assert (report.collected_revisions, report.waiting_revisions) == (0, 2)
    assert report.again_in == pytest.approx(NO_HISTORY.collect_after)
    clock.now += NO_HISTORY.collect_after - 1
    assert (await store.vacuum()).collected_revisions == 0
    assert len(all_revisions(store)) == 4
    clock.now += 1
    report = await store.vacuum()
    assert (report.collected_revisions, report.waiting_revisions) == (2, 0)
    assert report.deleted_rows == 2 * 5  # a document, two chunks, two items
    assert all_revisions(store) == await live(store)
    assert not replaced(store)
    assert not condemned(store)
    assert await contents(store) == AFTER


async def test_what_a_crash_left_goes_on_a_full_look_only(store: Store, clock: Clock) -> None:
    await rewritten(store)
    await _leave_rows(store)
    assert len(all_revisions(store)) == 5
    await store.vacuum(full=False)
    clock.grace()
    await store.vacuum(full=False)
    assert len(all_revisions(store)) == 3
    report = await store.vacuum(full=True)
    assert report.collected_revisions == 1
    assert all_revisions(store) == await live(store)
    assert await contents(store) == AFTER


async def _leave_rows(store: Store) -> None:
    """Append rows and never commit them."""

    async def fail(name: str) -> None:
        if name == "merge":
            raise RuntimeError("killed")

    store.on_step(fail)
    with pytest.raises(RuntimeError):
        await store.commit([put("crashed")])
    store.on_step(commit.no_step)


async def test_the_young_stay_whatever_the_look(store: Store, clock: Clock) -> None:
    await store.vacuum()
    clock.grace()
    await rewritten(store)
    await _leave_rows(store)
    before = all_revisions(store)
    assert (await store.vacuum()).collected_revisions == 0
    assert all_revisions(store) == before


async def test_a_clock_set_back_and_another_hosts_marks_collect_nothing(
    store: Store, clock: Clock
) -> None:
    await rewritten(store)
    await store.vacuum()
    clock.now -= 500
    assert (await store.vacuum()).collected_revisions == 0
    clock.host, clock.now = "another", clock.now + 5000
    assert (await store.vacuum()).collected_revisions == 0  # its own first look
    clock.grace()
    assert (await store.vacuum()).collected_revisions == 2


async def test_marks_are_few_and_grow_old(store: Store, clock: Clock) -> None:
    await rewritten(store)
    for _ in range(300):
        clock.now += 3
        await asyncio.to_thread(marks.place, store._tables, 120.0, marks.SPACING_BY_HAND, None)
    book = marks.read(store._tables)
    assert len(book.marks) <= 11
    mature = marks.mature(book, 120.0)
    assert mature is not None
    assert clock.now - mature.at <= 120 + 18
    for number in range(60):
        clock.host = f"host {number}"
        marks.place(store._tables, 120.0, marks.SPACING, None)
    assert len(marks.read(store._tables).marks) <= marks.MOST


@pytest.mark.parametrize("spoiled", ["", "no JSON", '{"marks": [{"x": 1}]}', "[]", '{"marks": 1}'])
def test_marks_without_sense_are_none(spoiled: str) -> None:
    assert marks.load({marks.KEY: spoiled}) == marks.Book()


async def test_failing_at_every_step_until_nothing_fails(store: Store, clock: Clock) -> None:
    """A collector that is killed anywhere leaves what the next one finishes."""
    store._schedule_upkeep = lambda: None  # type: ignore[method-assign]  # none but ours
    await rewritten(store)
    failed: list[str] = []
    while True:
        await store.commit([put("a", "a newer"), put("a", "a new")])
        await _leave_rows(store)
        clock.grace()  # no mark is so young that none is made
        await store.vacuum()
        clock.grace()
        seen: list[str] = []

        async def fail(name: str, seen: list[str] = seen) -> None:
            seen.append(name)
            if len(seen) == len(failed) + 1:
                raise asyncio.CancelledError  # nothing of upkeep catches it

        store.on_upkeep_step(fail)
        try:
            await store.vacuum()
        except asyncio.CancelledError:
            failed.append(seen[-1])
        else:
            break
        assert await contents(store) == AFTER
        store.on_upkeep_step(commit.no_step)
        await store.vacuum()
        assert all_revisions(store) == await live(store)
        assert not condemned(store)
        assert not replaced(store)
    assert failed[: len(STEPS)] == list(STEPS)
    assert {"mark", "compact chunks", "clean documents"} <= set(failed)
    assert await contents(store) == AFTER


@pytest.mark.parametrize("step", [*STEPS, "compact chunks", "clean document_meta", "mark"])
async def test_a_frozen_collector_undoes_nothing(store: Store, clock: Clock, step: str) -> None:
    """S9: held before any step while others update, delete and collect; woken, it does no harm."""
    await rewritten(store)
    await store.vacuum()
    clock.grace()
    async with await Store.open(store.path, NO_HISTORY) as other:
        reached = 0

        async def freeze(name: str) -> None:
            nonlocal reached
            reached += name == step
            if name == step and reached == 1:
                await other.commit([put("a", "newest"), Delete(uri="d"), put("c", "back")])
                await collect(other, clock)
                await other.commit([put("e", "late"), UpdateMeta(uri="c", title="T")])

        store.on_upkeep_step(freeze)
        report = await store.vacuum()
        assert reached
        assert not report.errors
        store.on_upkeep_step(commit.no_step)
        await collect(store, clock)
        expected = {"a": "newest", "c": "back", "e": "late"}
        assert await contents(other) == expected
        assert all_revisions(store) == await live(store)
        assert not condemned(store)


@pytest.mark.slow
async def test_killed_before_steps_and_run_again(store: Store, clock: Clock) -> None:
    """S6: SIGKILL, not an exception: whatever lies half written is no harm."""
    await rewritten(store)
    await _leave_rows(store)
    await store.vacuum()
    clock.grace()
    for step in ("delete chunks", "delete documents", "release", "compact chunks", "mark"):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.rag.store.killed", store.path, str(clock.now), step),
            cwd=ROOT,
        )
        assert await process.wait() == -signal.SIGKILL, step
        assert await contents(store) == AFTER
        await store.commit([put("a", "a newer"), put("a", "a new")])
    await collect(store, clock)
    assert await contents(store) == AFTER
    assert all_revisions(store) == await live(store)
    assert not condemned(store)
    assert not replaced(store)


async def test_a_writer_frozen_while_its_rows_are_collected_appends_again(
    store: Store, clock: Clock
) -> None:
    """S9: no clock of the writer's tells it; that somebody has committed since does."""
    await store.commit([put("a", "old")])

    async with await Store.open(store.path, NO_HISTORY) as other:
        frozen = 0

        async def freeze(name: str) -> None:
            nonlocal frozen
            if name == "merge" and not frozen:
                frozen += 1
                await collect(other, clock)
                assert len(all_revisions(store)) == 1

        store.on_step(freeze)
        (outcome,) = await store.commit([put("a", "new")])
        assert outcome.result == "done"
        assert store.stats.appended_again == 1
        assert await contents(other) == {"a": "new"}


@pytest.mark.parametrize(
    "change", [put("a", "old writer", expected="x"), put("b", expected=ABSENT)]
)
async def test_a_writer_frozen_at_its_rows_never_shows_half(
    store: Store, clock: Clock, change: object
) -> None:
    await store.commit([put("a", "old")])
    row = await (await store.snapshot()).get_by_uri("a")
    assert row is not None
    if change.expected == "x":  # type: ignore[attr-defined]
        change = replace(change, expected=row.row_version)  # type: ignore[type-var]
    async with await Store.open(store.path, NO_HISTORY) as other:
        seen = []

        async def freeze(name: str) -> None:
            seen.append(name)
            if seen.count("append chunks") == 1 and name == "append chunks":
                await other.commit([Delete(uri="a")])
                await collect(other, clock)

        store.on_step(freeze)
        await store.commit([change])  # type: ignore[list-item]
        found = await contents(other)
        assert "a" not in found
        await collect(other, clock)
        assert await contents(other) == found


async def test_two_collectors_at_once(store: Store, clock: Clock) -> None:
    await store.commit([put(f"u{n}", "old") for n in range(30)])
    await store.commit([put(f"u{n}", "new") for n in range(30)])
    await store.vacuum()
    clock.grace()
    others = [await Store.open(store.path, NO_HISTORY) for _ in range(2)]
    for each in [store, *others]:

        async def hesitate(name: str) -> None:
            await asyncio.sleep(0.01)

        each.on_upkeep_step(hesitate)
    collecting_all = [each.vacuum() for each in [store, *others]]
    reports = await asyncio.gather(*collecting_all)
    assert not [report.errors for report in reports if report.errors]
    assert all_revisions(store) == await live(store)
    assert not condemned(store)
    assert len(await contents(store)) == 30
    for other in others:
        await other.close()


async def test_more_than_one_batch(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "BATCH", 3)
    monkeypatch.setattr(collecting, "BATCH_ROWS", 4)
    for text in ("one", "two", "three"):
        await store.commit([put(f"u{n}", text) for n in range(4)])
    for _ in range(3):
        await _leave_rows(store)
    await collect(store, clock)
    assert all_revisions(store) == await live(store)
    assert set((await contents(store)).values()) == {"three"}


async def test_deleted_documents_are_remembered_for_days(store: Store, clock: Clock) -> None:
    await rewritten(store)
    row_version = await (await store.snapshot()).row_version("c")
    await collect(store, clock)
    uris = set(table(store, schema.META).to_table()["uri"].to_pylist())
    assert uris == {"", "a", "b", "c", "d"}
    forgetful = NO_HISTORY.model_copy(update={"keep_deleted": 0.0})
    async with await Store.open(store.path, forgetful) as other:
        report = await other.vacuum()
        assert report.forgotten_documents == 2
        assert await contents(other) == AFTER
        # S9: who expected the row that is forgotten loses; it never creates.
        (outcome,) = await store.commit([put("c", "late", expected=row_version)])
        assert outcome.result == "conflict"
    assert await contents(store) == AFTER


async def test_a_deleted_row_is_remembered_until_its_revisions_are_gone(
    store: Store, clock: Clock
) -> None:
    forgetful = NO_HISTORY.model_copy(update={"keep_deleted": 0.0})
    await rewritten(store)
    async with await Store.open(store.path, forgetful) as other:
        await other.vacuum()
        assert len(replaced(store)) == 2
        await collect(other, clock)
        assert all_revisions(store) == await live(store)


async def test_a_held_snapshot_reads_what_is_collected_meanwhile(
    store: Store, clock: Clock
) -> None:
    """Its versions go no sooner than they have been superseded for the grace."""
    await rewritten(store)
    held = await store.snapshot()
    await store.vacuum()
    clock.grace()
    await store.vacuum()
    assert not replaced(store)
    for row in await held.rows():
        assert await held.content(row) == AFTER[row.uri]
        assert len(await held.chunks(row)) == 2


async def test_commits_collect_by_themselves(store: Store, clock: Clock) -> None:
    for text in ("one", "two", "three", "four"):
        await store.commit([put("a", text)])
        await store.upkeep()
        clock.grace()
        store._upkeep._next_sweep = 0.0
        await store.upkeep()
    assert store.stats.collected_revisions >= 2
    assert store.stats.upkeep_errors == 0
    assert len(revisions(store)) <= 2


async def test_upkeep_comes_to_an_end(store: Store, clock: Clock) -> None:
    """A database that nobody writes to is left alone, marks and all."""
    await rewritten(store)
    waits = []
    for _ in range(8):
        waits.append((await store.vacuum()).again_in is not None)
        clock.grace()
    assert waits == [*sorted(waits, reverse=True)]
    assert not waits[-1]
    assert waits[0]
    await store.commit([put("a", "again")])
    for _ in range(40):  # what the commit has started does its part beside
        store._upkeep._next_sweep = 0.0
        if (await store.upkeep()).again_in is None:
            break
        clock.grace()
    else:
        raise AssertionError("upkeep goes on for ever")


async def test_lance_never_loses_a_version_that_was_just_superseded(
    store: Store, clock: Clock
) -> None:
    await rewritten(store)
    before = table(store, schema.META).version
    await store.vacuum()
    clock.grace()
    await store.vacuum()
    assert lance.dataset(f"{store.path}/document_meta.lance", version=before).count_rows()
