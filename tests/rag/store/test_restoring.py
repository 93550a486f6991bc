"""Restore: the tagged state to the byte, in one commit, whatever fails, stalls or writes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import lance
import pytest
from tests.rag.store.making import CONFIG, contents, dump, put, revision, text_hits

from haiku.rag.exceptions import (
    IdentityMismatch,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    TagNotFound,
)
from haiku.rag.store import Store, commit, copying, reading, records, schema, settings
from haiku.rag.store.changes import ABSENT, Delete, Move, Put, UpdateMeta

BEFORE = {"a": "one", "b": "two", "c": "three", "same": "kept"}
COPYING = [f"append {table}" for table in schema.APPENDED]
SAFETY = [*(f"tag {table}" for table in schema.TABLES), "tag check"]
STEPS = [*SAFETY, "read", "check", *COPYING, "index", "read", "check", "merge", "merged"]


@pytest.fixture
async def tagged(store: Store) -> Store:
    """Four documents under the tag `t`, and then each changed in another way."""
    await store.commit([put(uri, text, title=text.title()) for uri, text in BEFORE.items()])
    await store.create_tag("t")
    await store.commit(
        [
            put("a", "one changed", metadata={"k": 1}, sources={"s": "m"}),
            Delete(uri="b"),
            Move(uri="c", to_uri="d"),
            put("e", "new"),
        ]
    )
    await store.commit([put("b", "another two"), UpdateMeta(uri="d", title="Moved")])
    await store.upkeep()
    return store


async def state(store: Store, as_of: Any = None) -> dict[str, Any]:
    async with await Store.open(store.path, CONFIG, read_only=True, as_of=as_of) as other:
        return await dump(await other.snapshot())


def table(store: Store, name: str) -> Any:
    return lance.dataset(f"{store.path}/{name}.lance")


def head(store: Store) -> records.Head:
    return reading.head(table(store, schema.META))


async def test_the_tagged_state_comes_back_to_the_byte(tagged: Store) -> None:
    wanted, now = await state(tagged, "t"), await state(tagged)
    report = await tagged.restore_tag("t")
    assert await state(tagged) == wanted != now
    assert await contents(tagged) == BEFORE
    assert (report.documents, report.changed, report.copied, report.deleted) == (4, 3, 2, 2)
    assert report.restore_epoch == head(tagged).restore_epoch == 1
    assert report.safety_tag.startswith("before-restore-2")
    assert await state(tagged, report.safety_tag) == now
    hits = await text_hits(await tagged.snapshot(), "one", 5)
    assert {hit.row.uri for hit in hits} == {"a"}


async def test_a_restore_is_undone_with_its_safety_tag(tagged: Store) -> None:
    now = await state(tagged)
    first = await tagged.restore_tag("t")
    second = await tagged.restore_tag(first.safety_tag)
    assert await state(tagged) == now
    assert second.safety_tag != first.safety_tag
    assert second.restore_epoch == 2
    await tagged.restore_tag("t")
    assert await contents(tagged) == BEFORE


async def test_what_is_still_live_is_not_copied(tagged: Store) -> None:
    before = {row.uri: row for row in await (await tagged.snapshot()).rows()}
    await tagged.restore_tag("t")
    after = {row.uri: row for row in await (await tagged.snapshot()).rows()}
    assert after["same"] == before["same"]
    assert after["c"].revision == before["d"].revision
    assert after["c"].title == "Three"
    assert {after["a"].revision, after["b"].revision}.isdisjoint(
        r.revision for r in before.values()
    )


async def test_every_revision_is_named_by_one_row_only(tagged: Store) -> None:
    """What is live is not waiting for collection anywhere, and nothing dead is forgotten."""
    await tagged.restore_tag("t")
    meta = table(tagged, schema.META).to_table().to_pylist()
    live = [row["revision"] for row in meta if row["state"] == "live"]
    replaced = [revision for row in meta for revision in row["replaced"] or ()]
    stored = table(tagged, schema.DOCUMENTS).to_table()["revision"].to_pylist()
    assert sorted([*live, *replaced]) == sorted(stored)
    assert all(row["replaced_count"] == len(row["replaced"] or ()) for row in meta)


async def test_a_chunk_is_found_by_the_id_it_had(tagged: Store) -> None:
    async with await Store.open(tagged.path, CONFIG, as_of="t") as then:
        snapshot = await then.snapshot()
        row = await snapshot.get_by_uri("a")
        assert row is not None
        chunk = (await snapshot.chunks(row))[0]
    assert await (await tagged.snapshot()).chunk(chunk.id) is None
    await tagged.restore_tag("t")
    found = await (await tagged.snapshot()).chunk(chunk.id)
    assert found is not None
    assert found.text == chunk.text


async def test_restoring_the_state_of_today_does_nothing(store: Store) -> None:
    store._schedule_upkeep = lambda: None  # type: ignore[method-assign]  # it makes versions too
    await store.commit([put("a")])
    await store.create_tag("t")
    before = table(store, schema.META).version
    report = await store.restore_tag("t")
    assert (report.changed, report.copied, report.deleted, report.documents) == (0, 0, 0, 1)
    assert report.safety_tag is None
    assert report.restore_epoch == head(store).restore_epoch == 0
    assert table(store, schema.META).version == before
    assert [tag.name for tag in await store.list_tags()] == ["t"]


async def test_an_empty_state_can_be_restored(store: Store) -> None:
    await store.create_tag("empty")
    await store.commit([put("a"), put("no text", "nothing", chunks=0)])
    await store.create_tag("full")
    await store.restore_tag("empty")
    assert await contents(store) == {}
    assert (await store.restore_tag("full")).copied == 2
    assert await contents(store) == {"a": "text", "no text": "nothing"}


async def test_after_any_upkeep_the_state_comes_back(tagged: Store) -> None:
    """S6: every dead row is gone, every version that is not tagged as well."""
    wanted = await state(tagged, "t")
    live = [row.revision for row in await (await tagged.snapshot()).rows()]
    dead = " AND ".join(f"revision != '{revision}'" for revision in live)
    for name in schema.APPENDED:
        table(tagged, name).delete(dead)
        table(tagged, name).optimize.compact_files()
    table(tagged, schema.META).optimize.compact_files()
    for name in schema.TABLES:
        table(tagged, name).cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    async with await Store.open(tagged.path, CONFIG) as store:
        assert await state(store, "t") == wanted
        await store.restore_tag("t")
        assert await state(store) == wanted


def at(number: int, action: Callable[[], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    """A step hook that acts at the `number`th step."""
    seen: list[str] = []

    async def step(name: str) -> None:
        seen.append(name)
        if len(seen) == number + 1:
            await action()

    step.seen = seen  # type: ignore[attr-defined]
    return step


async def test_failing_at_every_step_until_nothing_fails(tagged: Store) -> None:
    """S3."""

    async def fail() -> None:
        raise RuntimeError("injected")

    now, wanted = await state(tagged), await state(tagged, "t")
    for number, name in enumerate(STEPS):
        tagged.on_step(at(number, fail))
        with pytest.raises(RuntimeError):
            await tagged.restore_tag("t")
        assert await state(tagged) == (wanted if name == "merged" else now), name
        await contents(tagged)
    tagged.on_step(commit.no_step)
    await tagged.restore_tag((await tagged.list_tags())[-1].name)
    assert await state(tagged) == now
    step = at(len(STEPS), fail)
    tagged.on_step(step)
    await tagged.restore_tag("t")
    assert await state(tagged) == wanted
    assert step.seen == STEPS  # type: ignore[attr-defined]


async def test_cancelling_at_every_step(tagged: Store) -> None:
    now, wanted = await state(tagged), await state(tagged, "t")
    for number, name in enumerate(STEPS):
        reached = asyncio.Event()

        async def stall(reached: asyncio.Event = reached) -> None:
            reached.set()
            await asyncio.sleep(60)

        tagged.on_step(at(number, stall))
        task = asyncio.create_task(tagged.restore_tag("t"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        tagged.on_step(commit.no_step)
        assert await state(tagged) == (wanted if name == "merged" else now), name
    await tagged.commit([UpdateMeta(uri="a", title="still writable")])


@pytest.mark.parametrize("number", range(len(STEPS) - 1), ids=lambda n: f"{n} {STEPS[n]}")
async def test_a_stalled_restore_is_computed_again(tagged: Store, number: int) -> None:
    """S5: what others commit before it wins is in the state that it replaces, whole."""
    wanted = await state(tagged, "t")
    async with await Store.open(tagged.path, CONFIG) as other:

        async def overtake() -> None:
            await other.commit(
                [put("same", "newer"), put("b", "newer"), Move(uri="d", to_uri="c"), put("f")]
            )
            await other.commit([Delete(uri="a"), Move(uri="e", to_uri="a")])

        tagged.on_step(at(number, overtake))
        report = await tagged.restore_tag("t")
        assert await state(other) == wanted
        assert await contents(other) == BEFORE
        assert report.deleted == 1
        assert report.copied == 3


@pytest.mark.parametrize("step", ["read", "check", "append chunks", "merge"])
async def test_a_stalled_writer_never_undoes_a_restore(tagged: Store, step: str) -> None:
    """S9."""
    seen = {row.uri: row.row_version for row in await (await tagged.snapshot()).rows()}
    async with await Store.open(tagged.path, CONFIG) as other:

        async def overtake(name: str) -> None:
            if name == step:
                other.on_step(commit.no_step)
                await tagged.restore_tag("t")

        other.on_step(overtake)
        outcomes = await other.commit(
            [
                put("a", "stale", expected=seen["a"]),
                put("b", "stale", expected=ABSENT),
                UpdateMeta(uri="d", title="stale", expected=seen["d"]),
                put("e", "stale", expected=seen["e"]),
                put("same", "still what it was", expected=seen["same"]),
            ]
        )
        results = [outcome.result for outcome in outcomes]
        assert results == ["conflict", "conflict", "absent", "conflict", "done"]
        assert await contents(other) == {**BEFORE, "same": "still what it was"}


async def test_two_restores_at_once_end_in_one_of_the_states(tagged: Store) -> None:
    await tagged.create_tag("u")
    await tagged.commit([put("f")])
    async with await Store.open(tagged.path, CONFIG) as other:
        one, two = await asyncio.gather(tagged.restore_tag("t"), other.restore_tag("u"))
        last = max(one, two, key=lambda report: report.restore_epoch)
        assert {one.restore_epoch, two.restore_epoch} == {1, 2}
        assert await state(other) == await state(other, last.tag)


async def test_copies_are_looked_at_when_anybody_has_committed_since(tagged: Store) -> None:
    """A restore may take longer than `collect_after`; what is still there is used."""
    async with await Store.open(tagged.path, CONFIG) as other:

        async def overtake() -> None:
            await other.commit([put("f")])

        step = at(STEPS.index("index"), overtake)
        tagged.on_step(step)
        await tagged.restore_tag("t")
        assert step.seen == STEPS  # type: ignore[attr-defined]
        assert await contents(other) == BEFORE


async def test_copies_that_were_collected_are_made_again(tagged: Store) -> None:
    """Condemned, deleted and released while this process was halted."""
    documents = table(tagged, schema.DOCUMENTS)
    there = set(documents.to_table()["revision"].to_pylist())
    async with await Store.open(tagged.path, CONFIG) as other:

        async def collect() -> None:
            found = table(tagged, schema.DOCUMENTS).to_table()["revision"].to_pylist()
            for name in schema.APPENDED:
                table(tagged, name).delete(f"revision = '{min(set(found) - there)}'")
            await other.commit([put("f")])

        step = at(STEPS.index("index"), collect)
        tagged.on_step(step)
        await tagged.restore_tag("t")
        assert step.seen.count("append chunks") == 2  # type: ignore[attr-defined]
        assert await contents(other) == BEFORE


async def test_condemned_copies_are_made_again(tagged: Store) -> None:
    there = set(table(tagged, schema.DOCUMENTS).to_table()["revision"].to_pylist())
    condemned: set[str] = set()

    async def condemn() -> None:
        condemned.update(table(tagged, schema.DOCUMENTS).to_table()["revision"].to_pylist())
        condemned.difference_update(there)
        new = records.Head(row_version="c", condemned=frozenset(condemned))
        rows = records.meta_table([], new, commit.datetime.now(commit.UTC))
        table(tagged, schema.META).merge_insert("uri").when_matched_update_all().execute(rows)

    tagged.on_step(at(STEPS.index("merge"), condemn))
    await tagged.restore_tag("t")
    assert len(condemned) == 2
    assert head(tagged).condemned == condemned  # only the collector takes them off
    live = {row.revision for row in await (await tagged.snapshot()).rows()}
    assert live.isdisjoint(condemned)
    assert await contents(tagged) == BEFORE


async def test_a_restore_that_always_loses_changes_nothing(
    tagged: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "TRIES", 4)
    names = [tag.name for tag in await tagged.list_tags()]
    async with await Store.open(tagged.path, CONFIG) as other:

        async def spoil(name: str) -> None:
            if name == "merge":
                await other.commit([UpdateMeta(uri="same", sources={"n": name})])
                await other.commit([put("same", f"{other.stats.commits}")])

        tagged.on_step(spoil)
        with pytest.raises(StoreBusy, match=r"nothing was changed"):
            await tagged.restore_tag("t")
    assert head(tagged).restore_epoch == 0
    assert [tag.name for tag in await tagged.list_tags()] == names


async def test_a_full_disk_leaves_everything_as_it_was(
    tagged: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("No space left on device")

    now, names = await state(tagged), [tag.name for tag in await tagged.list_tags()]
    monkeypatch.setattr(lance.fragment, "write_fragments", fail)
    with pytest.raises(StoreError, match="No space left"):
        await tagged.restore_tag("t")
    assert await state(tagged) == now
    assert [tag.name for tag in await tagged.list_tags()] == names


async def test_a_state_of_another_embedder_or_layout_is_refused_with_a_way_out(
    tagged: Store,
) -> None:
    values = settings.read(table(tagged, schema.SETTINGS))
    names = [tag.name for tag in await tagged.list_tags()]
    for key, value, error in [
        ("identity", values["identity"].replace("vectors", "others"), IdentityMismatch),
        ("schema_version", "2", SchemaMismatch),
    ]:
        assert settings.write(table(tagged, schema.SETTINGS), {**values, key: value})
        with pytest.raises(error, match="--as-of t"):
            await tagged.restore_tag("t")
    assert [tag.name for tag in await tagged.list_tags()] == names
    with pytest.raises(TagNotFound):
        await tagged.restore_tag("other")


async def test_contents_are_copied_a_few_rows_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7 for restores: what is in memory at once does not grow with the contents (F48)."""
    small = [f"{n}" for n in range(60)]
    await store.commit([put(name, name, chunks=0) for name in small])
    for name in ("large", "huge"):
        text = name * 20_000
        await store.commit([Put(uri=name, revision=revision(text, 0, docling=b"x" * 200_000))])
    await store.create_tag("t")
    wanted = await state(store)
    monkeypatch.setattr(copying, "BATCH_BYTES", 50_000)
    monkeypatch.setattr(copying, "GROUP_BYTES", 150_000)
    datasets = {name: table(store, name) for name in schema.APPENDED}
    revisions = datasets[schema.DOCUMENTS].to_table()["revision"].to_pylist()
    reader = copying.copies(datasets, {name: f"copy of {name}" for name in revisions})
    batches = list(reader[schema.DOCUMENTS])
    assert sum(batch.num_rows for batch in batches) == 62
    assert max(batch.nbytes for batch in batches) < 400_000  # one row of a large one
    assert len(batches) < 30
    await store.commit([Delete(uri=uri) for uri in wanted])
    assert (await store.restore_tag("t")).copied == 62
    assert await state(store) == wanted
