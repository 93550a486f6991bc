"""Making a database, and opening what is there: every refusal is here. Blocking."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from haiku.rag import ids, uris
from haiku.rag.exceptions import DatabaseExists, DatabaseNotFound, StoreBusy, StoreError
from haiku.rag.store import migrations, records, replacing, schema, settings, travel
from haiku.rag.store.tables import Tables, create_table, open_table, table_exists

if TYPE_CHECKING:
    from haiku.rag.records import EmbeddingIdentity
    from haiku.rag.store.settings import Settings
    from haiku.rag.store.states import AsOf


def create(
    database: str,
    identity: EmbeddingIdentity,
    *,
    made_by: str | None = None,
    note: str | None = None,
) -> None:
    """Make the tables, `settings` last: a database without it does not exist.

    Args:
        database: where.
        identity: of the vectors to come.
        made_by: the rebuild that makes it, if one does; see `records.Marks`.
        note: what that rebuild wants to know of it when it is broken off and resumed.

    Raises:
        DatabaseExists: there is one already.
        StoreError: the place cannot be written, or is inside of another database.
    """
    if table_exists(database, schema.SETTINGS):
        raise DatabaseExists(
            f"a database is already at {database}; open it, or choose another path"
        )
    if made_by is None:
        check_apart(database)
    if not uris.is_uri(database):
        _make_folder(database)
    marks = records.Marks(made_by=made_by)
    head = records.Head(row_version=ids.new_token(), marks=marks)
    create_table(database, schema.META, records.meta_table([], head, datetime.now(UTC)))
    create_table(database, schema.DOCUMENTS, schema.documents().empty_table())
    create_table(database, schema.ITEMS, schema.items().empty_table())
    create_table(database, schema.CHUNKS, schema.chunks(identity.dim).empty_table())
    _check_left_over(database, identity)
    values = settings.initial(identity) | ({replacing.NOTE: note} if note else {})
    if not create_table(database, schema.SETTINGS, settings.as_table(values)):
        raise DatabaseExists(f"another process has just made a database at {database}; open it")


def check_apart(database: str) -> None:
    """Refuse a place in the folder of another database, where only its rebuilds make any.

    Raises:
        StoreError: the message names the other one.
    """
    if uris.is_uri(database):
        return
    for folder in Path(database).resolve().parents:
        if table_exists(str(folder), schema.SETTINGS):
            raise StoreError(
                f"no database can be made at {database}: it would be inside the folder of the "
                f"database {folder}; choose a place outside of it"
            )


def _make_folder(database: str) -> None:
    if any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in database):
        raise StoreError(
            f"no database can be made at {database!r}: the path has control characters or is not "
            "UTF-8; choose another"
        )
    try:
        Path(database).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"no database can be made at {database}: {error}") from error


def _check_left_over(database: str, identity: EmbeddingIdentity) -> None:
    """Refuse the tables that a creation for another embedder left when it was killed."""
    dim = open_table(database, schema.CHUNKS).schema.field("vector").type.list_size
    if dim != identity.dim:
        raise StoreError(
            f"{database} holds an unfinished database for vectors of length {dim}; remove the "
            "folder and create it again"
        )


def open_tables(
    root: str,
    collect_after: float,
    *,
    identity: EmbeddingIdentity | None,
    read_only: bool,
    as_of: AsOf | None,
    unfinished: bool,
) -> tuple[Tables, Settings]:
    """The tables of the database at `root`, and what its settings say; see `Store.open`.

    A database that was rebuilt has them in a folder below its own.
    """
    settings.parse(settings.read(open_table(root, schema.SETTINGS)), root)
    place, marks = replacing.current(root)
    if marks is not None and marks.made_by and place == root and not unfinished:
        raise StoreBusy(
            f"{root} is being made by a rebuild, or one that was broken off has left it; "
            "run that rebuild again"
        )
    tables = Tables(place, collect_after)
    if as_of is not None:
        tables.fix(travel.at(place, as_of))
    return tables, _checked(root, tables, identity, read_only)


def _checked(
    root: str, tables: Tables, identity: EmbeddingIdentity | None, read_only: bool
) -> Settings:
    found = settings.parse(settings.read(tables.latest(schema.SETTINGS)), root)
    settings.check_schema(found, root, read_only=read_only)
    if identity is not None:
        settings.check_identity(found.identity, identity, root)
    if not read_only and found.schema_version < schema.SCHEMA_VERSION:
        found = migrations.migrate(tables)
    try:
        tables.view()
    except DatabaseNotFound as error:
        raise StoreError(
            f"{root} is damaged: one of its tables is missing; restore the folder from "
            "a copy, or make a new database"
        ) from error
    return found
