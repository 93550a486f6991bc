"""Rebuild: a database anew for another embedder or chunker, from what it holds itself.

In: a database and today's configuration. Out: the same documents, with today's chunks and vectors,
in its place or at another one. Rules: no source is read; the old database serves readers and
writers until the end, and nothing they commit is lost; a rebuild that is broken off anywhere leaves
the old database as it was, and the next one goes on where it ended.

Documents are copied until a look at both finds few that differ; then commits are held back for a
moment, the last are copied, and one commit puts the new tables into the place of the old ones (see
`store.replacing`). In memory are the rows' names and versions, and the documents under way.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from haiku.rag import ids, uris
from haiku.rag.exceptions import DatabaseExists, DatabaseNotFound, StoreBusy, StoreError
from haiku.rag.write.copying import Copying, Figures
from haiku.rag.write.session import WriteSession
from haiku.rag.write.writer import todays_fingerprint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from haiku.rag.config import AppConfig
    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Store
    from haiku.rag.store.commit import Step
    from haiku.rag.store.replacing import Predecessor
    from haiku.rag.write.copying import Progress

#: Documents that are copied while commits are held back, and looks after which it is done whatever
#: their number: writers are faster then than this.
FEW, LOOKS = 32, 10
#: Looks after which a rebuild to another place is finished though the old database is written to.
LOOKS_ELSEWHERE = 3
#: Tries to switch before a rebuild gives up; one is lost when upkeep has committed meanwhile.
TRIES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuildReport:
    """What a rebuild did."""

    #: The database: the same as before, or the one that was made elsewhere.
    path: str
    #: What its vectors come from now.
    embedder: str
    #: False: everything was made by today's pipeline already, and nothing was done.
    rebuilt: bool
    #: Live documents in it.
    documents: int
    #: Documents copied; one that was changed meanwhile counts again.
    copied: int = 0
    #: Of those, documents whose chunks stayed: a caller had given them.
    kept_chunks: int = 0
    #: Texts that were embedded, and those whose vectors were known.
    embedded: int = 0
    reused: int = 0
    #: URI → why the document kept the chunks it had: they could not be made anew.
    not_chunked: dict[str, str] = field(default_factory=dict)
    #: Documents of the old database that were changed since they were copied; 0 when the new one
    #: has its place.
    behind: int = 0
    #: The folder of what was before; None when it stays where it was.
    before: str | None = None
    #: The old database's tags: they name states of what was before.
    tags: tuple[str, ...] = ()
    #: What could not be tidied up after the switch; the next rebuild does that.
    left: str | None = None


async def rebuild(
    database: str,
    config: AppConfig,
    *,
    to: str | None = None,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
    step: Step | None = None,
) -> RebuildReport:
    """Make a database anew for the configured embedder and chunker.

    Args:
        database: its path or URI.
        config: what it is to be made for.
        to: make the new database there, and leave the old one as it is; None: in its place.
        embedder: makes the vectors; None: the configured one.
        progress: told how far it is.
        step: awaited with a name before each step: for fault injection.

    Raises:
        DatabaseNotFound: there is none.
        DatabaseExists: there is one at `to` that is not this rebuild's.
        StoreBusy: another rebuild has begun since, or writers were faster each time.
        StoreError: it is remote and `to` is None; the storage failed.
        EmbedError, ConfigError: the embedder does not work as configured.
    """
    from haiku.rag.embed import create_embedder
    from haiku.rag.store import Store
    from haiku.rag.store.tables import locate

    if to is None and uris.is_uri(locate(database)):
        raise StoreError(
            f"{database} cannot be replaced where it is; name a place for the new database, "
            f"`haiku-rag rebuild --db {database} --to NEW_URI`, and configure that one then"
        )
    used = embedder or create_embedder(config.embeddings)
    try:
        async with await Store.open(database, config.storage, read_only=to is not None) as old:
            work = _Rebuild(old, config, used, progress, step)
            return await (work.in_place() if to is None else work.elsewhere(to))
    finally:
        if embedder is None:
            await used.close()


class _Rebuild:
    """One rebuild from its beginning to its end."""

    def __init__(
        self,
        old: Store,
        config: AppConfig,
        embedder: Embedder,
        progress: Progress | None,
        step: Step | None,
    ) -> None:
        from haiku.rag.store.commit import no_step

        self._old = old
        self._config = config
        self._embedder = embedder
        self._progress = progress
        self._step = step or no_step
        self._token = ids.new_token()
        self._fingerprint = todays_fingerprint(config)
        old.on_step(self._step)

    async def in_place(self) -> RebuildReport:
        """Make the new tables, and put them into the place of the old ones."""
        tags = tuple(tag.name for tag in await self._old.list_tags())
        if await self._is_current():
            before, left = await self._settle()
            count = await _count(self._old)
            return RebuildReport(
                path=self._old.path,
                embedder=str(self._embedder.identity),
                rebuilt=False,
                documents=count,
                before=before,
                left=left,
            )
        predecessor = self._old.predecessor(self._token)
        await predecessor.claim()
        place = await asyncio.to_thread(self._place)
        async with self._copying(place) as (new, copying):
            try:
                await self._switch(copying, predecessor, place)
            except BaseException:
                with suppress(StoreError, OSError):  # they wait no longer than `commit.HOLD`
                    await predecessor.release()
                raise
            await copying.shadow.finish()
            before, left = await self._settle()
            report = await self._report(self._old.path, new, copying.figures)
        return replace(report, tags=tags, before=before, left=left)

    async def elsewhere(self, to: str) -> RebuildReport:
        """Make a database at another place; the old one is only read."""
        from haiku.rag.store.tables import locate

        place = locate(to)
        await self._check_free(place)
        async with self._copying(place) as (new, copying):
            difference = await copying.catch_up(LOOKS_ELSEWHERE, 0)
            await copying.tidy()
            await copying.shadow.check()
            await copying.shadow.finish()
            report = await self._report(place, new, copying.figures)
        return replace(report, behind=len(difference.changed))

    # --- where ---------------------------------------------------------------------------------

    async def _is_current(self) -> bool:
        """Whether the pipeline of today has made everything."""
        if self._embedder.identity != self._old.identity:
            return False
        where = f"fingerprint IS NULL OR fingerprint != '{self._fingerprint}'"
        return not await self._old.read(lambda snapshot: snapshot.count(where))

    def _note(self) -> str:
        """What is made from what: a rebuild that notes the same may go on with it."""
        made_from = self._old.created_at.isoformat()
        return json.dumps({"from": made_from, "by": self._fingerprint})

    def _place(self) -> str:
        """The folder of the new tables: that of a rebuild that was broken off, or a new one."""
        from haiku.rag.store import replacing

        fit, unfit = replacing.unfinished(self._old.path, self._old.place, self._note())
        for folder in unfit:
            shutil.rmtree(folder)
        return fit or f"{self._old.path}/{replacing.new_name()}"

    async def _check_free(self, place: str) -> None:
        """Refuse a place where there is a database, unless a rebuild like this has begun it."""
        from haiku.rag.store import Store, opening, replacing

        await asyncio.to_thread(opening.check_apart, place)
        try:
            await (await Store.open(place, self._config.storage, read_only=True)).close()
        except DatabaseNotFound:
            return
        except StoreBusy:  # it is not finished
            if await asyncio.to_thread(replacing.note_of, place) == self._note():
                return
        raise DatabaseExists(f"a database is at {place} already; choose another place")

    @asynccontextmanager
    async def _copying(self, place: str) -> AsyncIterator[tuple[Store, Copying]]:
        """The new database, empty or as a rebuild that was broken off has left it."""
        from haiku.rag.store import Store, opening

        identity = self._embedder.identity
        await self._step("begin")
        with suppress(DatabaseExists):
            await asyncio.to_thread(
                opening.create, place, identity, made_by=self._token, note=self._note()
            )
        new = await Store.open(place, self._config.storage, identity=identity, unfinished=True)
        async with new:
            new.on_step(self._step)
            session = WriteSession(new, self._embedder, self._config, older=self._old)
            try:
                copying = Copying(self._old, new, session, self._token, self._progress)
                await copying.shadow.take_over()
                yield new, copying
            finally:
                await session.close()

    # --- the end -------------------------------------------------------------------------------

    async def _switch(self, copying: Copying, predecessor: Predecessor, place: str) -> None:
        """Copy what is left while commits wait, and switch; again when somebody did not wait."""
        await copying.catch_up(LOOKS, FEW)
        await copying.tidy()
        await copying.shadow.check()
        for _ in range(TRIES):
            await predecessor.hold()
            difference = await copying.compare()
            if difference:
                await copying.copy(difference, keep=predecessor.hold)
            elif await predecessor.switch(difference.version, place.rsplit("/", 1)[-1]):
                return
        raise StoreBusy(
            f"{self._old.path}: other processes committed at each of {TRIES} tries to switch; "
            "what was copied stays, run the rebuild again while less is written"
        )

    async def _settle(self) -> tuple[str | None, str | None]:
        """Tidy up after the switch: where what was before is, and what could not be done."""
        try:
            return await self._old.aftermath().settle(), None
        except (StoreError, OSError) as error:  # the switch itself is made
            return None, f"{type(error).__name__}: {error}"

    async def _report(self, path: str, new: Store, figures: Figures) -> RebuildReport:
        return RebuildReport(
            path=path,
            embedder=str(new.identity),
            rebuilt=True,
            documents=await _count(new),
            copied=figures.copied,
            kept_chunks=figures.kept_chunks,
            embedded=figures.embedded,
            reused=figures.reused,
            not_chunked=dict(figures.not_chunked),
        )


async def _count(store: Store) -> int:
    return await store.read(lambda snapshot: snapshot.count())
