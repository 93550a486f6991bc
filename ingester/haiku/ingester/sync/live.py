"""Takes events in: waits until objects are still, looks, and says what has become of them.

Objects that are not there any more are held for a moment before they are taken for gone: a file
that is replaced comes back, one that is moved turns up under another name, and a tree that is being
deleted is judged as a whole, not file by file, by the guard.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from haiku.ingester.sources.protocol import Event, EventKind
from haiku.ingester.sync import moves
from haiku.ingester.sync.settle import Settler
from haiku.ingester.sync.trees import Trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from haiku.ingester.items.model import Known, Observation
    from haiku.ingester.sources.protocol import Listing, Source, Unread
    from haiku.ingester.sync.guard import Guard
    from haiku.ingester.sync.model import Ledger

T = TypeVar("T")

#: Seconds without another departure before those that are held are judged; at least twice `settle`.
QUIET = 2.0
#: Seconds after which they are judged although departures go on.
HELD_AT_MOST = 30.0
#: Seconds between looks at what is due, while anything is.
TICK = 0.05
#: Objects looked at or handed on at once.
STEP = 1000
#: Trees of which more than this are known by one question rather than by one each.
MANY_TREES = 8


class Live:
    """The events of one source on their way to the items database."""

    def __init__(self, source: Source, ledger: Ledger, guard: Guard, settle: float) -> None:
        self._source = source
        self._ledger = ledger
        self._guard = guard
        self._settler = Settler(settle)
        self._settle = settle
        self._quiet = max(QUIET, 2 * settle)
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        #: Tree → when it is to be listed.
        self._trees: dict[str, float] = {}
        #: What is not there any more, and not judged yet.
        self._held: dict[str, Known] = {}
        self._first_held = self._last_held = 0.0
        #: While sweeps list: objects that were not there, and trees that were listed, meanwhile.
        self._meanwhile: set[str] | None = None
        #: Parts of trees that could not be read.
        self.unread: Sequence[Unread] = ()

    def __len__(self) -> int:
        return len(self._settler)

    @property
    def leaving(self) -> frozenset[str]:
        """URIs that are held as leaving: a sweep leaves the verdict on them to the one here."""
        return frozenset(self._held)

    def take(self, event: Event) -> None:
        """An event of the source, LOST excepted."""
        if event.kind is EventKind.OBJECT:
            self._settler.touch(event.uri, self._loop.time(), closed=event.closed)
        elif event.kind is EventKind.TREE:
            self._trees.setdefault(event.uri, self._loop.time() + self._settle)
        self._news.set()

    def unsettled(self, uri: str, mark: str) -> None:
        """A listing found this object, but it may be changing still."""
        self._settler.touch(uri, self._loop.time(), mark=mark)
        self._news.set()

    @contextmanager
    def beside_sweep(self) -> Iterator[None]:
        """While a sweep lists: what turns out to have gone is looked at again afterwards.

        The sweep may have seen it before, and tell the ledger of it after the event that it went
        was taken for news of something unknown.
        """
        self._meanwhile = set()
        try:
            yield
        finally:
            again, self._meanwhile = self._meanwhile, None
            for uri in again:
                kind = EventKind.TREE if uri.endswith("/") else EventKind.OBJECT
                self.take(Event(kind, uri))

    def forget(self) -> None:
        """Drop everything that waits; a sweep decides instead."""
        self._settler = Settler(self._settle)
        self._trees.clear()
        self._held.clear()

    async def run(self) -> None:
        """Handle what comes, until cancelled. Raises what source and ledger raise."""
        while True:
            if self._next_due() is None:
                self._news.clear()
                await self._news.wait()
            await self.step()
            due = self._next_due()
            if due is not None:
                await asyncio.sleep(min(TICK, max(0.0, due - self._loop.time())))

    async def drain(self) -> None:
        """Handle all that waits now, and judge what is held without waiting for more."""
        while self._trees or len(self._settler):
            await self.step()
            await asyncio.sleep(min(TICK, self._settle / 4))
        if self._held:
            await self._judge()

    async def step(self) -> None:
        """Handle what is due now."""
        now = self._loop.time()
        present = await self._due_objects(now)
        present.extend(await self._due_trees(now))
        if present:
            await self._arrive(present)
        if self._held and self._loop.time() >= self._judged_at():
            await self._judge()

    def _next_due(self) -> float | None:
        times = [self._settler.next_due(), min(self._trees.values(), default=None)]
        times.append(self._judged_at() if self._held else None)
        return min((time for time in times if time is not None), default=None)

    # --- what is there, what is not -----------------------------------------------------------

    async def _due_objects(self, now: float) -> list[Observation]:
        """The objects that are still now; those that are not there are held."""
        present: list[Observation] = []
        for uris in _parts(self._settler.due(now)):
            looks = await self._source.look(uris)
            for uri in uris:
                if uri not in looks:
                    self._settler.drop(uri)  # it cannot be told; a sweep will
            for uri, found in looks.items():
                if self._settler.seen(uri, found.mark if found else None, now) and found:
                    present.append(found)
            absent = [uri for uri, found in looks.items() if found is None]
            self._note(absent)
            await self._hold_uris(absent)
        return present

    async def _due_trees(self, now: float) -> list[Observation]:
        """What is still in trees that are due; what is missing from them is held."""
        due = [tree for tree, when in self._trees.items() if when <= now]
        if not due:
            return []
        for tree in due:
            del self._trees[tree]
        self._note(due)
        trees = Trees(due)
        known = await self._known_below(trees)
        present: list[Observation] = []
        unread: list[Unread] = []
        for tree in trees.tops:
            async for listing in self._source.list(tree):
                unread.extend(listing.incomplete)
                present.extend(self._different(listing, known))
        self.unread = unread
        blind = Trees(part.tree for part in unread)
        self._hold(k for k in known.values() if k.uri not in blind)
        return present

    def _note(self, uris: Iterable[str]) -> None:
        if self._meanwhile is not None:
            self._meanwhile.update(uris)

    def _different(self, listing: Listing, known: dict[str, Known]) -> Iterator[Observation]:
        """What a listing says anew; `known` loses what is there."""
        for observation in listing.observations:
            before = known.pop(observation.uri, None)
            if before is not None and before.mark == observation.mark:
                continue
            if observation.uri in listing.unsettled and not observation.skip:
                self.unsettled(observation.uri, observation.mark)
            else:
                yield observation

    async def _known_below(self, trees: Trees) -> dict[str, Known]:
        if len(trees.tops) > MANY_TREES:
            known = await self._ledger.known(self._source.id)
            return {uri: k for uri, k in known.items() if uri in trees}
        found: dict[str, Known] = {}
        for tree in trees.tops:
            found.update(await self._ledger.known(self._source.id, tree))
        return found

    # --- arrivals -----------------------------------------------------------------------------

    async def _arrive(self, present: Sequence[Observation]) -> None:
        """Say what is there: known ones as they are, new ones moved or new."""
        for observation in present:
            self._held.pop(observation.uri, None)
        known = await self._ledger.known_at(self._source.id, [o.uri for o in present])
        new = [o for o in present if o.uri not in known]
        moved = await self._move(new) if new else set()
        rest = [o for o in present if o.uri not in moved]
        for part in _parts(rest):
            await self._ledger.observe(self._source.id, part, live=True)

    async def _move(self, new: Sequence[Observation]) -> set[str]:
        """Move what new objects used to be; returns the URIs that need nothing more."""
        await self._hold_former_places(new)
        pairs = moves.by_identity(new, list(self._held.values()), self._source.same_bytes)
        done = {pair.to.uri for pair in pairs}
        left = [o for o in new if o.uri not in done]
        went = {pair.old.uri for pair in pairs}
        rest = [known for known in self._held.values() if known.uri not in went]
        if left and rest:
            pairs += await moves.by_content(self._source, left, rest)
        for pair in pairs:
            if self._held.pop(pair.old.uri, None) is not None:
                await self._ledger.moved(self._source.id, pair.old.uri, pair.to)
                done.add(pair.to.uri)
        return done

    async def _hold_former_places(self, new: Sequence[Observation]) -> None:
        """Hold the items that have the identity of a new one and are not where they were."""
        identities = [o.identity for o in new if o.identity is not None]
        same = await self._ledger.known_as(self._source.id, identities)
        for part in _parts([k for k in same if k.uri not in self._held]):
            looks = await self._source.look([known.uri for known in part])
            self._hold(known for known in part if looks.get(known.uri, known) is None)

    # --- departures ---------------------------------------------------------------------------

    async def _hold_uris(self, uris: Sequence[str]) -> None:
        fresh = [uri for uri in uris if uri not in self._held]
        if fresh:
            self._hold((await self._ledger.known_at(self._source.id, fresh)).values())

    def _hold(self, departures: Iterable[Known]) -> None:
        for known in departures:
            if not self._held:
                self._first_held = self._loop.time()
            if known.uri not in self._held:
                self._held[known.uri] = known
                self._last_held = self._loop.time()

    def _judged_at(self) -> float:
        return min(self._last_held + self._quiet, self._first_held + max(HELD_AT_MOST, self._quiet))

    async def _judge(self) -> None:
        """Remove what is held and still not there, if the guard agrees."""
        held, self._held = self._held, {}
        gone: list[str] = []
        for uris in _parts(list(held)):
            looks = await self._source.look(uris)
            gone.extend(uri for uri, found in looks.items() if found is None)
            for uri, found in looks.items():
                if found is not None:  # it is back
                    self._settler.touch(uri, self._loop.time())
        known = await self._ledger.count_known(self._source.id)
        if gone and await self._guard.allows_live(len(gone), known, self._loop.time()):
            for part in _parts(gone):
                await self._ledger.gone(self._source.id, part, live=True)


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), STEP):
        yield values[start : start + STEP]
