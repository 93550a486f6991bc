"""The daemon under test: the real one, in this process, with an embedder and a clock of its own."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil

from haiku.ingester.items.model import RequestKind, State
from haiku.ingester.service.daemon import Daemon
from haiku.ingester.service.rooms import Builder
from haiku.ingester.service.stopping import Stop

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.items.items import Items
    from haiku.ingester.service.places import Places
    from haiku.ingester.service.rooms import Rooms
    from haiku.ingester.soak.embedder import SoakEmbedder
    from haiku.ingester.soak.faults import CommitFaults

#: The folder as the daemon knows it.
SOURCE = "folder"


class Host:
    """Starts and ends daemons, and reaches into the one that runs."""

    def __init__(
        self, config: DaemonConfig, places: Places, embedder: SoakEmbedder, faults: CommitFaults
    ) -> None:
        self._config = config
        self._places = places
        self.embedder = embedder
        self.faults = faults
        #: Seconds by which the daemon's clock is ahead.
        self.ahead = 0.0
        self._stop = Stop()
        self._running: asyncio.Task[None] | None = None
        self._rooms: asyncio.Future[Rooms] | None = None

    def start(self) -> None:
        """Start a daemon; it comes up by itself."""
        self._stop = Stop()
        self._rooms = asyncio.get_running_loop().create_future()
        builder = partial(_HostBuilder, host=self)
        daemon = Daemon(self._config, self._places, self._stop, builder=builder)
        self._running = asyncio.create_task(daemon.serve(), name="daemon")

    async def rooms(self) -> Rooms:
        """What the daemon works with, once it is up. Raises what ended it instead."""
        assert self._rooms is not None
        assert self._running is not None
        either: set[asyncio.Future[Any]] = {self._rooms, self._running}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._rooms.done():
            self._running.result()
            raise AssertionError("the daemon ended before it was up")
        return self._rooms.result()

    async def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._stop.ask()
        if self._running is not None:
            await self._running

    async def cancel(self) -> None:
        """Cancel it wherever it is."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    def opened(self, rooms: Rooms) -> None:
        """Called by the builder."""
        assert self._rooms is not None
        rooms.store.on_step(self.faults.step)
        if not self._rooms.done():
            self._rooms.set_result(rooms)

    def clock(self) -> float:
        """Epoch seconds as the daemon sees them."""
        return time.time() + self.ahead

    def forget_items(self) -> None:
        """Lose the items database; only while no daemon runs."""
        for file in self._places.state.glob("items.sqlite*"):
            file.unlink()

    def kill_worker(self, choice: float) -> bool:
        """Kill one of the conversion processes; False: there is none."""
        workers = [p for p in psutil.Process().children() if _is_worker(p)]
        if workers:
            workers[int(choice * len(workers))].kill()
        return bool(workers)

    async def unfinished(self, documents: int) -> list[str]:
        """Items that are not indexed although all should be, for people."""
        items = (await self.rooms()).items
        found = dict((await items.counts()).get(SOURCE, {}))
        if found == {State.INDEXED: documents}:
            return []
        failed = [f"{item.uri} failed: {item.code} {item.reason}" for item in await items.failed()]
        return [f"items: { ({str(s): n for s, n in found.items()}) }", *failed]

    async def help_up(self) -> None:
        """Do what a person would: try what a killed worker failed again; answer for a restore."""
        items = (await self.rooms()).items
        for item in await items.failed():
            if item.code == "crash":
                await items.retry(item.source_id, item.uri)
        await _answer(items)


async def _answer(items: Items) -> None:
    record: Any = (await items.sources()).get(SOURCE)
    if record is not None and record.held_since is not None:
        await items.request(SOURCE, RequestKind.RESYNC)


def _is_worker(process: psutil.Process) -> bool:
    try:
        return not any("resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return False


class _HostBuilder(Builder):
    """Opens the rooms with the host's embedder and clock, and hands them to it."""

    def __init__(
        self, config: DaemonConfig, places: Places, stack: AsyncExitStack, *, host: Host
    ) -> None:
        super().__init__(config, places, stack)
        self._host = host

    def clock(self) -> float:
        """The host's."""
        return self._host.clock()

    def embedder(self) -> SoakEmbedder:
        """The host's."""
        return self._host.embedder

    async def open(self, *args: Any, **more: Any) -> Rooms:
        """Open everything; see `Builder.open`."""
        rooms = await super().open(*args, **more)
        self._host.opened(rooms)
        return rooms
