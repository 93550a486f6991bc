"""A sweep: one full listing compared with what was known before it began."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from haiku.ingester.sync import moves
from haiku.ingester.sync.model import SweepReport
from haiku.ingester.sync.trees import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from haiku.ingester.items.model import Known, Observation
    from haiku.ingester.sources.protocol import Listing, Source, Unread
    from haiku.ingester.sync.guard import Guard
    from haiku.ingester.sync.model import Ledger

#: Items compared or handed on between two turns of the event loop.
STEP = 1000


@dataclass(slots=True)
class Sweep:
    """One sweep of one source; used once.

    Raises from `run` what the source's listing raises, and then has removed nothing.
    """

    source: Source
    ledger: Ledger
    guard: Guard
    #: Objects found are changes as they happen, and go before a backfill.
    live: bool
    #: Called with URI and mark of new or changed objects that may not be still; they are not taken.
    unsettled: Callable[[str, str], None]
    #: Take nothing for still that has changed since the last sweep, whatever its times say.
    doubt_times: bool = False
    #: Known to be leaving, and judged by somebody else.
    leaving: Collection[str] = ()
    #: A person has agreed to the deletions.
    confirmed: bool = False
    #: URI → what was observed last, of what the listing has not had yet.
    _missing: dict[str, str] = field(default_factory=dict)
    #: New objects that may be known ones moved.
    _arrived: list[Observation] = field(default_factory=list)
    #: Where those were known.
    _former: set[str] = field(default_factory=set)
    #: Known ones that may have moved to an object that is not still.
    _moving: set[str] = field(default_factory=set)
    _incomplete: list[Unread] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    async def run(self) -> SweepReport:
        """Do it all, and record that it was done when the listing was complete."""
        began = time.monotonic()
        self._missing = await self.ledger.seen(self.source.id)
        known = len(self._missing)
        async for listing in self.source.list():
            await self._take(listing)
        absent = await self._absent()
        await self._move(absent)
        await self._remove(absent, known)
        if not self._incomplete:
            await self.ledger.swept(self.source.id)
        return SweepReport(
            **self._counts, incomplete=self._incomplete, duration=time.monotonic() - began
        )

    def _count(self, what: str, number: int) -> None:
        self._counts[what] = self._counts.get(what, 0) + number

    async def _take(self, listing: Listing) -> None:
        """Compare one batch; what is new or different goes on at once, unless it may have moved."""
        self._count("found", len(listing.observations))
        self._count("ignored", listing.ignored)
        self._incomplete.extend(listing.incomplete)
        missing = self._missing
        # A sweep is of objects that have not changed, nearly always: this line is what it costs.
        rest = [o for o in listing.observations if missing.pop(o.uri, None) != o.seen]
        if rest:
            await self._observe(await self._sort(rest, listing))

    async def _sort(self, rest: Sequence[Observation], listing: Listing) -> list[Observation]:
        """Those that are new or different and go on at once; the others are noted as what they are.

        What is known is asked for now: it has news that came while the source was listed.
        """
        known = await self.ledger.known_at(self.source.id, [o.uri for o in rest])
        places = await self._former_places([o for o in rest if o.uri not in known])
        different: list[Observation] = []
        for observation in rest:
            before, moved = known.get(observation.uri), places.get(observation.uri)
            if before is not None and _is_same(before, observation):
                continue
            if self._is_unsettled(observation, before, listing):
                self._count("unsettled", 1)
                self.unsettled(observation.uri, observation.mark)
                self._moving.update({moved} if moved else ())
            elif moved is not None:
                self._arrived.append(observation)
                self._former.add(moved)
            else:
                different.append(observation)
        return different

    async def _former_places(self, new: Sequence[Observation]) -> dict[str, str]:
        """New URI → where the object may have been, by its identity.

        An inode alone proves nothing: they are used again.
        """
        identities = list({o.identity for o in new if o.identity})
        same = await self.ledger.known_as(self.source.id, identities) if identities else []
        known = {former.identity: former for former in same}
        return {
            o.uri: former.uri
            for o in new
            if (former := known.get(o.identity)) and self.source.same_bytes(former.mark, o.mark)
        }

    def _is_unsettled(
        self, observation: Observation, known: Known | None, listing: Listing
    ) -> bool:
        if observation.skip or (known is not None and known.mark == observation.mark):
            return False
        return self.doubt_times or observation.uri in listing.unsettled

    async def _observe(self, observations: Sequence[Observation]) -> None:
        for start in range(0, len(observations), STEP):
            part = observations[start : start + STEP]
            observed = await self.ledger.observe(self.source.id, part, live=self.live)
            self._count("new", observed.new)
            self._count("changed", observed.changed)

    async def _absent(self) -> dict[str, Known]:
        """What a second look does not find either, of what the listing should have had.

        And of what it had, before another object was found that may be the same one moved.
        """
        suspects = self._former.union(self._missing)
        blind = Trees(unread.tree for unread in self._incomplete)
        spared = self._moving.union(self.leaving)
        uris = [uri for uri in suspects if uri not in spared and uri not in blind]
        absent: dict[str, Known] = {}
        for start in range(0, len(uris), STEP):
            looks = await self.source.look(uris[start : start + STEP])
            gone = [uri for uri, found in looks.items() if found is None]
            absent.update(await self.ledger.known_at(self.source.id, gone))
            await self._observe([o for o in looks.values() if o is not None])
        return absent

    async def _move(self, absent: dict[str, Known]) -> None:
        """Move what has arrived under another name; `absent` loses what moved."""
        pairs = await asyncio.to_thread(
            moves.by_identity, self._arrived, list(absent.values()), self.source.same_bytes
        )
        for pair in pairs:
            await self.ledger.moved(self.source.id, pair.old.uri, pair.to)
            del absent[pair.old.uri]
        self._count("moved", len(pairs))
        moved = {pair.to.uri for pair in pairs}
        await self._observe([o for o in self._arrived if o.uri not in moved])

    async def _remove(self, absent: dict[str, Known], known: int) -> None:
        allowed = await self.guard.allows_swept(
            len(absent), known, complete=not self._incomplete, confirmed=self.confirmed
        )
        if not allowed:
            self._count("held_back", len(absent))
            return
        uris = list(absent)
        for start in range(0, len(uris), STEP):
            part = uris[start : start + STEP]
            self._count("gone", await self.ledger.gone(self.source.id, part, live=self.live))


def _is_same(known: Known, observation: Observation) -> bool:
    """Whether an observation says nothing new: neither of the content nor where it lies."""
    return (
        known.mark == observation.mark
        and known.skip == observation.skip
        and (known.identity == observation.identity or observation.identity is None)
    )
