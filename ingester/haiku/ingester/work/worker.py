"""The loop that claims items, keeps their leases, and says what became of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from haiku.ingester.config import GroupConfig
from haiku.ingester.exceptions import ItemsUnavailable, LeaseLost
from haiku.ingester.items.model import Retry, State
from haiku.ingester.work.observer import Silent
from haiku.ingester.work.pipeline import SLOW_AFTER
from haiku.ingester.work.stages import Progress

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from haiku.ingester.items.model import Claim, Result
    from haiku.ingester.work.observer import Observer
    from haiku.ingester.work.pipeline import Pipeline

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0  # seconds after which what other processes wrote is noticed
GATHER = 0.2  # seconds that a few free slots wait for more, to be claimed for together
RENEWALS = 3  # times a lease is renewed before it would lapse


class WorkItems(Protocol):
    """What a worker uses of `haiku.ingester.items.items.Items`; see there."""

    async def claim(
        self,
        limit: int,
        sources: Collection[str] | None = None,
        *,
        slow: int = 1,
        removals: bool = False,
    ) -> list[Claim]: ...

    async def finish(self, claim: Claim, result: Result) -> State: ...

    async def renew(self, claims: Sequence[Claim]) -> list[bool]: ...

    async def release(self, claims: Sequence[Claim]) -> int: ...

    async def wait(self, interval: float) -> None: ...


class Worker:
    """Works on items until it is stopped. `run` it once.

    An item that waits for its commit gives its slot to the next one, as long as no more wait than
    two groups hold: so groups are as large as the load makes them, and memory stays bounded.
    So do items that take longer than `SLOW_AFTER`, but no more of them than there are slots.
    """

    def __init__(
        self,
        items: WorkItems,
        pipeline: Pipeline,
        *,
        concurrency: int,
        slow: int = 1,
        lease: float,
        group: GroupConfig | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            items: where claims come from.
            pipeline: what is done with one.
            concurrency: items that are fetched, converted and embedded at once.
            slow: items with a slow conversion at once, at most.
            lease: seconds a claim lasts, as `ingester.work.lease`.
            group: the size of a commit, as `ingester.group`.
            observer: told about stages and outcomes.
        """
        self._items = items
        self._pipeline = pipeline
        self._concurrency = concurrency
        self._slow = slow
        self._lease = lease
        self._group = group or GroupConfig()
        self._observer = observer or Silent()
        self._tasks: dict[asyncio.Task[None], Claim] = {}
        #: The item begun last.
        self._trial: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._slot = asyncio.Event()
        #: Claim → how far it has come, of what is under way.
        self.progress: dict[Claim, Progress] = {}

    async def run(self) -> None:
        """Claim and work until `stop`; then wait for what is under way.

        Cancelling gives everything under way back at once, as if it had not been claimed.
        """
        renewing = asyncio.create_task(self._keep_leases(), name="renew-leases")
        try:
            while not self._stopping.is_set():
                await self._step()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await self._give_back()
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def stop(self, grace: float) -> None:
        """Claim nothing more; after `grace` seconds give back what is still under way."""
        self._stopping.set()
        self._slot.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        await self._give_back()

    async def _step(self) -> None:
        free = await self._free_slots()
        if not free:
            return
        outages = self._pipeline.outages
        try:
            if outages.pause > 0:
                await self._remove(free)
            elif outages.failures and self._trial is not None and not self._trial.done():
                await self._wait_for_slot()
            else:
                await self._claim(1 if outages.failures else free)
        except ItemsUnavailable as error:
            log.warning("no items can be claimed: %s", error)
            await self._sleep(POLL_INTERVAL)

    async def _claim(self, free: int) -> None:
        """Begin what is due; during an outage one item, which tries whether it is over."""
        claims = await self._items.claim(free, self._pipeline.sources, slow=self._slow)
        self._begin(claims)
        if not claims:
            await self._pause()

    async def _remove(self, free: int) -> None:
        """While an outage lasts: what has gone is removed all the same, if the store is there."""
        outages = self._pipeline.outages
        if not outages.has("store"):
            sources = self._pipeline.sources
            self._begin(await self._items.claim(free, sources, removals=True))
        await self._sleep(min(outages.pause, POLL_INTERVAL))

    async def _free_slots(self) -> int:
        """How many items may be begun: at once when half of the slots are free, else soon."""
        wanted = (self._concurrency + 1) // 2
        self._slot.clear()
        while self._free() == 0 and not self._stopping.is_set():
            await self._wait_for_slot()
        try:
            async with asyncio.timeout(GATHER):
                while self._free() < wanted and not self._stopping.is_set():
                    self._slot.clear()
                    await self._slot.wait()
        except TimeoutError:
            pass
        return 0 if self._stopping.is_set() else self._free()

    async def _wait_for_slot(self) -> None:
        """Until an item moves on; not for ever, as an item that is slow gives its slot up."""
        try:
            async with asyncio.timeout(POLL_INTERVAL):
                await self._slot.wait()
        except TimeoutError:
            pass
        self._slot.clear()

    def _free(self) -> int:
        waiting = [p.size for p in self.progress.values() if p.stage == "commit"]
        if len(waiting) >= 2 * self._group.max_documents:
            return 0
        if sum(waiting) >= 2 * self._group.max_bytes:
            return 0
        slow = sum(p.stage != "commit" and p.elapsed > SLOW_AFTER for p in self.progress.values())
        held = len(self._tasks) - len(waiting) - min(slow, self._concurrency)
        return max(0, self._concurrency - held)

    async def _pause(self) -> None:
        """Until there may be something to claim, or it is time to stop."""
        waiting = asyncio.create_task(self._items.wait(POLL_INTERVAL))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
        finally:
            for task in (waiting, stopping):
                task.cancel()
            await asyncio.gather(waiting, stopping, return_exceptions=True)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # --- one item

    def _begin(self, claims: list[Claim]) -> None:
        for claim in claims:
            task = asyncio.create_task(self._one(claim), name=f"item {claim.uri}")
            self._tasks[task] = claim
            self._trial = task
            task.add_done_callback(self._ended)
        self._observer.working(len(self._tasks))

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._slot.set()
        self._observer.working(len(self._tasks))

    async def _one(self, claim: Claim) -> None:
        progress = self.progress[claim] = Progress(self._observer, self._slot.set)
        try:
            result = await self._result(claim, progress)
            self._tell(claim, result, await self._items.finish(claim, result), progress)
        except LeaseLost as error:
            log.info("%s", error, extra=_fields(claim, progress))
        except ItemsUnavailable as error:
            # The lease lapses and the work is repeated; it will find what it has committed.
            log.warning("cannot be recorded: %s", error, extra=_fields(claim, progress))
        finally:
            del self.progress[claim]

    async def _result(self, claim: Claim, progress: Progress) -> Result:
        try:
            return await self._pipeline.run(claim, progress)
        except LeaseLost:
            raise
        except Exception as error:  # one item's surprise must not end the others
            log.exception("unexpected error", extra=_fields(claim, progress))
            reason = f"unexpected {type(error).__name__}: {error}"
            return Retry(code="internal", reason=reason, stage=progress.stage)

    def _tell(self, claim: Claim, result: Result, state: State, progress: Progress) -> None:
        code = str(getattr(result, "code", ""))
        retried = isinstance(result, Retry) and state != State.FAILED
        self._observer.outcome(claim.source_id, "retry" if retried else _word(result, state), code)
        level = logging.WARNING if state == State.FAILED else logging.DEBUG
        reason = getattr(result, "reason", "")
        log.log(level, "%s %s", state, reason, extra=_fields(claim, progress) | {"code": code})

    # --- leases

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(self._lease / RENEWALS)
            tasks = dict(self._tasks)
            if not tasks:
                continue
            try:
                held = await self._items.renew(list(tasks.values()))
            except ItemsUnavailable as error:
                log.warning("leases cannot be renewed: %s", error)
                continue
            for task, still in zip(tasks, held, strict=True):
                if not still and not task.done():
                    task.cancel()

    async def _give_back(self) -> None:
        tasks = dict(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not tasks:
            return
        try:
            await self._items.release(list(tasks.values()))
        except ItemsUnavailable as error:
            log.warning(
                "claims cannot be given back; they are taken up at the next start: %s", error
            )


def _word(result: Result, state: State) -> str:
    """The outcome's word: what was done, also when the item is work again already."""
    if state in (State.PENDING, State.GONE):
        return type(result).__name__.lower()
    return state.value


def _fields(claim: Claim, progress: Progress) -> dict[str, Any]:
    return {
        "source": claim.source_id,
        "uri": claim.uri,
        "stage": progress.stage,
        "duration": round(progress.elapsed, 3),
    }
