"""Makes what the daemon works with, each thing when those it needs are there.

Everything that is opened is closed by the exit stack it is given, in the reverse order.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from haiku.ingester.exceptions import SourceMissing
from haiku.ingester.items.instance import Instance
from haiku.ingester.items.items import Items
from haiku.ingester.service.places import without_own_files
from haiku.ingester.service.restores import Restores
from haiku.ingester.sources.fs import FolderSource
from haiku.ingester.work.outages import Outages
from haiku.ingester.work.pipeline import Pipeline
from haiku.ingester.work.spool import Spool
from haiku.ingester.work.worker import Worker, WorkItems
from haiku.rag.exceptions import DatabaseNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AsyncExitStack

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.service.places import Places
    from haiku.ingester.sources.protocol import Source
    from haiku.ingester.work.observer import Observer
    from haiku.rag.config import AppConfig
    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Store
    from haiku.rag.store.changes import Outcome
    from haiku.rag.write.session import WriteSession

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Items under way a conversion worker: most wait for the embedder, which is the more thrifty the
#: more texts it can sort by length (24 instead of 8 on two cores: 13 % less of its CPU time).
ITEMS_PER_WORKER = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Rooms:
    """What is open while the daemon runs."""

    sources: Mapping[str, Source]
    items: Items
    store: Store
    session: WriteSession
    pipeline: Pipeline
    restores: Restores


class Builder:
    """Opens the rooms, one after the other.

    Args:
        config: the configuration.
        places: where everything is.
        stack: closes what was opened.
    """

    def __init__(self, config: DaemonConfig, places: Places, stack: AsyncExitStack) -> None:
        self._config = config
        self._places = places
        self._stack = stack

    async def open(
        self,
        sources: Mapping[str, Source],
        opening: Opening,
        on_commit: Callable[[Sequence[Outcome], float], None],
    ) -> Rooms:
        """Open everything.

        Args:
            sources: by id.
            opening: calls what opens a part, perhaps until it succeeds.
            on_commit: called after each commit with its outcomes and seconds.

        Raises:
            ConfigError, IdentityMismatch, SchemaMismatch, and what `opening` lets through.
        """
        instance = await opening("items", self._instance)
        items = await opening("items", lambda: self._items(instance))
        store, created = await opening("store", self._store)
        await opening("items", lambda: reconcile(items, store, created=created))
        restores = Restores(store, items, sources)
        await opening("items", restores.look)
        session = await opening("embedder", lambda: self._session(store))
        outdated = self._config.ingester.work.reprocess_outdated
        await items.reprocess(session.writer.fingerprint, outdated=outdated)
        spool = await opening("spool", lambda: self._spool(instance))
        return Rooms(
            sources=sources,
            items=items,
            store=store,
            session=session,
            pipeline=self._pipeline(sources, restores, session, spool, on_commit),
            restores=restores,
        )

    def clock(self) -> float:
        """Epoch seconds, by which leases and delays are counted. For the simulator to replace."""
        return time.time()

    def embedder(self) -> Embedder:
        """What makes vectors, as configured. For the simulator to replace."""
        from haiku.rag.embed import create_embedder

        return create_embedder(self._config.app.embeddings)

    async def _instance(self) -> Instance:
        instance = Instance.acquire(self._places.state)
        self._stack.callback(instance.close)
        return instance

    async def _items(self, instance: Instance) -> Items:
        items = await Items.open(
            self._places.items_url, instance.id, self._config.ingester.work, clock=self.clock
        )
        self._stack.push_async_callback(items.close)
        if count := await items.reclaim():
            log.info("%d items were under way when the daemon ended; they are done again", count)
        return items

    async def _store(self) -> tuple[Store, bool]:
        from haiku.rag.embed import identity
        from haiku.rag.store import Store

        app, path = self._config.app, self._places.database
        wanted = identity(app.embeddings.model)
        try:
            store, created = await Store.open(path, app.storage, identity=wanted), False
        except DatabaseNotFound:
            store, created = await Store.create(path, wanted, app.storage), True
            log.info("made a new database")
        self._stack.push_async_callback(store.close)
        return store, created

    async def _session(self, store: Store) -> WriteSession:
        from haiku.rag.write.session import WriteSession

        app: AppConfig = self._config.app
        embedder = self.embedder()
        self._stack.push_async_callback(embedder.close)
        session = WriteSession(store, embedder, app)
        self._stack.push_async_callback(session.close)
        return session

    async def _spool(self, instance: Instance) -> Spool:
        # A folder of this instance's own: a spool clears what it finds.
        return await Spool.open(
            self._places.spool / instance.id, self._config.ingester.spool.max_bytes
        )

    def _pipeline(
        self,
        sources: Mapping[str, Source],
        restores: Restores,
        session: WriteSession,
        spool: Spool,
        on_commit: Callable[[Sequence[Outcome], float], None],
    ) -> Pipeline:
        from haiku.rag.write import GroupCommitter

        group = self._config.ingester.group
        committer = GroupCommitter(
            session.store,
            max_documents=group.max_documents,
            max_bytes=group.max_bytes,
            window=group.window,
            still_mine=restores.still_mine,
            on_commit=on_commit,
        )
        self._stack.push_async_callback(committer.close)
        return Pipeline(
            sources=sources,
            writer=session.writer,
            committer=committer,
            spool=spool,
            max_file_size=self._config.app.processing.max_file_size,
            busy_window=group.busy_window,
            outages=Outages(backoff=self._config.ingester.work.backoff),
        )


class Opening(Protocol):
    """How a part is opened: once, or again and again until it works."""

    async def __call__(self, part: str, make: Callable[[], Awaitable[T]], /) -> T:
        """What `make` gives; `part` is its name in health and logs."""
        ...


async def once(_part: str, make: Callable[[], Awaitable[T]], /) -> T:
    """Open a part once; an error is the caller's."""
    return await make()


def make_sources(config: DaemonConfig, places: Places) -> dict[str, Source]:
    """Source id → source, as configured, never listing the daemon's own files."""
    limit = config.app.processing.max_file_size
    return {
        section.id: FolderSource(without_own_files(section, places), max_file_size=limit)
        for section in config.ingester.sources
    }


async def check_required(config: DaemonConfig, sources: Mapping[str, Source]) -> None:
    """Refuse to start while a `required` source is missing.

    Raises:
        SourceMissing: naming key and place.
    """
    for section in config.ingester.sources:
        if section.required:
            try:
                await sources[section.id].check()
            except SourceMissing as error:
                raise SourceMissing(f"{error} (the source is required)") from None


def make_worker(
    config: DaemonConfig, rooms: Rooms, observer: Observer, *, items: WorkItems | None = None
) -> Worker:
    """A worker over the rooms, not running yet; `items` gives it claims other than all."""
    work = config.ingester.work
    return Worker(
        items or rooms.items,
        rooms.pipeline,
        concurrency=work.concurrency or ITEMS_PER_WORKER * rooms.session.workers,
        slow=max(1, rooms.session.workers - 1),
        lease=work.lease,
        group=config.ingester.group,
        observer=observer,
    )


async def reconcile(items: Items, store: Store, *, created: bool) -> None:
    """Make items agree with a database that they were not written beside.

    Without items they are filled from the database, without work; items of a database that was
    lost and made anew are work again.
    """
    if not await items.counts():
        rows = [row async for batch in (await store.snapshot()).iter_rows() for row in batch]
        if count := await items.rebuild(rows):
            log.info("filled the items database with the %d items the database has", count)
    elif created and (count := await items.start_over()):
        log.info("the database is new: %d items are done again", count)
