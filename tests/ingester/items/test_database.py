"""Opening, migrating, sharing and losing the items database."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from haiku.ingester.config import WorkConfig
from haiku.ingester.exceptions import ItemsUnavailable, NotKnown
from haiku.ingester.items import Items, Observation, tables
from haiku.ingester.items.database import _use_wal


def url(tmp_path: Path, name: str = "items.db") -> str:
    return f"sqlite:///{tmp_path / name}"


async def opened(address: str, **more: object) -> Items:
    return await Items.open(address, "one", WorkConfig(), **more)


async def test_the_migrations_make_what_the_program_expects(tmp_path: Path):
    items = await opened(url(tmp_path))
    await items.close()
    with create_engine(url(tmp_path)).connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, tables.metadata) == []
        assert context.get_current_revision() == tables.HEAD


async def test_an_older_database_keeps_its_items(tmp_path: Path):
    items = await opened(url(tmp_path))
    await items.observe("docs", [Observation("a", "1")], live=True)
    await items.close()
    with sqlite3.connect(tmp_path / "items.db") as connection:
        connection.execute("ALTER TABLE items DROP COLUMN slow")
        connection.execute("ALTER TABLE sources DROP COLUMN restore_epoch")
        connection.execute("ALTER TABLE sources DROP COLUMN held_since")
        connection.execute("DROP TABLE schedules")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    items = await opened(url(tmp_path))
    assert [claim.uri for claim in await items.claim(1)] == ["a"]
    await items.close()


async def test_it_runs_in_wal_mode_and_folders_are_made(tmp_path: Path):
    items = await opened(url(tmp_path, "some/folder/items.db"))
    await items.close()
    with sqlite3.connect(tmp_path / "some/folder/items.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_opening_at_once_migrates_once(tmp_path: Path):
    several = await asyncio.gather(*(opened(url(tmp_path)) for _ in range(4)))
    for items in several:
        assert await items.counts() == {}
        await items.close()


async def test_a_reader_creates_nothing(tmp_path: Path):
    with pytest.raises(NotKnown, match="no items database at"):
        await opened(url(tmp_path), create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("not a url", "not a database URL"),
        ("sqlite:////proc/nowhere/items.db", "cannot be made"),
        ("nosuchthing://host/db", "no driver"),
    ],
)
async def test_an_address_that_cannot_be_used_is_named(address: str, message: str):
    with pytest.raises(ItemsUnavailable, match=message):
        await opened(address)


async def test_a_newer_schema_is_refused_with_the_way_out(tmp_path: Path):
    items = await opened(url(tmp_path))
    await items.close()
    with sqlite3.connect(tmp_path / "items.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ItemsUnavailable, match=r"newer haiku-ingester.*may be deleted"):
        await opened(url(tmp_path))


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path):
    (tmp_path / "items.db").write_bytes(b"This is a letter, not a database. " * 200)
    with pytest.raises(ItemsUnavailable, match="not a database"):
        await opened(url(tmp_path))


async def test_ten_thousand_new_objects_are_known_batch_by_batch(tmp_path: Path):  # F63
    items = await opened(url(tmp_path))
    batch = [Observation(f"file:///folder/{n}.md", f"{n}", n, f"1:{n}") for n in range(10_000)]
    for start in range(0, len(batch), 1000):
        observed = await items.observe("docs", batch[start : start + 1000], live=False)
        assert observed.new == 1000
        assert len(await items.claim(1)) == 1  # work is handed out meanwhile
    assert len(await items.known("docs")) == 10_000
    assert (await items.observe("docs", batch, live=False)).unchanged == 10_000
    assert await items.gone("docs", [o.uri for o in batch[5000:]], live=False) == 5000
    assert len(await items.known("docs")) == 5000
    await items.close()


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path):  # F28
    items = await opened(url(tmp_path))
    await items.observe("docs", [Observation("a", "1")], live=True)
    with sqlite3.connect(tmp_path / "items.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await asyncio.wait_for(items.counts(), 5))["docs"]
        writing = asyncio.create_task(items.observe("docs", [Observation("b", "1")], live=True))
        await asyncio.sleep(0.1)
        assert not writing.done()  # it waits its turn, and gets it
        other.execute("ROLLBACK")
        assert (await asyncio.wait_for(writing, 20)).new == 1
    await items.close()


async def test_a_cancelled_write_is_whole(tmp_path: Path):
    items = await opened(url(tmp_path))
    for steps in range(0, 30, 3):
        batch = [Observation(f"{steps}/{n}", "1") for n in range(50)]
        task = asyncio.create_task(items.observe("docs", batch, live=True))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        known = await items.known("docs")
        assert sum(uri.startswith(f"{steps}/") for uri in known) in (0, 50)
    await items.close()


def test_switching_to_the_log_waits_for_another_that_does(tmp_path: Path) -> None:
    file = tmp_path / "items.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.2, other.execute, ["COMMIT"]).start()
    mine = sqlite3.connect(file, timeout=0.0)
    _use_wal(mine.cursor())
    assert mine.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_file_that_is_no_database_may_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "items.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ItemsUnavailable, match=r"file is not a database; .* may be deleted") as one:
        await Items.open(f"sqlite:///{tmp_path}/items.sqlite", "one", WorkConfig())
    assert "learnt again" in str(one.value)


async def test_what_is_read_only_must_be_writable(tmp_path: Path) -> None:
    items = await opened(url(tmp_path))

    async def refused(_: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        raise OperationalError("UPDATE", {}, error)

    with pytest.raises(ItemsUnavailable, match="must be writable"):
        await items._database.read(refused)
    await items.close()
