"""What a commit carries and what comes back: plain data, no LanceDB types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import NewChunk, NewItem


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRevision:
    """Everything immutable about one written version of a document."""

    #: UUIDv7 string, for whoever prepares it. The store names each append anew (`Row.revision`),
    #: so that what is handed in or appended twice is never stored twice under one name.
    revision: str
    #: The document as Markdown.
    content: str
    #: The DoclingDocument as JSON, compressed with zstandard; None for custom chunks alone.
    docling: bytes | None
    chunks: Sequence[NewChunk]
    #: float32, shape (len(chunks), dim); rows in the order of `chunks`.
    vectors: NDArray[np.float32]
    items: Sequence[NewItem] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of `document_meta`: what is known of a document, without its content."""

    uri: str
    id: str
    revision: str
    state: Literal["live", "deleted"]
    #: Random, never reused: the value a writer must still find to win.
    row_version: str
    title: str | None
    metadata: Mapping[str, Any]
    content_type: str | None
    content_hash: str | None
    fingerprint: str | None
    #: Owning source id → the mark it had when this content was read.
    sources: Mapping[str, str]
    chunk_count: int
    item_count: int
    created_at: datetime
    updated_at: datetime


# --- changes: what a commit carries -----------------------------------------------------------

#: `expected` value for "there must be no live document at this URI".
ABSENT = ""
#: `expected` value for "there must be no row at the URI, not even of a deleted document": what a
#: creation expects that saw none, so that it cannot undo a deletion that it did not see.
NO_ROW = "-"
#: `expected` value for "whatever is there": the store reads the row and applies the change to it.
ANY = "*"


@dataclass(frozen=True, kw_only=True, slots=True)
class Put:
    """Create the document at `uri`, or give it a new revision. The id of a live row is kept."""

    uri: str
    revision: NewRevision
    #: A `row_version` (of a deleted row as well, see `Snapshot.row_version`), ABSENT, NO_ROW or
    #: ANY.
    expected: str = ANY
    #: Used for a new document only; made by the store when None.
    id: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    content_type: str | None = None
    content_hash: str | None = None
    fingerprint: str | None = None
    #: Merged into the row's owners.
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateMeta:
    """Change what a live row says without a new revision. None leaves a field as it is."""

    uri: str
    expected: str = ANY
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    content_hash: str | None = None
    #: Merged into the row's owners.
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Give the live document at `uri` the name `to_uri`, keeping id and revision."""

    uri: str
    to_uri: str
    expected: str = ANY
    title: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """Delete the live document at `uri`; with `source`, only that owner lets go of it."""

    uri: str
    expected: str = ANY
    #: When given: drop this owner, and delete only if it was the last.
    source: str | None = None


Change = Put | UpdateMeta | Move | Delete


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one change."""

    #: "done"; "conflict": `expected` no longer held; "absent": nothing live at the URI;
    #: "dropped": the caller no longer holds the right to commit it (a lost lease).
    result: Literal["done", "conflict", "absent", "dropped"]
    #: The live row at the URI (of a move: the new one) as it is now, or None where there is none.
    row: Row | None
