"""Where fetched bytes wait for their conversion: a folder with a bound.

Space is reserved before a fetch begins and the longest waiting is served first, so that a large
file is not starved by small ones. The folder belongs to one instance alone: whatever is in it at
start was left by a crash and is removed.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from haiku.rag.exceptions import SourceTooLarge
from haiku.rag.finishing import finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Place:
    """Room for one file in the spool."""

    def __init__(self, spool: Spool, path: Path, size: int) -> None:
        self._spool = spool
        #: Where the bytes go; the file is removed when the place is given up.
        self.path = path
        #: Bytes that are reserved.
        self.size = size

    def shrink(self, size: int) -> None:
        """Give back what the file turned out not to need. Bytes."""
        if size < self.size:
            self._spool._free(self.size - size)
            self.size = size


class Spool:
    """A bounded folder. Belongs to one event loop."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        #: Bytes at most.
        self.max_bytes = max_bytes
        #: Bytes reserved now.
        self.used = 0
        self._names = itertools.count()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @classmethod
    async def open(cls, folder: Path, max_bytes: int) -> Spool:
        """Make or clear the folder. `folder` must not be shared with anything.

        Raises:
            OSError: it cannot be made, cleared or written.
        """

        def clear() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)

        await asyncio.to_thread(clear)
        return cls(folder, max_bytes)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[Place]:
        """Wait until `size` bytes are free, and keep them until the block ends.

        Raises:
            SourceTooLarge: more than the whole spool.
        """
        if size > self.max_bytes:
            raise SourceTooLarge(
                f"{size:,} bytes do not fit into the spool of {self.max_bytes:,} bytes; "
                "raise ingester.spool.max_bytes"
            )
        await self._take(size)
        place = Place(self, self._folder / str(next(self._names)), size)
        try:
            yield place
        finally:
            try:
                await finish(asyncio.to_thread(place.path.unlink, missing_ok=True))
            finally:
                self._free(place.size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self.used + size <= self.max_bytes:
            self.used += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # served and cancelled in the same moment
                self._free(size)
            else:
                self._serve()  # whoever stood behind may fit
            raise

    def _free(self, size: int) -> None:
        self.used -= size
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
            elif self.used + size <= self.max_bytes:
                self._waiting.popleft()
                self.used += size
                turn.set_result(None)
            else:
                return
