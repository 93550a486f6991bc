"""Copies documents of one database into another, with today's chunks and vectors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from haiku.rag import uris
from haiku.rag.exceptions import ConvertError, SnapshotExpired
from haiku.rag.records import NewChunk
from haiku.rag.write.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from haiku.rag.records import NewItem
    from haiku.rag.store import Snapshot, Store, StoredChunk
    from haiku.rag.store.records import Record
    from haiku.rag.store.shadow import Copied, Difference
    from haiku.rag.write.session import WriteSession

    #: Called with the number of documents that are done, and of all that are to be done.
    Progress = Callable[[int, int], None]

#: Rows looked up at a time.
LOOK = 64
#: Documents under way a worker process, and bytes of all: most wait for the embedder, which is the
#: more thrifty the more texts it can sort by length.
PER_WORKER, IN_MEMORY = 12, 64_000_000
#: Documents, and bytes of them, that are written together.
GROUP, GROUP_BYTES = 64, 32_000_000
#: Groups after which the new database's fragments are gathered and its indexes extended.
TIDY_EVERY = 50


@dataclass(kw_only=True, slots=True)
class Figures:
    """What was copied; see `RebuildReport`."""

    copied: int = 0
    kept_chunks: int = 0
    not_chunked: dict[str, str] = field(default_factory=dict)
    embedded: int = 0
    reused: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """A row of the old database with what belongs to it; of a deleted document the row alone."""

    record: Record
    content: str = ""
    docling: bytes | None = None
    items: Sequence[NewItem] = ()
    chunks: Sequence[StoredChunk] = ()

    @property
    def size(self) -> int:
        """Bytes in memory, roughly, once it is embedded."""
        texts = sum(2 * len(chunk.text) + 4_000 for chunk in self.chunks)
        return len(self.content) + len(self.docling or b"") + texts + 200 * len(self.items)

    @property
    def has_own_chunks(self) -> bool:
        """Whether a caller gave the chunks: those made here have their tokens counted."""
        return bool(self.chunks) and not any(chunk.token_count for chunk in self.chunks)


class Copying:
    """Copies what differs, as often as it is asked to."""

    def __init__(
        self,
        old: Store,
        new: Store,
        session: WriteSession,
        token: str,
        progress: Progress | None = None,
    ) -> None:
        self.shadow = new.shadow(token)
        self._old = old
        self._new = new
        self._writer = session.writer
        self._most = PER_WORKER * session.workers
        self._progress = progress
        self._figures = Figures()
        self._groups = 0

    @property
    def figures(self) -> Figures:
        """What has been done so far."""
        self._figures.embedded = self._writer.embedded
        self._figures.reused = self._writer.reused
        return self._figures

    async def compare(self) -> Difference:
        """What differs now."""
        return await self._old.compare(self.shadow)

    async def catch_up(self, looks: int, few: int) -> Difference:
        """Copy, and again until at most `few` documents differ, or `looks` times; what differs."""
        for look in range(looks):
            difference = await self.compare()
            if not difference or (look and len(difference.changed) <= few):
                return difference
            await self.copy(difference)
        return await self.compare()

    async def tidy(self) -> None:
        """Gather the new database's fragments and bring its indexes up to date."""
        await self._new.vacuum(full=False)

    async def copy(
        self, difference: Difference, *, keep: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Copy what differs.

        Args:
            difference: as `compare` told.
            keep: awaited after each group, to keep commits waiting.
        """
        waiting: list[Copied] = []
        size = done = 0
        async for copied, weight in self._made(difference.changed):
            waiting.append(copied)
            size += weight
            if len(waiting) >= GROUP or size >= GROUP_BYTES:
                done = await self._write(waiting, done, len(difference.changed), keep)
                waiting, size = [], 0
        if waiting:
            await self._write(waiting, done, len(difference.changed), keep)
        if difference.gone or difference.restore_epoch is not None:
            await self.shadow.adjust(difference)

    async def _write(
        self,
        group: Sequence[Copied],
        done: int,
        total: int,
        keep: Callable[[], Awaitable[None]] | None,
    ) -> int:
        """Write a group; the number of documents that are done then."""
        await self.shadow.write(group)
        self._groups += 1
        if keep is not None:
            await keep()
        elif self._groups % TIDY_EVERY == 0:
            await self._new.upkeep()
        if self._progress is not None:
            self._progress(done + len(group), total)
        return done + len(group)

    # --- one document after the other, several at once -----------------------------------------

    async def _made(self, changed: Sequence[str]) -> AsyncIterator[tuple[Copied, int]]:
        """Each document as it is done, with its bytes."""
        running: dict[asyncio.Task[Copied], int] = {}
        try:
            async for read in self._read(changed):
                while running and not self._has_room(running, read):
                    async for made in _ended(running):
                        yield made
                running[asyncio.create_task(self._one(read))] = read.size
            while running:
                async for made in _ended(running):
                    yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _has_room(self, running: dict[asyncio.Task[Copied], int], read: _Read) -> bool:
        return len(running) < self._most and sum(running.values()) + read.size <= IN_MEMORY

    async def _read(self, changed: Sequence[str]) -> AsyncIterator[_Read]:
        """The rows at the URIs as they are now, with what belongs to them."""
        for start in range(0, len(changed), LOOK):
            part = changed[start : start + LOOK]
            snapshot = await self._old.snapshot()
            for record in await snapshot.records(part):
                try:
                    yield await _whole(snapshot, record)
                except SnapshotExpired:  # the documents before have taken long
                    for read in await self._old.read(partial(_now, uri=record.row.uri)):
                        yield read

    async def _one(self, read: _Read) -> Copied:
        """What one document becomes."""
        from haiku.rag.store.shadow import Copied

        self._figures.copied += 1
        if not read.record.live:
            return Copied(record=read.record)
        chunks, fingerprint = await self._chunks(read)
        row = read.record.row
        prepared = Prepared(
            title=row.title,
            content_type=row.content_type,
            content=read.content,
            docling=read.docling,
            items=tuple(read.items),
            chunks=tuple(chunks),
        )
        revision = await self._writer.revise(prepared)
        return Copied(record=read.record, revision=revision, fingerprint=fingerprint)

    async def _chunks(self, read: _Read) -> tuple[Sequence[NewChunk], str | None]:
        """The chunks it is to have, and what has made it then."""
        today = self._writer.fingerprint
        if read.docling is None or read.has_own_chunks:
            self._figures.kept_chunks += 1
            return _kept(read), today
        try:
            return await self._writer.chunk(read.docling), today
        except ConvertError as error:
            if error.retryable:
                raise
            # One document must not keep all the others from being rebuilt; it stays outdated.
            self._figures.not_chunked[uris.display(read.record.row.uri)] = str(error)
            return _kept(read), read.record.row.fingerprint


async def _ended(
    running: dict[asyncio.Task[Copied], int],
) -> AsyncIterator[tuple[Copied, int]]:
    """Wait for one at least; those that have ended, with their bytes."""
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        size = running.pop(task)
        yield task.result(), size


async def _whole(snapshot: Snapshot, record: Record) -> _Read:
    if not record.live:
        return _Read(record=record)
    row = record.row
    content, docling, items, chunks = await asyncio.gather(
        snapshot.content(row), snapshot.docling(row), snapshot.items(row), snapshot.chunks(row)
    )
    return _Read(record=record, content=content, docling=docling, items=items, chunks=chunks)


async def _now(snapshot: Snapshot, uri: str) -> list[_Read]:
    """The row at a URI, if there still is one."""
    return [await _whole(snapshot, record) for record in await snapshot.records([uri])]


def _kept(read: _Read) -> list[NewChunk]:
    """The chunks a document has, to be embedded anew."""
    return [
        NewChunk(
            content=chunk.content,
            text=chunk.text,
            headings=tuple(chunk.headings),
            labels=tuple(chunk.labels),
            page_numbers=tuple(chunk.page_numbers),
            doc_item_refs=tuple(chunk.doc_item_refs),
            token_count=chunk.token_count,
            metadata=chunk.metadata,
        )
        for chunk in read.chunks
    ]
