"""What the store gives back besides rows: plain data, no Lance types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity
    from haiku.rag.store.changes import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    """A chunk as it is in the database."""

    #: UUIDv7 string, made by the store.
    id: str
    document_id: str
    revision: str
    #: Its place in the document, from 0.
    order: int
    content: str
    #: The exact text that was embedded: headings and content.
    text: str
    headings: Sequence[str]
    labels: Sequence[str]
    page_numbers: Sequence[int]
    doc_item_refs: Sequence[str]
    token_count: int
    metadata: Mapping[str, Any]
    #: float32, shape (dim,); None unless asked for.
    vector: NDArray[np.float32] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A live chunk that a search found, without what is in it: `Snapshot.hits` reads that."""

    chunk_id: str
    revision: str
    #: Cosine similarity (-1 to 1), or BM25 (from 0, unbounded). Higher is better.
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A live chunk that a search found, and its document."""

    chunk: StoredChunk
    #: The document it belongs to, as of the snapshot.
    row: Row
    #: That of `Found`.
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexCoverage:
    """How much of a table an index covers."""

    table: str
    column: str
    #: Rows outside the index, which every look-up reads besides it.
    unindexed_rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreInfo:
    """What a database is and holds."""

    path: str
    identity: EmbeddingIdentity
    schema_version: int
    created_at: datetime
    #: Live documents.
    documents: int
    #: URIs whose document was deleted or moved away, not forgotten yet.
    deleted: int
    #: Chunks of live documents.
    chunks: int
    #: Replaced revisions that are not collected yet.
    replaced_revisions: int
    #: Table → rows in it, dead ones included.
    rows: Mapping[str, int]
    #: Table → its version.
    versions: Mapping[str, int]
    indexes: Sequence[IndexCoverage]
    #: Bytes on disk; None where the storage does not tell cheaply.
    bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UpkeepReport:
    """What one call of `Store.upkeep` did."""

    #: Table → bytes of fragments that were rewritten.
    rewritten: Mapping[str, int] = field(default_factory=dict)
    #: "table.column" of indexes that were made.
    created: Sequence[str] = ()
    #: Tables whose indexes were brought up to date.
    updated: Sequence[str] = ()
    #: Dead revisions whose rows were taken away.
    collected_revisions: int = 0
    #: Versions of tables that were removed.
    removed_versions: int = 0
    #: What was left because memory or disk are short, as text for people.
    skipped: Sequence[str] = ()
    #: What could not be done because another process was at it; it is tried again later.
    postponed: Sequence[str] = ()
    #: What failed, as text for people.
    errors: Sequence[str] = ()
    #: Seconds until more can be done; None when nothing waits.
    again_in: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VacuumReport:
    """What one call of `Store.vacuum` did, and what it could not do yet."""

    #: Dead revisions whose rows were taken away, and how many rows these were.
    collected_revisions: int
    deleted_rows: int
    #: Rows of documents deleted longer ago than `storage.keep_deleted`.
    forgotten_documents: int
    #: Table → bytes of fragments that were rewritten.
    rewritten: Mapping[str, int]
    #: "table.column" of indexes that were made.
    created: Sequence[str]
    #: Tables whose indexes were brought up to date.
    updated: Sequence[str]
    #: Versions of tables that were removed, and the bytes of their files.
    removed_versions: int
    removed_bytes: int
    #: Bytes on disk; None where the storage does not tell cheaply.
    bytes_before: int | None
    bytes_after: int | None
    #: Replaced revisions that cannot be collected yet.
    waiting_revisions: int
    #: Seconds until another run can collect them, and free what this one superseded; None when
    #: nothing waits.
    again_in: float | None
    #: What was left because memory or disk are short, as text for people.
    skipped: Sequence[str]
    #: What could not be done because another process was at it; it is tried again later.
    postponed: Sequence[str]
    #: What failed, as text for people.
    errors: Sequence[str]


@dataclass(kw_only=True, slots=True)
class StoreStats:
    """Counters of one open store since it was opened."""

    #: Groups that reached the commit point.
    commits: int = 0
    #: Tries made void by another commit to `document_meta`: a writer's, or an index being made.
    lost_races: int = 0
    #: Appends that had to be made again (too old, or made for a document that changed identity).
    appended_again: int = 0
    #: Calls of `upkeep`, and what they did.
    upkeeps: int = 0
    compactions: int = 0
    indexes_created: int = 0
    indexes_updated: int = 0
    collected_revisions: int = 0
    removed_versions: int = 0
    #: Failures of upkeep; a commit never fails for them.
    upkeep_errors: int = 0
    last_upkeep_error: str | None = None
