"""`Items`: the items database as the rest of the daemon sees it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from haiku.ingester.items import (
    claiming,
    finishing,
    holding,
    listing,
    observing,
    rebuilding,
    records,
    tables,
)
from haiku.ingester.items.database import Database
from haiku.ingester.items.model import State
from haiku.ingester.items.schedules import Schedules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.config import WorkConfig
    from haiku.ingester.items.model import (
        Claim,
        Item,
        Known,
        Observation,
        Observed,
        Request,
        RequestKind,
        Result,
        SourceRecord,
        Suspension,
    )
    from haiku.rag.store.changes import Row

T = TypeVar("T")

#: States in which something is still to be done.
OPEN = (State.PENDING, State.WORKING, State.GONE)

#: Seconds after which a claim is tried though nothing is known to have happened.
LOOK_ANYWAY = 30.0


class Items:
    """One row per (source, uri): queue, sync state and failed list.

    Safe to use from many tasks. Every method raises `ItemsUnavailable` when the database cannot
    be used; a call that was cancelled has either not begun or is carried to its end.
    """

    def __init__(
        self,
        database: Database,
        instance: str,
        config: WorkConfig,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._config = config
        self._clock = clock
        self._turns = claiming.Turns()
        self._news = asyncio.Event()
        #: What the database's witness and the clock said at the last claim, and the witness at the
        #: last look for requests of these sources.
        self._claimed_at: int | None = None
        self._claimed_now = 0.0
        self._asked_at: tuple[int | None, frozenset[str]] = (None, frozenset())
        self._finisher = finishing.Finisher(database, config, clock, self._news)
        #: The owner of this object's claims.
        self.instance = instance
        #: What has been done of the scheduled jobs.
        self.schedules = Schedules(database, instance, config.lease, clock)

    @classmethod
    async def open(
        cls,
        url: str,
        instance: str,
        config: WorkConfig,
        *,
        create: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> Items:
        """Open the database, bringing its schema to today's version.

        Args:
            url: SQLAlchemy URL, e.g. `sqlite:////var/lib/haiku/items.db`.
            instance: id of this daemon, see `haiku.ingester.items.instance`.
            config: attempts, backoff and leases.
            create: make a database that is not there; False: refuse.
            clock: epoch seconds.

        Raises:
            ItemsUnavailable: it cannot be opened, or was written by a newer version.
            NotKnown: it is not there, and `create` is False.
        """
        return cls(await Database.open(url, create=create), instance, config, clock=clock)

    async def close(self) -> None:
        """Let writes under way end, and close. Claims are kept; release them before."""
        await self._finisher.close()
        await self._database.close()

    # --- what sources say

    async def observe(
        self, source_id: str, observations: Sequence[Observation], *, live: bool
    ) -> Observed:
        """Take in what a source says, in one transaction; `live` goes before what sweeps find.

        Unknown: pending. Another mark: the counter rises and it is work again, or stays under
        way. The same mark: nothing, also for failed and skipped. Seen again while it was
        leaving: pending. Raises `LeaseLost` while another instance holds the source.
        """
        observed = await self._say(
            source_id,
            lambda c, now: observing.observe(c, source_id, observations, live=live, now=now),
        )
        if observed.new or observed.changed:
            self._news.set()
        return observed

    async def gone(self, source_id: str, uris: Iterable[str], *, live: bool) -> int:
        """Want these removed; returns how many were known and not leaving already.

        Raises `LeaseLost` while another instance holds the source.
        """
        count = await self._say(
            source_id, lambda c, now: observing.gone(c, source_id, uris, live=live, now=now)
        )
        if count:
            self._news.set()
        return count

    async def moved(self, source_id: str, uri: str, to: Observation) -> bool:
        """The object at `uri` is at `to.uri` now, with the same content.

        False: that could not be a move, because the item is not indexed, is changing, or another
        one is at the new name; it was taken as an addition and a removal instead. Raises
        `LeaseLost` while another instance holds the source.
        """
        done = await self._say(
            source_id, lambda c, now: observing.moved(c, source_id, uri, to, now=now)
        )
        self._news.set()
        return done

    async def _say(
        self, source_id: str, write: Callable[[AsyncConnection, float], Awaitable[T]]
    ) -> T:
        """Write what a source says, unless another instance speaks for it: whoever was frozen
        must not undo what that one has seen since."""
        now = self._clock()

        async def say(connection: AsyncConnection) -> T:
            await records.check_holder(connection, source_id, self.instance, now=now)
            return await write(connection, now)

        return await self._database.write(say)

    async def known(self, source_id: str, under: str | None = None) -> dict[str, Known]:
        """URI → what is known of a source's items, except those that are leaving it.

        With `under`, a URI that ends with "/", only of those below it.
        """
        async with self._database.connection() as connection:
            return await listing.known(connection, source_id, under)

    async def seen(self, source_id: str) -> dict[str, str]:
        """URI → what was observed last, as `Observation.seen`; of the same items as `known`."""
        async with self._database.connection() as connection:
            return await listing.seen(connection, source_id)

    async def known_at(self, source_id: str, uris: Sequence[str]) -> dict[str, Known]:
        """The same of some URIs; those that are not known, or leaving, are left out."""
        found = await self._database.read(
            lambda c: listing.known_by(c, source_id, tables.items.c.uri, uris)
        )
        return {known.uri: known for known in found}

    async def known_as(self, source_id: str, identities: Sequence[str]) -> list[Known]:
        """The same of all items with one of these identities."""
        return await self._database.read(
            lambda c: listing.known_by(c, source_id, tables.items.c.identity, identities)
        )

    async def count_known(self, source_id: str) -> int:
        """How many items of a source are not leaving it."""
        return await self._database.read(lambda c: listing.count_known(c, source_id))

    async def get(self, source_id: str, uri: str) -> Item | None:
        """One item, or None."""
        return await self._database.read(lambda c: listing.get(c, source_id, uri))

    # --- work

    async def claim(
        self,
        limit: int,
        sources: Collection[str] | None = None,
        *,
        slow: int = 1,
        among: Collection[str] | None = None,
        removals: bool = False,
    ) -> list[Claim]:
        """Take up to `limit` due items of these sources (None: all), urgent and fair.

        With `among`, some hundreds of URIs, none but these; with `removals` none but what is to be
        removed. At most `slow` items whose conversion
        is slow are under way in this instance at once. The attempt is counted now, before any work.
        Claims whose lease lapsed are taken first.
        """
        self._news.clear()
        self._claimed_at = self._database.written()
        claims: list[Claim] = []
        now = self._claimed_now = self._clock()

        async def take(connection: AsyncConnection) -> None:
            claims[:] = await claiming.claim(
                connection,
                limit,
                owner=self.instance,
                only=sources,
                among=among,
                slow=slow,
                removals=removals,
                config=self._config,
                turns=self._turns,
                now=now,
            )

        try:
            await self._database.write(take)
        except asyncio.CancelledError:
            if claims:
                await self.release(claims)
            raise
        return claims

    async def renew(self, claims: Sequence[Claim]) -> list[bool]:
        """Lengthen the leases that are still held, and say which of the claims those are."""
        now, lease = self._clock(), self._config.lease
        return await self._database.write(lambda c: claiming.renew(c, claims, lease=lease, now=now))

    async def still_held(self, claims: Sequence[Claim]) -> list[bool]:
        """Which of the claims may be committed. Renews them, so that a commit has time."""
        return await self.renew(claims)

    async def release(self, claims: Sequence[Claim]) -> int:
        """Give claims back, their attempt not counted. Lost ones are left alone."""
        now = self._clock()
        count = await self._database.write(lambda c: claiming.release(c, claims, now=now))
        self._news.set()
        return count

    async def finish(self, claim: Claim, result: Result) -> State:
        """Record what became of a claim; the state says where the item stands now.

        GONE with `Removed` means that the row is gone. PENDING after a success means that the
        object changed meanwhile and is work again at once.

        Raises:
            LeaseLost: the claim is not held any more; nothing was changed.
        """
        return await self._finisher.finish(claim, result)

    async def reclaim(self) -> int:
        """On start: take back this instance's claims at once, and others' that lapsed."""
        now = self._clock()
        count = await self._database.write(
            lambda c: claiming.reclaim(c, owner=self.instance, config=self._config, now=now)
        )
        self._news.set()
        return count

    async def wait(self, interval: float) -> None:
        """Until there may be work since the last claim.

        That is: news in this process, the next due time, a lease that lapses, or a write of
        another process, looked for every `interval` seconds; and now and then in any case.
        """
        loop = asyncio.get_running_loop()
        due = await self._database.read(lambda c: listing.next_due(c, self._claimed_now))
        left = LOOK_ANYWAY if due is None else due - self._clock()
        ends = loop.time() + min(LOOK_ANYWAY, left)
        while (left := ends - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(interval, left)):
                    await self._news.wait()
                    return
            except TimeoutError:
                written = self._database.written()
                if written is None or written != self._claimed_at:
                    return

    async def work_left(self) -> list[Claim]:
        """Everything that is to be done, in order, as claims that nobody holds."""
        return await self._database.read(claiming.work_left)

    async def sizes(self, limit: int = 20_000) -> list[tuple[str, int, int]]:
        """URI, bytes and chunks of items that are indexed, `limit` of them."""
        return await self._database.read(lambda c: listing.sizes(c, limit))

    async def outdated(self, fingerprint: str) -> int:
        """How many items are indexed by another pipeline than this one."""
        return await self._database.read(lambda c: listing.count_outdated(c, fingerprint))

    # --- questions and requests of people

    async def counts(self) -> dict[str, dict[State, int]]:
        """Source id → state → number; states without items are left out."""
        return await self._database.read(listing.counts)

    async def outstanding(self) -> int:
        """Number of items that something is still to be done with, backoff included."""
        counts = await self.counts()
        return sum(by_state.get(state, 0) for by_state in counts.values() for state in OPEN)

    async def waiting_since(self) -> dict[str, float]:
        """Source id → epoch seconds since when its longest waiting item has been due."""
        return await self._database.read(listing.oldest_waiting)

    async def list(
        self,
        source_id: str | None = None,
        state: State | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Item]:
        """Items by source and URI."""
        return await self._database.read(
            lambda c: listing.listed(
                c, source_id=source_id, state=state, limit=limit, offset=offset
            )
        )

    async def failed(self, source_id: str | None = None, *, limit: int = 1000) -> Sequence[Item]:
        """Failed items with code, reason, stage and attempts."""
        return await self.list(source_id, State.FAILED, limit=limit)

    async def retry(self, source_id: str | None = None, uri: str | None = None) -> int:
        """Make failed items work again: all, a source's, or one; returns how many.

        One that is named by `uri` also when it is skipped or empty.
        """
        now = self._clock()
        count = await self._database.write(
            lambda c: listing.retry(c, source_id=source_id, uri=uri, now=now)
        )
        self._news.set()
        return count

    async def reprocess(self, fingerprint: str, *, outdated: bool = False) -> int:
        """Make work of what another pipeline than `fingerprint` failed or skipped.

        With `outdated` also of what it indexed. Low priority; returns how many.
        """
        now = self._clock()
        count = await self._database.write(
            lambda c: listing.reprocess(c, fingerprint, outdated=outdated, now=now)
        )
        self._news.set()
        return count

    async def rebuild(self, rows: Iterable[Row]) -> int:
        """Fill an empty items database from the store's rows, without making work.

        Returns the number of items made; 0 when there are items already.
        """
        now = self._clock()
        return await self._database.write(lambda c: rebuilding.rebuild(c, rows, now=now))

    async def start_over(self) -> int:
        """Make work of everything that was done, because the store it was done in is gone."""
        now = self._clock()
        count = await self._database.write(lambda c: rebuilding.start_over(c, now=now))
        self._news.set()
        return count

    # --- restores of the database

    async def note_restores(self, source_ids: Collection[str], epoch: int) -> Sequence[str]:
        """Take in the database's restore epoch; returns the sources that are held because of it.

        Nothing of a held source is handed out, and its claims are given back.
        """
        now = self._clock()
        return await self._database.write(lambda c: holding.note(c, source_ids, epoch, now=now))

    async def resync(self, source_id: str, rows: Iterable[Row]) -> int:
        """Know of a source what the database has of it; a held one is held no longer.

        Args:
            source_id: the source; list it afterwards.
            rows: live rows of the database; those of others are passed over.
        """
        now = self._clock()
        count = await self._database.write(lambda c: holding.resync(c, source_id, rows, now=now))
        self._news.set()
        return count

    async def keep(
        self, source_id: str, rows: Mapping[str, Row], observations: Sequence[Observation]
    ) -> int:
        """Take what a source has now for done; a held one is held no longer.

        Args:
            source_id: the source.
            rows: its documents in the database, by URI.
            observations: everything it has.
        """
        now = self._clock()
        return await self._database.write(
            lambda c: holding.keep(c, source_id, rows, observations, now=now)
        )

    # --- sources' own records

    async def sources(self) -> dict[str, SourceRecord]:
        """Source id → what is remembered of it."""
        now = self._clock()
        return await self._database.read(lambda c: records.all_records(c, now=now))

    async def suspension(self, source_id: str) -> Suspension | None:
        """Why the source's deletions wait for a person, or None."""
        record = (await self.sources()).get(source_id)
        return record.suspension if record else None

    async def suspend_deletes(self, source_id: str, *, count: int, reason: str) -> None:
        """Suspend the source's deletions; a suspension that stands keeps its beginning."""
        now = self._clock()
        await self._database.write(lambda c: records.suspend(c, source_id, count, reason, now=now))

    async def clear_suspension(self, source_id: str) -> None:
        """Let the source's deletions happen again."""
        await self._database.write(lambda c: records.resume(c, source_id))

    async def swept(self, source_id: str) -> None:
        """Record that a complete listing of the source has ended now."""
        now = self._clock()
        await self._database.write(lambda c: records.swept(c, source_id, now=now))

    async def take_source(self, source_id: str) -> bool:
        """Take or renew the right to sweep and watch a source; False: another instance has it."""
        now, lease = self._clock(), self._config.lease
        return await self._database.write(
            lambda c: records.take(c, source_id, self.instance, lease=lease, now=now)
        )

    async def release_source(self, source_id: str) -> None:
        """Give that right up."""
        await self._database.write(lambda c: records.give_up(c, source_id, self.instance))

    async def request(self, source_id: str, kind: RequestKind) -> None:
        """Ask the daemon for something; it looks about once a second."""
        now = self._clock()
        await self._database.write(lambda c: records.ask(c, source_id, kind, now=now))

    async def take_requests(self, sources: Collection[str]) -> Sequence[Request]:
        """What was asked for these sources, oldest first; each is handed out once."""
        written = self._database.written()
        if written is not None and self._asked_at == (written, frozenset(sources)):
            return []
        self._asked_at = written, frozenset(sources)
        if not await self._database.read(records.has_requests):
            return []
        return await self._database.write(lambda c: records.take_requests(c, sources))
