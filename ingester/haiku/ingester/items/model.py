"""What is said of an item: by its source, by whoever claims it, and as the outcome of work.

Times are seconds since the epoch (UTC, float) inside the items database and `datetime` with a
time zone in everything that is listed for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


class State(StrEnum):
    """Where an item stands; each is in exactly one of these."""

    #: Wanted and not begun, or waiting for its next attempt.
    PENDING = "pending"
    #: Claimed by an instance.
    WORKING = "working"
    #: The database has what the source has.
    INDEXED = "indexed"
    #: Committed, but there was no text in it; the reason says what is missing.
    EMPTY = "empty"
    #: Not wanted: its size, kind or format; the reason says which.
    SKIPPED = "skipped"
    #: Could not be done for this content; tried again when it changes or someone asks.
    FAILED = "failed"
    #: Left its source, or not wanted any more: waits until the document has lost this owner.
    GONE = "gone"


class Action(StrEnum):
    """What is wanted of an item that is not done."""

    #: Fetch, convert, embed, commit.
    INDEX = "index"
    #: Give the document of `moved_from` this URI; falls back to INDEX.
    MOVE = "move"
    #: Take this source away from the document's owners.
    REMOVE = "remove"


class Priority(IntEnum):
    """Which waiting items go first; the smaller the sooner."""

    #: A change that was noticed as it happened, or asked for by a person.
    LIVE = 0
    #: Found by a sweep.
    BACKFILL = 10
    #: Indexed, but by another pipeline than today's.
    REPROCESS = 20


class RequestKind(StrEnum):
    """What a command asks of the running daemon through the items database."""

    #: Sweep the source now.
    REFRESH = "refresh"
    #: Carry out the suspended deletions of the source.
    CONFIRM_DELETES = "confirm_deletes"
    #: After a restore: the source is right, compare everything again.
    RESYNC = "resync"
    #: After a restore: the restored state is right, what the source has now is done.
    KEEP = "keep"


# --- said by sources --------------------------------------------------------------------------


class Observation(NamedTuple):
    """What a source says of one object, cheaply: a sweep makes one of every object."""

    uri: str
    #: Opaque; equal marks mean equal content, e.g. size, mtime, ctime and inode.
    mark: str
    #: Bytes, when the source knows.
    size: int | None = None
    #: What survives a rename, e.g. "dev:inode".
    identity: str | None = None
    #: Why the object is not wanted: a code such as "too_large", "link", "special"; None: wanted.
    skip: str | None = None

    @property
    def seen(self) -> str:
        """Mark, skip and identity in one string, as `Items.seen` gives them of what is known."""
        return f"{self.mark}\n{self.skip or ''}\n{self.identity or ''}"


class Known(NamedTuple):
    """What the items database knows of one object, to compare a listing with."""

    uri: str
    #: The mark that was observed last.
    mark: str
    state: State
    identity: str | None
    #: SHA-256 of the content that is indexed, hexadecimal.
    content_hash: str | None
    #: Bytes, as observed last.
    size: int | None = None
    #: Why it was not wanted when it was observed last, or None.
    skip: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """How many of a batch of observations were what."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0


# --- work -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to work on one item until its lease lapses."""

    #: The item's row.
    item_id: int
    #: Random; who holds another token, or none, has lost the lease.
    token: str
    source_id: str
    uri: str
    action: Action
    #: The value of the item's counter that this claim will have done.
    counter: int
    #: Observed mark, size and identity.
    mark: str
    size: int | None = None
    identity: str | None = None
    #: The URI the document had before, for MOVE.
    moved_from: str | None = None
    #: This attempt included.
    attempts: int = 1
    #: Of the content that is indexed, or None.
    content_hash: str | None = None
    #: Of the pipeline the content was indexed by, or None.
    fingerprint: str | None = None
    document_id: str | None = None
    chunk_count: int | None = None
    priority: int = Priority.BACKFILL
    #: Its conversion was ended before to let quicker ones pass; now it has its full time.
    slow: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """The database has the content."""

    content_hash: str
    #: The mark the bytes had when they were read.
    mark: str
    fingerprint: str
    document_id: str
    chunk_count: int
    #: Nothing but the mark had to be written.
    unchanged: bool = False
    #: The document of `moved_from` carries this URI now.
    moved: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Empty:
    """Committed, but no search can find it: there was no text."""

    content_hash: str
    mark: str
    fingerprint: str
    document_id: str
    #: What is missing, e.g. "no text; scanned pages need OCR".
    reason: str
    unchanged: bool = False
    moved: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """Not wanted; no document of this item is left."""

    #: e.g. "too_large", "unsupported".
    code: str
    reason: str
    #: Of the pipeline that said so; another may want it.
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """Cannot be done for this content. What was indexed before stays."""

    code: str
    reason: str
    #: "fetch", "convert", "embed", "commit".
    stage: str
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Did not work this time."""

    code: str
    reason: str
    stage: str
    #: Seconds the other side asked to wait, or None: exponential backoff with jitter.
    after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Postponed:
    """Cut short by something that is not its fault: work again, and no attempt was made."""

    code: str
    reason: str
    stage: str
    #: Seconds until it is due again.
    after: float = 0.0
    #: Its conversion was slow while others waited: from now on it has the lane of the slow ones.
    slow: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """The document has lost this owner, or had already."""


Result = Indexed | Empty | Skipped | Failed | Retry | Postponed | Removed


# --- for people -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One row as it is listed."""

    source_id: str
    uri: str
    state: State
    action: Action
    #: Short stable word of the last error or reason, e.g. "corrupt", or None.
    code: str | None
    reason: str | None
    #: The step that was reached or failed, or None.
    stage: str | None
    attempts: int
    size: int | None
    content_hash: str | None
    document_id: str | None
    chunk_count: int | None
    #: Not before this time (UTC), when waiting for another attempt.
    next_attempt_at: datetime | None
    created_at: datetime
    #: Of the state.
    changed_at: datetime
    indexed_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspension:
    """Why a source's deletions wait for a person."""

    #: Items that would have gone.
    count: int
    since: datetime
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRecord:
    """What the items database remembers of a source itself."""

    source_id: str
    suspension: Suspension | None
    #: When the last complete listing ended (UTC), or None.
    last_sweep: datetime | None
    #: The instance that sweeps and watches it, while its lease lasts.
    owner: str | None
    #: Since when nothing of it is applied because the database was restored (UTC), or None.
    held_since: datetime | None = None


class Begun(Enum):
    """What came of asking for the run of a slot."""

    #: It is for this instance to do.
    MINE = auto()
    #: It is done, or another instance is at it.
    NOT_MINE = auto()
    #: Its process has died with it too often: it counts as failed.
    GIVEN_UP = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """What is remembered of a scheduled job, over restarts and by all instances."""

    job: str
    #: Slots that come until then (epoch seconds) are done, or came before anybody counted them.
    done_until: float
    #: Nominal time of the slot whose run has ended last, as ISO 8601 without a zone.
    slot: str | None
    #: "done" or "failed"; None: none has ended yet.
    outcome: str | None
    #: What it did, or why it failed.
    detail: str | None
    ended_at: datetime | None
    #: When a run last ended well (UTC).
    succeeded_at: datetime | None
    #: Since when a run is under way (UTC); None: none is, or its instance has gone.
    running_since: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Something asked of the daemon by a command."""

    source_id: str
    kind: RequestKind
