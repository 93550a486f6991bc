"""Group commit: finished documents share one commit, one row a URI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from haiku.rag.exceptions import StoreBusy, StoreError

if TYPE_CHECKING:
    from haiku.rag.store import Store
    from haiku.rag.store.changes import Change, Outcome

#: Asked right before a commit with the `claim`s of its changes: which of them still hold.
StillMine = Callable[[Sequence[Any]], Awaitable[Sequence[bool]]]


@dataclass(slots=True)
class _Waiting:
    change: Change
    size: int
    claim: Any
    #: Loop time at which it has waited long enough.
    closes: float
    outcome: asyncio.Future[Outcome]


@dataclass
class GroupStats:
    """What the committer has done since it was made."""

    #: Commits that reached the store.
    commits: int = 0
    #: Changes in them.
    changes: int = 0
    #: Seconds spent in them.
    seconds: float = 0.0


@dataclass
class GroupCommitter:
    """Collects changes and commits them together.

    A group closes when it has `max_documents`, `max_bytes`, or when one of its changes has waited
    as long as it may, whichever is first; while one group is committed the next one gathers.
    """

    store: Store
    max_documents: int = 64
    max_bytes: int = 32_000_000
    #: Seconds a change waits for others, unless it says how long.
    window: float = 0.05
    still_mine: StillMine | None = None
    #: Called after each commit with its outcomes and its duration in seconds.
    on_commit: Callable[[Sequence[Outcome], float], None] | None = None
    stats: GroupStats = field(default_factory=GroupStats)
    _queue: asyncio.Queue[_Waiting] = field(default_factory=asyncio.Queue)
    _held: _Waiting | None = None
    _task: asyncio.Task[None] | None = None
    _outstanding: set[asyncio.Future[Outcome]] = field(default_factory=set)
    _closed: bool = False

    async def submit(
        self,
        change: Change,
        *,
        size: int = 0,
        claim: Any = None,
        patience: float | None = None,
    ) -> Outcome:
        """Commit the change with others; returns when it is committed or has lost.

        Cancelling the caller withdraws the change as long as its group has not closed.

        Args:
            change: what to commit.
            size: bytes of its rows, about.
            claim: what `still_mine` is asked about.
            patience: seconds it may wait for others; None: `window`.

        Raises:
            StoreError: the group's commit failed; nothing of it is visible.
        """
        if self._closed:
            raise StoreBusy("the group committer is closed; this change was not committed")
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="group-commit")
        loop = asyncio.get_running_loop()
        closes = loop.time() + (self.window if patience is None else patience)
        waiting = _Waiting(change, size, claim, closes, loop.create_future())
        self._outstanding.add(waiting.outcome)
        waiting.outcome.add_done_callback(self._outstanding.discard)
        self._queue.put_nowait(waiting)
        return await waiting.outcome

    async def close(self) -> None:
        """Commit what has been submitted, then stop."""
        self._closed = True
        if self._task is None:
            return
        await asyncio.gather(*self._outstanding, return_exceptions=True)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def _run(self) -> None:
        while True:
            group = await self._gather()
            commit = asyncio.create_task(self._commit(group))
            try:
                await asyncio.shield(commit)
            except asyncio.CancelledError:
                await commit
                raise

    async def _gather(self) -> list[_Waiting]:
        first, self._held = self._held or await self._queue.get(), None
        group, size = [first], first.size
        closes = first.closes
        while len(group) < self.max_documents and size < self.max_bytes:
            following = await self._next(closes)
            if following is None:
                break
            if size + following.size > self.max_bytes:
                self._held = following
                break
            group.append(following)
            closes = min(closes, following.closes)
            size += following.size
        return group

    async def _next(self, closes: float) -> _Waiting | None:
        if not self._queue.empty():
            return self._queue.get_nowait()
        left = closes - asyncio.get_running_loop().time()
        if left <= 0:
            return None
        try:
            async with asyncio.timeout(left):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def _commit(self, group: list[_Waiting]) -> None:
        group = [waiting for waiting in group if not waiting.outcome.done()]
        if not group:
            return
        started = asyncio.get_running_loop().time()
        try:
            outcomes = await self.store.commit(
                [waiting.change for waiting in group], still_mine=self._check(group)
            )
        except Exception as error:  # noqa: BLE001 - handed to every caller of the group
            if len(group) > 1 and not isinstance(error, StoreError):
                # One change cannot be written, e.g. its vectors: the others must not pay for it.
                for waiting in group:
                    await self._commit([waiting])
                return
            for waiting in group:
                if not waiting.outcome.done():
                    waiting.outcome.set_exception(error)
            return
        self._count(outcomes, asyncio.get_running_loop().time() - started)
        for waiting, outcome in zip(group, outcomes, strict=True):
            if not waiting.outcome.done():
                waiting.outcome.set_result(outcome)

    def _check(self, group: list[_Waiting]) -> Callable[[], Awaitable[Sequence[bool]]] | None:
        still_mine = self.still_mine
        if still_mine is None:
            return None

        async def check() -> Sequence[bool]:
            return await still_mine([waiting.claim for waiting in group])

        return check

    def _count(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        self.stats.commits += 1
        self.stats.changes += len(outcomes)
        self.stats.seconds += seconds
        if self.on_commit is not None:
            self.on_commit(outcomes, seconds)
