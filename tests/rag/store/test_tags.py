"""Tags: all or nothing on five tables, whatever fails, stops or writes at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import lance
import lancedb
import pytest
from tests.rag.store.making import CONFIG, check, contents, dump, put
from tests.rag.store.racing import COUNTER, PAIR
from tests.rag.store.test_racing import Racer

from haiku.rag.exceptions import ReadOnly, StoreError, TagExists, TagNotFound, TagUnusable
from haiku.rag.store import Store, commit, schema, tags
from haiku.rag.store.changes import Delete

STEPS = [*(f"tag {table}" for table in schema.TABLES), "tag check"]


@pytest.fixture
async def filled(store: Store) -> Store:
    await store.commit([put("a", "one"), put("b", "two")])
    await store.upkeep()
    return store


def lance_tags(store: Store) -> dict[str, set[str]]:
    """Table → names of its tags."""
    return {t: set(_table(store, t).tags.list()) for t in schema.TABLES}


def _table(store: Store, name: str) -> Any:
    return lance.dataset(f"{store.path}/{name}.lance")


async def test_a_tag_is_on_all_five_tables_and_can_be_deleted(filled: Store) -> None:
    made = await filled.create_tag("release-1")
    assert made.complete
    assert made.documents == 2
    assert set(made.versions) == set(schema.TABLES)
    assert lance_tags(filled) == {table: {"release-1"} for table in schema.TABLES}
    await filled.commit([Delete(uri="a")])
    later = await filled.create_tag("release-2")
    assert await filled.list_tags() == [made, later]
    assert later.documents == 1
    assert await filled.delete_tag("release-1") == made
    assert await filled.list_tags() == [later]
    with pytest.raises(TagNotFound, match="no tag 'release-1'"):
        await filled.delete_tag("release-1")


async def test_a_name_that_exists_is_refused_and_stays(filled: Store) -> None:
    made = await filled.create_tag("x")
    await filled.commit([put("c")])
    with pytest.raises(TagExists, match="a tag x already"):
        await filled.create_tag("x")
    assert await filled.list_tags() == [made]


async def test_one_of_many_that_make_the_same_name_wins(filled: Store) -> None:
    stores = [filled, *[await Store.open(filled.path, CONFIG) for _ in range(3)]]
    for n in range(5):
        made = await asyncio.gather(
            *(store.create_tag(f"t{n}") for store in stores), return_exceptions=True
        )
        assert sum(isinstance(one, TagExists) for one in made) == 3, made
        await filled.commit([put(f"more {n}")])
    assert [tag.complete for tag in await filled.list_tags()] == [True] * 5
    for store in stores[1:]:
        await store.close()


@pytest.mark.parametrize(
    "name", ["a", "release-1", "2026-01-31-final", "v1.0_rc", "_x", "x" * 100, "main"]
)
async def test_names_that_lance_and_lancedb_take(filled: Store, name: str) -> None:
    await filled.create_tag(name)
    assert [tag.name for tag in await filled.list_tags()] == [name]
    table = lancedb.connect(filled.path).open_table("chunks")
    assert set(table.tags.list()) == {name}


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "a/b",
        ".",
        "..",
        "a..b",
        ".a",
        "a.",
        "-a",
        "é",
        "x.lock",
        "x" * 101,
        "a\n",
        "5",
        "2026-01-31",
        "20260131T1200",
        "2026-W05",
    ],
)
async def test_names_that_cannot_be_are_refused_before_anything_is_made(
    filled: Store, name: str
) -> None:
    with pytest.raises(StoreError, match="cannot be the name of a tag"):
        await filled.create_tag(name)
    assert await filled.list_tags() == []


def noting(seen: list[str]) -> Callable[[str], Awaitable[None]]:
    """A step hook that writes down the steps."""
    seen.clear()

    async def step(name: str) -> None:
        seen.append(name)

    return step


async def test_failing_at_every_step_leaves_nothing(filled: Store) -> None:
    seen: list[str] = []
    for number, name in enumerate(STEPS):
        seen.clear()

        async def fail(step: str, number: int = number) -> None:
            seen.append(step)
            if len(seen) == number + 1:
                raise RuntimeError("injected")

        filled.on_step(fail)
        with pytest.raises(RuntimeError):
            await filled.create_tag("t")
        assert seen[-1] == name
        assert await filled.list_tags() == []
    filled.on_step(noting(seen))
    assert (await filled.create_tag("t")).complete
    assert seen == STEPS


async def test_cancelling_at_every_step_leaves_nothing(filled: Store) -> None:
    for name in STEPS:
        reached = asyncio.Event()

        async def stall(step: str, name: str = name, reached: asyncio.Event = reached) -> None:
            if step == name:
                reached.set()
                await asyncio.sleep(60)

        filled.on_step(stall)
        task = asyncio.create_task(filled.create_tag("t"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await filled.list_tags() == []


@pytest.mark.parametrize("number", range(1, len(schema.TABLES)))
async def test_a_crash_between_two_tables_leaves_a_partial_tag(
    filled: Store, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(step: str) -> None:
        if step == STEPS[number]:
            raise SystemExit

    async def nothing(*_: object) -> None:
        """What a process that is gone tidies up."""

    with monkeypatch.context() as patch:
        patch.setattr(tags.Tags, "_undo", nothing)
        filled.on_step(die)
        with pytest.raises(SystemExit):
            await filled.create_tag("t")
    filled.on_step(commit.no_step)
    (tag,) = await filled.list_tags()
    assert not tag.complete
    assert list(tag.missing) == list(schema.TABLES[number:])
    assert tag.documents == 2
    with pytest.raises(TagUnusable, match=r"partial: it is missing on .*settings"):
        await filled.restore_tag("t")
    with pytest.raises(TagUnusable, match="partial"):
        await Store.open(filled.path, CONFIG, as_of="t")
    with pytest.raises(TagExists, match="partial: missing on"):
        await filled.create_tag("t")
    assert await contents(filled) == {"a": "one", "b": "two"}
    await filled.delete_tag("t")
    assert lance_tags(filled) == {table: set() for table in schema.TABLES}
    assert (await filled.create_tag("t")).complete


async def test_a_deletion_that_is_broken_off_leaves_a_partial_tag(filled: Store) -> None:
    await filled.create_tag("t")

    async def fail(step: str) -> None:
        if step == "untag documents":
            raise RuntimeError("injected")

    filled.on_step(fail)
    with pytest.raises(RuntimeError):
        await filled.delete_tag("t")
    (tag,) = await filled.list_tags()
    assert set(tag.versions) == {schema.META, schema.DOCUMENTS}
    filled.on_step(commit.no_step)
    await filled.delete_tag("t")
    assert await filled.list_tags() == []


async def test_a_foreign_tag_on_one_table_is_partial_and_never_taken_over(filled: Store) -> None:
    """Made by hand with LanceDB, between the look and the creation."""

    async def overtake(step: str) -> None:
        if step == "tag chunks":
            _table(filled, "chunks").tags.create("t", 1)

    filled.on_step(overtake)
    with pytest.raises(TagExists):
        await filled.create_tag("t")
    (tag,) = await filled.list_tags()
    assert tag.versions == {"chunks": 1}
    assert tag.documents is None


async def test_versions_that_are_cleaned_up_meanwhile_are_taken_again(filled: Store) -> None:
    """A cleanup of age 0, which no upkeep of ours does."""
    seen = []

    async def clean(step: str) -> None:
        seen.append(step)
        if seen.count(step) == 1 and step in ("tag chunks", "tag check"):
            async with await Store.open(filled.path, CONFIG) as other:
                await other.commit([put("c", f"new {len(seen)}")])
            if step == "tag chunks":
                _clean(filled, "chunks")

    filled.on_step(clean)
    tag = await filled.create_tag("t")
    assert seen.count("tag document_meta") == 2
    assert tag.complete
    async with await Store.open(filled.path, CONFIG, as_of="t") as then:
        assert (await contents(then))["c"] == "new 4"


def _clean(store: Store, table: str) -> None:
    _table(store, table).cleanup_old_versions(
        timedelta(0), error_if_tagged_old_versions=False, delete_unverified=True
    )


async def test_a_database_that_lacks_rows_is_not_tagged(filled: Store) -> None:
    _table(filled, "chunks").delete("`order` = 1")
    async with await Store.open(filled.path, CONFIG) as store:
        with pytest.raises(StoreError, match="rows of live documents are missing"):
            await store.create_tag("t")
        assert await store.list_tags() == []


async def test_a_reader_lists_tags_and_makes_none(filled: Store) -> None:
    made = await filled.create_tag("t")
    async with await Store.open(filled.path, CONFIG, read_only=True) as reader:
        assert await reader.list_tags() == [made]
        with pytest.raises(ReadOnly):
            await reader.create_tag("u")
        with pytest.raises(ReadOnly):
            await reader.delete_tag("t")
        with pytest.raises(ReadOnly):
            await reader.restore_tag("t")


@pytest.mark.slow
async def test_tags_and_restores_while_four_processes_write(store: Store) -> None:
    """S5: each tag is one state of the database; restored at once, it is that state to the byte."""
    await store.commit([put(COUNTER, metadata={"n": 0}), *(put(f"{PAIR[0]}/{n}") for n in "ab")])
    writers = [Racer("write", store.path, f"writer{n}", "6") for n in range(4)]
    await asyncio.gather(*(writer.start() for writer in writers))
    for writer in writers:
        writer.begin()
    over = asyncio.ensure_future(asyncio.gather(*(writer.end() for writer in writers)))
    names, restored = [], {}
    while not over.done():
        names.append((await store.create_tag(f"t{len(names)}")).name)
        if len(names) % 4 == 0:
            report = await store.restore_tag(names[-2])
            (entry,) = [e for e in await store.history(50) if e.restored][:1]
            restored[entry.version] = names[-2]
            assert report.documents == entry.documents
    for writer in await over:
        assert writer["upkeep_errors"] is None
    assert len(names) > 3
    assert restored
    states = {}
    for name in names:
        async with await Store.open(store.path, CONFIG, as_of=name) as then:
            snapshot = await then.snapshot()
            found = await check(snapshot)
            assert len([uri for uri in found if uri.split("/")[0] in PAIR]) == 2
            assert len({uri.split("/")[0] for uri in found} & set(PAIR)) == 1
            states[name] = await dump(snapshot)
    for version, name in restored.items():
        async with await Store.open(store.path, CONFIG, as_of=version) as then:
            assert await dump(await then.snapshot()) == states[name]
    await contents(store)
