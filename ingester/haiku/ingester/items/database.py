"""The connection to the items database: opening, migrating, reading, writing.

The one place that knows about dialects. SQLite runs in WAL mode, so that readers never wait;
writes begin IMMEDIATE, so that a transaction that read first can never lose its turn half way.
Inside a process writes take turns by a lock, which is fair; between processes the busy timeout
does. A write that was begun is carried to its end even when its caller is cancelled.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from haiku.ingester.exceptions import ItemsUnavailable, NotKnown
from haiku.ingester.items import tables
from haiku.ingester.items.witness import Witness
from haiku.rag.finishing import finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sqlalchemy import Connection

T = TypeVar("T")

#: Seconds between tries to switch a SQLite file to its write-ahead log.
WAL_PAUSES = (0.01, 0.02, 0.03) + (0.04,) * 50
#: What to do about a file that cannot be used.
LOSABLE = (
    "the file, and its -wal and -shm, may be deleted: no document is lost, and the items are "
    "learnt again from the documents' database and the sources"
)
#: What SQLite says → what to do.
_ADVICE = {
    "file is not a database": LOSABLE,
    "database disk image is malformed": LOSABLE,
    "readonly database": "its file and folder must be writable for the user that runs this, also "
    "to look at it",
}
BUSY_TIMEOUT = 30.0  # seconds that a write waits for another process's


class Database:
    """An open items database."""

    def __init__(self, engine: AsyncEngine, witness: Witness) -> None:
        self._engine = engine
        self._witness = witness
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self.name = engine.url.render_as_string(hide_password=True)

    @classmethod
    async def open(cls, url: str, *, create: bool = True) -> Database:
        """Connect, and bring the schema to today's version.

        Args:
            url: SQLAlchemy URL; `sqlite:///…` is understood.
            create: make a SQLite database that is not there; False: refuse.

        Raises:
            NotKnown: no such database, and `create` is False.
            ItemsUnavailable: no permission, or a schema from a newer version.
        """
        parsed = _parse(url)
        _prepare_file(parsed, create)
        database = cls(_engine(parsed), Witness(None))
        try:
            if not await database.read(_is_current):
                await database.write(_migrate)
            database._witness = Witness(_file(parsed))
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Let writes that were begun end, then close the connections."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._witness.close()
        await self._engine.dispose()

    def written(self) -> int | None:
        """Changes with every commit of any process; None: that cannot be told."""
        return self._witness.token()

    async def read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run `work` on a connection of its own. Raises ItemsUnavailable."""
        async with self.connection() as connection:
            return await work(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading, e.g. for streams. Raises ItemsUnavailable."""
        try:
            async with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._unavailable(error) from error

    async def write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run `work` in one transaction, to its end: cancelling the caller does not undo it.

        Raises:
            ItemsUnavailable: the database is locked, full, or gone; nothing was written.
        """
        task = asyncio.ensure_future(self._transaction(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await finish(task)

    async def _transaction(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        try:
            async with self._turn, self._engine.connect() as plain:
                connection = await plain.execution_options(immediate=True)
                async with connection.begin():
                    return await work(connection)
        except DBAPIError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: DBAPIError) -> ItemsUnavailable:
        advice = next((f"; {a}" for said, a in _ADVICE.items() if said in str(error.orig)), "")
        return ItemsUnavailable(f"items database {self.name}: {error.orig}{advice}")


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ItemsUnavailable(
            "ingester.items_db is not a database URL; write e.g. sqlite:////var/lib/haiku/items.db"
        ) from None
    return parsed.set(drivername="sqlite+aiosqlite") if parsed.drivername == "sqlite" else parsed


def _file(url: URL) -> str | None:
    """The file of a SQLite database that is one."""
    if url.get_backend_name() != "sqlite" or url.database == ":memory:":
        return None
    return url.database or None


def _prepare_file(url: URL, create: bool) -> None:
    """Make the folder of a SQLite file, or refuse when the file must be there already."""
    name = _file(url)
    if name is None:
        return
    file = Path(name)
    if not create and not file.exists():
        raise NotKnown(f"no items database at {file}; has the daemon run here before?")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ItemsUnavailable(
            f"the folder of the items database {file} cannot be made: {error}"
        ) from error


def _engine(url: URL) -> AsyncEngine:
    sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = create_async_engine(
            url, connect_args={"timeout": BUSY_TIMEOUT} if sqlite else {}, pool_pre_ping=not sqlite
        )
    except (ImportError, NoSuchModuleError) as error:
        raise ItemsUnavailable(f"no driver for {url.drivername} is installed: {error}") from error
    if sqlite:
        event.listen(engine.sync_engine, "connect", _configure_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    cursor = connection.cursor()
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Switch to the write-ahead log; the busy timeout does not cover two that do so at once."""
    for pause in WAL_PAUSES:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(pause)
        else:
            return
    cursor.execute("PRAGMA journal_mode=WAL")


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


async def _is_current(connection: AsyncConnection) -> bool:
    """Whether the schema is today's: a quick look that spares loading Alembic."""

    def look(sync: Connection) -> bool:
        if not sync.dialect.has_table(sync, "alembic_version"):
            return False
        version = sync.scalar(text("SELECT version_num FROM alembic_version"))
        return bool(version == tables.HEAD)

    return await connection.run_sync(look)


async def _migrate(connection: AsyncConnection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    def upgrade(sync: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = sync
        command.upgrade(config, "head")

    try:
        await connection.run_sync(upgrade)
    except CommandError as error:
        raise ItemsUnavailable(
            f"the items database was written by a newer haiku-ingester ({error}); use that "
            f"version, or: {LOSABLE}"
        ) from error
