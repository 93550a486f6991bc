"""Reads one file so that its bytes existed at one moment, and never waits for a pipe.

Runs in a thread. The file is opened once and everything is asked of the open file: size and times
before and after, and where it really lies, so that no link that is swapped in meanwhile leads out
of the root.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from haiku.ingester.sources.entries import Rules, identity_of, mark_of
from haiku.ingester.sources.protocol import Fetched
from haiku.rag.exceptions import (
    SourceChanged,
    SourceTooLarge,
    SourceUnavailable,
    SourceUnreadable,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from typing import BinaryIO

#: Bytes read at a time.
BLOCK = 1 << 20
#: Seconds; the kernel's clock ticks every 1 to 10 ms, so within this time of a write another one
#: may leave the times as they are.
TICK = 0.02

#: Errors of a disk or share that may pass.
_PASSING = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.EBUSY,
        errno.ENOMEM,
        errno.EINTR,
    }
)


def read_file(
    path: str, shown: str, into: BinaryIO, rules: Rules, max_size: int, stop: threading.Event
) -> Fetched:
    """Copy a file into an open one.

    Args:
        path: on disk.
        shown: the path as messages show it.
        into: written from its current position.
        rules: what of links and places is allowed.
        max_size: bytes.
        stop: ends the copy when set; the result is of no use then.

    Raises:
        SourceUnreadable, SourceTooLarge, SourceChanged, SourceUnavailable: as `Source.fetch`.
    """
    descriptor, followed = _open(path, shown, rules)
    try:
        return _copy(descriptor, path, shown, into, max_size, stop, followed)
    finally:
        os.close(descriptor)


def translate(error: OSError, shown: str) -> SourceUnreadable | SourceUnavailable:
    """An operating system's error as one of ours."""
    if error.errno in _PASSING:
        return SourceUnavailable(f"{shown} cannot be read now: {error.strerror}; tried again")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SourceUnreadable(f"{shown} is not there any more")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SourceUnreadable(
            f"no permission to read {shown}; allow it for the user that the daemon runs as"
        )
    if error.errno == errno.ELOOP:
        return SourceUnreadable(f"{shown} is a link that is not followed")
    return SourceUnreadable(f"{shown} cannot be read: {error.strerror}")


def _open(path: str, shown: str, rules: Rules) -> tuple[int, bool]:
    """An open descriptor of a regular file inside the root, and whether a link was followed.

    A pipe or a device is refused before it is opened, and the flags see to it that one that takes
    the place of a file in between does not make us wait.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    with _translated(shown):
        status = os.lstat(path)
        is_link = stat.S_ISLNK(status.st_mode)
        if not is_link:
            _require_regular(status, shown)
        follow = is_link and rules.follow_symlinks
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        with _translated(shown):
            _require_regular(os.fstat(descriptor), shown)
            real = _real_path(descriptor, path)
        if not rules.contains(real):
            raise SourceUnreadable(
                f"{shown} is reached through a link that leads out of the source"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, follow


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate(error, shown) from error


def _require_regular(status: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SourceUnreadable(f"{shown} is not a regular file")


def _real_path(descriptor: int, path: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - may have any bytes
    except FileNotFoundError:
        return os.path.realpath(path)  # a system without /proc


def _copy(
    descriptor: int,
    path: str,
    shown: str,
    into: BinaryIO,
    max_size: int,
    stop: threading.Event,
    followed: bool,
) -> Fetched:
    with _translated(shown):
        before = _status_at_rest(descriptor)
    if before.st_size > max_size:
        raise SourceTooLarge(f"{shown} has {before.st_size:,} bytes; the limit is {max_size:,}")
    digest, size = sha256(), 0
    for block in _blocks(descriptor, shown):
        size += len(block)
        if size > max_size:
            raise SourceTooLarge(f"{shown} grew beyond the limit of {max_size:,} bytes")
        if stop.is_set():
            raise SourceChanged(f"reading {shown} was stopped")
        digest.update(block)
        into.write(block)
    with _translated(shown):
        after = os.fstat(descriptor)
    if mark_of(after) != mark_of(before) or size != after.st_size:
        raise SourceChanged(f"{shown} changed while it was read; tried again")
    return Fetched(
        size=size,
        sha256=digest.hexdigest(),
        mark=mark_of(after),
        declared_type=None,
        name=os.fsencode(path).rsplit(b"/", 1)[-1].decode("utf-8", "replace"),
        identity=None if followed else identity_of(after),
    )


def _blocks(descriptor: int, shown: str) -> Iterator[bytes]:
    """The file's bytes. Only errors of reading are translated, not those of who writes them."""
    while True:
        with _translated(shown):
            block = os.read(descriptor, BLOCK)
        if not block:
            return
        yield block


def _status_at_rest(descriptor: int) -> os.stat_result:
    """The status, read late enough after the last change that the next one will show in it."""
    status = os.fstat(descriptor)
    age = time.time() - max(status.st_ctime_ns, status.st_mtime_ns) / 1e9
    if 0 <= age < TICK:
        time.sleep(TICK)
        status = os.fstat(descriptor)
    return status
