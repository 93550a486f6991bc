"""Walks a folder in a thread: entries in batches, and the parts that could not be read.

Links to folders are never entered, so that a link cannot make the walk endless; a mount can, so a
folder that is its own ancestor is not entered either.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from haiku.ingester.sources import gitignore
from haiku.ingester.sources.entries import encode_name
from haiku.ingester.sources.protocol import Listing, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.ingester.items.model import Observation
    from haiku.ingester.sources.entries import Rules
    from haiku.ingester.sources.patterns import Patterns

#: Observations in one batch: some 10 ms of walking.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to walk."""

    #: On disk, without a slash at the end unless it is "/".
    path: str
    #: Below the root, ending with "/"; "" for the root.
    relative: str
    #: As a tree.
    uri: str
    #: (device, inode) of the folders it is in.
    ancestors: frozenset[tuple[int, int]] = frozenset()
    #: The `.gitignore` files that rule it, when they are asked for.
    ignores: gitignore.Level | None = None

    def child(
        self,
        name: str,
        ancestors: frozenset[tuple[int, int]] = frozenset(),
        ignores: gitignore.Level | None = None,
    ) -> Folder:
        """The folder of that name in this one."""
        return Folder(
            f"{self.path.rstrip('/')}/{name}",
            f"{self.relative}{name}/",
            f"{self.uri}{encode_name(name)}/",
            ancestors,
            ignores,
        )


@dataclass(slots=True)
class _Batch:
    observations: list[Observation] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)
    incomplete: list[Unread] = field(default_factory=list)
    ignored: int = 0

    def listing(self) -> Listing:
        return Listing(
            observations=self.observations,
            unsettled=frozenset(self.unsettled),
            incomplete=self.incomplete,
            ignored=self.ignored,
        )


@dataclass(slots=True)
class Walk:
    """One walk. Iterate it in a thread; it is used once."""

    patterns: Patterns
    rules: Rules
    #: Honour `.gitignore` files.
    use_gitignore: bool
    #: Seconds a file must not have changed for it to count as settled.
    settle: float
    _batch: _Batch = field(default_factory=_Batch)

    def run(self, start: Folder) -> Iterator[Listing]:
        """Everything below `start`, which is not held against the patterns itself."""
        waiting = [start]
        while waiting:
            yield from self._folder(waiting.pop(), waiting)
        yield self._take()

    def _take(self) -> Listing:
        listing, self._batch = self._batch.listing(), _Batch()
        return listing

    def _folder(self, folder: Folder, waiting: list[Folder]) -> Iterator[Listing]:
        """Take in the files of one folder, and put the folders in it on the waiting list."""
        try:
            status = os.stat(folder.path, follow_symlinks=not folder.relative)  # noqa: PTH116
            key = (status.st_dev, status.st_ino)
            if key not in folder.ancestors:
                with os.scandir(folder.path) as entries:
                    yield from self._entries(folder, folder.ancestors | {key}, entries, waiting)
        except (FileNotFoundError, NotADirectoryError):
            return  # it went since it was listed; the next event or listing decides
        except OSError as error:
            self._batch.incomplete.append(Unread(folder.uri, reason_of(error)))

    def _entries(
        self,
        folder: Folder,
        ancestors: frozenset[tuple[int, int]],
        entries: Iterator[os.DirEntry[str]],
        waiting: list[Folder],
    ) -> Iterator[Listing]:
        ignores = folder.ignores
        if self.use_gitignore:
            ignores = gitignore.read(folder.path, folder.relative, ignores)
        settled_before = int((time.time() - self.settle) * 1e9)
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                child = folder.child(name, ancestors, ignores)
                if self._enters(child, name):
                    waiting.append(child)
            elif self._wants(folder.relative + name, name, ignores):
                self._file(entry, folder.uri + encode_name(name), settled_before)
                if len(self._batch.observations) >= BATCH:
                    yield self._take()
            else:
                self._batch.ignored += 1

    def _file(self, entry: os.DirEntry[str], uri: str, settled_before: int) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
            observation = self.rules.observe(entry.path, uri, status)
        except FileNotFoundError:
            return  # it went since it was listed
        except OSError as error:
            self._batch.incomplete.append(Unread(uri, reason_of(error)))
            return
        self._batch.observations.append(observation)
        if status.st_ctime_ns > settled_before:
            self._batch.unsettled.add(uri)

    def _enters(self, folder: Folder, name: str) -> bool:
        if not self.patterns.enters(folder.relative, name):
            return False
        return folder.ignores is None or not folder.ignores.ignores(folder.relative)

    def _wants(self, relative: str, name: str, ignores: gitignore.Level | None) -> bool:
        if not self.patterns.wants(relative, name):
            return False
        return ignores is None or not ignores.ignores(relative)


def reason_of(error: OSError) -> str:
    """An operating system's error in its own words, without the path."""
    return error.strerror or type(error).__name__
