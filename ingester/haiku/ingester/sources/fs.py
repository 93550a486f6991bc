"""The filesystem source: a folder and everything below it."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING

from haiku.ingester.exceptions import SourceMissing, WatchUnavailable
from haiku.ingester.sources import entries, gitignore, mounts, reading
from haiku.ingester.sources.fs_watch import FolderWatch
from haiku.ingester.sources.patterns import Patterns
from haiku.ingester.sources.protocol import Listing, Unread
from haiku.ingester.sources.walk import Folder, Walk, reason_of
from haiku.rag.exceptions import SourceUnavailable, SourceUnreadable
from haiku.rag.uris import display, path_to_uri, uri_to_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from typing import BinaryIO

    from haiku.ingester.config import FilesystemSource
    from haiku.ingester.items.model import Observation
    from haiku.ingester.sources.protocol import Event, Fetched, Watch


class FolderSource:
    """A folder on a filesystem of this machine, local or mounted."""

    kind = "fs"

    def __init__(self, config: FilesystemSource, *, max_file_size: int) -> None:
        """Take a source's section.

        Args:
            config: the section.
            max_file_size: bytes, when the section sets no limit of its own.
        """
        self.id = config.id
        self._config = config
        self._root = str(config.path)
        self._tree = path_to_uri(self._root).rstrip("/") + "/"
        self._max_size = config.max_file_size or max_file_size
        self._patterns = Patterns(
            include=config.include, ignore=config.ignore, default_ignore=config.default_ignore
        )

    async def check(self) -> None:
        """Whether the folder is there and can be listed. Raises SourceMissing."""
        await asyncio.to_thread(self._check)

    async def list(self, under: str | None = None) -> AsyncIterator[Listing]:
        """Everything below the folder, or below one tree in it; as `Source.list`."""
        before = await asyncio.to_thread(self._check)
        walk = Walk(
            patterns=self._patterns,
            rules=self._rules(),
            use_gitignore=self._config.gitignore,
            settle=self._config.settle,
        )
        listings = self._listings(walk, under)
        while (listing := await asyncio.to_thread(next, listings, None)) is not None:
            yield listing
        if await asyncio.to_thread(self._check) != before:
            raise SourceMissing(f"{self._name()} was replaced while it was listed")

    async def look(self, uris: Sequence[str]) -> dict[str, Observation | None]:
        """The state of some files now; as `Source.look`."""
        return await asyncio.to_thread(self._look, uris)

    async def fetch(self, uri: str, into: BinaryIO, *, max_size: int | None = None) -> Fetched:
        """Copy one file's bytes; as `Source.fetch`."""
        stop = threading.Event()
        limit = self._max_size if max_size is None else min(max_size, self._max_size)
        task = asyncio.ensure_future(asyncio.to_thread(self._read, uri, into, limit, stop))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([task])  # the thread must be off the file before its owner closes it
            raise

    def same_bytes(self, before: str, after: str) -> bool:
        """Whether two marks have equal size and mtime."""
        return entries.same_bytes(before, after)

    async def watch(self, notify: Callable[[Event], None]) -> Watch | None:
        """Watch the folder with inotify; None when it is to be polled. As `Source.watch`."""
        if self._config.watch in ("poll", "off"):
            return None
        if not sys.platform.startswith("linux"):
            return None  # no inotify
        if self._config.watch == "auto":
            kind = await asyncio.to_thread(mounts.network_type, self._root)
            if kind is not None:
                return None
        await self.check()
        watch = FolderWatch(self._root, self._tree, self._enters_path, notify)
        try:
            await watch.arm()
        except OSError as error:
            await self.check()
            raise WatchUnavailable(f"{self._name()} cannot be watched: {error}") from error
        return watch

    # --- in threads ---------------------------------------------------------------------------

    def _name(self) -> str:
        return f"{display(path_to_uri(self._root))} (ingester.sources[{self.id}].path)"

    def _check(self) -> tuple[int, int]:
        """Device and inode of the root, opened as a listing would. Raises SourceMissing."""
        try:
            status = os.stat(self._root)  # noqa: PTH116 - the raw result
            if stat.S_ISDIR(status.st_mode):
                os.scandir(self._root).close()
                return status.st_dev, status.st_ino
            problem = "is not a folder"
        except (FileNotFoundError, NotADirectoryError):
            problem = "is not there; check the path and, in a container, that the volume is mounted"
        except PermissionError:
            problem = "may not be read; allow it for the user that the daemon runs as"
        except OSError as error:
            problem = f"cannot be read: {error.strerror}; check that the filesystem is mounted"
        raise SourceMissing(f"source {self.id!r}: {self._name()} {problem}")

    def _rules(self) -> entries.Rules:
        return entries.Rules(
            real_root=os.path.realpath(self._root),
            max_size=self._max_size,
            follow_symlinks=self._config.follow_symlinks,
        )

    def _relative(self, uri: str) -> str | None:
        """The path below the root that a URI names, or None for a URI of somewhere else.

        And for another spelling of a file's URI, which would be a second document.
        """
        if not uri.startswith(self._tree) or "%00" in uri:
            return None
        path = str(uri_to_path(uri))
        relative = path[len(self._root.rstrip("/")) + 1 :]
        return relative if relative and path_to_uri(path) == uri else None

    def _path(self, relative: str) -> str:
        return f"{self._root.rstrip('/')}/{relative}"

    def _listings(self, walk: Walk, under: str | None) -> Iterator[Listing]:
        """What a walk finds below a tree, and that the tree itself could not be reached."""
        try:
            start = self._start(under)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield Listing(incomplete=[Unread(under or self._tree, reason_of(error))])
            return
        if start is not None:
            yield from walk.run(start)

    def _start(self, under: str | None) -> Folder | None:
        """The folder to list from; None when it is not there, not wanted, or a link."""
        folder = Folder(self._root, "", self._tree)
        if under is None or under == self._tree:
            return folder
        relative = self._relative(under.rstrip("/"))
        return None if relative is None else self._descend(folder, relative.split("/"))

    def _descend(self, folder: Folder, names: Sequence[str]) -> Folder | None:
        """The folder some names further down, when every one on the way is entered."""
        for name in names:
            above = self._level(folder)
            folder = folder.child(name, ignores=above)
            if not self._patterns.enters(folder.relative, name):
                return None
            if above is not None and above.ignores(folder.relative):
                return None
            if not _is_real_folder(folder.path):
                return None
        return folder

    def _level(self, folder: Folder) -> gitignore.Level | None:
        if not self._config.gitignore:
            return None
        return gitignore.read(folder.path, folder.relative, folder.ignores)

    def _enters_path(self, path: str) -> bool:
        """Whether a folder is walked, by its name alone; `.gitignore` files may exclude more."""
        relative = path[len(self._root.rstrip("/")) + 1 :] + "/"
        return self._patterns.enters(relative, relative[:-1].rsplit("/", 1)[-1])

    def _look(self, uris: Sequence[str]) -> dict[str, Observation | None]:
        self._check()
        rules, parents = self._rules(), dict[str, Folder | None]()
        answers = dict(self._answers(uris, rules, parents))
        if None in answers.values():
            self._check()  # absence counts only when the root was there all the time
        return answers

    def _answers(
        self, uris: Sequence[str], rules: entries.Rules, parents: dict[str, Folder | None]
    ) -> Iterator[tuple[str, Observation | None]]:
        for uri in uris:
            try:
                yield uri, self._answer(uri, rules, parents)
            except (FileNotFoundError, NotADirectoryError):
                yield uri, None
            except OSError:
                continue  # neither there nor not there: left out, as promised

    def _answer(
        self, uri: str, rules: entries.Rules, parents: dict[str, Folder | None]
    ) -> Observation | None:
        relative = self._relative(uri)
        if relative is None:
            return None
        above, _, name = relative.rpartition("/")
        if above not in parents:
            root = Folder(self._root, "", self._tree)
            parents[above] = self._descend(root, above.split("/")) if above else root
        parent = parents[above]
        if parent is None or not self._patterns.wants(relative, name):
            return None
        ignores = self._level(parent)
        if ignores is not None and ignores.ignores(relative):
            return None
        path = self._path(relative)
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode) or not _has_exactly(parent.path, name, status):
            return None
        return rules.observe(path, uri, status)

    def _read(self, uri: str, into: BinaryIO, limit: int, stop: threading.Event) -> Fetched:
        relative = self._relative(uri)
        if relative is None:
            raise SourceUnreadable(f"{display(uri)} is not below {self._name()}")
        try:
            return reading.read_file(
                self._path(relative), display(uri), into, self._rules(), limit, stop
            )
        except (SourceUnreadable, SourceUnavailable):
            self._check()  # a root that is away says nothing of the file
            raise


def _is_real_folder(path: str) -> bool:
    """Whether a path is a folder and not a link to one. Raises OSError when it cannot be told."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _has_exactly(folder: str, name: str, status: os.stat_result) -> bool:
    """Whether an entry has this very name, on filesystems that do not mind upper and lower case.

    Only when the name in the other case finds the same file is the folder read to see.
    """
    other = name.swapcase()
    if other == name:
        return True
    try:
        twin = os.lstat(f"{folder}/{other}")
    except OSError:
        return True
    if (twin.st_dev, twin.st_ino) != (status.st_dev, status.st_ino):
        return True
    return name in os.listdir(folder)  # noqa: PTH208 - names only
