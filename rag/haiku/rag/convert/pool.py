"""Worker processes with a deadline and a memory limit: one bad file costs one worker.

A pebble `ProcessPool` of one process for each worker, so that a call's process is known, and a
process that dies while it holds a lock breaks nothing but its own pool, which is replaced.

Slow calls do not keep quick ones waiting: when every worker has been at its call for longer than
that call's patience and another call waits, the youngest of them is ended and told so. Nobody is
ended while a worker is free, or soon will be.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import threading
from concurrent.futures import process as futures_process
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pebble
import psutil

from haiku.rag.convert import spawning, worker
from haiku.rag.exceptions import (
    ConversionCrashed,
    ConversionDeferred,
    ConversionMemory,
    ConversionTimeout,
    ConvertError,
    WorkerUnavailable,
)
from haiku.rag.finishing import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from haiku.rag.config.models import ProcessingConfig

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Seconds between looks at a busy worker's memory.
WATCH_INTERVAL = 0.2
#: Seconds a fresh worker may take before it accepts its first call.
START_TIMEOUT = 120.0
#: Seconds that the threads of a worker's pool get to end.
JOIN_TIMEOUT = 10.0


@dataclass(kw_only=True, slots=True)
class PoolStats:
    """What has happened since the pool was made."""

    #: Processes started, replacements included.
    started: int = 0
    #: Processes replaced because they had done `recycle_after` calls.
    recycled: int = 0
    #: Calls ended at their deadline.
    timeouts: int = 0
    #: Calls whose process died by itself.
    crashes: int = 0
    #: Calls ended because their process grew over `max_memory`.
    memory_kills: int = 0
    #: Slow calls ended because others waited.
    deferred: int = 0
    #: Calls that returned or raised by themselves.
    done: int = 0


@dataclass(eq=False)
class _Slot:
    """One worker: its pool of one process, and that process."""

    pool: Any = None
    process: spawning.WorkerProcess | None = None
    #: Calls done by the present process.
    calls: int = 0
    #: Why the watchdog killed the process, set before it does.
    killed: Literal["memory", "yield"] | None = None
    #: Loop time at which the present call is slow; None: there is none.
    slow_at: float | None = None
    #: The present call may be ended when it is slow and others wait.
    yields: bool = False


class WorkerPool:
    """Runs module-level functions in worker processes.

    Example:
        pool = WorkerPool(config.processing)
        converted = await pool.run(prepare_file, path, name, None, config)
        await pool.close()
    """

    def __init__(self, config: ProcessingConfig, *, workers: int | None = None) -> None:
        """Nothing is started yet.

        Args:
            config: deadline, memory limit, recycling and number of workers.
            workers: replaces `config.workers`; 0 or None: as configured, else one a core and at
                least two.
        """
        self._config = config
        self.size = workers or config.workers or _default_size()
        #: Counters for metrics.
        self.stats = PoolStats()
        self._slots = [_Slot() for _ in range(self.size)]
        self._free: asyncio.LifoQueue[_Slot] = asyncio.LifoQueue()
        for slot in reversed(self._slots):
            self._free.put_nowait(slot)
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting = 0
        self._closed = False

    @property
    def busy(self) -> int:
        """Workers that are running a call now."""
        return self.size - self._free.qsize()

    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        timeout: float | None = None,
        patience: float | None = None,
    ) -> T:
        """What `function(*args)` returns in a worker; waits for a free one.

        Cancelling the caller ends the call and its process.

        Args:
            function: importable by its name; not of the main script.
            args: what can be pickled.
            timeout: seconds from its start; None: `processing.timeout`.
            patience: seconds from its start after which it may be ended for others that wait;
                None: never.

        Raises:
            ConversionDeferred: it was slow while others waited, and was ended.
            ConversionTimeout: the deadline passed; the process was ended.
            ConversionMemory: the process grew over `processing.max_memory` and was ended.
            ConversionCrashed: the process died.
            WorkerUnavailable: no process could be started, or the pool is closed.
            Exception: whatever the function raised.
        """
        payload = worker.pack_call(function, args)
        slot = await self._take()
        deadline = self._config.timeout if timeout is None else timeout
        slot.yields = patience is not None
        slot.slow_at = asyncio.get_running_loop().time() + (patience or 0.0)
        task = asyncio.ensure_future(self._call(slot, payload, deadline))
        self._running.add(task)
        task.add_done_callback(partial(self._give_back, slot))
        ok, value = await self._join(task)
        if ok:
            return value  # type: ignore[no-any-return]
        raise value

    async def warm(self, function: Callable[..., Any], *args: Any) -> None:
        """Start every worker and run `function` once in each, so that the first call is quick."""
        payload = worker.pack_call(function, args)
        taken = [await self._take() for _ in range(self.size)]
        try:
            outcomes = await asyncio.gather(
                *(self._call(slot, payload, START_TIMEOUT) for slot in taken)
            )
        finally:
            for slot in taken:
                self._free.put_nowait(slot)
        for ok, value in outcomes:
            if not ok:
                raise value

    async def close(self, grace: float = 0.0) -> None:
        """End all workers; what runs gets `grace` seconds first. Later calls are refused."""
        self._closed = True
        if self._running and grace > 0:
            await asyncio.wait(self._running, timeout=grace)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await _in_thread(self._stop_all)

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- one call -----------------------------------------------------------------------------

    async def _take(self) -> _Slot:
        self._refuse_closed()
        self._waiting += 1
        try:
            slot = await self._free.get()
        finally:
            self._waiting -= 1
        try:
            self._refuse_closed()
        except WorkerUnavailable:
            self._free.put_nowait(slot)
            raise
        return slot

    def _refuse_closed(self) -> None:
        if self._closed:
            raise WorkerUnavailable("the conversion workers are being stopped; try again later")

    def _give_back(self, slot: _Slot, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        slot.slow_at = None
        self._free.put_nowait(slot)

    async def _join(self, task: asyncio.Task[tuple[bool, Any]]) -> tuple[bool, Any]:
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and not (caller and caller.cancelling()):
                raise WorkerUnavailable("the conversion was ended with its workers") from None
            raise

    async def _call(self, slot: _Slot, payload: bytes, deadline: float) -> tuple[bool, Any]:
        """The unpacked outcome of a call: (True, value) or (False, exception)."""
        try:
            answer = await self._answer(slot, payload, deadline)
        except asyncio.CancelledError:
            await _in_thread(self._discard, slot)
            raise
        self.stats.done += 1
        slot.calls += 1
        outcome: tuple[bool, Any] = await asyncio.to_thread(pickle.loads, answer)
        return outcome

    async def _answer(self, slot: _Slot, payload: bytes, deadline: float) -> bytes:
        future = await _in_thread(self._begin, slot, payload, deadline)
        waiting = asyncio.wrap_future(future)
        watch = asyncio.ensure_future(self._watch(slot, future))
        try:
            await asyncio.wait({waiting, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await watch
            answer: bytes = await waiting
            return answer
        except TimeoutError as error:
            # pebble took the locks before it killed: its pool is whole and has a new process.
            raise self._failure(slot, error, deadline) from None
        except (pebble.ProcessExpired, futures_process.BrokenProcessPool) as error:
            await _in_thread(self._discard, slot)
            raise self._failure(slot, error, deadline) from None
        finally:
            watch.cancel()
            waiting.cancel()

    def _failure(self, slot: _Slot, error: BaseException, deadline: float) -> ConvertError:
        if slot.killed == "yield":
            self.stats.deferred += 1
            return ConversionDeferred(
                "the conversion takes long and others waited, so it was ended; "
                "it is begun again beside them"
            )
        if slot.killed == "memory":
            self.stats.memory_kills += 1
            return ConversionMemory(
                f"the conversion needed more than {self._config.max_memory:,} bytes of memory and "
                "was ended; raise processing.max_memory, or split the document"
            )
        if isinstance(error, TimeoutError):
            self.stats.timeouts += 1
            return ConversionTimeout(
                f"the conversion took longer than {deadline:g} s and was ended; raise "
                "processing.timeout, or split the document"
            )
        if isinstance(error, pebble.ProcessExpired):
            self.stats.crashes += 1
            return ConversionCrashed(
                f"the conversion's process died ({_exit(error.exitcode)}); the document makes a "
                "parser fail: convert it to another format"
            )
        return WorkerUnavailable(f"a conversion worker was lost before it began: {error}")

    async def _watch(self, slot: _Slot, future: Any) -> None:
        """Kill the slot's process when it grows over the limit, does not start, or has to yield.

        Raises:
            WorkerUnavailable: the process accepted nothing within `START_TIMEOUT`.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            if not future.running() and not future.done() and loop.time() - begun > START_TIMEOUT:
                await _in_thread(self._discard, slot)
                raise WorkerUnavailable(
                    f"a conversion worker did not start within {START_TIMEOUT:g} s; "
                    "see whether the machine has memory and processes left"
                )
            if _resident(slot.process) > self._config.max_memory:
                _kill(slot, "memory")
            elif self._must_yield(slot, loop.time()):
                _kill(slot, "yield")

    def _must_yield(self, slot: _Slot, now: float) -> bool:
        """Whether somebody waits, every call is slow, and the slot's is the youngest to go."""
        if not slot.yields or not self._waiting:
            return False
        if any(other.slow_at is None or other.slow_at > now for other in self._slots):
            return False
        return slot is max((other for other in self._slots if other.yields), key=_slow_at)

    # --- processes ----------------------------------------------------------------------------

    def _begin(self, slot: _Slot, payload: bytes, deadline: float) -> Any:
        """Hand the call to the slot's process, starting one when there is none."""
        self._refuse_closed()
        self._ensure(slot)
        slot.killed = None
        return slot.pool.schedule(worker.call, args=(payload,), timeout=deadline)

    def _ensure(self, slot: _Slot) -> None:
        """Make the slot's pool when it has none, or a broken one."""
        if slot.pool is not None and slot.pool.active:
            return
        self._discard(slot)
        slot.pool = pebble.ProcessPool(
            max_workers=1,
            max_tasks=self._config.recycle_after,
            initializer=worker.start,
            initargs=(self._config.max_memory,),
            context=spawning.WorkerContext(partial(self._made, slot)),
        )

    def _made(self, slot: _Slot, process: spawning.WorkerProcess) -> None:
        self.stats.started += 1
        self.stats.recycled += slot.calls >= self._config.recycle_after
        slot.process, slot.calls = process, 0

    def _discard(self, slot: _Slot) -> None:
        pool, slot.pool, slot.calls = slot.pool, None, 0
        if pool is not None:
            pool.stop()
            _join(pool)
        slot.process = None

    def _stop_all(self) -> None:
        for slot in self._slots:
            if slot.process is not None and slot.process.is_alive():
                slot.process.kill()
            self._discard(slot)


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run in a thread to its end; a cancellation meanwhile waits for that end."""
    return await finish(asyncio.to_thread(function, *args))


def _join(pool: pebble.ProcessPool) -> None:
    """Wait for the end of a pool's threads, but not for ever.

    One that reads an answer whose process was killed while it wrote waits for a rest that does not
    come. Nothing is lost with it: it is a daemon thread, and its pool is not used any more.
    """
    joining = threading.Thread(target=pool.join, name="end-workers", daemon=True)
    joining.start()
    joining.join(JOIN_TIMEOUT)
    if joining.is_alive():
        log.warning("the threads of a conversion worker have not ended after %g s", JOIN_TIMEOUT)


def _kill(slot: _Slot, why: Literal["memory", "yield"]) -> None:
    slot.killed = why
    if slot.process is not None:
        slot.process.kill()


def _slow_at(slot: _Slot) -> float:
    return slot.slow_at or 0.0


def _default_size() -> int:
    """A worker a core; two on one core, so that a slow document leaves one for the others."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(2, len(affinity(0)) if affinity else os.cpu_count() or 1)


def _resident(process: spawning.WorkerProcess | None) -> int:
    """Resident bytes of a process; 0 when it is not there."""
    if process is None or process.pid is None:
        return 0
    try:
        return int(psutil.Process(process.pid).memory_info().rss)
    except psutil.Error:
        return 0


def _exit(code: int | None) -> str:
    if code is None:
        return "cause unknown"
    return f"signal {-code}" if code < 0 else f"exit status {code}"
