"""The database: five Lance tables, immutable revisions, one commit point.

For: keeping documents, their chunks, vectors and elements so that readers always see whole
documents, whatever writers race, fail or are killed. In: `changes` (`Put`, `UpdateMeta`, `Move`,
`Delete`) committed in groups. Out: `Snapshot`s, which never change under their reader.

Rules:

- `documents`, `chunks` and `document_items` hold immutable rows of one revision; they are only
  appended to. `document_meta` has one row a URI, and its commit is the commit point: until then
  nobody sees what was appended. `settings` says what the database is.
- A commit is one `merge_insert` pinned to the version it was computed from, and rewrites the head
  row: it wins whole or loses whole, is computed again, and tells every change what became of it.
- A reader takes a version of `document_meta` first and the others at or after it; it never writes.
- Lance is imported when a store is opened, not when this package is imported, and all its calls
  run in threads of the store.
- Text that Arrow cannot hold is cleaned at the door: see `sql.clean` and `sql.clean_uri`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haiku.rag.store.database import Store
    from haiku.rag.store.info import (
        Found,
        Hit,
        IndexCoverage,
        StoredChunk,
        StoreInfo,
        UpkeepReport,
        VacuumReport,
    )
    from haiku.rag.store.snapshot import Snapshot

_HOMES = {
    "Store": "database",
    "Snapshot": "snapshot",
    "Found": "info",
    "Hit": "info",
    "IndexCoverage": "info",
    "StoredChunk": "info",
    "StoreInfo": "info",
    "UpkeepReport": "info",
    "VacuumReport": "info",
}

__all__ = [
    "Found",
    "Hit",
    "IndexCoverage",
    "Snapshot",
    "Store",
    "StoreInfo",
    "StoredChunk",
    "UpkeepReport",
    "VacuumReport",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
