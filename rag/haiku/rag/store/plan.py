"""What a group of changes does to the rows as they are: pure, and so cheap to compute again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from haiku.rag import ids
from haiku.rag.store import sql
from haiku.rag.store.changes import ABSENT, ANY, NO_ROW, Delete, Move, Put, Row, UpdateMeta
from haiku.rag.store.records import Head, Record, Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from haiku.rag.store.changes import Change

Result = Literal["done", "conflict", "absent", "dropped"]

#: Stands for a revision that is not appended yet, in a plan that only finds out what wins.
PENDING = Versions(documents=0, items=0, chunks=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The rows a plan is computed from, all of one version of `document_meta`."""

    head: Head
    #: Rows in any state by URI: those of the group, and those that hold an id it wants.
    records: Mapping[str, Record]


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """Rows of a `Put` that are in the tables and not visible yet."""

    document_id: str
    #: The name its rows have there.
    revision: str
    versions: Versions
    #: `threads.clock()` before the append began.
    at: float
    #: The version of `document_meta` at which the rows are known not to have been collected.
    present_at: int


@dataclass(kw_only=True, slots=True)
class Plan:
    """What to write and what to tell."""

    #: One a change, in order.
    results: list[Result] = field(default_factory=list)
    #: The URI each change was about in the end.
    uris: list[str] = field(default_factory=list)
    #: Rows as the group leaves them, by URI: those that were there and those it made.
    records: dict[str, Record]
    #: URIs of the rows to write.
    written: set[str] = field(default_factory=set)
    #: Index of each `Put` that wins → id of its document.
    winners: dict[int, str] = field(default_factory=dict)

    def row(self, index: int) -> Row | None:
        """The live row at the URI of a change, as the group leaves it."""
        record = self.records.get(self.uris[index])
        return record.row if record is not None and record.live else None


def uris_of(changes: Iterable[Change]) -> set[str]:
    """Every URI the changes name."""
    named = {sql.clean_uri(change.uri) for change in changes}
    return named | {sql.clean_uri(change.to_uri) for change in changes if isinstance(change, Move)}


def make_plan(
    changes: Sequence[Change],
    base: Base,
    *,
    mine: Sequence[bool],
    new_ids: Sequence[str],
    appended: Mapping[int, Appended],
    now: datetime,
) -> Plan:
    """Apply the changes one after another, as if each had been committed by itself.

    Args:
        mine: which changes the caller still may commit; the others are "dropped".
        new_ids: one a change: the id of the document it creates, if it does.
        appended: what is appended already, by index; other puts are planned with `PENDING`.
        now: the time of the commit, UTC.
    """
    fold = _Fold(base, new_ids, appended, now)
    for index, change in enumerate(changes):
        fold.apply(index, change, mine[index])
    return fold.plan


class _Fold:
    def __init__(
        self,
        base: Base,
        new_ids: Sequence[str],
        appended: Mapping[int, Appended],
        now: datetime,
    ) -> None:
        self._new_ids = new_ids
        self._appended = appended
        self._now = now
        self.plan = Plan(records=dict(base.records))

    def apply(self, index: int, change: Change, mine: bool) -> None:
        uri = sql.clean_uri(change.uri)
        self.plan.uris.append(uri)
        self.plan.results.append(self._result(index, change, uri) if mine else "dropped")

    def _result(self, index: int, change: Change, uri: str) -> Result:
        here = self.plan.records.get(uri)
        if isinstance(change, Put):
            return self._put(index, change, uri, here)
        if here is None or not here.live:
            return "absent"
        if not _holds(change.expected, here):
            return "conflict"
        if isinstance(change, UpdateMeta):
            return self._update(change, here)
        if isinstance(change, Move):
            return self._move(change, here)
        return self._delete(change, here)

    def _put(self, index: int, change: Put, uri: str, here: Record | None) -> Result:
        if not _holds(change.expected, here):
            return "conflict"
        live = here.row if here is not None and here.live else None
        document_id = live.id if live is not None else change.id or self._new_ids[index]
        if live is None and self._lives_elsewhere(document_id):
            return "conflict"
        self.plan.winners[index] = document_id
        appended = self._appended.get(index)
        self._write(
            Record(
                row=self._put_row(change, uri, live, document_id, appended),
                versions=appended.versions if appended else PENDING,
                replaced=() if here is None else here.all_revisions,
            )
        )
        return "done"

    def _put_row(
        self,
        change: Put,
        uri: str,
        live: Row | None,
        document_id: str,
        appended: Appended | None,
    ) -> Row:
        return Row(
            uri=uri,
            id=document_id,
            revision=appended.revision if appended else "",
            state="live",
            row_version=ids.new_token(),
            title=change.title,
            metadata=change.metadata,
            content_type=change.content_type,
            content_hash=change.content_hash,
            fingerprint=change.fingerprint,
            sources={**(live.sources if live else {}), **change.sources},
            chunk_count=len(change.revision.chunks),
            item_count=len(change.revision.items),
            created_at=live.created_at if live else self._now,
            updated_at=self._now,
        )

    def _update(self, change: UpdateMeta, here: Record) -> Result:
        row = here.row
        told = replace(
            row,
            title=row.title if change.title is None else change.title,
            metadata=row.metadata if change.metadata is None else change.metadata,
        )
        if told != row:
            told = replace(told, updated_at=self._now)
        told = replace(
            told,
            content_hash=change.content_hash or row.content_hash,
            sources={**row.sources, **change.sources},
        )
        if told != row:
            self._write(replace(here, row=replace(told, row_version=ids.new_token())))
        return "done"

    def _move(self, change: Move, here: Record) -> Result:
        uri = self.plan.uris[-1] = sql.clean_uri(change.to_uri)
        there = self.plan.records.get(uri)
        if uri == here.row.uri:
            return "done"
        if there is not None and there.live:
            return "conflict"
        row = replace(
            here.row,
            uri=uri,
            row_version=ids.new_token(),
            title=here.row.title if change.title is None else change.title,
            sources={**here.row.sources, **change.sources},
            updated_at=self._now,
        )
        replaced = (*here.replaced, *(there.replaced if there is not None else ()))
        self._write(here.ended(collect=False))
        self._write(replace(here, row=row, replaced=replaced))
        return "done"

    def _delete(self, change: Delete, here: Record) -> Result:
        if change.source is None or set(here.row.sources) == {change.source}:
            self._write(here.ended(collect=True))
        elif change.source in here.row.sources:
            rest = {k: v for k, v in here.row.sources.items() if k != change.source}
            row = replace(here.row, sources=rest, row_version=ids.new_token())
            self._write(replace(here, row=row))
        return "done"

    def _lives_elsewhere(self, document_id: str) -> bool:
        records = self.plan.records.values()
        return any(record.live and record.row.id == document_id for record in records)

    def _write(self, record: Record) -> None:
        self.plan.records[record.row.uri] = record
        self.plan.written.add(record.row.uri)


def _holds(expected: str, here: Record | None) -> bool:
    """Whether a row is what a change expects; a deleted row's version may be expected as well."""
    if expected == ANY:
        return True
    if expected == ABSENT:
        return here is None or not here.live
    if expected == NO_ROW:
        return here is None
    return here is not None and here.row.row_version == expected
