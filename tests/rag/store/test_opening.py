"""Creating, opening, refusing: F47, S8, identity, schema versions, migration."""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.rag.store.making import CONFIG, IDENTITY, contents, put, unit

from haiku.rag.exceptions import (
    DatabaseExists,
    DatabaseNotFound,
    IdentityMismatch,
    ReadOnly,
    SchemaMismatch,
    StoreError,
)
from haiku.rag.records import EmbeddingIdentity
from haiku.rag.store import Store, migrations, records, schema, settings
from haiku.rag.store.tables import Tables

OTHER = EmbeddingIdentity(provider="other", name="model", dim=16)


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("read_only", [False, True])
async def test_opening_what_is_not_there_creates_nothing(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    before = tree(tmp_path)
    for name in ("none", "deep/er/none", "file", "folder", "file/below"):
        with pytest.raises(DatabaseNotFound, match="haiku-rag init"):
            await Store.open(tmp_path / name, CONFIG, read_only=read_only)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["plain", "sp ace [x]#1%20?.lancedb", "O'Brien & ü", "s3:x"])
async def test_any_folder_name_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await Store.create(name, IDENTITY, CONFIG) as store:
        assert store.path == str(tmp_path / name)
        await store.commit([put("a")])
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert sorted(p.stem for p in (tmp_path / name).iterdir()) == sorted(schema.TABLES)
    async with await Store.open((tmp_path / name).as_uri(), CONFIG) as store:
        assert await contents(store) == {"a": "text"}


async def test_a_database_is_created_once(store: Store) -> None:
    await store.commit([put("a")])
    with pytest.raises(DatabaseExists, match="open it"):
        await Store.create(store.path, IDENTITY, CONFIG)
    assert await contents(store) == {"a": "text"}


async def test_of_many_that_create_at_once_one_wins(path: Path) -> None:
    tries = [Store.create(path, IDENTITY, CONFIG) for _ in range(5)]
    made = await asyncio.gather(*tries, return_exceptions=True)
    stores = [s for s in made if isinstance(s, Store)]
    assert len(stores) == 1
    assert {type(m) for m in made} == {Store, DatabaseExists}
    await stores[0].commit([put("a")])
    assert await contents(stores[0]) == {"a": "text"}
    await stores[0].close()


async def test_a_killed_creation_is_completed_by_the_next(path: Path) -> None:
    async with await Store.create(path, IDENTITY, CONFIG):
        pass
    for file in sorted((path / "settings.lance").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (path / "settings.lance").rmdir()
    with pytest.raises(DatabaseNotFound):
        await Store.open(path, CONFIG)
    with pytest.raises(StoreError, match="remove the folder"):
        await Store.create(path, OTHER, CONFIG)
    async with await Store.create(path, IDENTITY, CONFIG) as store:
        await store.commit([put("a")])
        assert await contents(store) == {"a": "text"}


async def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file"):
        await Store.create(tmp_path / "file" / "db", IDENTITY, CONFIG)


@pytest.mark.parametrize("name", ["new\nline", "bell\x07", os.fsdecode(b"byte\xff")])
async def test_a_name_that_lance_cannot_write_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="choose another"):
        await Store.create(tmp_path / name, IDENTITY, CONFIG)
    assert list(tmp_path.iterdir()) == []


async def test_another_embedder_is_refused_with_the_way_out(store: Store) -> None:
    with pytest.raises(
        IdentityMismatch,
        match=r"provider test, name vectors.*haiku-rag rebuild --db '.*db.lancedb'`",
    ):
        await Store.open(store.path, CONFIG, identity=OTHER)
    async with await Store.open(store.path, CONFIG) as same:
        assert same.identity == IDENTITY


@pytest.fixture
def unwritable(path: Path) -> Iterator[None]:
    folders = [p for p in (path, *path.rglob("*")) if p.is_dir()]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    yield
    for folder in folders:
        folder.chmod(stat.S_IRWXU)


async def test_a_reader_changes_nothing(store: Store, path: Path) -> None:
    await store.commit([put("a", "alpha"), put("b", "beta")])
    await store.upkeep()
    await store.close()
    before = tree(path)
    async with await Store.open(path, CONFIG, identity=IDENTITY, read_only=True) as reader:
        assert len(await contents(reader)) == 2
        snapshot = await reader.snapshot()
        assert await snapshot.text_search("alpha", 5)
        assert await snapshot.vector_search(unit("x"), 5)
        assert (await reader.info()).documents == 2
        for write in (reader.commit([put("c")]), reader.upkeep()):
            with pytest.raises(ReadOnly, match="reading only"):
                await write
    assert tree(path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
async def test_a_reader_needs_no_right_to_write(store: Store, path: Path, unwritable: None) -> None:
    async with await Store.open(path, CONFIG, read_only=True) as reader:
        assert await contents(reader) == {}


async def test_a_missing_table_is_not_a_missing_database(store: Store, path: Path) -> None:
    await store.close()
    shutil.rmtree(path / "chunks.lance")
    with pytest.raises(StoreError, match="damaged: one of its tables is missing"):
        await Store.open(path, CONFIG)


def change_settings(path: Path, **values: Any) -> None:
    dataset = lance.dataset(str(path / "settings.lance"))
    changed = {**settings.read(dataset), **{k: str(v) for k, v in values.items()}}
    assert settings.write(dataset, changed)


async def test_settings_without_sense_are_refused(store: Store, path: Path) -> None:
    change_settings(path, identity="{}")
    with pytest.raises(StoreError, match="settings are damaged"):
        await Store.open(path, CONFIG)


async def test_newer_databases_are_refused_as_they_ask(store: Store, path: Path) -> None:
    newer = schema.SCHEMA_VERSION + 1
    change_settings(path, schema_version=newer, min_writer=newer)
    async with await Store.open(path, CONFIG, read_only=True):
        pass
    with pytest.raises(SchemaMismatch, match=r"written by.*pip install --upgrade"):
        await Store.open(path, CONFIG)
    change_settings(path, min_reader=newer)
    with pytest.raises(SchemaMismatch, match=r"read by.*pip install --upgrade"):
        await Store.open(path, CONFIG, read_only=True)


async def test_settings_have_one_writer_at_a_time(store: Store, path: Path) -> None:
    first, second = (lance.dataset(str(path / "settings.lance")) for _ in range(2))
    values = settings.read(first)
    assert settings.write(first, {**values, "a": "1"})
    assert not settings.write(second, {**values, "b": "2"})
    assert settings.read(lance.dataset(str(path / "settings.lance"))) == {**values, "a": "1"}


# --- migration: a database of version 0, which knew no content types and had no head row ---------


def version_0(path: Path) -> None:
    """Turn a database of today into one of an artificial older version."""
    meta = lance.dataset(str(path / "document_meta.lance"))
    meta.delete("state = 'head'")
    meta.drop_columns(["content_type"])
    change_settings(path, schema_version=0, min_reader=0, min_writer=0)


def step_0(tables: Tables) -> None:
    """To version 1; may run twice."""
    from datetime import UTC, datetime

    meta = tables.latest(schema.META)
    if "content_type" not in meta.schema.names:
        meta.add_columns({"content_type": "CAST(NULL AS STRING)"})
    head = records.meta_table([], records.Head(row_version="first"), datetime.now(UTC))
    meta = tables.latest(schema.META)
    merge = meta.merge_insert("uri").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(head.select(meta.schema.names).cast(meta.schema))


@pytest.fixture
async def old(store: Store, path: Path) -> Path:
    await store.commit([put("a", "alpha"), put("b", "beta")])
    await store.close()
    version_0(path)
    return path


async def test_the_first_writer_migrates(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SchemaMismatch, match=r"older.*haiku-ingester serve"):
        await Store.open(old, CONFIG, read_only=True)
    with pytest.raises(SchemaMismatch, match="no way from it"):
        await Store.open(old, CONFIG)
    change_settings(old, migration="")  # what the failed try left is no longer looked at
    monkeypatch.setitem(migrations.STEPS, 0, step_0)
    async with await Store.open(old, CONFIG) as store:
        await store.commit([put("c", "gamma")])
        assert await contents(store) == {"a": "alpha", "b": "beta", "c": "gamma"}
        assert (await store.info()).schema_version == schema.SCHEMA_VERSION
    async with await Store.open(old, CONFIG, read_only=True) as store:
        assert len(await contents(store)) == 3


async def test_two_writers_migrate_once_and_a_dead_one_is_replaced(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def counted(tables: Tables) -> None:
        ran.append("step")
        step_0(tables)

    monkeypatch.setitem(migrations.STEPS, 0, counted)
    monkeypatch.setattr(migrations, "LEASE", 0.6)
    monkeypatch.setattr(migrations, "LOOK", 0.05)
    change_settings(old, migration="a process that was killed")
    stores = await asyncio.gather(*(Store.open(old, CONFIG) for _ in range(2)))
    assert ran == ["step"]
    for store in stores:
        assert await contents(store) == {"a": "alpha", "b": "beta"}
        await store.close()


async def test_a_failed_step_leaves_its_version_and_runs_again(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halfway(tables: Tables) -> None:
        tables.latest(schema.META).add_columns({"content_type": "CAST(NULL AS STRING)"})
        raise OSError("the disk is full")

    monkeypatch.setattr(migrations, "LEASE", 0.1)
    monkeypatch.setattr(migrations, "LOOK", 0.02)
    monkeypatch.setitem(migrations.STEPS, 0, halfway)
    with pytest.raises(OSError, match="full"):
        await Store.open(old, CONFIG)
    monkeypatch.setitem(migrations.STEPS, 0, step_0)
    async with await Store.open(old, CONFIG) as store:
        assert await contents(store) == {"a": "alpha", "b": "beta"}
