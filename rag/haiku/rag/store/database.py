"""`Store`: opening, creating, and the way to everything else."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar

from haiku.rag.exceptions import ReadOnly, SnapshotExpired
from haiku.rag.store import history, indexes, legs, opening, reading, records, schema, sql
from haiku.rag.store.commit import Committer
from haiku.rag.store.finding import Finder
from haiku.rag.store.info import StoreInfo, StoreStats
from haiku.rag.store.replacing import Aftermath, Predecessor
from haiku.rag.store.restoring import Restorer
from haiku.rag.store.shadow import Shadow
from haiku.rag.store.snapshot import Snapshot
from haiku.rag.store.tables import Tables, locate, size_on_disk
from haiku.rag.store.tags import Tags
from haiku.rag.store.threads import Threads
from haiku.rag.store.upkeep import Upkeep

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.config.models import StorageConfig
    from haiku.rag.records import EmbeddingIdentity
    from haiku.rag.store.changes import Change, Outcome, Row
    from haiku.rag.store.commit import Step, StillMine
    from haiku.rag.store.info import UpkeepReport, VacuumReport
    from haiku.rag.store.settings import Settings
    from haiku.rag.store.shadow import Difference
    from haiku.rag.store.states import AsOf, HistoryEntry, RestoreReport, Tag

T = TypeVar("T")

#: Seconds between two looks at what upkeep is due: many commits share one.
UPKEEP_PAUSE = 0.5
#: Snapshots that a read takes before it gives up.
READS = 3


class Store:
    """One open database. Made by `Store.create` or `Store.open`, ended by `close`.

    Safe to use from many tasks of one event loop. Commits of one store are made one at a time;
    other processes may commit to the same database at any time.
    """

    def __init__(
        self,
        path: str,
        tables: Tables,
        found: Settings,
        config: StorageConfig,
        *,
        read_only: bool,
    ) -> None:
        #: Absolute path, or URI, of the database.
        self.path: str = path
        #: Where its tables are: `path`, or since it was rebuilt a folder below it.
        self.place: str = tables.database
        #: When it was made (UTC).
        self.created_at: datetime = found.created_at
        self.read_only: bool = read_only
        #: What the vectors in the database come from.
        self.identity: EmbeddingIdentity = found.identity
        #: Counters since the store was opened.
        self.stats = StoreStats()
        self._settings = found
        self._tables = tables
        self._threads = Threads()
        self._committer = Committer(
            tables, self._threads, found.identity, config.collect_after, self.stats
        )
        self._tags = Tags(tables, self._threads, self._committer)
        self._upkeep = Upkeep(tables, self._threads, self._committer, config, self.stats)
        self._by_uri = Finder("uri")
        self._by_hash = Finder("text_hash")
        self._upkeep_task: asyncio.Task[None] | None = None
        #: Set when a commit may have left something to do, or when the store is being closed.
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()

    @classmethod
    async def create(
        cls, path: str | os.PathLike[str], identity: EmbeddingIdentity, config: StorageConfig
    ) -> Self:
        """Make an empty database at a path or URI and open it; parent folders are made.

        Raises:
            DatabaseExists: there is one already.
            StoreError: the place cannot be written, or is inside of another database.
        """
        database = locate(path)
        await asyncio.to_thread(opening.create, database, identity)
        return await cls.open(database, config, identity=identity)

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        config: StorageConfig,
        *,
        identity: EmbeddingIdentity | None = None,
        read_only: bool = False,
        as_of: AsOf | None = None,
        unfinished: bool = False,
    ) -> Self:
        """Open a database; nothing is ever created. For writing, an older one is migrated.

        Args:
            path: a local path, or a URI such as `s3://…`.
            identity: the embedder in use; None when no vectors are made or searched.
            read_only: refuse to commit.
            as_of: a state of the past, for reading: a tag, a version of `document_meta`, or the
                last commit that is not after a time. It stays readable while it is kept.
            unfinished: open it although a rebuild has not finished it: for that rebuild.

        Raises:
            DatabaseNotFound: there is none.
            StoreBusy: a rebuild is making it, or has been broken off.
            TagNotFound, TagUnusable, StateNotKept: there is no such state; see `travel.at`.
            SchemaMismatch: it is older or newer than this program can use.
            IdentityMismatch: its vectors come from another embedder than `identity`.
            StoreError: it is damaged, or not a database of ours.
        """
        root = locate(path)
        read_only = read_only or as_of is not None
        tables, found = await asyncio.to_thread(
            opening.open_tables,
            root,
            config.collect_after,
            identity=identity,
            read_only=read_only,
            as_of=as_of,
            unfinished=unfinished,
        )
        return cls(root, tables, found, config, read_only=read_only)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for upkeep that is under way, then let go of the database."""
        self._closing.set()
        self._wake.set()
        if self._upkeep_task is not None:
            await asyncio.wait([self._upkeep_task])
        self._threads.close()

    def on_step(self, step: Step) -> None:
        """Have `step` awaited with a name before each step of a commit: for fault injection."""
        self._committer.step = step

    def on_upkeep_step(self, step: Step) -> None:
        """Have `step` awaited with a name before each step of upkeep: for fault injection."""
        self._upkeep.on_step(step)

    async def snapshot(self) -> Snapshot:
        """The database as the last commit of any process left it."""
        view = await self._threads.run(self._tables.view)
        return Snapshot(view, self._threads, self.identity)

    async def read(self, work: Callable[[Snapshot], Awaitable[T]]) -> T:
        """What `work` makes of the newest snapshot; of another one when that one expires.

        Raises:
            SnapshotExpired: it has taken too long each time.
        """
        for _ in range(READS - 1):
            try:
                return await work(await self.snapshot())
            except SnapshotExpired:
                continue
        return await work(await self.snapshot())

    async def commit(
        self,
        changes: Sequence[Change],
        *,
        still_mine: StillMine | None = None,
        whole: bool = False,
    ) -> list[Outcome]:
        """Make a group of changes visible at once, and tell what became of each.

        The changes are applied in order, each as if committed by itself; one whose `expected` no
        longer holds is a "conflict" and the others go on. Until the commit readers see nothing
        of the group; a failure or cancellation before it leaves the database as it was.

        Args:
            still_mine: asked right before each try to commit, one answer a change: a change
                that is no longer the caller's is "dropped".
            whole: all or none: if any change cannot be done, nothing is written and those that
                could have been are "dropped".

        Raises:
            ReadOnly: the store is open for reading only.
            IdentityMismatch: a vector has another length than the database's.
            ValueError: a URI is empty, or vectors and chunks do not match.
            StoreBusy: other writers were faster too often.
            StoreError: the storage failed.
        """
        self._writable("commit")
        if not changes:
            return []
        outcomes = await self._committer.commit(changes, still_mine=still_mine, whole=whole)
        self._schedule_upkeep()
        return outcomes

    async def row(self, uri: str) -> Row | None:
        """The live document at a URI as the last commit of any process left it.

        What `snapshot().get_by_uri` gives, at a tenth of the cost while many commits are made.
        """
        if not uri:
            return None

        def look() -> Row | None:
            meta = self._tables.latest(schema.META)
            found = self._by_uri.find(meta, [sql.clean_uri(uri)], records.ROW_COLUMNS, reading.LIVE)
            return records.load_row(found.to_pylist()[0]) if found.num_rows else None

        return await self._threads.run(look)

    async def known_vectors(self, hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors already stored, by `EmbeddingIdentity.text_hash`; unknown ones are left out."""
        if not hashes:
            return {}

        def look() -> dict[str, NDArray[np.float32]]:
            wanted = list(dict.fromkeys(hashes))
            chunks = self._tables.latest(schema.CHUNKS)
            return legs.known_vectors(chunks, self._by_hash, wanted)

        return await self._threads.run(look)

    async def create_tag(self, name: str) -> Tag:
        """Name the state of this moment, while other processes may go on writing.

        Raises:
            ReadOnly: the store is open for reading only.
            TagExists: there is one of that name, perhaps a partial one.
            StoreError: the name is not allowed, or the storage failed; nothing is left behind.
            StoreBusy: versions were cleaned up meanwhile, each time it was tried.
        """
        self._writable("create a tag")
        return await self._tags.create(name)

    async def list_tags(self) -> list[Tag]:
        """Every tag, the oldest first; partial ones too."""
        return await self._tags.all()

    async def delete_tag(self, name: str) -> Tag:
        """Delete a tag, also a partial one, and return what it was.

        Raises:
            ReadOnly: the store is open for reading only.
            TagNotFound: there is none.
        """
        self._writable("delete a tag")
        return await self._tags.delete(name)

    async def restore_tag(self, name: str) -> RestoreReport:
        """Make the state that a tag names today's, in one commit; tag today's state before.

        Ids, contents, titles, metadata, owners and times are as tagged; nothing is converted or
        embedded. Other processes may go on writing: what they commit before is in the safety
        tag, what they commit after stays. When nothing differs, nothing is done.

        Raises:
            ReadOnly: the store is open for reading only.
            TagNotFound: there is none.
            TagUnusable: the tag is partial.
            IdentityMismatch, SchemaMismatch: the tagged rows would not fit beside today's.
            StoreBusy: other writers were faster too often; nothing was changed.
            StoreError: the storage failed; nothing was changed.
        """
        self._writable("restore a tag")
        report = await Restorer(self._tables, self._threads, self._committer).restore(name)
        self._schedule_upkeep()
        return report

    def predecessor(self, token: str) -> Predecessor:
        """This database as one that the rebuild with a token is about to replace."""
        return Predecessor(self._tables, self._threads, self._committer, token)

    def shadow(self, token: str) -> Shadow:
        """This database as one that the rebuild with a token makes; see `open(unfinished=…)`."""
        return Shadow(self._tables, self._threads, self._committer, self.identity, token)

    def aftermath(self) -> Aftermath:
        """What follows when a rebuild has replaced this database."""
        return Aftermath(self.path, self._threads, self._committer.step)

    async def compare(self, shadow: Shadow) -> Difference:
        """How a database that is being made from this one differs from it."""
        return await shadow.compare(self._tables)

    @property
    def seen_restore_epoch(self) -> int | None:
        """The number of restores as a commit of this store saw it last; None before the first.

        When `still_mine` of `commit` is asked, it is that of the state to be committed upon.
        """
        return self._committer.restore_epoch

    async def restore_epoch(self) -> int:
        """The number of restores that the database has seen, by any process.

        Raises:
            DatabaseReplaced: a rebuild has taken its place.
        """

        def look() -> int:
            head = reading.head(self._tables.latest(schema.META))
            self._committer.refuse_replaced(head)
            return head.restore_epoch

        return await self._threads.run(look)

    async def history(self, limit: int = 20) -> list[HistoryEntry]:
        """The newest commits whose states are kept, the newest first."""
        return await self._threads.run(history.entries, self.place, limit)

    async def upkeep(self) -> UpkeepReport:
        """Do what is due: compact, bring indexes up to date, collect, clean. Never raises for it.

        Runs by itself after commits as well.

        Raises:
            ReadOnly: the store is open for reading only.
        """
        self._writable("upkeep")
        return await self._upkeep.run()

    async def vacuum(
        self, history: float | timedelta | None = None, *, full: bool = True
    ) -> VacuumReport:
        """Take away all that nobody needs any more; safe beside anything, at any time.

        Dead revisions are collected, small fragments gathered and deleted rows written out of
        them, indexes brought up to date, superseded versions removed. Nothing goes that was
        needed within the last `storage.collect_after` or that is tagged: the report says what
        has to wait. Failures are in the report as well, never raised.

        Args:
            history: for how long superseded versions stay readable, in seconds; None: as
                `storage.history` says.
            full: also look for rows that no document names, which a crash left.

        Raises:
            ReadOnly: the store is open for reading only.
        """
        self._writable("vacuum")
        seconds = history.total_seconds() if isinstance(history, timedelta) else history
        return await self._upkeep.vacuum(seconds, full=full)

    async def info(self) -> StoreInfo:
        """What the database is and holds, as of now."""
        return await self._threads.run(self._info)

    def _info(self) -> StoreInfo:
        view = self._tables.view()
        live = view.meta.to_table(columns=["chunk_count"], filter=reading.LIVE)
        found = self._settings
        return StoreInfo(
            path=self.path,
            identity=self.identity,
            schema_version=found.schema_version,
            created_at=found.created_at,
            documents=live.num_rows,
            deleted=view.meta.count_rows(filter="state = 'deleted'"),
            chunks=sum(live["chunk_count"].to_pylist()),
            replaced_revisions=len(reading.replaced_revisions(view.meta)),
            rows={name: dataset.count_rows() for name, dataset in view.datasets.items()},
            versions={name: dataset.version for name, dataset in view.datasets.items()},
            indexes=[
                index
                for name, dataset in view.datasets.items()
                for index in indexes.coverage(dataset, name)
            ],
            bytes=size_on_disk(self.place),
        )

    def _writable(self, what: str) -> None:
        if self.read_only:
            raise ReadOnly(f"{what}: {self.path} is open for reading only; open it for writing")

    def _schedule_upkeep(self) -> None:
        self._wake.set()
        if self._upkeep_task is None or self._upkeep_task.done():
            self._upkeep_task = asyncio.create_task(self._keep_up())

    async def _keep_up(self) -> None:
        """Do what is due after commits, and once more when what has to wait has waited."""
        while not self._closing.is_set():
            self._wake.clear()
            again_in = (await self._upkeep.run()).again_in
            await _happens(self._closing, UPKEEP_PAUSE)
            if again_in is None and not self._wake.is_set():
                return
            await _happens(self._wake, again_in)


async def _happens(event: asyncio.Event, within: float | None) -> None:
    """Wait for an event, for as many seconds at most."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return
