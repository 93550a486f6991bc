"""Workers that hang, leak, die, are cancelled or orphaned cost themselves and nothing else."""

import asyncio
import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from haiku.rag.config.models import ProcessingConfig
from haiku.rag.convert.pool import WorkerPool
from haiku.rag.exceptions import (
    ConversionCrashed,
    ConversionDeferred,
    ConversionMemory,
    ConversionTimeout,
    DocumentCorrupt,
    WorkerUnavailable,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: What the workers run: the standard library's, so that they start quickly.
LEAK = "[bytes([n % 256]) * 10_000_000 for n in range(200)] and __import__('time').sleep(9)"
MAX_MEMORY = 400_000_000


@pytest.fixture(scope="module")
def calls():
    """Functions that workers run, in a module that they can import."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield importlib.import_module("pool_calls")


@pytest.fixture(scope="module")
async def pool(calls):
    async with WorkerPool(
        ProcessingConfig(workers=2, timeout=100, recycle_after=4, max_memory=MAX_MEMORY)
    ) as running:
        yield running


def one_worker(**changes) -> WorkerPool:
    return WorkerPool(ProcessingConfig(timeout=100, **changes), workers=1)


async def test_calls_run_in_other_processes_at_once(pool, calls, tmp_path):
    """Each call waits for the other, so that one after the other never ends."""
    await pool.warm(os.getpid)
    one, two = str(tmp_path / "1"), str(tmp_path / "2")
    pids = await asyncio.gather(pool.run(calls.meet, one, two), pool.run(calls.meet, two, one))
    assert len({*pids, os.getpid()}) == 3
    assert pool.busy == 0


async def test_a_converted_document_comes_back(pool, calls, samples, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(samples["md"])
    assert await pool.run(calls.title, str(path), "a.md") == "Oaks"


async def test_errors_of_the_tree_come_back_as_themselves(pool, calls, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(DocumentCorrupt, match=r"bad\.docx"):
        await pool.run(calls.title, str(path), "bad.docx")
    with pytest.raises(ZeroDivisionError):
        await pool.run(eval, "1/0")


async def test_a_hanging_call_ends_at_its_deadline(pool):
    before = pool.stats.timeouts
    with pytest.raises(ConversionTimeout, match=r"0\.3 s"):
        await pool.run(time.sleep, 600, timeout=0.3)
    assert pool.stats.timeouts == before + 1
    assert await pool.run(abs, -1) == 1


async def test_native_code_that_keeps_the_interpreter_ends_at_its_deadline(pool):
    with pytest.raises(ConversionTimeout):
        await pool.run(re.match, "(a+)+$", "a" * 60 + "b", timeout=0.3)
    assert await pool.run(abs, -1) == 1


@pytest.mark.parametrize(
    ("call", "how"), [((os._exit, 3), "exit status 3"), ((os.abort,), "signal 6")]
)
async def test_a_dying_worker_is_a_crash(pool, call, how):
    before = pool.stats.crashes
    with pytest.raises(ConversionCrashed, match=how):
        await pool.run(*call)
    assert pool.stats.crashes == before + 1
    assert await pool.run(abs, -1) == 1


async def test_a_leaking_worker_is_ended_over_its_limit(pool):  # F34
    before = pool.stats.memory_kills
    with pytest.raises(ConversionMemory, match="400,000,000"):
        await pool.run(eval, LEAK)
    assert pool.stats.memory_kills == before + 1
    assert await pool.run(abs, -1) == 1


async def test_a_sudden_demand_is_refused_by_the_system(pool):
    with pytest.raises(ConversionMemory):
        await pool.run(bytearray, 50_000_000_000)
    assert await pool.run(abs, -1) == 1


async def test_what_cannot_cross_the_border_is_an_error_of_that_call(pool):
    with pytest.raises(ConversionCrashed, match="cannot leave its process"):
        await pool.run(eval, "lambda: 0")
    with pytest.raises(ConversionCrashed, match="end its process"):
        await pool.run(sys.exit, 4)
    with pytest.raises((AttributeError, TypeError, Exception), match="pickle"):
        await pool.run(lambda: 0)
    assert pool.busy == 0


async def test_others_go_on_while_one_hangs(pool):  # F33
    hanging = asyncio.ensure_future(pool.run(time.sleep, 60, timeout=2))
    assert [await pool.run(abs, -n) for n in range(5)] == list(range(5))
    assert not hanging.done()
    with pytest.raises(ConversionTimeout):
        await hanging


async def test_slow_calls_yield_to_those_that_wait(pool):
    """The youngest goes; the oldest keeps its time."""
    before = pool.stats.deferred
    oldest = asyncio.ensure_future(pool.run(time.sleep, 60, patience=0.1))
    await asyncio.sleep(0.05)
    slow = [asyncio.ensure_future(pool.run(time.sleep, 60, patience=0.1)) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert await pool.run(abs, -1, patience=0.1) == 1
    for call in slow:
        with pytest.raises(ConversionDeferred, match="others waited"):
            await call
    assert pool.stats.deferred == before + 3
    assert not oldest.done()
    oldest.cancel()


async def test_slow_calls_go_on_while_nobody_waits(pool):
    await pool.warm(os.getpid)
    calls = [pool.run(time.sleep, 0.8, patience=0.01) for _ in range(2)]
    assert await asyncio.gather(*calls) == [None, None]


async def test_a_call_without_patience_is_never_put_off():
    async with one_worker() as single:
        slow = asyncio.ensure_future(single.run(time.sleep, 0.8))
        await asyncio.sleep(0.05)
        assert await single.run(abs, -1, patience=0.01) == 1
        assert await slow is None


async def test_cancelling_the_caller_ends_the_work(pool, calls, tmp_path):
    started = tmp_path / "pid"
    call = asyncio.ensure_future(pool.run(calls.write_pid_and_sleep, str(started)))
    pid = await _written(started)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _gone(pid)
    assert pool.busy == 0
    assert await pool.run(abs, -1) == 1


async def test_a_cancelled_wait_for_a_worker_takes_none():
    async with one_worker() as single:
        first = asyncio.ensure_future(single.run(time.sleep, 0.5))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(single.run(abs, -1))
        await asyncio.sleep(0.05)
        second.cancel()
        await first
        assert await single.run(abs, -2) == 2


async def test_workers_are_recycled():  # F34
    async with one_worker(recycle_after=2) as single:
        pids = [await single.run(os.getpid) for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        assert (single.stats.recycled, single.stats.done) == (1, 4) or single.stats.recycled == 2


async def test_close_gives_grace_then_ends_and_refuses():
    single = one_worker()
    quick = asyncio.ensure_future(single.run(time.sleep, 0.3))
    await asyncio.sleep(0.05)
    await single.close(grace=100)
    assert await quick is None
    with pytest.raises(WorkerUnavailable):
        await single.run(abs, -1)

    single = one_worker()
    pid = await single.run(os.getpid)
    slow = asyncio.ensure_future(single.run(time.sleep, 60))
    waiting = asyncio.ensure_future(single.run(abs, -1))
    await asyncio.sleep(0.2)
    await single.close(grace=0.1)
    for call in (slow, waiting):
        with pytest.raises(WorkerUnavailable):
            await call
    await _gone(pid)


async def test_workers_ignore_the_signals_of_a_terminal(pool, calls):
    assert await pool.run(calls.signal_self) == "alive"


async def test_prints_of_workers_reach_no_stream(pool, capfd):
    await pool.run(print, "loud")
    await pool.run(os.write, 1, b"louder")
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("work", ["time.sleep, 60", "re.match, '(a+)+$', 'a' * 60 + 'b'"])
async def test_workers_end_when_their_parent_is_killed(work):
    """A script without a main guard, killed while its worker is idle in Python or busy in C."""
    script = (
        "import asyncio, os, re, time\n"
        "from haiku.rag.config.models import ProcessingConfig\n"
        "from haiku.rag.convert.pool import WorkerPool\n"
        "async def main():\n"
        "    pool = WorkerPool(ProcessingConfig(), workers=1)\n"
        "    print(await pool.run(os.getpid), flush=True)\n"
        f"    await pool.run({work})\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(await asyncio.to_thread(parent.stdout.readline))
    await asyncio.sleep(0.5)
    assert psutil.pid_exists(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await _gone(worker)


async def _written(path: Path) -> int:
    for _ in range(400):
        if path.exists():
            return int(path.read_text())
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} was never written")


async def _gone(pid: int) -> None:
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
