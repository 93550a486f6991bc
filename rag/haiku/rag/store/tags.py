"""Tags: one Lance tag on each of the five tables names a state of the whole database.

The tag on `document_meta` is made first and deleted last, and Lance makes each of them exclusively:
whoever has made that one owns the name. A tag that lacks some tables is partial: its creation or
deletion was broken off. It can be listed and deleted, never read or restored.

What this relies on: a version is cleaned up no sooner than `collect_after` after the next one was
made, so that one that was the newest a moment ago is still there to be tagged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haiku.rag import tagnames
from haiku.rag.exceptions import StoreBusy, StoreError, TagExists, TagNotFound, TagUnusable
from haiku.rag.store import checking, reading, schema
from haiku.rag.store.naming import kept_before, name_of
from haiku.rag.store.states import Tag
from haiku.rag.store.tables import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from haiku.rag.store.commit import Committer
    from haiku.rag.store.tables import Tables
    from haiku.rag.store.threads import Threads

#: Tries to tag a state before another process cleans its versions up.
TRIES = 5


def read_all(database: str) -> list[Tag]:
    """Every tag, partial ones too, the oldest first. Blocking."""
    meta, found = _parts(database)
    tags = [_tag(name, parts, meta) for name, parts in found.items()]
    return sorted(tags, key=lambda tag: (tag.created_at, tag.name))


def _parts(database: str) -> tuple[Any, dict[str, dict[str, Any]]]:
    """`document_meta`, and of each name what Lance says of it by table."""
    tables = {table: open_table(database, table) for table in schema.TABLES}
    found: dict[str, dict[str, Any]] = {}
    for table, dataset in tables.items():
        for name, tag in dataset.tags.list().items():
            found.setdefault(name, {})[table] = tag
    return tables[schema.META], found


def _tag(name: str, parts: Mapping[str, Any], meta: Any) -> Tag:
    versions = {table: int(tag["version"]) for table, tag in parts.items()}
    return Tag(
        name=name,
        versions=versions,
        created_at=max(tag["created_at"] for tag in parts.values()),
        documents=_documents(meta, versions.get(schema.META)),
        missing=tuple(table for table in schema.TABLES if table not in versions),
    )


def _documents(meta: Any, version: int | None) -> int | None:
    if version is None:
        return None
    try:
        return reading.count(meta.checkout_version(version), None)
    except (OSError, ValueError):  # deleted and cleaned up meanwhile
        return None


def find(database: str, name: str) -> Tag | None:
    """The tag with a name, also a partial one. Blocking."""
    meta, found = _parts(database)
    return _tag(name, found[name], meta) if name in found else None


def usable(database: str, name: str) -> Tag:
    """The complete tag with a name. Blocking.

    Raises:
        TagNotFound: there is none.
        TagUnusable: it is partial.
    """
    tag = find(database, name)
    if tag is None:
        raise _not_found(database, name)
    if not tag.complete:
        raise TagUnusable(
            f"the tag {name} of {name_of(database)} is partial: it is missing on "
            f"{', '.join(tag.missing)}, so it names no state that could be read or "
            f"restored; delete it with `haiku-rag tag delete {name}`"
        )
    return tag


def _not_found(database: str, name: str) -> TagNotFound:
    return TagNotFound(
        f"{name_of(database)} has no tag {name!r}; see `haiku-rag tag list`{kept_before(database)}"
    )


class Tags:
    """The tags of one open store."""

    def __init__(self, tables: Tables, threads: Threads, committer: Committer) -> None:
        self._database = tables.database
        self._tables = tables
        self._threads = threads
        self._committer = committer

    async def all(self) -> list[Tag]:
        """Every tag, partial ones too, the oldest first."""
        return await self._threads.run(read_all, self._database)

    async def create(self, name: str) -> Tag:
        """Name the state of this moment; other processes may go on writing.

        The version of `document_meta` is taken first: whatever it makes visible was appended
        before. All five are opened again and counted before this returns.

        Raises:
            TagNameRefused: it may not be called so.
            StoreError: the storage failed; nothing is left behind.
            TagExists: there is one, perhaps a partial one.
            StoreBusy: cleanups by other processes were faster each time.
        """
        tagnames.check(name)
        await self._threads.run(self._tables.check)
        found = await self._threads.run(find, self._database, name)
        if found is not None:
            raise exists(found.name, found.missing)
        for _ in range(TRIES):
            versions = await self._threads.run(self._versions)
            if await self._create(name, versions):
                return await self._threads.run(usable, self._database, name)
        raise StoreBusy(
            f"{self._tables.name}: the tag {name} could not be made because versions were cleaned "
            "up at the same time; nothing of it is left, try again"
        )

    def _versions(self) -> dict[str, int]:
        datasets = self._tables.newest().datasets
        versions = {table: int(datasets[table].version) for table in schema.READ}
        return {**versions, schema.SETTINGS: int(self._tables.latest(schema.SETTINGS).version)}

    async def _create(self, name: str, versions: Mapping[str, int]) -> bool:
        """Make the five and check them; without success none is left. False: try again."""
        begun: list[str] = []
        try:
            for table in schema.TABLES:
                await self._committer.step(f"tag {table}")
                begun.append(table)
                if not await self._threads.finish(self._set, table, name, versions[table]):
                    await self._undo(name, begun)
                    return False
            await self._committer.step("tag check")
            if await self._threads.run(self._is_whole, name, versions):
                return True
        except TagExists:
            begun.pop()  # somebody else's
            await self._undo(name, begun)
            raise
        except BaseException:
            await self._undo(name, begun)
            raise
        await self._undo(name, begun)
        return False

    def _set(self, table: str, name: str, version: int) -> bool:
        """Make one of the five. False: its version was cleaned up meanwhile."""
        try:
            open_table(self._database, table).tags.create(name, version)
        except (ValueError, OSError) as error:
            text = str(error).lower()
            if "already exists" in text:
                raise exists(name) from error
            if "version not found" in text:
                return False
            raise StoreError(
                f"the tag {name} could not be made on {table} of {self._tables.name}: {error}"
            ) from error
        return True

    def _is_whole(self, name: str, versions: Mapping[str, int]) -> bool:
        """Whether all five are there, can be opened and fit together."""
        try:
            datasets = {
                table: open_table(self._database, table).checkout_version(name)
                for table in schema.TABLES
            }
            whole = checking.complete(datasets)
        except (ValueError, OSError):  # a version or a file was cleaned up before it was tagged
            return False
        if not whole:
            raise StoreError(
                f"{self._tables.name} cannot be tagged: rows of live documents are missing; delete "
                "the documents that cannot be read and add them again"
            )
        return {table: dataset.version for table, dataset in datasets.items()} == dict(versions)

    async def _undo(self, name: str, begun: list[str]) -> None:
        for table in reversed(begun):
            await self._threads.finish(self._unset, table, name)

    async def delete(self, name: str) -> Tag:
        """Delete a tag, also a partial one, and return what it was. Its versions may then go.

        Raises:
            TagNotFound: there is none.
        """
        tag = await self._threads.run(find, self._database, name)
        if tag is None:
            raise _not_found(self._database, name)
        for table in reversed(schema.TABLES):
            if table in tag.versions:
                await self._committer.step(f"untag {table}")
                await self._threads.finish(self._unset, table, name)
        return tag

    def _unset(self, table: str, name: str) -> None:
        try:
            open_table(self._database, table).tags.delete(name)
        except (ValueError, OSError) as error:
            if "not found" not in str(error).lower():
                raise StoreError(
                    f"the tag {name} could not be deleted from {table} of {self._tables.name}: "
                    f"{error}"
                ) from error


def exists(name: str, missing: Sequence[str] = ()) -> TagExists:
    """The error for a tag that was to be new and is there, on all tables but `missing`."""
    partial = f" (partial: missing on {', '.join(missing)})" if missing else ""
    return TagExists(
        f"there is a tag {name}{partial} already; choose another name, or delete it with "
        f"`haiku-rag tag delete {name}`"
    )
