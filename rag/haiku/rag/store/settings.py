"""The `settings` table: what the database is, and whether this program may use it."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from haiku.rag import uris
from haiku.rag.exceptions import IdentityMismatch, SchemaMismatch, StoreError
from haiku.rag.records import EmbeddingIdentity
from haiku.rag.store import schema
from haiku.rag.store.commit import is_conflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What `settings` says."""

    schema_version: int
    #: Lowest schema version a program must know to read, and to write.
    min_reader: int
    min_writer: int
    identity: EmbeddingIdentity
    created_at: datetime


def initial(identity: EmbeddingIdentity) -> dict[str, str]:
    """The settings of a new database."""
    return {
        "schema_version": str(schema.SCHEMA_VERSION),
        "min_reader": str(schema.MIN_READER),
        "min_writer": str(schema.MIN_WRITER),
        "identity": json.dumps(asdict(identity)),
        "created_at": datetime.now(UTC).isoformat(),
    }


def as_table(values: Mapping[str, str]) -> pa.Table:
    """Key and value rows."""
    import pyarrow as pa

    columns = {"key": list(values), "value": list(values.values())}
    return pa.table(columns, schema=schema.settings())


def read(dataset: Any) -> dict[str, str]:
    """All values by key."""
    table = dataset.to_table()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def parse(values: Mapping[str, str], database: str) -> Settings:
    """The values in types.

    Raises:
        StoreError: one is missing or makes no sense: this is no database of ours.
    """
    try:
        return Settings(
            schema_version=int(values["schema_version"]),
            min_reader=int(values["min_reader"]),
            min_writer=int(values["min_writer"]),
            identity=EmbeddingIdentity(**json.loads(values["identity"])),
            created_at=datetime.fromisoformat(values["created_at"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(
            f"{database} is not a database of haiku.rag, or its settings are damaged: {error!r}"
        ) from error


def check_schema(found: Settings, database: str, *, read_only: bool) -> None:
    """Refuse a database this program is too old for, or one that has to be migrated to be read.

    Raises:
        SchemaMismatch: the message says what to do.
    """
    needed = found.min_reader if read_only else max(found.min_reader, found.min_writer)
    if needed > schema.SCHEMA_VERSION:
        verb = "read" if read_only else "written"
        raise SchemaMismatch(
            f"{database} can only be {verb} by programs that know schema version {needed}; this "
            f"one knows {schema.SCHEMA_VERSION}: run `pip install --upgrade haiku-rag-core`"
        )
    if read_only and found.schema_version < schema.MIN_READER:
        raise SchemaMismatch(
            f"{database} has schema version {found.schema_version}, older than the "
            f"{schema.MIN_READER} this program reads: open it for writing once, for example by "
            "starting `haiku-ingester serve`; that migrates it"
        )


def check_identity(found: EmbeddingIdentity, wanted: EmbeddingIdentity, database: str) -> None:
    """Refuse an embedder that is not the one the vectors came from.

    Raises:
        IdentityMismatch: the message names both ways out.
    """
    if found != wanted:
        raise IdentityMismatch(
            f"{database} holds vectors of {found}, and {wanted} is configured. Set "
            f"embeddings.model to provider {found.provider}, name {found.name}, vector_dim "
            f"{found.dim}; or run `{rebuild_command(database)}`, which makes new vectors of what "
            "the database holds while it is in use"
        )


def rebuild_command(database: str) -> str:
    """What to type to rebuild a database."""
    more = " --to NEW_URI" if uris.is_uri(database) else ""
    return f"haiku-rag rebuild --db {shlex.quote(database)}{more}"


def check_restorable(then: Settings, now: Settings, tag: str) -> None:
    """Refuse a tagged state whose rows would not fit beside today's.

    Raises:
        IdentityMismatch, SchemaMismatch: the message says how to get at it.
    """
    way_out = (
        f"read it with `--as-of {tag}`, or copy the database's folder, and work on the copy with "
        "the program and the embedder of that time"
    )
    if then.identity != now.identity:
        raise IdentityMismatch(
            f"the state tagged {tag} holds vectors of {then.identity}, the database those of "
            f"{now.identity} now; it cannot be restored: {way_out}"
        )
    if then.schema_version != now.schema_version:
        raise SchemaMismatch(
            f"the state tagged {tag} has schema version {then.schema_version}, the database "
            f"{now.schema_version} now; it cannot be restored: {way_out}"
        )


def write(dataset: Any, values: Mapping[str, str]) -> bool:
    """Replace the settings that were read from `dataset`; False when somebody was faster.

    Every row is written each time, so that any two writes conflict.
    """
    pinned = dataset.checkout_version(dataset.version)
    merge = pinned.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    try:
        merge.when_not_matched_by_source_delete().conflict_retries(0).execute(as_table(values))
    except OSError as error:
        if is_conflict(error):
            return False
        raise StoreError(f"the settings could not be written: {error}") from error
    return True
