"""What one directory entry is to a source: its mark, its identity, and why it may not be wanted."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

from haiku.ingester.items.model import Observation

#: What RFC 3986 allows in a path segment, as `haiku.rag.uris.path_to_uri` writes it.
_SAFE = "-._~!$&'()*+,;=:@"

#: Reasons for which an object that is there is not wanted.
LINK, SPECIAL, TOO_LARGE = "link", "special", "too_large"

#: Whether a name is the same in a URI, as nearly all are.
_is_plain = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@]*").fullmatch


def encode_name(name: str) -> str:
    """One path segment of a URI from a file name, whatever bytes it has."""
    return name if _is_plain(name) else quote_from_bytes(os.fsencode(name), safe=_SAFE)


def mark_of(status: os.stat_result) -> str:
    """Size, mtime, ctime and inode, hexadecimal: what changes when a file's bytes may have."""
    return "%x-%x-%x-%x" % (  # noqa: UP031 - made of every file, and twice as fast as an f-string
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def identity_of(status: os.stat_result) -> str:
    """Device and inode: what a rename keeps."""
    return "%x:%x" % (status.st_dev, status.st_ino)  # noqa: UP031 - as above


def same_bytes(before: str, after: str) -> bool:
    """Whether size and mtime are equal; a rename changes the ctime, a new name may the inode."""
    return before.split("-")[:2] == after.split("-")[:2]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a source takes of regular files and links."""

    #: The root with every link in it resolved.
    real_root: str
    #: Bytes; a larger file is not wanted.
    max_size: int
    follow_symlinks: bool

    def observe(self, path: str, uri: str, status: os.stat_result) -> Observation:
        """The observation of an entry that is not a folder.

        Args:
            path: the entry on disk.
            uri: the same as URI.
            status: of the entry itself, links not followed.

        Raises:
            OSError: what a link points to cannot be looked at.
        """
        mode = status.st_mode
        if stat.S_ISREG(mode):
            skip = TOO_LARGE if status.st_size > self.max_size else None
            return Observation(uri, mark_of(status), status.st_size, identity_of(status), skip)
        if stat.S_ISLNK(mode):
            return self._observe_link(path, uri, status)
        return Observation(uri, mark_of(status), None, None, SPECIAL)

    def _observe_link(self, path: str, uri: str, status: os.stat_result) -> Observation:
        """A link has no identity of its own, so that it is never taken for its target moved."""
        target = self._target(path) if self.follow_symlinks else None
        if target is None:
            return Observation(uri, mark_of(status), None, None, LINK)
        skip = TOO_LARGE if target.st_size > self.max_size else None
        return Observation(uri, mark_of(target), target.st_size, None, skip)

    def _target(self, path: str) -> os.stat_result | None:
        """What a link points to, when it is a regular file inside the root."""
        real = os.path.realpath(path)
        if not self.contains(real):
            return None
        try:
            status = os.stat(real, follow_symlinks=False)  # noqa: PTH116 - the raw result
        except FileNotFoundError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def contains(self, real_path: str) -> bool:
        """Whether a path without links is inside the root."""
        return real_path.startswith(self.real_root.rstrip("/") + "/")
