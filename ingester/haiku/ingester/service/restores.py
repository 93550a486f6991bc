"""Notices that somebody restored a state of the past, and does what a person then decides.

The restore epoch is read where the commit reads the head row anyway, just before it may commit,
and every few seconds by the daemon's probe. When it has risen, the sources are held: claims are
given back, none are handed out, and what is under way does not commit. Listings and events still
tell the items database what the sources have.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from haiku.ingester.api import Reason
from haiku.ingester.exceptions import SourceIncomplete
from haiku.rag.store.changes import UpdateMeta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from haiku.ingester.items import Claim, Observation
    from haiku.ingester.items.items import Items
    from haiku.ingester.sources.protocol import Source
    from haiku.rag.store import Store
    from haiku.rag.store.changes import Row

log = logging.getLogger(__name__)

#: Marks that are written in one commit.
GROUP = 500


def advice(source_id: str) -> str:
    """What to do about a source that is held."""
    return (
        "the database was restored to a state of the past, so nothing of this source is applied; "
        f"`haiku-ingester source resync {source_id}` brings the database in step with the source, "
        f"`haiku-ingester source keep {source_id}` keeps the restored state"
    )


class Restores:
    """The restores of one database and the sources that are held for them."""

    def __init__(self, store: Store, items: Items, sources: Mapping[str, Source]) -> None:
        self._store = store
        self._items = items
        self._sources = sources
        self._epoch: int | None = None
        #: Source id → since when it is held, as far as this process knows.
        self.held: Mapping[str, datetime] = {}

    async def look(self) -> None:
        """Look whether the database was restored, and which sources are held.

        Raises:
            StoreError, ItemsUnavailable: they do not answer.
        """
        await self._note(await self._store.restore_epoch())
        await self._refresh()

    async def still_mine(self, claims: Sequence[Claim]) -> list[bool]:
        """Which claims may be committed: those still held, of sources that are not."""
        await self._note(self._store.seen_restore_epoch)
        return await self._items.still_held(claims)

    async def _note(self, epoch: int | None) -> None:
        if epoch is None or epoch == self._epoch:
            return
        for source_id in await self._items.note_restores(list(self._sources), epoch):
            log.warning("%s", advice(source_id), extra={"source": source_id})
        self._epoch = epoch
        await self._refresh()

    async def _refresh(self) -> None:
        records = await self._items.sources()
        self.held = {
            source_id: record.held_since
            for source_id, record in records.items()
            if record.held_since is not None and source_id in self._sources
        }

    def reasons(self) -> Iterator[Reason]:
        """One for each source that is held."""
        for source_id in self.held:
            yield Reason(part=f"source:{source_id}", code="restored", text=advice(source_id))

    async def resync(self, source_id: str) -> None:
        """The source is right: compare it anew with what the database has. List it afterwards."""
        await self.look()  # the word may have come sooner than the restore was noticed
        rows = await self._rows(source_id)
        await self._items.resync(source_id, list(rows.values()))
        await self._refresh()
        log.info("to be in step with the source again", extra={"source": source_id})

    async def keep(self, source_id: str) -> None:
        """The restored state is right: what the source has now counts as done.

        Raises:
            SourceMissing, SourceIncomplete, SourceError: it cannot be listed whole; it stays held.
        """
        await self.look()
        observations = await self._listed(source_id)
        rows = await self._rows(source_id)
        await self._items.keep(source_id, rows, list(observations.values()))
        await self._refresh()
        await self._mark(source_id, rows, observations)
        log.info("the restored state is kept", extra={"source": source_id})

    async def _listed(self, source_id: str) -> dict[str, Observation]:
        found: dict[str, Observation] = {}
        async for listing in self._sources[source_id].list():
            found.update((observation.uri, observation) for observation in listing.observations)
            for unread in listing.incomplete:
                raise SourceIncomplete(f"{unread.tree} cannot be read ({unread.reason})")
        return found

    async def _rows(self, source_id: str) -> dict[str, Row]:
        """The documents that the source owns, by URI."""
        batches = (await self._store.snapshot()).iter_rows()
        return {row.uri: row async for rows in batches for row in rows if source_id in row.sources}

    async def _mark(
        self, source_id: str, rows: Mapping[str, Row], observations: Mapping[str, Observation]
    ) -> None:
        """Write the marks to the documents as well, for an items database that is lost later."""
        changes = [
            UpdateMeta(uri=uri, sources={source_id: observations[uri].mark})
            for uri, row in rows.items()
            if uri in observations and row.sources[source_id] != observations[uri].mark
        ]
        for start in range(0, len(changes), GROUP):
            await self._store.commit(changes[start : start + GROUP])
