"""Which daemon this is: an id kept beside the items database, under an exclusive lock.

Each slot is a file that holds an id. A daemon takes the first slot that nobody has locked: after
a crash it gets its own id back, and with it the right to its claims at once, because the system
ends a dead process's locks. A second daemon beside it gets another slot.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from haiku.ingester.exceptions import ItemsUnavailable
from haiku.rag.ids import new_id

MAX_SLOTS = 64  # daemons on one items database of one machine


class Instance:
    """A held slot; `close` gives it up, and so does the end of the process."""

    def __init__(self, id: str, descriptor: int) -> None:
        #: UUIDv7 string, the owner of this daemon's claims.
        self.id = id
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, folder: str | os.PathLike[str]) -> Instance:
        """Take the first free slot in `folder`, which is made when it is not there.

        Raises:
            ItemsUnavailable: the folder cannot be written, or all slots are taken.
        """
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for slot in range(MAX_SLOTS):
                descriptor = _lock(Path(folder) / f"instance-{slot}")
                if descriptor is not None:
                    return cls(_read_or_write_id(descriptor), descriptor)
        except OSError as error:
            raise ItemsUnavailable(
                f"no instance id can be kept in {folder}: {error}; is the folder writable?"
            ) from error
        raise ItemsUnavailable(f"{MAX_SLOTS} daemons use {folder} already; stop some of them")

    def close(self) -> None:
        """Give the slot up. The id stays in its file for the next daemon."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def running(folder: str | os.PathLike[str]) -> list[str]:
    """Ids of the daemons that hold a slot in `folder` now; nothing is created or kept."""
    ids = []
    for file in sorted(Path(folder).glob("instance-*")):
        with file.open("rb") as slot:
            try:
                fcntl.flock(slot, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                ids.append(slot.read(64).decode("ascii", "replace").strip())
    return ids


def _lock(file: Path) -> int | None:
    """An open, locked descriptor of the slot, or None when another process has it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _read_or_write_id(descriptor: int) -> str:
    text = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
    if len(text) == 36:  # anything else is a write that a crash cut short
        return text
    id = new_id()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, id.encode("ascii"), 0)
    os.fsync(descriptor)
    return id
