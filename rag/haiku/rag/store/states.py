"""States of the database that have a name or a number: plain data, no Lance types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    #: Which state to read: a tag's name, a version of `document_meta`, or a time with its zone.
    #: Text may be any of the three; what is a tag's name is never taken for anything else.
    AsOf = str | int | datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A name for one state of all five tables."""

    name: str
    #: Table → the version that is tagged; a partial tag lacks some.
    versions: Mapping[str, int]
    #: When it was made (UTC).
    created_at: datetime
    #: Live documents; None when `document_meta` is not tagged or cannot be read there.
    documents: int | None
    #: Tables that lack it: not empty when its creation or deletion was broken off or is under way.
    missing: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Whether it is on every table: only then it can be restored or read."""
        return not self.missing


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreReport:
    """What a restore did."""

    #: The tag whose state it is now.
    tag: str
    #: A tag of the state before; restore it to undo this restore. None: nothing differed, and
    #: nothing was done.
    safety_tag: str | None
    #: Live documents now.
    documents: int
    #: Documents whose row is another than before: those that came back or were set back.
    changed: int
    #: Of these, how many had their content copied out of the tagged state.
    copied: int
    #: Documents that were live and are not in the tagged state.
    deleted: int
    #: The number of restores this database has seen.
    restore_epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """One commit whose state can still be read."""

    #: The version of `document_meta` it made; may be given as `as_of`.
    version: int
    #: When it was committed (UTC), by the clock of the process that did.
    at: datetime
    #: Live documents after it.
    documents: int
    #: What it did, in documents; all None when the state before it is not kept.
    created: int | None
    #: Documents that got a new revision.
    changed: int | None
    #: Documents of which only the row changed: title, metadata, owners.
    updated: int | None
    moved: int | None
    deleted: int | None
    #: It restored a tag.
    restored: bool
    #: Complete or partial tags of this state.
    tags: Sequence[str] = ()
