"""The filesystem source's watch: inotify's reports as events in the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from haiku.ingester.sources.entries import encode_name
from haiku.ingester.sources.gitignore import FILE_NAME
from haiku.ingester.sources.inotify import Tree
from haiku.ingester.sources.protocol import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between looks whether the root is the folder that was armed: a rename of a folder above
#: it is reported by nothing.
ROOT_INTERVAL = 1.0


class FolderWatch:
    """An armed watch of a folder. Many reports of one file in a moment are one event."""

    mode = "native"

    def __init__(
        self,
        root: str,
        tree: str,
        enters: Callable[[str], bool],
        notify: Callable[[Event], None],
    ) -> None:
        self._root = root
        self._uri = tree
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[str] = self._loop.create_future()
        self._armed_root: tuple[int, int] | None = None
        self._lock = threading.Lock()
        #: URI and kind → whether a writer has finished, of events not handed over yet.
        self._waiting: dict[tuple[EventKind, str], bool] = {}
        self._stopped = False
        self._tree = Tree(
            root,
            enters=enters,
            on_object=self._object,
            on_tree=lambda path: self._put(EventKind.TREE, self._encode(path) + "/"),
            on_lost=lambda: self._put(EventKind.LOST, ""),
            on_end=self._ended,
        )

    async def arm(self) -> None:
        """Watch everything that is there. Raises WatchUnavailable, OSError."""
        try:
            self._armed_root = await asyncio.to_thread(_identity, self._root)
            await asyncio.to_thread(self._tree.arm)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def ended(self) -> str:
        """Wait until the watch has died, or its root is no longer the folder that was armed."""
        while not self._end.done():
            await asyncio.wait([self._end], timeout=ROOT_INTERVAL)
            if await asyncio.to_thread(_identity, self._root) != self._armed_root:
                return "the folder is not the one that was watched any more"
            if not self._tree.alive:
                return "the reader of events has ended"
        return "stopped" if self._end.cancelled() else self._end.result()

    async def stop(self) -> None:
        """Disarm; no event arrives afterwards."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()
        self._end.cancel()
        await asyncio.to_thread(self._tree.disarm)

    # --- from inotify's thread ----------------------------------------------------------------

    def _object(self, path: str, closed: bool) -> None:
        uri = self._encode(path)
        self._put(EventKind.OBJECT, uri, closed)
        if path.endswith("/" + FILE_NAME):
            self._put(EventKind.TREE, uri.removesuffix(FILE_NAME))

    def _encode(self, path: str) -> str:
        below = path[len(self._root.rstrip("/")) + 1 :]
        return self._uri + "/".join(encode_name(name) for name in below.split("/"))

    def _put(self, kind: EventKind, uri: str, closed: bool = False) -> None:
        with self._lock:
            first = not self._waiting
            self._waiting[kind, uri] = closed or self._waiting.get((kind, uri), False)
        if first:
            self._call(self._hand_over)

    def _ended(self, reason: str) -> None:
        def settle() -> None:
            if not self._end.done():
                self._end.set_result(reason)

        self._call(settle)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            return  # the loop is closed: the program is ending

    # --- in the event loop --------------------------------------------------------------------

    def _hand_over(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if self._stopped:
                return
        for (kind, uri), closed in waiting.items():
            self._notify(Event(kind, uri, closed))


def _identity(root: str) -> tuple[int, int] | None:
    """Device and inode of a folder, or None when it cannot be looked at."""
    try:
        status = os.stat(root)  # noqa: PTH116 - the raw result
    except OSError:
        return None
    return status.st_dev, status.st_ino
