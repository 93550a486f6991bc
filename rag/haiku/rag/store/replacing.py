"""How a rebuilt database takes the place of the one it was made from.

A rebuild makes five new tables in a folder below the database's own. Then one commit on the old
head row, pinned like any other, marks the old tables as replaced and says where the new ones are.
That commit is the switch: it is made against exactly the version that was copied, whoever opens
the database afterwards follows the mark, and every later commit on the old tables meets it.

No folder is ever put into the place of another. Lance finds a table by its path: a writer that had
the old one open, frozen for however long, would commit into whatever is there then, and nothing
would stop it (`docs/decisions/rebuild.md`). So the old `document_meta` stays where it was, with
its mark; a copy of it and the other old tables go into a folder of their own, a database that can
be opened.

Rules: until the switch the old database is what it was; after it, the new one is; what comes after
the switch may be broken off anywhere and is completed by the next rebuild.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haiku.rag import ids
from haiku.rag.exceptions import DatabaseNotFound, StoreBusy
from haiku.rag.store import reading, records, schema, settings, sql
from haiku.rag.store.commit import Rewrite
from haiku.rag.store.naming import NEW, OLD
from haiku.rag.store.records import Marks
from haiku.rag.store.tables import REPLACED, open_table, replaced, table_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.rag.store.commit import Committer, Step
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

#: Key in the `settings` of a database that is being made: what it is made from, and by what.
NOTE = "rebuild"


def current(root: str) -> tuple[str, Marks | None]:
    """The folder whose tables are those of the database at `root` now, and its marks. Blocking.

    Raises:
        DatabaseReplaced: `root` itself is the folder of a rebuild, and was replaced in its turn.
    """
    place, marks = root, _marks(root)
    while marks is not None and marks.replaced_by:
        place = f"{root}/{marks.replaced_by}"
        if not Path(place).is_dir():
            raise replaced(root)
        marks = _marks(place)
    return place, marks


def _successor(place: str) -> str | None:
    marks = _marks(place)
    return None if marks is None else marks.replaced_by


def _marks(place: str) -> Marks | None:
    """What rebuilds have written on the head row; None where there is none."""
    try:
        meta = open_table(place, schema.META)
    except DatabaseNotFound:
        return None
    found = meta.to_table(columns=["metadata"], filter=sql.equals("uri", schema.HEAD))
    return records.load_marks(found["metadata"][0].as_py()) if found.num_rows else None


def new_name() -> str:
    """The name of a folder for new tables."""
    return f"{NEW}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


def unfinished(root: str, place: str, note: str) -> tuple[str | None, list[str]]:
    """What rebuilds that were broken off have left: the folder to go on in, and those to remove.

    Args:
        root: the database.
        place: the folder of its tables now.
        note: `NOTE` of the rebuild that asks. Blocking.
    """
    fit, unfit = None, []
    for folder in sorted(Path(root).glob(f"{NEW}*")):
        marks = _marks(str(folder))
        if str(folder) == place or (marks is not None and marks.replaced_by):
            continue
        if fit is None and note_of(str(folder)) == note:
            fit = str(folder)
        else:
            unfit.append(str(folder))
    return fit, unfit


def note_of(place: str) -> str | None:
    """What the rebuild that makes a database has noted; see `NOTE`. Blocking."""
    try:
        return settings.read(open_table(place, schema.SETTINGS)).get(NOTE)
    except DatabaseNotFound:
        return None


class Predecessor:
    """A database that one rebuild is about to replace."""

    def __init__(self, tables: Tables, threads: Threads, committer: Committer, token: str) -> None:
        self._tables = tables
        self._threads = threads
        self._committer = committer
        self._token = token

    async def claim(self) -> None:
        """Be the one rebuild that may replace the database; another that is at it has lost.

        Raises:
            DatabaseReplaced: it is replaced already.
        """

        def compute(meta: Any) -> Rewrite:
            head = reading.head(meta)
            self._committer.refuse_replaced(head)
            return Rewrite(head=replace(head, marks=replace(head.marks, claimed_by=self._token)))

        await self._committer.rewrite(compute, self._committer.step, "claim")

    async def hold(self) -> None:
        """Have commits wait, for `commit.HOLD` from now at most.

        Raises:
            StoreBusy: another rebuild has claimed the database.
        """

        def compute(meta: Any) -> Rewrite:
            return self._marked(meta, held=ids.new_token())

        await self._committer.rewrite(compute, self._committer.step, "hold")

    async def release(self) -> None:
        """Let commits go on, when they are held for this rebuild."""

        def compute(meta: Any) -> Rewrite | None:
            marks = reading.head(meta).marks
            mine = marks.held is not None and marks.claimed_by == self._token
            return self._marked(meta, held=None) if mine and not marks.replaced_by else None

        await self._committer.rewrite(compute, self._committer.step, "release")

    async def switch(self, version: int, name: str) -> bool:
        """Have the tables in the folder `name` replace these.

        Args:
            version: of `document_meta`: what the new tables have.
            name: below the database's own folder.

        Returns:
            False, and nothing has changed, when anybody has committed since that version.

        Raises:
            StoreBusy: another rebuild has claimed the database.
        """

        def compute(meta: Any) -> Rewrite | None:
            if meta.version != version:
                return None
            return self._marked(meta, held=None, replaced_by=name)

        return await self._committer.rewrite(compute, self._committer.step, "switch")

    def _marked(self, meta: Any, **marks: str | None) -> Rewrite:
        head = reading.head(meta)
        self._committer.refuse_replaced(head)
        if head.marks.claimed_by != self._token:
            raise StoreBusy(
                f"{self._tables.database}: another rebuild has begun since; this one is given up"
            )
        return Rewrite(head=replace(head, marks=replace(head.marks, **marks)))


class Aftermath:
    """What follows the switch: readers are told, and the old tables are put together."""

    def __init__(self, root: str, threads: Threads, step: Step) -> None:
        self._root = root
        self._threads = threads
        self._step = step

    async def settle(self) -> str | None:
        """Do what is left to do, of this rebuild and of those that were broken off after theirs.

        Returns:
            The folder of what was before the last switch; None when there is none any more.

        Raises:
            StoreError, OSError: the storage failed; the next rebuild goes on with it.
        """
        for place, name in await self._threads.run(lambda: list(self._replaced())):
            await self._step("tell")
            await self._threads.finish(_tell, place, name)
            await self._set_aside(place, name)
        await self._shorten()
        kept = sorted(Path(self._root).glob(f"{OLD}*Z"))
        return str(kept[-1]) if kept else None

    def _replaced(self) -> Iterator[tuple[str, str]]:
        """The folders whose tables were replaced, each with the name of its successor's."""
        for place in [self._root, *map(str, sorted(Path(self._root).glob(f"{NEW}*")))]:
            name = _successor(place)
            if name is not None:
                yield place, name

    async def _set_aside(self, place: str, name: str) -> None:
        """Make a database of its own of what was replaced; the mark stays where it is."""
        kept = Path(self._root) / f"{OLD}{name.removeprefix(NEW)}"
        part = kept.with_name(f"{kept.name}.part")
        there = any(Path(table_path(place, table)).is_dir() for table in schema.APPENDED)
        if kept.is_dir() or not (there or part.is_dir()):
            return
        await self._step("copy marks")
        await self._threads.finish(_copy_small, place, part)
        await self._step("clear marks")
        await self._threads.finish(_untell, str(part))
        for table in schema.APPENDED:
            await self._step(f"set aside {table}")
            await self._threads.finish(
                _move, table_path(place, table), table_path(str(part), table)
            )
        await self._step("name")
        await self._threads.finish(part.rename, kept)

    async def _shorten(self) -> None:
        """Let the first mark lead to the tables of today at once."""
        place, _ = await self._threads.run(current, self._root)
        name = await self._threads.run(_successor, self._root)
        if name is not None and place != f"{self._root}/{name}":
            await self._step("shorten")
            await self._threads.finish(_lead, self._root, Path(place).name)


def _tell(place: str, name: str) -> None:
    """Let those who have the old tables open see it in the manifest of the next version."""
    meta = open_table(place, schema.META)
    if meta.config().get(REPLACED) != name:
        meta.update_config({REPLACED: name})


def _untell(place: str) -> None:
    meta = open_table(place, schema.META)
    if REPLACED in meta.config():
        meta.delete_config_keys([REPLACED])
    _write_marks(meta, Marks())


def _lead(place: str, name: str) -> None:
    meta = open_table(place, schema.META)
    _write_marks(meta, Marks(replaced_by=name))
    _tell(place, name)


def _write_marks(meta: Any, marks: Marks) -> None:
    """Change the marks of tables that nobody can commit to, or that nobody else knows."""
    head = replace(reading.head(meta), marks=marks, row_version=ids.new_token())
    rows = records.meta_table([], head, datetime.now(UTC))
    meta.merge_insert("uri").when_matched_update_all().execute(rows)


def _copy_small(place: str, part: Path) -> None:
    """Copy the tables that stay in the old place as well."""
    for table in (schema.META, schema.SETTINGS):
        target = table_path(str(part), table)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(table_path(place, table), target)


def _move(source: str, target: str) -> None:
    if Path(source).is_dir() and not Path(target).exists():
        Path(source).rename(target)
