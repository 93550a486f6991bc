"""`replay`: exactly what a plan says, where things still are as it says."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from haiku.ingester.exceptions import PlanRefused
from haiku.ingester.items.items import OPEN
from haiku.ingester.items.model import Removed, State
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import rooms
from haiku.ingester.service.figures import WorkObserver
from haiku.ingester.service.restores import advice
from haiku.ingester.sync import moves
from haiku.rag.exceptions import HaikuRAGError
from haiku.rag.uris import display

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.items import Claim, Item, Items, Observation
    from haiku.ingester.items.model import Result
    from haiku.ingester.plans.model import Entry, Plan
    from haiku.ingester.service.places import Places
    from haiku.ingester.service.rooms import Rooms
    from haiku.ingester.service.stopping import Stop
    from haiku.ingester.sources.protocol import Source

#: Planned items that are offered to the workers at once.
WINDOW = 400
#: Seconds between looks whether everything is done.
LOOK_INTERVAL = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What came of a plan."""

    #: Entries that were done.
    done: int
    #: Entry → why it was left out.
    left_out: Sequence[tuple[Entry, str]]
    #: Entries that were tried and failed.
    failed: Sequence[Item]
    #: It was told to stop before everything was done.
    stopped: bool

    @property
    def succeeded(self) -> bool:
        """Whether everything was done as planned."""
        return not (self.left_out or self.failed or self.stopped)


async def replay(plan: Plan, config: DaemonConfig, places: Places, stop: Stop) -> Replay:
    """Do what the plan says and nothing else.

    Raises:
        PlanRefused: it was made for another database, pipeline or set of sources.
        ConfigError, StoreError, ItemsUnavailable: nothing could be done.
    """
    sources = rooms.make_sources(config, places)
    _check(plan, places, sources)
    observer = WorkObserver(Metrics())
    async with AsyncExitStack() as stack:
        builder = rooms.Builder(config, places, stack)
        opened = await builder.open(sources, rooms.once, observer.committed)
        if plan.fingerprint != opened.session.writer.fingerprint:
            raise PlanRefused(
                "the plan was made with another configuration or version of the converter, "
                "chunker or embedder; make it again"
            )
        for source in sorted({entry.source for entry in plan.entries}):
            if source in opened.restores.held:
                raise PlanRefused(advice(source))
            if not await opened.items.take_source(source):
                raise PlanRefused(
                    f"a daemon keeps the source {source} in step; a plan is for a database that "
                    "is kept by hand: stop the daemon first"
                )
            stack.push_async_callback(opened.items.release_source, source)
        wanted, left_out = await _want(plan, opened)
        planned = PlannedItems(opened.items, [(entry.source, entry.uri) for entry in wanted])
        stopped = await _work(config, opened, planned, observer, stop)
        failed = await _failed(opened.items, wanted)
        undone = len(planned.left)
    return Replay(
        done=len(wanted) - len(failed) - undone,
        left_out=left_out,
        failed=failed,
        stopped=stopped,
    )


def _check(plan: Plan, places: Places, sources: Collection[str]) -> None:
    if plan.database != places.database:
        raise PlanRefused(f"the plan is for {plan.database}, not for {places.database}")
    unknown = sorted({entry.source for entry in plan.entries} - set(sources))
    if unknown:
        raise PlanRefused(f"the plan names sources that are not configured: {', '.join(unknown)}")


async def _want(plan: Plan, opened: Rooms) -> tuple[list[Entry], list[tuple[Entry, str]]]:
    """Make the plan's entries wanted; those that are not as planned are left out."""
    wanted: list[Entry] = []
    left_out: list[tuple[Entry, str]] = []
    for entry in plan.entries:
        reason = await _want_one(entry, opened)
        if reason is None:
            wanted.append(entry)
        else:
            left_out.append((entry, reason))
    return wanted, left_out


async def _want_one(entry: Entry, opened: Rooms) -> str | None:
    """Make an entry wanted, or say why not."""
    source, items = opened.sources[entry.source], opened.items
    try:
        looks = await source.look([entry.uri, *([entry.moved_from] if entry.moved_from else [])])
    except HaikuRAGError as error:
        return str(error)
    if entry.uri not in looks:
        return "it cannot be told whether it is there; look at its folder's permissions"
    now = looks[entry.uri]
    if entry.change == "gone":
        if now is not None:
            return "it is there again"
        await items.gone(entry.source, [entry.uri], live=False)
        return await _nothing_left(entry, items)
    if now is None:
        return "it is not there any more"
    if now.mark != entry.mark:
        return "it has changed since the plan was made"
    if entry.moved_from is not None:
        left = entry.moved_from in looks and looks[entry.moved_from] is None
        return await _move(entry.moved_from, now, source, items, left=left)
    return await _observe(entry, now, items)


async def _move(
    before: str, now: Observation, source: Source, items: Items, *, left: bool
) -> str | None:
    """Have a document moved that is known to be the very one; else say why not."""
    known = list((await items.known_at(source.id, [before])).values())
    same = left and (
        not known  # a move that is under way already
        or moves.by_identity([now], known, source.same_bytes)
        or await moves.by_content(source, [now], known)
    )
    if not same:
        return f"it is not what was at {display(before)}, or that is still there"
    if not await items.moved(source.id, before, now):
        return "it cannot be moved any more; make the plan again"
    return None


async def _observe(entry: Entry, now: Observation, items: Items) -> str | None:
    if entry.change == "outdated":
        await items.retry(entry.source, entry.uri)
    await items.observe(entry.source, [now], live=False)
    return await _nothing_left(entry, items)


async def _nothing_left(entry: Entry, items: Items) -> str | None:
    """Why no worker will ever take the entry's item, or None when one will."""
    item = await items.get(entry.source, entry.uri)
    if item is None:
        return "nothing is left to do: it is gone already"
    if item.state not in OPEN:
        return f"nothing is left to do: it is {item.state} already"
    return None


class PlannedItems:
    """The items database as a worker sees it that may touch nothing but a plan's items."""

    def __init__(self, items: Items, planned: Sequence[tuple[str, str]]) -> None:
        self._items = items
        #: Source and URI of what is not done yet, in the plan's order.
        self.left = dict.fromkeys(planned)

    async def claim(
        self,
        limit: int,
        sources: Collection[str] | None = None,
        *,
        slow: int = 1,
        removals: bool = False,
    ) -> list[Claim]:
        """As `Items.claim`, of planned items."""
        windows: dict[str, list[str]] = {}
        for source_id, uri in islice(self.left, WINDOW):
            windows.setdefault(source_id, []).append(uri)
        for source_id, window in windows.items():
            only = {source_id}.intersection([source_id] if sources is None else sources)
            claims = await self._items.claim(
                limit, only, slow=slow, among=window, removals=removals
            )
            if claims:
                return claims
        return []

    async def finish(self, claim: Claim, result: Result) -> State:
        """As `Items.finish`."""
        state = await self._items.finish(claim, result)
        if state not in OPEN or (state == State.GONE and isinstance(result, Removed)):
            self.left.pop((claim.source_id, claim.uri), None)
        return state

    async def renew(self, claims: Sequence[Claim]) -> list[bool]:
        """As `Items.renew`."""
        return await self._items.renew(claims)

    async def release(self, claims: Sequence[Claim]) -> int:
        """As `Items.release`."""
        return await self._items.release(claims)

    async def wait(self, interval: float) -> None:
        """As `Items.wait`."""
        await self._items.wait(interval)


async def _work(
    config: DaemonConfig, opened: Rooms, planned: PlannedItems, observer: WorkObserver, stop: Stop
) -> bool:
    """Work until the plan is done; True when it was told to stop before."""
    worker = rooms.make_worker(config, opened, observer, items=planned)
    working = asyncio.create_task(worker.run())
    outages, patience = opened.pipeline.outages, config.ingester.work.max_attempts
    try:
        while planned.left and not working.done() and not stop.requested.is_set():
            if outages.failures >= patience:
                break
            await asyncio.wait({working}, timeout=LOOK_INTERVAL)
        if working.done():
            working.result()
        await worker.stop(config.ingester.shutdown_grace)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return bool(planned.left)


async def _failed(items: Items, wanted: Sequence[Entry]) -> list[Item]:
    found = [await items.get(entry.source, entry.uri) for entry in wanted]
    return [item for item in found if item is not None and item.state == State.FAILED]
