"""F39, S9: a database is made anew while it is used; whatever breaks off, one of the two opens."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rag.store.making import (
    CONFIG,
    IDENTITY,
    contents,
    dump,
    put,
    revision,
    unit,
    vector_hits,
)
from tests.rag.write.rebuilding import WIDER, Wider, open_wider, rebuild

from haiku.rag.exceptions import (
    DatabaseExists,
    DatabaseReplaced,
    EmbedderUnavailable,
    IdentityMismatch,
    StoreBusy,
    StoreError,
    TagNotFound,
)
from haiku.rag.store import Store, commit, schema
from haiku.rag.store.changes import ABSENT, Delete, Move, Put, UpdateMeta
from haiku.rag.store.tables import open_table, table_path
from haiku.rag.write import copying

#: Every step of a rebuild of one group, in order.
STEPS = [
    "claim",
    "begin",
    "take over",
    "append documents",
    "append document_items",
    "append chunks",
    "index",
    "write",
    "hold",
    "switch",
    "finish",
    "tell",
    "copy marks",
    "clear marks",
    "set aside documents",
    "set aside document_items",
    "set aside chunks",
    "name",
]
SWITCH = STEPS.index("switch")
BEFORE = {"a": "one", "b": "two", "c": "three"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "db.lancedb"


@pytest.fixture
async def filled(path: Path) -> Path:
    """A database with three live documents, a deleted one, metadata and owners."""
    async with await Store.create(path, IDENTITY, CONFIG) as store:
        await store.commit([put(uri, text) for uri, text in BEFORE.items()] + [put("gone")])
        await store.commit(
            [
                UpdateMeta(uri="a", title="A", metadata={"n": 1}, sources={"s": "mark"}),
                Delete(uri="gone"),
            ]
        )
    return path


def at(wanted: str, action: Callable[[], Awaitable[Any]]) -> Callable[[str], Awaitable[None]]:
    """A step hook that acts before the first step of a name."""
    seen: list[str] = []

    async def step(name: str) -> None:
        seen.append(name)
        if name == wanted and seen.count(name) == 1:
            await action()

    step.seen = seen  # type: ignore[attr-defined]
    return step


def wide(uri: str, text: str) -> Put:
    """A `Put` for the new embedder."""
    vectors = np.zeros((2, WIDER.dim), np.float32)
    return Put(uri=uri, revision=revision(text, vectors=vectors))


async def read(path: str | Path, identity: Any) -> dict[str, str]:
    async with await Store.open(path, CONFIG, identity=identity, read_only=True) as store:
        return await contents(store)


def told(found: dict[str, Any]) -> dict[str, Any]:
    """What readers see, without what a rebuild is there to change."""
    other = ("vector", "text_hash", "id")
    return {
        uri: {
            "row": {**parts["row"], "fingerprint": None},
            schema.CHUNKS: [
                {n: v for n, v in c.items() if n not in other} for c in parts[schema.CHUNKS]
            ],
            schema.DOCUMENTS: parts[schema.DOCUMENTS],
            schema.ITEMS: parts[schema.ITEMS],
        }
        for uri, parts in found.items()
    }


async def test_everything_but_the_vectors_stays(filled: Path) -> None:
    async with await Store.open(filled, CONFIG, read_only=True) as store:
        before = await dump(await store.snapshot())
        versions = {uri: await (await store.snapshot()).row_version(uri) for uri in before}
        gone = await (await store.snapshot()).row_version("gone")
    seen: list[tuple[int, int]] = []
    step = at("", lambda: asyncio.sleep(0))
    report = await rebuild(filled, progress=lambda *done: seen.append(done), step=step)
    assert step.seen == STEPS  # type: ignore[attr-defined]
    assert seen[-1] == (4, 4)
    assert (report.rebuilt, report.documents, report.kept_chunks) == (True, 3, 3)
    assert (report.embedded, report.embedder) == (6, str(WIDER))
    async with await open_wider(filled) as store:
        snapshot = await store.snapshot()
        after = await dump(snapshot)
        assert told(after) == told(before)
        assert {r.fingerprint for r in await snapshot.rows()} != {None}
        assert {uri: await snapshot.row_version(uri) for uri in before} == versions
        assert await snapshot.row_version("gone") == gone
        hits = await vector_hits(snapshot, await Wider().embed_query("two part0"), 1)
        assert hits[0].chunk.text == "two part0"
        assert (await store.info()).documents == 3
        assert store.path == str(filled)
        # A change that was computed before, from the old row, still fits; a stale one loses.
        outcomes = await store.commit(
            [
                UpdateMeta(uri="a", title="B", expected=str(versions["a"])),
                UpdateMeta(uri="b", title="B", expected="another"),
            ]
        )
        assert [o.result for o in outcomes] == ["done", "conflict"]


async def test_what_was_before_is_a_database_with_its_tags(filled: Path) -> None:
    async with await Store.open(filled, CONFIG) as store:
        await store.create_tag("then")
        before = await dump(await store.snapshot())
        created = await store.info()
    report = await rebuild(filled)
    assert report.tags == ("then",)
    assert report.before is not None
    assert Path(report.before).parent == filled
    async with await Store.open(report.before, CONFIG, identity=IDENTITY) as store:
        assert await dump(await store.snapshot()) == before
        assert [tag.name for tag in await store.list_tags()] == ["then"]
        await store.commit([put("d")])
        await store.restore_tag("then")
        assert await contents(store) == BEFORE
        assert (await store.info()).created_at == created.created_at
    assert await read(filled, WIDER) == BEFORE
    with pytest.raises(TagNotFound):
        await Store.open(filled, CONFIG, as_of="then")
    shutil.rmtree(report.before)
    assert await read(filled, WIDER) == BEFORE


async def test_a_second_rebuild_follows_the_first(filled: Path) -> None:
    first = await rebuild(filled)
    again = await rebuild(filled)
    assert (again.rebuilt, again.documents, again.before) == (False, 3, first.before)
    async with await open_wider(filled) as store:
        await store.commit([wide("d", "four")])
        handle = store
        second = await rebuild(filled)  # d has no fingerprint
        with pytest.raises(DatabaseReplaced):
            await handle.snapshot()
    assert second.rebuilt
    assert second.reused >= 6
    assert second.before != first.before
    assert await read(filled, WIDER) == {**BEFORE, "d": "four"}
    # The first mark leads there at once: the folder in between may be deleted.
    now = (await open_wider(filled, read_only=True)).place
    between = [f for f in filled.glob("rebuilt-*") if str(f) != now]
    assert len(between) == 1
    shutil.rmtree(between[0])
    assert await read(filled, WIDER) == {**BEFORE, "d": "four"}


async def test_what_is_committed_meanwhile_is_taken_over(filled: Path) -> None:
    """Creations, changes, moves, deletions, restores: at every step until the switch."""
    async with await Store.open(filled, CONFIG, identity=IDENTITY) as store:
        await store.create_tag("then")
        number, held = 0, False

        async def step(name: str) -> None:
            nonlocal number, held
            held |= name == "hold"  # from then on commits wait for the rebuild, and it for this
            if held or name == "claim":  # and a claim would lose against each
                return
            number += 1
            there = "x" if number % 2 else "y"
            group = [
                put(f"new/{number}", f"new {number}"),
                put("a", f"one {number}"),
                put(f"{there}/m", "moving", expected=ABSENT),
                Move(uri=f"{there}/m", to_uri=f"{'y' if there == 'x' else 'x'}/m"),
                Delete(uri=f"new/{number - 1}"),
            ]
            await store.commit(group)
            if number == 3:
                await store.restore_tag("then")
                await store.commit([put("late", "late")])

        report = await rebuild(filled, step=step)
        assert number > 5
        with pytest.raises(DatabaseReplaced):
            await store.snapshot()
    assert report.before is not None
    expected = await read(report.before, IDENTITY)
    assert expected[f"new/{number}"] == f"new {number}"
    assert await read(filled, WIDER) == expected
    async with await open_wider(filled) as store:
        assert await store.restore_epoch() == 1


async def test_commits_wait_for_the_last_moment_and_lose_nothing(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that never stops: each of its commits is in the new database or was refused."""
    monkeypatch.setattr(commit, "LOOK", 0.01)
    done: list[str] = []

    async def write(store: Store) -> None:
        number = 0
        while True:
            number += 1
            await store.commit([put(f"w/{number}", f"w {number}")])
            done.append(f"w/{number}")

    async with await Store.open(filled, CONFIG) as store:
        writing = asyncio.create_task(write(store))
        await rebuild(filled)
        with pytest.raises(DatabaseReplaced, match="open it again") as refused:
            await writing
        assert refused.value.retryable
    assert done
    found = await read(filled, WIDER)
    assert {uri for uri in found if uri.startswith("w/")} == set(done)


async def test_a_hold_that_nobody_ends_is_waited_for_no_longer_than_it_may_last(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "HOLD", 0.3)
    monkeypatch.setattr(commit, "LOOK", 0.02)
    async with await Store.open(filled, CONFIG) as store:

        async def frozen() -> None:
            """The rebuild stands still before its switch for so long that others go on."""
            held = asyncio.get_running_loop().time()
            await store.commit([put("d", "four")])
            assert asyncio.get_running_loop().time() - held >= 0.3

        await rebuild(filled, step=at("switch", frozen))
    assert await read(filled, WIDER) == {**BEFORE, "d": "four"}


async def test_a_rebuild_that_fails_lets_commits_go_on(filled: Path) -> None:
    async def fail() -> None:
        raise StoreError("the disk is full")

    with pytest.raises(StoreError, match="full"):
        await rebuild(filled, step=at("switch", fail))
    async with await Store.open(filled, CONFIG, identity=IDENTITY) as store:
        await asyncio.wait_for(store.commit([put("d", "four")]), commit.HOLD / 2)
    assert await read(filled, IDENTITY) == {**BEFORE, "d": "four"}


async def test_an_embedder_that_is_down_leaves_all_as_it_was_and_is_resumed(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "GROUP", 1)

    async def down() -> None:
        raise EmbedderUnavailable("down")

    number = 0

    async def step(name: str) -> None:
        nonlocal number
        number += name == "write"
        if number == 3:
            await down()

    with pytest.raises(EmbedderUnavailable):
        await rebuild(filled, step=step)
    assert await read(filled, IDENTITY) == BEFORE
    (begun,) = filled.glob("rebuilt-*")
    with pytest.raises(StoreBusy, match="run that rebuild again"):
        await Store.open(begun, CONFIG)
    report = await rebuild(filled)
    assert report.copied == 2  # of four rows, two were done
    assert [str(f) for f in filled.glob("rebuilt-*")] == [str(begun)]
    assert await read(filled, WIDER) == BEFORE


async def test_what_a_rebuild_for_something_else_has_left_is_removed(filled: Path) -> None:
    async def stop() -> None:
        raise StoreError("stopped")

    with pytest.raises(StoreError, match="stopped"):
        await rebuild(filled, step=at("hold", stop))
    (begun,) = filled.glob("rebuilt-*")
    values = open_table(str(begun), schema.SETTINGS)
    values.update({"value": "'another'"}, where="key = 'rebuild'")
    report = await rebuild(filled)
    assert report.copied == 4
    assert not begun.exists()
    assert await read(filled, WIDER) == BEFORE


# S9
@pytest.mark.parametrize("stalled", ["check", "append chunks", "merge"])
async def test_a_writer_frozen_over_the_switch_changes_nothing(filled: Path, stalled: str) -> None:
    """Neither in the new tables nor in what was before, and it is told so."""
    reached, go = asyncio.Event(), asyncio.Event()

    async def freeze() -> None:
        reached.set()
        await go.wait()

    async with await Store.open(filled, CONFIG, identity=IDENTITY) as store:
        await store.commit([put("warm")])  # it has the tables open
        await store.commit([Delete(uri="warm")])
        store.on_step(at(stalled, freeze))
        writing = asyncio.create_task(store.commit([put("a", "undone"), put("d", "lost")]))
        await reached.wait()
        report = await rebuild(filled)
        go.set()
        with pytest.raises(DatabaseReplaced):
            await writing
    assert report.before is not None
    assert await read(filled, WIDER) == BEFORE
    assert await read(report.before, IDENTITY) == BEFORE
    assert (await rebuild(filled)).rebuilt is False


async def test_upkeep_and_readers_frozen_over_the_switch_are_told(filled: Path) -> None:
    async with await Store.open(filled, CONFIG, identity=IDENTITY) as store:
        snapshot = await store.snapshot()
        report = await rebuild(filled)
        with pytest.raises(DatabaseReplaced):
            await store.read(lambda s: s.vector_search(unit("x"), 1))
        with pytest.raises(StoreError) as old:
            await vector_hits(snapshot, unit("x"), 1)
        assert old.value.retryable
        for call in (
            store.row("a"),
            store.known_vectors(["0"]),
            store.restore_epoch(),
            store.create_tag("t"),
        ):
            with pytest.raises(DatabaseReplaced):
                await call
        assert (await store.vacuum()).errors == ()
    assert report.before is not None
    assert await read(report.before, IDENTITY) == BEFORE
    assert await read(filled, WIDER) == BEFORE


async def test_a_rebuild_frozen_before_its_switch_loses_to_another(filled: Path) -> None:
    """It would put tables into place that lack what was committed since."""
    reached, go = asyncio.Event(), asyncio.Event()

    async def freeze() -> None:
        reached.set()
        await go.wait()

    first = asyncio.create_task(rebuild(filled, step=at("switch", freeze)))
    await reached.wait()
    await rebuild(filled)
    async with await open_wider(filled) as store:
        await store.commit([wide("a", "newer")])
    go.set()
    with pytest.raises(StoreError) as lost:
        await first
    assert lost.value.retryable
    assert await read(filled, WIDER) == {**BEFORE, "a": "newer"}


async def test_a_rebuild_frozen_before_it_writes_loses_to_another(filled: Path) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def freeze() -> None:
        reached.set()
        await go.wait()

    first = asyncio.create_task(rebuild(filled, step=at("write", freeze)))
    await reached.wait()
    await rebuild(filled)
    async with await open_wider(filled) as store:
        await store.commit([wide("a", "newer")])
    go.set()
    with pytest.raises(StoreBusy, match="given up"):
        await first
    assert await read(filled, WIDER) == {**BEFORE, "a": "newer"}


async def test_of_two_rebuilds_the_earlier_gives_up(filled: Path) -> None:
    async def another() -> None:
        async def fail() -> None:
            raise StoreError("stopped as well")

        with pytest.raises(StoreError, match="stopped as well"):
            await rebuild(filled, step=at("hold", fail))

    with pytest.raises(StoreBusy, match="another rebuild has begun since"):
        await rebuild(filled, step=at("hold", another))
    assert await read(filled, IDENTITY) == BEFORE
    assert (await rebuild(filled)).copied == 0


async def test_killed_before_every_step_one_of_the_two_opens(filled: Path) -> None:
    """Each rebuild goes on where the one before was killed, and is killed a step later."""
    for number, fatal in enumerate(STEPS):
        killed = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.rag.write.rebuilding", str(filled), fatal],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
        now, other = (WIDER, IDENTITY) if number > SWITCH else (IDENTITY, WIDER)
        with pytest.raises(IdentityMismatch, match="haiku-rag rebuild --db"):
            await read(filled, other)
        assert await read(filled, now) == BEFORE, fatal
    report = await rebuild(filled)
    assert not report.rebuilt
    assert report.before is not None
    assert await read(filled, WIDER) == BEFORE
    assert await read(report.before, IDENTITY) == BEFORE
    assert not list(filled.glob("*.part"))
    assert len(list(filled.glob("rebuilt-*"))) == 1


async def test_what_cannot_be_tidied_up_is_said_and_done_the_next_time(filled: Path) -> None:
    async def fail() -> None:
        raise OSError("no permission")

    report = await rebuild(filled, step=at("set aside chunks", fail))
    assert (report.rebuilt, report.before) == (True, None)
    assert "no permission" in str(report.left)
    assert await read(filled, WIDER) == BEFORE
    again = await rebuild(filled)
    assert again.before is not None
    assert await read(again.before, IDENTITY) == BEFORE


async def test_elsewhere_the_old_one_is_left_alone(filled: Path, tmp_path: Path) -> None:
    to = tmp_path / "new.lancedb"

    async def stop() -> None:
        raise StoreError("stopped")

    before = sorted(str(p) for p in filled.rglob("*"))
    with pytest.raises(StoreError, match="stopped"):
        await rebuild(filled, to=str(to), step=at("finish", stop))
    with pytest.raises(StoreBusy):
        await Store.open(to, CONFIG)
    report = await rebuild(filled, to=str(to))
    assert (report.path, report.before, report.behind) == (str(to), None, 0)
    assert report.copied == 0  # all was there already
    assert await read(to, WIDER) == BEFORE
    assert sorted(str(p) for p in filled.rglob("*")) == before
    assert await read(filled, IDENTITY) == BEFORE
    with pytest.raises(DatabaseExists):
        await rebuild(filled, to=str(to))
    with pytest.raises(DatabaseExists):
        await rebuild(filled, to=str(filled))


async def test_a_remote_database_needs_a_place_to_go(path: Path) -> None:
    with pytest.raises(StoreError, match="--to NEW_URI"):
        await rebuild("s3://bucket/db")


async def test_why_no_folder_takes_the_place_of_another(filled: Path, tmp_path: Path) -> None:
    """What `replacing` avoids: Lance commits into whatever is at the path. Should this ever fail,
    Lance has become safer."""
    async with await Store.open(filled, CONFIG) as store:
        await store.commit([put("x")])
        stale = open_table(str(filled), schema.DOCUMENTS)
        rows = stale.to_table().slice(0, 1)
    other = tmp_path / "other"
    async with await Store.create(other, IDENTITY, CONFIG) as store:
        await store.commit([put("y")])
    target = Path(table_path(str(filled), schema.DOCUMENTS))
    shutil.rmtree(target)
    shutil.copytree(table_path(str(other), schema.DOCUMENTS), target)
    stale.insert(rows)
    with pytest.raises((OSError, ValueError)):
        open_table(str(filled), schema.DOCUMENTS).to_table()
