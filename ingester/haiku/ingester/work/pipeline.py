"""One claim from its bytes to its commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items.model import (
    Action,
    Claim,
    Empty,
    Indexed,
    Postponed,
    Removed,
    Result,
    Retry,
    Skipped,
)
from haiku.ingester.work.outages import Outages, part_of
from haiku.ingester.work.verdicts import verdict, why_empty
from haiku.rag.exceptions import (
    Conflict,
    ConversionDeferred,
    HaikuRAGError,
    SourceTooLarge,
    SourceUnreadable,
)
from haiku.rag.store.changes import Delete, Move, Put, UpdateMeta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from haiku.ingester.sources.protocol import Fetched, Source
    from haiku.ingester.work.spool import Place, Spool
    from haiku.ingester.work.stages import Progress
    from haiku.rag.store.changes import Change, Outcome, Row
    from haiku.rag.write import GroupCommitter, Prepared, Writer

#: Times a change that lost against another writer is computed again before the item waits.
COMMIT_ATTEMPTS = 5
#: Items under way up to which nobody waits for a larger group.
FEW = 4
#: Seconds after which a conversion may be put off while every worker is at a slow one.
SLOW_AFTER = 20.0
#: Bytes reserved beyond what was observed: a file may have grown a little since.
SLACK = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Does what a claim wants. Safe for concurrent use."""

    #: By id.
    sources: Mapping[str, Source]
    writer: Writer
    committer: GroupCommitter
    spool: Spool
    #: Bytes; what no source may exceed.
    max_file_size: int
    #: Seconds that a change may wait for a group when many are under way; None: as any other.
    busy_window: float | None = None
    #: Seconds a conversion may take while others wait for slow ones.
    slow_after: float = SLOW_AFTER
    #: What does not answer now, for any item.
    outages: Outages = field(default_factory=Outages)
    #: What is on its way to a commit.
    _running: set[Claim] = field(default_factory=set)

    async def run(self, claim: Claim, progress: Progress) -> Result:
        """Work on a claim and say what became of it.

        Raises:
            LeaseLost: another instance has the item; nothing was committed.
        """
        self._running.add(claim)
        try:
            return await self._run(claim, progress)
        finally:
            self._running.discard(claim)

    async def _run(self, claim: Claim, progress: Progress) -> Result:
        try:
            return await self._act(claim, progress)
        except LeaseLost:
            raise
        except ConversionDeferred as error:
            return Postponed(code=error.code, reason=str(error), stage="convert", slow=True)
        except SourceUnreadable as error:
            return await self._unreadable(claim, error)
        except (HaikuRAGError, OSError) as error:
            return self._outage(error, progress) or await self._own_fault(claim, error, progress)

    def _outage(self, error: HaikuRAGError | OSError, progress: Progress) -> Postponed | None:
        """The result when what failed is out of order for all items."""
        part = part_of(error)
        if part is None:
            return None
        code, text = getattr(error, "code", "io"), str(error)
        pause = self.outages.failed(
            part,
            code=code,
            text=text,
            began=progress.started,
            after=getattr(error, "retry_after", None),
        )
        if pause is None:
            return None
        return Postponed(code=code, reason=text, stage=progress.stage, after=pause)

    async def _own_fault(
        self, claim: Claim, error: HaikuRAGError | OSError, progress: Progress
    ) -> Result:
        if isinstance(error, OSError):  # of the spool's disk
            return Retry(code="io", reason=str(error), stage=progress.stage)
        result = verdict(error, stage=progress.stage, fingerprint=self.writer.fingerprint)
        if isinstance(result, Skipped):
            return await self._skip(claim, result, progress)
        return result

    async def _act(self, claim: Claim, progress: Progress) -> Result:
        if claim.action == Action.REMOVE:
            return await self._remove(claim, progress)
        if claim.action == Action.MOVE:
            return await self._move(claim, progress) or await self._index(claim, progress)
        return await self._index(claim, progress)

    # --- index

    async def _index(self, claim: Claim, progress: Progress) -> Result:
        limit = min(self.max_file_size, self.spool.max_bytes)
        expected = limit if claim.size is None else min(limit, claim.size + SLACK)
        try:
            return await self._index_within(claim, progress, expected)
        except SourceTooLarge:
            if expected == limit:
                raise
            # It has grown since it was observed, and may still be within the real limit.
            return await self._index_within(claim, progress, limit)

    async def _index_within(self, claim: Claim, progress: Progress, room: int) -> Result:
        source = self.sources[claim.source_id]
        async with self.spool.reserve(room) as place:
            with progress.at("fetch"):
                fetched = await _fetch(source, claim, place)
            self.outages.served("spool")
            known = await self._known(claim, fetched, progress)
            if known is not None:
                return known
            with progress.at("convert"):
                prepared = await self.writer.prepare_file(
                    place.path,
                    name=fetched.name,
                    declared=fetched.declared_type,
                    patience=None if claim.slow else self.slow_after,
                )
            self.outages.served("workers")
        return await self._write(claim, fetched, prepared, progress)

    async def _known(self, claim: Claim, fetched: Fetched, progress: Progress) -> Result | None:
        """The result when the store has these bytes by this pipeline already, else None."""
        for _ in range(COMMIT_ATTEMPTS):
            row = await self._row(claim.uri)
            if row is None or not self._is_current(row, fetched):
                return None
            change = UpdateMeta(
                uri=claim.uri,
                expected=row.row_version,
                sources={claim.source_id: fetched.mark},
            )
            outcome = await self._commit(claim, change, progress)
            if outcome.result == "done":
                return _done(outcome.row or row, fetched.mark, size=fetched.size, unchanged=True)
        raise Conflict(f"{claim.uri} kept being changed by other writers")

    def _is_current(self, row: Row, fetched: Fetched) -> bool:
        same_bytes = row.content_hash == fetched.sha256
        return same_bytes and row.fingerprint == self.writer.fingerprint

    async def _write(
        self, claim: Claim, fetched: Fetched, prepared: Prepared, progress: Progress
    ) -> Result:
        with progress.at("embed"):
            revision = await self.writer.revise(prepared)
        if prepared.chunks:
            self.outages.served("embedder")
        change = Put(
            uri=claim.uri,
            revision=revision,
            title=prepared.title,
            content_type=prepared.content_type,
            content_hash=fetched.sha256,
            fingerprint=self.writer.fingerprint,
            sources={claim.source_id: fetched.mark},
        )
        outcome = await self._commit(claim, change, progress, size=prepared.size)
        if outcome.row is None or outcome.result != "done":
            raise Conflict(f"{claim.uri} was changed by another writer; it is worked on again")
        return _done(outcome.row, fetched.mark, size=fetched.size)

    # --- move, remove, skip

    async def _move(self, claim: Claim, progress: Progress) -> Result | None:
        """The result of a move, or None when there is nothing of ours to move."""
        if claim.moved_from is None:
            return None
        for _ in range(COMMIT_ATTEMPTS):
            row = await self._row(claim.moved_from)
            if row is None or claim.source_id not in row.sources:
                return None
            change = Move(
                uri=claim.moved_from,
                to_uri=claim.uri,
                expected=row.row_version,
                sources={claim.source_id: claim.mark},
            )
            outcome = await self._commit(claim, change, progress)
            if outcome.result == "done":
                row = outcome.row or row
                return _done(row, claim.mark, size=claim.size, unchanged=True, moved=True)
        return None  # e.g. another document is at the new name

    async def _remove(self, claim: Claim, progress: Progress) -> Result:
        change = Delete(uri=claim.uri, source=claim.source_id)
        outcome = await self._commit(claim, change, progress)
        if outcome.result == "conflict":
            raise Conflict(f"{claim.uri} was changed by another writer; it is removed again")
        return Removed()

    async def _skip(self, claim: Claim, result: Skipped, progress: Progress) -> Result:
        """Skipped means that no document is left: what was there before is let go."""
        try:
            removed = await self._remove(claim, progress)
        except LeaseLost:
            raise
        except HaikuRAGError as error:
            return Retry(code=error.code, reason=str(error), stage=progress.stage)
        return result if isinstance(removed, Removed) else removed

    async def _unreadable(self, claim: Claim, error: SourceUnreadable) -> Result:
        """What cannot be read may just have gone: then its source says so, not this claim."""
        try:
            states = await self.sources[claim.source_id].look([claim.uri])
        except HaikuRAGError as trouble:
            return Retry(code=trouble.code, reason=str(trouble), stage="fetch")
        if claim.uri in states and states[claim.uri] is None:
            return Retry(code="vanished", reason=str(error), stage="fetch")
        return verdict(error, stage="fetch", fingerprint=self.writer.fingerprint)

    # --- the store

    async def _row(self, uri: str) -> Row | None:
        return await self.writer.store.row(uri)

    async def _commit(
        self, claim: Claim, change: Change, progress: Progress, *, size: int = 0
    ) -> Outcome:
        progress.size = size
        self._running.discard(claim)  # it waits for others, and nobody for it
        with progress.at("commit"):
            patience = self.busy_window if len(self._running) > FEW else None
            outcome = await self.committer.submit(change, size=size, claim=claim, patience=patience)
        self.outages.served("store")
        if outcome.result == "dropped":
            raise LeaseLost(f"{claim.uri} was taken over by another instance; not committed")
        return outcome


async def _fetch(source: Source, claim: Claim, place: Place) -> Fetched:
    # The open file is the source's to write from a thread; opening and closing do not wait.
    with place.path.open("wb") as file:
        fetched = await source.fetch(claim.uri, file, max_size=place.size)
    place.shrink(fetched.size)
    return fetched


def _done(
    row: Row, mark: str, *, size: int | None, unchanged: bool = False, moved: bool = False
) -> Indexed | Empty:
    """What the store says of the document now, as a result."""
    if row.chunk_count == 0:
        return Empty(
            content_hash=row.content_hash or "",
            mark=mark,
            fingerprint=row.fingerprint or "",
            document_id=row.id,
            reason=why_empty(row.content_type, size),
            unchanged=unchanged,
            moved=moved,
        )
    return Indexed(
        content_hash=row.content_hash or "",
        mark=mark,
        fingerprint=row.fingerprint or "",
        document_id=row.id,
        chunk_count=row.chunk_count,
        unchanged=unchanged,
        moved=moved,
    )
