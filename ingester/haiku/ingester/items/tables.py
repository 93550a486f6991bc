"""The tables of the items database, in SQLAlchemy's terms. Migrations create them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

if TYPE_CHECKING:
    from sqlalchemy import Row

#: A result row with any columns.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"

#: The migration these definitions stand at.
HEAD = "0004"

metadata = MetaData()

#: SQLite numbers rows by itself only for plain INTEGER.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

items = Table(
    "items",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("source_id", String(255), nullable=False),
    Column("uri", Text, nullable=False),
    Column("state", String(16), nullable=False),
    #: What is wanted next; a claim keeps the action it was made for.
    Column("action", String(16), nullable=False),
    #: Raised by everything that makes work; `claimed` and `done` follow it.
    Column("counter", BigInteger, nullable=False),
    Column("claimed_counter", BigInteger, nullable=False),
    Column("done_counter", BigInteger, nullable=False),
    Column("observed_mark", Text, nullable=False),
    Column("indexed_mark", Text),
    Column("size", BigInteger),
    Column("identity", String(255)),
    #: Why the source does not want it; null: wanted.
    Column("skip", String(64)),
    #: Of the document that is in the store; null: there is none that this row knows of.
    Column("content_hash", String(64)),
    Column("fingerprint", Text),
    Column("document_id", String(36)),
    Column("chunk_count", Integer),
    #: The pipeline that failed or refused it last.
    Column("tried_fingerprint", Text),
    Column("priority", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    #: Claims in a row that never came back, because their process died.
    Column("crashes", Integer, nullable=False),
    #: 1: its conversion was ended to let quicker ones pass.
    Column("slow", Integer, nullable=False, server_default="0"),
    #: Epoch seconds; not before it. Also the place in the queue.
    Column("next_attempt_at", Double, nullable=False),
    Column("lease_owner", String(64)),
    Column("lease_token", String(36)),
    Column("lease_until", Double),
    #: Of a MOVE: the URI the document has in the store.
    Column("moved_from", Text),
    #: The URI whose MOVE must be over before this row may be claimed.
    Column("held_by", Text),
    Column("stage", String(16)),
    Column("code", String(64)),
    Column("reason", Text),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("indexed_at", Double),
    UniqueConstraint("source_id", "uri", name="items_source_uri"),
    Index("items_queue", "state", "source_id", "priority", "next_attempt_at"),
    Index("items_held", "source_id", "held_by"),
    Index("items_identity", "source_id", "identity"),
)

sources = Table(
    "sources",
    metadata,
    Column("source_id", String(255), primary_key=True),
    #: Null: deletions are not suspended.
    Column("suspended_count", Integer),
    Column("suspended_since", Double),
    Column("suspended_reason", Text),
    #: End of the last complete listing, epoch seconds.
    Column("swept_at", Double),
    Column("lease_owner", String(64)),
    Column("lease_until", Double),
    #: Of the database the items belong to; null: not learnt yet.
    Column("restore_epoch", BigInteger),
    #: Since the database was restored; null: not held.
    Column("held_since", Double),
)

requests = Table(
    "requests",
    metadata,
    Column("source_id", String(255), primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("created_at", Double, nullable=False),
)

schedules = Table(
    "schedules",
    metadata,
    Column("job", String(64), primary_key=True),
    #: Epoch seconds: slots that come until then are done, or were never to be.
    Column("done_until", Double, nullable=False),
    #: Of the run that has begun last: when, the moment of its slot, and its nominal time.
    Column("begun_at", Double),
    Column("begun_until", Double),
    Column("begun_slot", String(32)),
    #: Times the run of that slot has begun; one that was given back is not counted.
    Column("attempts", Integer, nullable=False, server_default="0"),
    #: Of the run that has ended last: nominal time of its slot, "done" or "failed", what of it.
    Column("slot", String(32)),
    Column("outcome", String(16)),
    Column("detail", Text),
    Column("ended_at", Double),
    Column("succeeded_at", Double),
    Column("lease_owner", String(64)),
    Column("lease_until", Double),
)
