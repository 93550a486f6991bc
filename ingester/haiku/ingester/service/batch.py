"""`run_once`: one complete look at every source, all the work that comes of it, and a report."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from haiku.ingester.items import RequestKind, State
from haiku.ingester.items.items import OPEN
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import rooms
from haiku.ingester.service.discovery import ANSWERS
from haiku.ingester.service.figures import WorkObserver
from haiku.ingester.service.restores import advice
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag import tagnames
from haiku.rag.exceptions import HaikuRAGError
from haiku.rag.store.tags import exists
from haiku.rag.uris import display

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from haiku.ingester.config import DaemonConfig, FilesystemSource
    from haiku.ingester.items import Item
    from haiku.ingester.service.places import Places
    from haiku.ingester.service.rooms import Rooms
    from haiku.ingester.service.stopping import Stop
    from haiku.ingester.sync.model import SweepReport

T = TypeVar("T")

#: Failed items that a report lists.
LISTED = 1000
#: Seconds between looks whether everything is done.
LOOK_INTERVAL = 0.2
#: The state of a source that another process keeps in step.
BUSY = "another process keeps this source in step; ask it with `haiku-ingester source refresh`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What a run came to."""

    #: Source id, or a part that did not answer → why not everything could be done.
    problems: Mapping[str, str]
    #: Items that are failed now, also those that had failed before and did not change.
    failed: Sequence[Item]
    #: State → number of items of the configured sources.
    counts: Mapping[str, int]
    #: It was told to stop before everything was done.
    stopped: bool
    #: Duration.
    seconds: float
    #: The tag that was made of the result; None when none was wanted, or the run did not succeed.
    tag: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the database has everything that the sources have."""
        return not (self.problems or self.failed or self.stopped)


async def run_once(
    config: DaemonConfig, places: Places, stop: Stop, *, tag: str | None = None
) -> Batch:
    """Bring the database in step with every source, once.

    Args:
        config: sources and settings.
        places: where things are.
        stop: ends the run early.
        tag: name the result, if everything succeeded.

    Raises:
        SourceMissing: a `required` source is not there.
        TagNameRefused: no tag may be called so; nothing was done.
        TagExists: there is a tag of that name already; nothing was done.
        ConfigError, StoreError, ItemsUnavailable: nothing could be done.
    """
    began = time.monotonic()
    if tag is not None:
        tagnames.check(tag)
    sources = rooms.make_sources(config, places)
    await rooms.check_required(config, sources)
    observer = WorkObserver(Metrics())
    async with AsyncExitStack() as stack:
        builder = rooms.Builder(config, places, stack)
        opened = await builder.open(sources, rooms.once, observer.committed)
        await _check_free(opened, tag)
        worker = rooms.make_worker(config, opened, observer)
        working = asyncio.create_task(worker.run())
        try:
            problems = await _finish_or_stop(_bring_in_step(config, opened, working), stop)
            if problems is None:
                await worker.stop(config.ingester.shutdown_grace)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        batch = await _report(opened, problems, time.monotonic() - began)
        if tag is None or not batch.succeeded:
            return batch
        made = await opened.store.create_tag(tag)
        return replace(batch, tag=made.name, seconds=time.monotonic() - began)


async def _check_free(opened: Rooms, tag: str | None) -> None:
    """Refuse the name of a tag that is there, before hours of work."""
    if tag is not None and tag in {there.name for there in await opened.store.list_tags()}:
        raise exists(tag)


async def _finish_or_stop(work: Coroutine[Any, Any, T], stop: Stop) -> T | None:
    """The result of the work, or None when a stop was requested first."""
    task, stopping = asyncio.create_task(work), asyncio.create_task(stop.requested.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, stopping):
            one.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def _bring_in_step(
    config: DaemonConfig, opened: Rooms, working: asyncio.Task[None]
) -> dict[str, str]:
    """Sweep all sources at once, then wait until no item is left that can be done."""
    sections = config.ingester.sources
    found = await asyncio.gather(*(_sweep(section, opened) for section in sections))
    problems = {s.id: problem for s, problem in zip(sections, found, strict=True) if problem}
    outages, patience = opened.pipeline.outages, config.ingester.work.max_attempts
    while await _left(opened) and not working.done():
        if outages.failures >= patience:
            left = await _left(opened)
            return problems | {o.part: f"{o.text}; {left} items wait for it" for o in outages}
        await asyncio.wait({working}, timeout=LOOK_INTERVAL)
    if working.done():
        working.result()
    return problems


async def _sweep(section: FilesystemSource, opened: Rooms) -> str | None:
    """List one source; what was wrong with it, or None."""
    if not await opened.items.take_source(section.id):
        return BUSY
    try:
        sync = SourceSync(opened.sources[section.id], opened.items, Policy.of(section))
        await _answer(section.id, sync, opened)
        report = await sync.run_once()
        held = section.id in opened.restores.held
        return advice(section.id) if held else problem_of(report)
    except HaikuRAGError as error:
        return str(error)
    finally:
        await opened.items.release_source(section.id)


async def _answer(source_id: str, sync: SourceSync, opened: Rooms) -> None:
    """Do what commands have asked of the source since a daemon ran."""
    for request in await opened.items.take_requests([source_id]):
        if request.kind is RequestKind.CONFIRM_DELETES:
            await sync.confirm_deletes()
        elif request.kind in ANSWERS:
            await ANSWERS[request.kind](opened.restores, source_id)


def problem_of(report: SweepReport) -> str | None:
    """What a sweep could not do, for people, or None."""
    if report.incomplete:
        parts = "; ".join(f"{display(part.tree)}: {part.reason}" for part in report.incomplete)
        return f"parts could not be read, and nothing is removed there: {parts}"
    if report.held_back:
        return (
            f"{report.held_back} deletions are suspended because so much is gone; "
            "if that is right: haiku-ingester source confirm-deletes"
        )
    return None


async def _counts(opened: Rooms) -> Counter[State]:
    """State → number of items of the configured sources."""
    total: Counter[State] = Counter()
    for source, counts in (await opened.items.counts()).items():
        if source in opened.sources:
            total.update(counts)
    return total


async def _left(opened: Rooms) -> int:
    """Number of items that can still be done."""
    held = opened.restores.held
    counts = await opened.items.counts()
    return sum(
        number
        for source, states in counts.items()
        if source in opened.sources and source not in held
        for state, number in states.items()
        if state in OPEN
    )


async def _report(opened: Rooms, problems: dict[str, str] | None, seconds: float) -> Batch:
    failed = [
        item
        for item in await opened.items.list(state=State.FAILED, limit=LISTED)
        if item.source_id in opened.sources
    ]
    return Batch(
        problems=problems or {},
        failed=failed,
        counts={state.value: number for state, number in (await _counts(opened)).items()},
        stopped=problems is None,
        seconds=seconds,
    )
