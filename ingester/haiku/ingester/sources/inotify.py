"""Watches a tree with Linux's inotify, through watchdog's reader of it.

watchdog's own recursive watch hides what matters here: it swallows the error when the limit of
watches is reached below the root, says nothing to its handlers when the kernel drops events, holds
moves back for half a second and watches folders that nobody wants. So the tree is kept here, on its
`InotifyFD`, by three rules:

- a folder is watched before it is listed, so that nothing falls between;
- a folder that appears is watched with all below it and then reported as a tree to be listed, and
  one that leaves loses its watches, whatever was missed in between;
- what cannot be watched ends the watch with the reason, so that its owner polls instead.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyFD, Mask

from haiku.ingester.exceptions import WatchUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdog.observers.inotify_c import InotifyEvent, WatchDescriptor

logger = logging.getLogger(__name__)

MASK = Mask(
    InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
    | InotifyConstants.IN_ONLYDIR
    | InotifyConstants.IN_DONT_FOLLOW
    | InotifyConstants.IN_EXCL_UNLINK
)
#: The root may be a link, and its own end matters.
ROOT_MASK = Mask(
    (MASK & ~InotifyConstants.IN_DONT_FOLLOW)
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
)
_FINISHED = InotifyConstants.IN_CLOSE_WRITE | InotifyConstants.IN_MOVED_TO
_LIMITS = Path("/proc/sys/fs/inotify")


class Tree:
    """A watched tree. Its reports come from a thread of its own, in the order of events.

    Args:
        root: the folder.
        enters: whether a folder (path on disk) is to be watched; asked for all but the root.
        on_object: called with the path of something that is not a folder, and whether a writer has
            finished with it.
        on_tree: called with the path of a folder that appeared or went.
        on_lost: called when events were dropped.
        on_end: called once, with the reason, when the watch cannot go on.
    """

    def __init__(
        self,
        root: str,
        *,
        enters: Callable[[str], bool],
        on_object: Callable[[str, bool], None],
        on_tree: Callable[[str], None],
        on_lost: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._root = root
        self._enters = enters
        self._on_object = on_object
        self._on_tree = on_tree
        self._on_lost = on_lost
        self._on_end = on_end
        self._lock = threading.RLock()
        self._folders: dict[WatchDescriptor, tuple[str, CallbackId]] = {}
        self._numbers = itertools.count(1)
        self._ended = False
        self._reader: InotifyFD | None = None

    def arm(self) -> None:
        """Watch everything that is there. Blocks; call it in a thread.

        Raises:
            WatchUnavailable: a limit of the system; the message names the setting.
            OSError: the root cannot be watched for another reason.
        """
        try:
            self._reader = InotifyFD()
            self._reader.start()
            self._watch_all(self._root)
        except OSError as error:
            self.disarm()
            reason = limit_reached(error)
            if reason is None:
                raise
            raise WatchUnavailable(reason) from error

    def disarm(self) -> None:
        """Stop. Nothing is reported afterwards. Blocks shortly."""
        with self._lock:
            self._ended = True
            reader, self._reader = self._reader, None
        if reader is None:
            return
        if reader.is_alive():
            reader.stop()
            reader.join(timeout=5.0)
        else:
            reader.close()

    @property
    def alive(self) -> bool:
        """Whether events are being read."""
        reader = self._reader
        return reader is not None and reader.is_alive()

    # --- called by the reader -----------------------------------------------------------------

    def on_event(self, event: InotifyEvent) -> None:
        """One event of a folder that is watched."""
        with self._lock:
            entry = self._folders.get(event.wd)
            if entry is None or self._ended:
                return
        try:
            self._take(entry[0], event)
        except OSError as error:
            self._end(limit_reached(error) or f"watching failed: {error}")

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """The kernel gave up a watch: its folder is gone or its filesystem was unmounted."""
        with self._lock:
            entry = self._folders.pop(wd, None)
        if entry is not None and entry[0] == self._root:
            self._end("the folder was removed, moved or unmounted")

    def on_queue_overflow(self) -> None:
        """The kernel dropped events: watch what is there now, then have everything listed."""
        try:
            self._watch_all(self._root)
        except OSError as error:
            self._end(limit_reached(error) or f"watching failed: {error}")
        else:
            self._on_lost()

    # --- inside -------------------------------------------------------------------------------

    def _take(self, folder: str, event: InotifyEvent) -> None:
        if not event.name:
            if event.mask & (InotifyConstants.IN_MOVE_SELF | InotifyConstants.IN_DELETE_SELF):
                self._end("the folder was removed or moved")
            return
        path = f"{folder.rstrip('/')}/{os.fsdecode(event.name)}"
        if not event.mask & InotifyConstants.IN_ISDIR:
            self._on_object(path, bool(event.mask & _FINISHED))
        elif not event.is_attrib:
            self._take_folder(path, event)

    def _take_folder(self, path: str, event: InotifyEvent) -> None:
        if not self._enters(path):
            return
        if event.is_moved_from:
            self._forget(path)
        elif not event.is_delete:  # the kernel itself gives up the watch of a deleted folder
            self._watch_all(path)
        self._on_tree(path)

    def _watch_all(self, top: str) -> None:
        """Watch a folder and, each before it is listed, all folders below."""
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if not self._watch(folder):
                continue
            try:
                with os.scandir(folder) as entries:
                    below = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
            except OSError:
                continue  # went, or no permission: the listing says which
            waiting.extend(path for path in below if self._enters(path))

    def _watch(self, folder: str) -> bool:
        """Watch one folder; whether it is watched now. Limits and errors of the root are raised."""
        reader, number = self._reader, CallbackId(next(self._numbers))
        if reader is None:
            return False
        is_root = folder == self._root
        try:
            wd = reader.add_callback(
                os.fsencode(folder), ROOT_MASK if is_root else MASK, self, number
            )
        except OSError as error:
            if is_root or limit_reached(error) is not None:
                raise
            return False  # it went meanwhile, or is no folder any more
        if wd < 0:
            if is_root:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
            return False
        self._register(wd, folder, number, reader)
        return True

    def _register(
        self, wd: WatchDescriptor, folder: str, number: CallbackId, reader: InotifyFD
    ) -> None:
        """Note a watch; the kernel answers with the old one for a folder that has one already."""
        with self._lock:
            before = self._folders.get(wd)
            self._folders[wd] = (folder, number)
        if before is not None:
            reader.remove_callbacks([(wd, before[1])])

    def _forget(self, path: str) -> None:
        """Give up the watches of a folder that left, and of those below it."""
        with self._lock:
            leaving = [
                (wd, number)
                for wd, (folder, number) in self._folders.items()
                if folder == path or folder.startswith(path + "/")
            ]
            for wd, _ in leaving:
                del self._folders[wd]
            reader = self._reader
        if reader is not None:
            reader.remove_callbacks(leaving)

    def _end(self, reason: str) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._on_end(reason)


def limit_reached(error: OSError) -> str | None:
    """What to raise when an error says that a limit of inotify is reached, else None."""
    names = {
        errno.ENOSPC: ("max_user_watches", 524288),
        errno.EMFILE: ("max_user_instances", 1024),
    }
    if error.errno not in names:
        return None
    name, better = names[error.errno]
    try:
        now = (_LIMITS / name).read_text().strip()
    except OSError:
        now = "unknown"
    return (
        f"the system's limit fs.inotify.{name} ({now}) is reached; raise it with "
        f"`sysctl -w fs.inotify.{name}={better}`"
    )
