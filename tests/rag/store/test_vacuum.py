"""Compaction, indexes, version cleanup: bounded, beside everything else, sparing what is kept."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bench import disk
from tests.rag.store.aging import (
    NO_HISTORY,
    Clock,
    all_revisions,
    clock,
    collect,
    live,
    table,
)
from tests.rag.store.making import CONFIG, IDENTITY, contents, put, text_hits

from haiku.rag.exceptions import ReadOnly, SnapshotExpired
from haiku.rag.store import Store, appending, cleaning, compacting, indexes, marks, reading, schema
from haiku.rag.store.changes import Delete
from haiku.rag.store.cleaning import State
from haiku.rag.store.compacting import Piece
from haiku.rag.store.tables import size_on_disk

__all__ = ["clock"]

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def store(path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with await Store.create(path, IDENTITY, NO_HISTORY) as store:
        yield store


def covered(store: Store) -> bool:
    """Whether every index reaches every row."""
    return not any(
        index.unindexed_rows
        for name in schema.READ
        for index in indexes.coverage(table(store, name), name)
    )


def versions(store: Store, name: str) -> list[int]:
    return sorted(int(ref["version"]) for ref in table(store, name).version_refs())


async def test_a_vacuum_gathers_indexes_and_cleans(store: Store, clock: Clock) -> None:
    for n in range(12):
        await store.commit([put(f"u{n}", f"word{n}")])
    for n in range(0, 12, 2):
        await store.commit([put(f"u{n}", f"newword{n}")])
    await collect(store, clock)
    expected = {f"u{n}": f"newword{n}" if n % 2 == 0 else f"word{n}" for n in range(12)}
    assert await contents(store) == expected
    assert covered(store)
    for name in schema.APPENDED:
        assert len(table(store, name).get_fragments()) == 1
        assert sum(f.metadata.num_deletions for f in table(store, name).get_fragments()) == 0
    for name in schema.TABLES:
        assert len(versions(store, name)) <= 3, name
    snapshot = await store.snapshot()
    for uri, text in expected.items():
        assert {h.row.uri for h in await text_hits(snapshot, text, 5)} == {uri}
        assert (await snapshot.get_by_uri(uri)) is not None


async def test_a_rare_word_is_found_at_once_and_after_everything_was_deleted(
    store: Store, clock: Clock
) -> None:
    """F43: no index over zero rows, ever; what comes after an empty table is found as before."""
    for round_ in range(2):
        await store.vacuum()
        assert not any(
            round_ == 0 and (i.table, i.column) == schema.FULL_TEXT
            for i in (await store.info()).indexes
        )
        await store.commit([put("a", f"xylophones in cafés {round_}"), put("b", "others")])
        hits = await text_hits(await store.snapshot(), "xylophone CAFE", 3)
        assert hits[0].row.uri == "a"
        assert hits[0].chunk.text.startswith(f"xylophones in cafés {round_}")
        await store.vacuum()
        assert covered(store)
        hits = await text_hits(await store.snapshot(), "xylophone CAFE", 3)
        assert hits[0].row.uri == "a"
        await store.commit([Delete(uri="a"), Delete(uri="b")])
        await collect(store, clock)
        assert table(store, schema.CHUNKS).count_rows() == 0
        assert await text_hits(await store.snapshot(), "xylophone CAFE", 3) == []


async def test_vacuum_while_others_write(store: Store, clock: Clock) -> None:
    """F44: compaction, cleanup and collection meet 200 commits; no error reaches anybody."""
    async with (
        await Store.open(store.path, NO_HISTORY) as writer,
        await Store.open(store.path, NO_HISTORY, read_only=True) as reader,
    ):
        done = False

        async def write() -> None:
            nonlocal done
            for n in range(0, 200, 4):
                await writer.commit(
                    [put(f"u{m % 20}", f"text{m}", chunks=1) for m in range(n, n + 4)]
                )
            done = True

        async def look() -> int:
            looks = 0
            while not done:
                snapshot = await reader.snapshot()
                for hit in await text_hits(snapshot, "part0", 5):
                    assert hit.chunk.content.endswith("part0")
                looks += 1
                await asyncio.sleep(0.01)
            return looks

        async def vacuum() -> list[Any]:
            reports = []
            while not done:
                reports.append(await store.vacuum())
                clock.grace()
            return reports

        _, looks, reports = await asyncio.gather(write(), look(), vacuum())
        assert looks > 0
        assert [e for report in reports for e in report.errors] == []
        assert sum(report.collected_revisions for report in reports) > 0
        assert writer.stats.upkeep_errors == 0
    await collect(store, clock)
    assert await contents(store) == {f"u{n % 20}": f"text{n}" for n in range(180, 200)}
    assert all_revisions(store) == await live(store)


async def test_many_single_updates_take_no_more_disk(store: Store, clock: Clock) -> None:
    """F42 (the first half): what is superseded does not stay."""
    for n in range(40):
        await store.commit([put("a", f"text {n}"), put(f"b{n % 4}", f"text {n}")])
        if n % 4 == 3:
            clock.grace()
            store._upkeep._next_sweep = 0.0
            await store.upkeep()
    await store.upkeep()
    for name in schema.TABLES:
        assert len(versions(store, name)) <= 40, name
    before = await store.vacuum()
    await collect(store, clock)
    after = await store.vacuum()
    assert before.bytes_after is not None
    assert after.bytes_after is not None
    assert after.bytes_after < before.bytes_after


async def test_an_ingest_takes_no_more_disk_than_promised(tmp_path: Path, clock: Clock) -> None:
    """F71: at most 3 times the live data before a vacuum, 1.5 times after it; F42: likewise."""
    async with await Store.create(tmp_path / "db", disk.IDENTITY, NO_HISTORY) as store:
        await disk.commit(store, (disk.put(f"u{n}", 20) for n in range(60)), 5)
        await store.upkeep()
        live_data = disk.live_bytes(store, tmp_path / "live")
        assert (size_on_disk(store.path) or 0) < 3 * live_data
        for n in range(60):
            await store.commit([disk.put(f"u{n % 30}", 20)])
        await collect(store, clock)
        live_data = disk.live_bytes(store, tmp_path / "live")
        assert (size_on_disk(store.path) or 0) < 1.5 * live_data


async def test_forced_failures_are_counted_and_said(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F42 (the second half): what metrics show is `upkeep_errors`."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("No space left on device")

    await store.commit([put("a", "one")])
    await store.commit([put("a", "two"), put("b", "two")])
    await store.vacuum()
    clock.grace()
    monkeypatch.setattr(cleaning, "clean", fail)
    monkeypatch.setattr(compacting, "rewrite", fail)
    report = await store.vacuum()
    assert len(report.errors) >= len(schema.TABLES)
    assert all("No space left" in error for error in report.errors)
    assert store.stats.upkeep_errors == len(report.errors)
    assert await contents(store) == {"a": "two", "b": "two"}
    monkeypatch.undo()


async def test_low_headroom_skips_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F42, F41: nothing is rewritten when it might not fit."""
    for n in range(3):
        await store.commit([put(f"u{n}")])
    monkeypatch.setattr(compacting, "DISK_MARGIN", 1 << 60)
    report = await store.vacuum()
    assert not report.rewritten
    assert any("of the disk are free" in text for text in report.skipped)
    monkeypatch.undo()
    monkeypatch.setattr(compacting, "_machine_memory", lambda: 10)
    report = await store.vacuum()
    assert any("of memory are free" in text for text in report.skipped)
    monkeypatch.undo()
    assert (await store.vacuum()).rewritten
    assert len(await contents(store)) == 3


async def test_a_reader_may_not(store: Store) -> None:
    async with await Store.open(store.path, CONFIG, read_only=True) as reader:
        with pytest.raises(ReadOnly):
            await reader.vacuum()


# --- versions that stay -------------------------------------------------------------------------


async def busy(store: Store, clock: Clock, rounds: int = 3) -> None:
    """Rewriting, collecting and compacting, with the grace between."""
    for n in range(rounds):
        await store.commit([put("a", f"a{n}"), put("b", f"b{n}"), put(f"c{n}", "c")])
        await store.vacuum()
        clock.grace()


async def test_tagged_versions_stay_and_restore_exactly(store: Store, clock: Clock) -> None:
    """S6: a tag restores its state after any upkeep."""
    await busy(store, clock)
    tagged = await contents(store)
    await store.create_tag("t")
    await busy(store, clock, 4)
    await store.commit([Delete(uri="c0"), Delete(uri="c1")])
    tagged_only = NO_HISTORY.model_copy(update={"vacuum_keep": "tagged"})
    async with await Store.open(store.path, tagged_only) as other:
        await collect(other, clock)
        for name in schema.TABLES:
            assert len(versions(other, name)) <= 4
        assert all_revisions(other) == await live(other)
        await other.restore_tag("t")
        assert await contents(other) == tagged
        await collect(other, clock)
        assert await contents(other) == tagged


async def test_by_default_all_versions_since_the_oldest_tag_stay(
    store: Store, clock: Clock
) -> None:
    await busy(store, clock)
    await store.create_tag("t")
    before = {name: versions(store, name)[-1] for name in schema.TABLES}
    await busy(store, clock)
    await collect(store, clock)
    for name, first in before.items():
        kept = versions(store, name)
        assert kept == list(range(first, kept[-1] + 1)), name
    await store.delete_tag("t")
    await collect(store, clock)
    assert len(versions(store, schema.CHUNKS)) <= 2


async def test_history_can_be_read_whatever_was_collected(store: Store, clock: Clock) -> None:
    """Of the appended tables only the last versions before deletions are needed for it."""
    states: dict[int, dict[str, str]] = {}
    async with await Store.open(store.path, CONFIG) as keeper:
        for n in range(6):
            await keeper.commit([put("a", f"a{n}"), put("b", f"b{n}"), put(f"c{n % 3}", f"c{n}")])
            states[(await keeper.snapshot()).version] = await contents(keeper)
            report = await keeper.vacuum()
            assert not report.errors
            clock.grace()
        await keeper.vacuum()
        assert all_revisions(keeper) == await live(keeper)
        kept = versions(keeper, schema.CHUNKS)
        assert len(kept) < kept[-1] / 2
    for version, expected in states.items():
        async with await Store.open(store.path, CONFIG, as_of=version) as then:
            assert await contents(then) == expected
    async with await Store.open(store.path, CONFIG) as keeper:
        await keeper.vacuum(timedelta(0))
        clock.grace()
        await keeper.vacuum(0)
    assert not states.keys() & set(versions(store, schema.META))


async def test_a_version_removed_from_outside_is_no_error(store: Store, clock: Clock) -> None:
    await busy(store, clock)
    for name in schema.READ:
        table(store, name).cleanup_old_versions(older_than=timedelta(0))
    await store.commit([put("a", "new")])
    clock.grace()
    report = await store.vacuum()
    assert report.errors == ()
    await collect(store, clock)
    assert all_revisions(store) == await live(store)


def states(*made: tuple[float, int]) -> list[State]:
    return [State(version=n + 1, at=at, rows=rows) for n, (at, rows) in enumerate(made)]


def expendable(found: list[State], name: str, history: float = 100.0, now: float = 1000.0) -> Any:
    return list(cleaning.expendable(found, name, history, now))


def test_what_is_superseded_for_longer_than_the_history_goes() -> None:
    found = states((1, 5), (2, 4), (899, 4), (905, 3), (950, 3))
    # The version made at 2 was the newest until 899; the one made at 899 until 905.
    assert expendable(found, schema.META) == [1, 2]
    assert expendable(found, schema.SETTINGS) == [1, 2, 3, 4]


def test_of_appended_tables_the_last_before_a_deletion_stays() -> None:
    found = states((950, 1), (951, 2), (952, 3), (953, 2), (954, 4), (955, 4))
    assert expendable(found, schema.CHUNKS) == [1, 2, 4, 5]
    del found[3]  # a gap: what is before it was kept for a reason that can no longer be seen
    assert expendable(found, schema.CHUNKS) == [1, 2, 5]


def test_of_many_commits_some_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "RECENT", 5)
    monkeypatch.setattr(cleaning, "SPREAD", 10)
    found = states(*((900 + n, 1) for n in range(100)))
    gone = expendable(found, schema.META)
    kept = [state for state in found if state.version not in gone]
    assert [state.at for state in kept] == [*(909 + 10 * n for n in range(9)), *range(995, 1000)]
    assert expendable(kept, schema.META) == []  # the same ones the next time


# --- runs ---------------------------------------------------------------------------------------


def piece(id: int, rows: int = 10, dead: int = 0, bytes: int = 100, *coverage: str) -> Piece:
    return Piece(id=id, rows=rows, dead=dead, bytes=bytes, coverage=frozenset(coverage))


def chosen(found: list[Piece], most: int = 2000, *, by_hand: bool = False) -> list[list[int]]:
    return [[p.id for p in run.pieces] for run in compacting.runs(found, most, by_hand=by_hand)]


def test_uncovered_fragments_are_gathered_and_covered_ones_when_they_are_many() -> None:
    new = [piece(n) for n in range(3)]
    assert chosen(new) == [[0, 1, 2]]
    assert chosen([piece(0)]) == []
    few = [piece(n, 10, 0, 100, "x") for n in range(compacting.MANY - 1)]
    assert chosen([*few, *[piece(n) for n in (20, 21)]]) == [[20, 21]]
    many = [*few, piece(7, 10, 0, 100, "x")]
    assert chosen(many) == [list(range(8))]


def test_runs_are_bounded_and_a_fragment_too_large_is_left() -> None:
    found = [piece(n, 10, 0, 240) for n in range(9)]
    assert chosen(found) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    found[2] = piece(2, 1, 0, 5000)
    assert chosen(found) == [[0, 1], [3, 4, 5, 6], [7, 8]]
    found[2] = piece(2, 1, 0, 300)  # large enough
    assert chosen(found) == [[0, 1], [3, 4, 5, 6], [7, 8]]
    found[2] = piece(2, 1000, 900, 300)
    assert chosen(found) == [[0, 1, 2], [3, 4, 5, 6], [7, 8]]


def test_deleted_rows_are_written_out_above_a_share() -> None:
    covered = [piece(0, 1000, 150, 100, "x"), piece(1, 1000, 150, 100, "x")]
    assert chosen(covered) == []
    assert chosen(covered, by_hand=True) == [[0, 1]]
    assert chosen([piece(0, 1000, 300, 100, "x"), piece(1, 1000, 300, 100, "x")]) == [[0, 1]]
    assert chosen([piece(0, 10, 5, 100, "x")]) == []  # too little to gain
    assert chosen([piece(0, 10, 5, 4_000_000, "x")], 10**7) == [[0]]


@given(
    st.lists(
        st.builds(
            piece,
            st.integers(),
            st.integers(1, 100),
            st.just(0),
            st.integers(0, 3000),
            st.sampled_from("xy"),
        ),
        max_size=30,
    )
)
def test_runs_of_anything_are_neighbours_of_one_coverage_and_fit(found: list[Piece]) -> None:
    found = [
        Piece(id=n, rows=p.rows, dead=p.rows // 2, bytes=p.bytes, coverage=p.coverage)
        for n, p in enumerate(found)
    ]
    for run in compacting.runs(found, 1000, by_hand=True):
        ids = [p.id for p in run.pieces]
        assert ids == list(range(ids[0], ids[-1] + 1))
        assert len({p.coverage for p in run.pieces}) == 1
        assert run.bytes <= 1000


# --- large rows ---------------------------------------------------------------------------------


def test_a_large_row_has_a_fragment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "LARGE_ROW", 10_000)
    monkeypatch.setattr(appending, "FRAGMENT_BYTES", 30_000)
    layout = pa.schema([("n", pa.int64()), ("data", pa.large_binary())])
    empty = lance.write_dataset(layout.empty_table(), tmp_path / "t.lance")
    sizes = [10, 20_000, 10, 10, 50_000, 40_000, *[2_000] * 40]
    rows = pa.table({"n": range(len(sizes)), "data": [os.urandom(n) for n in sizes]}, schema=layout)
    for given_rows in (rows, pa.RecordBatchReader.from_batches(layout, rows.to_batches(7))):
        found = appending.append(empty.checkout_version(1), given_rows)
        fragments = [f.to_table()["n"].to_pylist() for f in found.get_fragments()]
        assert [n for part in fragments for n in part][-len(sizes) :] == list(range(len(sizes)))
        assert [part for part in fragments if {1, 4, 5} & set(part)][-3:] == [[1], [4], [5]]
        largest = max(sum(sizes[n] for n in part) for part in fragments if len(part) > 1)
        assert largest <= 40_000
        empty.delete("true")
    assert appending.append(found, rows.slice(0, 0)).version == found.version


@pytest.mark.slow
def test_memory_of_compaction_does_not_grow_with_the_table(tmp_path: Path) -> None:
    """F41, F48, S7: peak memory of a vacuum, a table of large rows growing from round to round."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rag.store.bulky", str(tmp_path / "db.lancedb")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    peaks = [int(line) for line in done.stdout.split()]
    assert len(peaks) == 3
    assert max(peaks) < 200_000_000
    assert peaks[-1] < peaks[0] + 40_000_000


def test_marks_are_read_again_as_written() -> None:
    mark = marks.Mark(host="h", at=1.5, versions={"a": 3})
    text = marks._dump([mark], 7.0)
    assert marks.load({marks.KEY: text}) == marks.Book(marks=(mark,), full_look=7.0)


# --- who loses a version under it ---------------------------------------------------------------


async def expired(store: Store, clock: Clock) -> Any:
    """A snapshot whose versions have gone."""
    held = await store.snapshot()
    await store.commit([put("a", "new"), put("b", "new")])
    await collect(store, clock)
    return held


async def test_a_snapshot_held_too_long_says_so(store: Store, clock: Clock) -> None:
    await store.commit([put("a", "old"), put("b", "old")])
    held = await expired(store, clock)
    with pytest.raises(SnapshotExpired, match="take a new one") as caught:
        await text_hits(held, "old", 3)
    assert caught.value.retryable


async def test_a_read_takes_another_snapshot(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit([put("a", "old"), put("b", "old")])
    held = await expired(store, clock)
    newest, taken = store.snapshot, 0

    async def stale() -> Any:
        nonlocal taken
        taken += 1
        return held if taken == 1 else await newest()

    monkeypatch.setattr(store, "snapshot", stale)
    rows = await store.read(lambda snapshot: snapshot.rows())
    assert {row.uri for row in rows} == {"a", "b"}
    assert taken == 2

    async def always() -> Any:
        return held

    monkeypatch.setattr(store, "snapshot", always)
    with pytest.raises(SnapshotExpired):
        await store.read(lambda snapshot: snapshot.text_search("old", 3))


async def test_a_writer_reads_again_what_was_removed_under_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit([put("a", "old")])
    base, failures = reading.base, 0

    def lose(*args: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures == 1:
            raise OSError("Object at location /x/document_meta.lance/data/1.lance not found")
        return base(*args)

    monkeypatch.setattr(reading, "base", lose)
    (outcome,) = await store.commit([put("a", "new")])
    assert outcome.result == "done"
    assert failures > 1
    assert await contents(store) == {"a": "new"}
