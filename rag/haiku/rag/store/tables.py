"""Handles on the tables: opened once, checked out at a version without opening again."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haiku.rag import uris
from haiku.rag.exceptions import DatabaseNotFound, DatabaseReplaced, StoreError
from haiku.rag.store import naming, schema
from haiku.rag.store.forking import check_process
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

#: Seconds after which the appended tables are looked at again though no commit was made: another
#: process may have improved their indexes.
REFRESH_AFTER = 5.0


#: Key in the configuration of `document_meta` by which its readers learn of a rebuild: it is in
#: the manifest that they have, and costs nothing to look at.
REPLACED = "haiku.replaced_by"

#: How Lance and Arrow say that a file is not there.
LOSSES = (OSError, ValueError)


def locate(path: str | os.PathLike[str]) -> str:
    """The absolute path of a local database, or the URI of a remote one."""
    text = os.fspath(path)
    if text.lower().startswith("file://"):
        return str(uris.uri_to_path(text))
    return text if uris.is_uri(text) else str(Path(text).absolute())


def table_path(database: str, table: str) -> str:
    """Where a table is: the layout of LanceDB."""
    return f"{database.rstrip('/')}/{table}.lance"


def open_table(database: str, table: str, cache: int | None = None) -> Any:
    """The latest version of a table.

    Args:
        database: where it is.
        table: its name.
        cache: bytes that Lance may keep of what it has read, beside as much of its indexes; None:
            its default of a gigabyte and more, which large values fill.

    Raises:
        DatabaseNotFound: there is no such table.
        StoreError: there is something, and Lance cannot read it.
    """
    import lance

    check_process()
    path = table_path(database, table)
    if not uris.is_uri(path) and not Path(path).is_dir():
        raise _not_found(database)
    try:
        return lance.dataset(path, metadata_cache_size_bytes=cache, index_cache_size_bytes=cache)
    except (ValueError, OSError) as error:
        if "not found" in str(error).lower():
            raise _not_found(database) from None
        raise StoreError(f"the table {table} of {database} cannot be read: {error}") from error


def _not_found(database: str) -> DatabaseNotFound:
    return DatabaseNotFound(
        f"no database at {database}; create one with `haiku-rag init --db {database}`"
    )


def replaced(database: str) -> DatabaseReplaced:
    """The error for what has a database open that a rebuild has replaced."""
    return DatabaseReplaced(
        f"{database} was rebuilt while it was open here, and nothing is read from or written to "
        "what it was before; open it again, with the embedder it was rebuilt for"
    )


def create_table(database: str, table: str, rows: pa.Table) -> bool:
    """Create a table with its first rows; False when there is one already.

    Lance's own "create" lets a second creator write over the first: it checks before it writes.
    Here the commit itself is exclusive.

    Raises:
        StoreError: it cannot be written.
    """
    import lance
    from lance.fragment import write_fragments

    path = table_path(database, table)
    try:
        fragments = write_fragments(rows, path, mode="create") if rows.num_rows else []
        first = lance.LanceOperation.Overwrite(rows.schema, fragments)
        lance.LanceDataset.commit(path, first, max_retries=0)
    except OSError as error:
        if table_exists(database, table):
            return False
        raise StoreError(f"the table {table} cannot be created in {database}: {error}") from error
    return True


def table_exists(database: str, table: str) -> bool:
    try:
        open_table(database, table)
    except DatabaseNotFound:
        return False
    return True


def size_on_disk(database: str) -> int | None:
    """Bytes of all files; None where the storage does not tell cheaply."""
    if uris.is_uri(database):
        return None
    return sum(_size(path) for path in Path(database).rglob("*"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # cleaned up meanwhile
        return 0


def is_lost(error: BaseException) -> bool:
    """Whether a version, or a file of it, was removed before it could be read."""
    text = str(error).lower()
    return isinstance(error, LOSSES) and "not found" in text and ".lance/" in text


def versions(dataset: Any) -> list[int]:
    """The kept versions of a table, the oldest first."""
    return sorted(int(ref["version"]) for ref in dataset.version_refs())


def latest(dataset: Any) -> Any:
    """The dataset at its latest version; itself when it is."""
    version = dataset.latest_version
    return dataset if version == dataset.version else dataset.checkout_version(version)


@dataclass(frozen=True, slots=True)
class View:
    """Every table a reader needs, at versions that belong together."""

    #: Lance datasets by table name, each fixed at a version.
    datasets: Mapping[str, Any]
    #: `clock()` before the version of `document_meta` was taken.
    taken_at: float
    #: Revisions that searches have found to be live here, for those that come after.
    live: set[str] = field(default_factory=set)

    @property
    def meta(self) -> Any:
        """`document_meta`."""
        return self.datasets[schema.META]


class Tables:
    """The tables of one open database. Safe to use from several threads."""

    def __init__(self, database: str, collect_after: float) -> None:
        self.database = database
        #: Seconds within which the versions of a view must have been taken.
        self._grace = collect_after / 2
        self._lock = threading.Lock()
        self._datasets: dict[str, Any] = {}
        #: Tables that stay at the version they are at.
        self._fixed: frozenset[str] = frozenset()
        self._view: View | None = None

    @property
    def name(self) -> str:
        """What the user calls the database."""
        return naming.name_of(self.database)

    def latest(self, table: str) -> Any:
        """One table at its latest version."""
        with self._lock:
            return self._latest(table)

    def adopt(self, table: str, dataset: Any) -> None:
        """Take over the handle that a write of ours returned, which knows the newest version."""
        with self._lock:
            self._datasets[table] = dataset

    def view(self) -> View:
        """The newest consistent view: `document_meta` first, the others at or after it.

        While no commit was made the last view is given again: whatever a commit makes visible
        was appended before it.
        """
        with self._lock:
            view = self._view
            started = clock()
            meta = self._latest(schema.META)
            if (
                view is None
                or meta.version != view.meta.version
                or started - view.taken_at > REFRESH_AFTER
            ):
                view = self._view = self._take(started)
            return view

    def newest(self) -> View:
        """A view none of whose versions is older than this call."""
        with self._lock:
            return self._take(clock())

    def check(self) -> None:
        """Refuse to go on when a rebuild has replaced the database.

        Raises:
            DatabaseReplaced: it has.
        """
        _refuse_replaced(self.database, open_table(self.database, schema.META))

    def fix(self, datasets: Mapping[str, Any]) -> None:
        """From now on give these tables as they are, whatever is committed."""
        with self._lock:
            self._datasets.update(datasets)
            self._fixed = frozenset(datasets)

    def _take(self, started: float) -> View:
        while True:
            datasets = {table: self._latest(table) for table in schema.READ}
            if clock() - started <= self._grace:
                return View(datasets, started)
            started = clock()

    def _latest(self, table: str) -> Any:
        known = self._datasets.get(table)
        if known is not None and table in self._fixed:
            return known
        found = self._open(table) if known is None else self._renewed(table, known)
        if table == schema.META:
            _refuse_replaced(self.database, found)
        self._datasets[table] = found
        return found

    def _renewed(self, table: str, known: Any) -> Any:
        try:
            return latest(known)
        except LOSSES as error:
            if not is_lost(error):
                raise
            return self._open(table)  # removed between two looks at it

    def _open(self, table: str) -> Any:
        try:
            return open_table(self.database, table)
        except DatabaseNotFound:
            self.check()
            raise


def _refuse_replaced(database: str, meta: Any) -> None:
    if REPLACED in meta.config():
        raise replaced(database)
