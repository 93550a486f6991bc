"""The collector: takes away the rows of revisions that nobody can need any more.

A revision is dead when a row names it as replaced, or when no row names it (a crash left its rows).
It is collected when a mature mark of this host saw its rows, or saw it replaced, and it is dead
still. Three things are done to each batch, and each of them is safe to do again:

1. *condemn*: a pinned commit puts the batch on the head row's list, without what has come alive
   meanwhile. From here on no commit makes any of it live.
2. *delete* its rows: chunks first, `documents` last, in which a writer looks for its own rows.
3. *release*: a pinned commit takes the batch off the list, and off the rows that name it.

Whoever comes first finishes what is on the list; names are never used twice, so a collector that
was frozen anywhere deletes only what is deleted already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from haiku.rag.store import commit, reading, schema, sql
from haiku.rag.store.commit import Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from haiku.rag.store.commit import Committer, Step
    from haiku.rag.store.marks import Mark
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

#: Revisions condemned at once.
BATCH = 500
#: Rows of a `revision` column read at a time.
BATCH_ROWS = 1 << 14
#: The order in which rows are deleted: the reverse of that in which they are appended.
_DELETED = tuple(reversed(schema.APPENDED))

_ENDED = "state = 'deleted' AND replaced_count = 0"


@dataclass(kw_only=True, slots=True)
class Collected:
    """What a collection took away."""

    revisions: int = 0
    #: Rows of the appended tables.
    rows: int = 0
    #: Rows of documents deleted long ago.
    forgotten: int = 0


class Collector:
    """Collects dead revisions of one open store."""

    def __init__(self, tables: Tables, threads: Threads, committer: Committer) -> None:
        self._tables = tables
        self._threads = threads
        self._committer = committer
        self.step: Step = commit.no_step

    async def finish(self, collected: Collected) -> None:
        """Collect what is condemned already: by a collector that was killed, or by one at work."""
        condemned = await self._threads.run(self._condemned)
        for batch in sql.parts(sorted(condemned), BATCH):
            await self._take(batch, collected)

    def _condemned(self) -> frozenset[str]:
        return reading.head(self._tables.latest(schema.META)).condemned

    async def collect(self, mark: Mark, collected: Collected, *, full: bool) -> None:
        """Collect what was dead at a mature mark.

        Args:
            mark: of this host.
            collected: counts on.
            full: look for rows that no document names as well, in all of the tables.

        Raises:
            OSError: a version of the mark is gone, or the storage failed; nothing is half done
                that is not finished the next time.
        """
        batches = self._dead(mark, full)
        while (batch := await self._threads.run(next, batches, None)) is not None:
            condemned = await self._condemn(batch)
            await self._take(condemned, collected)

    async def forget(self, older_than: timedelta, collected: Collected) -> None:
        """Remove the rows of documents that were deleted before, once nothing of them is left.

        A writer that expects such a row loses, as it would have before.
        """
        before = datetime.now(UTC) - older_than
        where = f"{_ENDED} AND committed_at < timestamp '{before.isoformat()}'"
        if await self._threads.run(self._count, schema.META, where):
            await self.step("forget")
            async with self._committer.between_groups():
                collected.forgotten += await self._threads.finish(self._delete, schema.META, where)

    def _dead(self, mark: Mark, full: bool) -> Iterator[Sequence[str]]:
        """Batches of dead revisions, as of when each is asked for."""
        replaced = self._replaced(mark)
        unnamed = self._unnamed(mark) if full else iter(())
        yield from _batches(chain(replaced, unnamed))

    def _replaced(self, mark: Mark) -> Iterator[str]:
        """Revisions that rows name as replaced, and named so at the mark."""
        now = _flat(self._tables.latest(schema.META))
        then = _flat(self._at(schema.META, mark))
        yield from now.filter(pc.is_in(now, value_set=then)).to_pylist()

    def _unnamed(self, mark: Mark) -> Iterator[str]:
        """Revisions that had rows at the mark and that no row of `document_meta` names now."""
        for table in schema.APPENDED:
            batches = self._at(table, mark).to_batches(columns=["revision"], batch_size=BATCH_ROWS)
            last = ""
            for batch in batches:
                seen = [name for name in pc.unique(batch["revision"]).to_pylist() if name != last]
                last = seen[-1] if seen else last
                yield from self._strangers(table, seen)

    def _strangers(self, table: str, revisions: Sequence[str]) -> Iterator[str]:
        """Those of the revisions that no document names, and whose rows are still there."""
        meta = self._tables.latest(schema.META)
        named = reading.revisions_there(meta, revisions)
        unknown = pa.array([name for name in revisions if name not in named], pa.string())
        if len(unknown):
            replaced = pc.is_in(unknown, value_set=_flat(meta))
            names = unknown.filter(pc.invert(replaced)).to_pylist()
            there = reading.revisions_there(self._tables.latest(table), names)
            yield from (name for name in names if name in there)

    def _at(self, table: str, mark: Mark) -> Any:
        return self._tables.latest(table).checkout_version(mark.versions[table])

    async def _condemn(self, batch: Sequence[str]) -> Sequence[str]:
        """Condemn what of a batch is not live; what was condemned."""
        dead: list[str] = []

        def compute(meta: Any) -> Rewrite | None:
            live = reading.revisions_there(meta, batch)
            dead[:] = [name for name in batch if name not in live]
            head = reading.head(meta)
            condemned = head.condemned.union(dead)
            return Rewrite(head=replace(head, condemned=condemned)) if dead else None

        await self._committer.rewrite(compute, self.step, "condemn")
        return dead

    async def _take(self, batch: Sequence[str], collected: Collected) -> None:
        """Delete the rows of condemned revisions, and release them."""
        if not batch:
            return
        where = sql.within("revision", batch)
        for table in _DELETED:
            await self.step(f"delete {table}")
            if await self._threads.run(self._count, table, where):
                collected.rows += await self._threads.finish(self._delete, table, where)
        if await self._release(frozenset(batch)):
            collected.revisions += len(batch)

    async def _release(self, batch: frozenset[str]) -> bool:
        """Take a batch off the head row's list and off the rows that name it."""

        def compute(meta: Any) -> Rewrite | None:
            head = reading.head(meta)
            naming = reading.base(meta, _naming(meta, batch), ()).records.values()
            kept = [
                replace(r, replaced=tuple(name for name in r.replaced if name not in batch))
                for r in naming
            ]
            if not kept and not head.condemned & batch:
                return None
            return Rewrite(head=replace(head, condemned=head.condemned - batch), records=kept)

        return await self._committer.rewrite(compute, self.step, "release")

    def _count(self, table: str, where: str) -> int:
        return int(self._tables.latest(table).count_rows(filter=where))

    def _delete(self, table: str, where: str) -> int:
        dataset = self._tables.latest(table)
        pinned = dataset.checkout_version(dataset.version)
        done = pinned.delete(where)
        self._tables.adopt(table, pinned)
        return int(done["num_deleted_rows"])


def _flat(meta: Any) -> pa.Array:
    """Every revision that a row names as replaced."""
    table = meta.to_table(columns=["replaced"], filter="replaced_count > 0")
    return pc.list_flatten(table["replaced"]).combine_chunks()


def _naming(meta: Any, batch: frozenset[str]) -> list[str]:
    """The URIs of the rows that name one of the revisions as replaced."""
    wanted = pa.array(sorted(batch), pa.string())
    found: list[str] = []
    columns = ["uri", "replaced"]
    for part in meta.to_batches(columns=columns, filter="replaced_count > 0"):
        hits = pc.is_in(pc.list_flatten(part["replaced"]), value_set=wanted)
        owners = pc.list_parent_indices(part["replaced"]).filter(hits)
        found += part["uri"].take(pc.unique(owners)).to_pylist()
    return found


def _batches(names: Iterator[str]) -> Iterator[Sequence[str]]:
    held: dict[str, None] = {}
    for name in names:
        held[name] = None
        if len(held) == BATCH:
            yield list(held)
            held = {}
    if held:
        yield list(held)
