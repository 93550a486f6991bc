"""Where the daemon keeps what is its own, and sources made from a folder's path alone."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from haiku.ingester.config import FilesystemSource
from haiku.rag import uris
from haiku.rag.config import database_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haiku.ingester.config import DaemonConfig

#: Ending of a database's folder, and of the daemon's own folder beside it.
DATABASE_SUFFIX, STATE_SUFFIX = ".lancedb", ".ingester"
_GLOB = re.compile(r"([\\*?\[\]!# ])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Addresses of everything that outlives the process."""

    #: The database: an absolute path, or a URI.
    database: str
    #: The daemon's own folder: items database, instance ids, spool.
    state: Path
    #: SQLAlchemy URL of the items database; may hold a password.
    items_url: str
    #: Folder of the spool.
    spool: Path


def find_places(config: DaemonConfig, db: str | Path | None = None) -> Places:
    """Where everything is: as configured, else beside the database.

    A local database `x.lancedb` has the daemon's folder `x.ingester` beside it; a remote one has
    it in the user's state folder, named after the database's address.
    """
    database = database_path(config.app, db)
    state = _state_folder(database)
    given = config.ingester.items_db
    items = state / "items.sqlite"
    return Places(
        database=database,
        state=state,
        items_url=given.get_secret_value() if given else f"sqlite+aiosqlite:///{items}",
        spool=config.ingester.spool.dir or state / "spool",
    )


def _state_folder(database: str) -> Path:
    if uris.is_uri(database):
        name = sha256(database.encode()).hexdigest()[:16]
        return platformdirs.user_state_path("haiku-ingester") / name
    path = Path(database)
    return path.with_name(path.name.removesuffix(DATABASE_SUFFIX) + STATE_SUFFIX)


def folder_source(folder: Path) -> FilesystemSource:
    """A source for a folder given on the command line.

    Its id is made from the path, so that the same folder is the same source at the next start,
    and another folder is another source.
    """
    path = Path(os.path.abspath(folder.expanduser()))  # noqa: PTH100 - keeps links as they are
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name).strip("-._") or "folder"
    digest = sha256(os.fsencode(path)).hexdigest()[:6]
    return FilesystemSource(id=f"{name[:40]}-{digest}", path=path, required=True)


def with_folders(config: DaemonConfig, folders: Sequence[Path]) -> DaemonConfig:
    """The configuration with a source more for every folder that is not one already."""
    sources = list(config.ingester.sources)
    for folder in folders:
        made = folder_source(folder)
        if made.path not in {source.path for source in sources}:
            sources.append(made)
    section = config.ingester.model_copy(update={"sources": sources})
    return type(config)(app=config.app, ingester=section)


def without_own_files(source: FilesystemSource, places: Places) -> FilesystemSource:
    """The source with the database, the items database and the spool ignored.

    A database below a watched folder would otherwise be news to itself for ever.
    """
    own = [Path(places.database)] if not uris.is_uri(places.database) else []
    patterns = [
        "/" + _GLOB.sub(r"\\\1", path.relative_to(source.path).as_posix())
        for path in (*own, places.state, places.spool)
        if path.is_relative_to(source.path) and path != source.path
    ]
    if not patterns:
        return source
    return source.model_copy(update={"ignore": [*source.ignore, *patterns]})
