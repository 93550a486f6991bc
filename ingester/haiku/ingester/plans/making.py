"""`make_plan`: a run's sweep on a copy of what is known, and what it would lead to."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from haiku.ingester.exceptions import NotKnown
from haiku.ingester.items.copying import copy_items
from haiku.ingester.items.items import Items
from haiku.ingester.items.model import Action, Priority
from haiku.ingester.plans.estimate import Estimator, count_pages, suffix
from haiku.ingester.plans.model import VERSION, Cost, Entry, Plan
from haiku.ingester.service import rooms
from haiku.ingester.service.batch import problem_of
from haiku.ingester.service.restores import advice
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag.exceptions import DatabaseNotFound, HaikuRAGError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from haiku.ingester.config import DaemonConfig, FilesystemSource
    from haiku.ingester.items.model import Claim
    from haiku.ingester.plans.model import Change
    from haiku.ingester.service.places import Places
    from haiku.ingester.sources.protocol import Source
    from haiku.rag.convert.pool import WorkerPool

log = logging.getLogger(__name__)

#: Files that are looked into at once.
LOOKS = 8


async def make_plan(config: DaemonConfig, places: Places) -> Plan:
    """What `run-batch` would do now. Nothing but a temporary folder is written to.

    Raises:
        SourceMissing: a `required` source is not there.
        ConfigError, StoreError, ItemsUnavailable: nothing can be said.
    """
    from haiku.rag.write import todays_fingerprint

    sources = rooms.make_sources(config, places)
    await rooms.check_required(config, sources)
    fingerprint = todays_fingerprint(config.app)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="haiku-plan-")))
        items = await _copied_items(config, places, folder, stack)
        await _fill(items, config, places)
        await items.reprocess(fingerprint, outdated=config.ingester.work.reprocess_outdated)
        records = await items.sources()
        held = {source for source, record in records.items() if record.held_since}
        problems = {
            section.id: problem
            for section in config.ingester.sources
            if (problem := await _problem(section, sources[section.id], items, held))
        }
        work = [c for c in await items.work_left() if c.source_id in sources.keys() - held]
        look = await _looker(config, sources, items, folder, stack)
        entries = await look.entries(work, fingerprint)
    return Plan(
        version=VERSION,
        made_at=datetime.now(UTC),
        database=places.database,
        fingerprint=fingerprint,
        problems=problems,
        entries=entries,
    )


async def _copied_items(
    config: DaemonConfig, places: Places, folder: Path, stack: AsyncExitStack
) -> Items:
    url = f"sqlite:///{folder / 'items.sqlite'}"
    copy = await Items.open(url, "plan", config.ingester.work)
    stack.push_async_callback(copy.close)
    try:
        await copy_items(places.items_url, url)
    except NotKnown:
        log.info("no items database yet; the plan is made from the documents' database alone")
    return copy


async def _fill(items: Items, config: DaemonConfig, places: Places) -> None:
    """Make the copy agree with the documents' database, as the daemon does when it starts."""
    from haiku.rag.store import Store

    try:
        store = await Store.open(places.database, config.app.storage, read_only=True)
    except DatabaseNotFound:
        await items.start_over()
        return
    async with store:
        await rooms.reconcile(items, store, created=False)


async def _problem(
    section: FilesystemSource, source: Source, items: Items, held: Collection[str]
) -> str | None:
    """List one source into the copy; what was wrong with it, or None."""
    if section.id in held:
        return advice(section.id)
    try:
        return problem_of(await SourceSync(source, items, Policy.of(section)).run_once())
    except HaikuRAGError as error:
        return str(error)


async def _looker(
    config: DaemonConfig,
    sources: Mapping[str, Source],
    items: Items,
    folder: Path,
    stack: AsyncExitStack,
) -> _Looker:
    from haiku.rag.convert.pool import WorkerPool

    pool = WorkerPool(config.app.processing)
    stack.push_async_callback(pool.close)
    return _Looker(
        sources=sources,
        estimator=Estimator(await items.sizes(), workers=pool.size),
        pool=pool,
        folder=folder,
        limit=config.app.processing.max_file_size,
    )


class _Looker:
    """Makes entries, looking into files where their size alone does not say enough."""

    def __init__(
        self,
        *,
        sources: Mapping[str, Source],
        estimator: Estimator,
        pool: WorkerPool,
        folder: Path,
        limit: int,
    ) -> None:
        self._sources = sources
        self._estimator = estimator
        self._pool = pool
        self._folder = folder
        self._limit = limit
        self._looks = asyncio.Semaphore(LOOKS)

    async def entries(self, work: list[Claim], fingerprint: str) -> list[Entry]:
        return list(await asyncio.gather(*(self._entry(claim, fingerprint) for claim in work)))

    async def _entry(self, claim: Claim, fingerprint: str) -> Entry:
        change = _change(claim)
        cost = Cost()
        if claim.action == Action.INDEX:
            async with self._looks:
                touched, pages = await self._look(claim)
            if touched and claim.fingerprint == fingerprint:
                change = "touched"
            else:
                cost = self._estimator.cost(claim.uri, claim.size, pages)
        return Entry(
            source=claim.source_id,
            uri=claim.uri,
            change=change,
            mark=claim.mark,
            size=claim.size,
            moved_from=claim.moved_from if claim.action == Action.MOVE else None,
            cost=cost,
        )

    async def _look(self, claim: Claim) -> tuple[bool, int | None]:
        """Whether the bytes are those that are indexed, and the pages of a PDF."""
        paged = suffix(claim.uri) == ".pdf"
        if claim.content_hash is None and not paged:
            return False, None
        path = self._folder / f"look-{claim.item_id}"
        try:
            with path.open("wb") as file:
                fetched = await self._sources[claim.source_id].fetch(
                    claim.uri, cast("BinaryIO", file), max_size=self._limit
                )
            pages = await self._pool.run(count_pages, str(path)) if paged else None
            return fetched.sha256 == claim.content_hash, pages
        except (HaikuRAGError, OSError) as error:
            log.warning("%s cannot be looked into, its cost is a guess: %s", claim.uri, error)
            return False, None
        finally:
            path.unlink(missing_ok=True)


def _change(claim: Claim) -> Change:
    if claim.action == Action.REMOVE:
        return "gone"
    if claim.action == Action.MOVE:
        return "moved"
    if claim.document_id is None:
        return "new"
    return "outdated" if claim.priority == Priority.REPROCESS else "changed"
