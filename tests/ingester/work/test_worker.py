"""Many items at once: overtaking, leases, stopping, crashes."""

import asyncio
from collections import Counter

import pytest

from haiku.ingester.config import GroupConfig
from haiku.ingester.exceptions import ItemsUnavailable
from haiku.ingester.items import Items, State
from haiku.ingester.work import Worker
from haiku.rag.exceptions import DocumentCorrupt


async def running(bench, concurrency: int = 4):
    worker = bench.worker(concurrency)
    return worker, asyncio.create_task(worker.run())


async def test_a_change_while_it_is_worked_on_is_indexed_next(bench):  # F61
    bench.converter.gate = asyncio.Event()
    worker, task = await running(bench)
    await bench.write("mem:/a", "first")

    async def converting():
        return bench.converter.converted == ["first"]

    await bench.until(converting, task)
    await bench.write("mem:/a", "second")
    bench.converter.gate.set()
    await bench.until(bench.is_quiet, task)
    assert await bench.text("mem:/a") == "second"
    assert bench.converter.converted == ["first", "second"]
    await worker.stop(5)
    await task


async def test_corrupt_files_hold_nobody_back_and_are_tried_once(bench):  # F26, F64
    bench.converter.errors["bad"] = DocumentCorrupt("not a zip file")
    for number in range(8):
        await bench.write(f"mem:/{number}.docx", "bad")
    await bench.write("mem:/good", "good")
    await bench.drain(bench.worker(concurrency=1))
    assert await bench.items.counts() == {"docs": {State.FAILED: 8, State.INDEXED: 1}}
    for _ in range(3):  # sweeps
        seen = [bench.source.observation(uri) for uri in bench.source.content]
        assert (await bench.items.observe("docs", seen, live=False)).changed == 0
    assert Counter(bench.converter.converted) == {"bad": 8, "good": 1}


async def test_a_surprise_ends_one_item_and_not_the_others(bench):
    bench.converter.errors["odd"] = RuntimeError("never thought of")
    await bench.write("mem:/odd", "odd")
    await bench.write("mem:/good", "good")
    await bench.drain()
    (item,) = await bench.items.failed()
    assert (item.uri, item.code, item.attempts) == ("mem:/odd", "internal", 3)
    assert "never thought of" in item.reason
    assert await bench.state("mem:/good") == State.INDEXED


async def test_an_item_that_takes_long_gives_its_slot_up(bench, monkeypatch):
    monkeypatch.setattr("haiku.ingester.work.worker.SLOW_AFTER", 0.05)
    gate = bench.converter.gate = asyncio.Event()
    await bench.write("mem:/long", "long")
    worker, task = await running(bench, concurrency=1)
    await bench.until(_async(lambda: bench.converter.converted), task)
    bench.converter.gate = None
    await bench.write("mem:/quick", "quick")
    await bench.until(_async(lambda: bench.seen.outcomes["indexed", ""]), task)
    assert await bench.text("mem:/quick") == "quick"
    gate.set()
    await bench.until(bench.is_quiet, task)
    await worker.stop(5)
    await task


def _async(look):
    async def condition():
        return look()

    return condition


async def test_no_more_than_concurrency_are_worked_on(bench):
    for number in range(20):
        await bench.write(f"mem:/{number}", f"text {number}")
    under_way, most = 0, 0
    convert = bench.converter.run

    async def count(*arguments, **more):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        return await convert(*arguments, **more)

    bench.converter.run = count
    await bench.drain(bench.worker(concurrency=3))
    assert most == 3
    assert await bench.items.counts() == {"docs": {State.INDEXED: 20}}


async def test_what_waits_for_its_commit_gives_its_slot_to_others(bench):
    released = asyncio.Event()
    commit = bench.store.commit

    async def slow(*arguments, **more):
        await released.wait()
        return await commit(*arguments, **more)

    bench.store.commit = slow
    for number in range(9):
        await bench.write(f"mem:/{number}", f"text {number}")
    worker, task = await running(bench, concurrency=1)

    async def all_converted():
        return len(bench.converter.converted) == 9

    await bench.until(all_converted, task)
    released.set()
    await bench.until(bench.is_quiet, task)
    await worker.stop(5)
    await task


async def test_no_more_than_two_groups_wait_for_their_commit(bench):
    released = asyncio.Event()
    commit = bench.store.commit

    async def slow(*arguments, **more):
        await released.wait()
        return await commit(*arguments, **more)

    bench.store.commit = slow
    for number in range(9):
        await bench.write(f"mem:/{number}", f"text {number}")
    group = GroupConfig(max_documents=2)
    worker = Worker(bench.items, bench.pipeline, concurrency=1, lease=60, group=group)
    task = asyncio.create_task(worker.run())

    async def some_converted():
        return len(bench.converter.converted) == 4

    await bench.until(some_converted, task)
    await asyncio.sleep(0.3)
    assert len(bench.converter.converted) == 4
    released.set()
    await bench.until(bench.is_quiet, task)
    await worker.stop(5)
    await task


async def test_who_lost_a_lease_does_not_commit(bench):
    bench.converter.gate = asyncio.Event()
    worker, task = await running(bench)
    await bench.write("mem:/a", "text")

    async def converting():
        return bool(bench.converter.converted)

    await bench.until(converting, task)
    late = bench.config.lease + 1
    import time

    url = f"sqlite:///{bench.folder / 'items.db'}"
    thief = await Items.open(url, "two", bench.config, clock=lambda: time.time() + late)
    (claim,) = await thief.claim(1)
    bench.converter.gate.set()

    async def over():
        return not worker.progress

    await bench.until(over, task)
    assert await bench.row("mem:/a") is None
    assert await thief.still_held([claim]) == [True]
    assert bench.seen.outcomes == {}
    await worker.stop(5)
    await task
    await thief.close()


async def test_leases_are_renewed_while_work_lasts(bench):
    bench.config = bench.config.model_copy(update={"lease": 1.2})
    await bench.open()
    bench.converter.gate = asyncio.Event()
    await bench.write("mem:/a", "text")
    worker, task = await running(bench)
    other = await Items.open(f"sqlite:///{bench.folder / 'items.db'}", "two", bench.config)
    for _ in range(20):
        await asyncio.sleep(0.1)
        assert await other.claim(1) == []
    bench.converter.gate.set()
    await bench.until(bench.is_quiet, task)
    assert bench.converter.converted == ["text"]
    await worker.stop(5)
    await task
    await other.close()


async def test_stopping_lets_what_is_under_way_finish(bench):
    bench.converter.gate = asyncio.Event()
    await bench.write("mem:/a", "text")
    worker, task = await running(bench, concurrency=1)
    await bench.write("mem:/b", "other")

    async def converting():
        return bool(bench.converter.converted)

    await bench.until(converting, task)
    stopping = asyncio.create_task(worker.stop(20))
    await asyncio.sleep(0.05)
    bench.converter.gate.set()
    await asyncio.gather(stopping, task)
    assert await bench.items.counts() == {"docs": {State.INDEXED: 1, State.PENDING: 1}}


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_what_does_not_finish_in_time_is_given_back_uncounted(bench, how):
    bench.converter.gate = asyncio.Event()
    await bench.write("mem:/a", "text")
    worker, task = await running(bench)

    async def converting():
        return bool(bench.converter.converted)

    await bench.until(converting, task)
    if how == "stop":
        await worker.stop(0.01)
    else:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await bench.state("mem:/a") == State.PENDING
    (claim,) = await bench.items.claim(1)
    assert claim.attempts == 1
    assert bench.spooled() == []


async def test_an_idle_worker_stops_at_once(bench):
    worker, task = await running(bench)
    await asyncio.sleep(0.05)
    await asyncio.wait_for(worker.stop(60), 5)
    await asyncio.wait_for(task, 5)


async def test_a_crash_between_commit_and_acknowledgement_repeats_nothing(bench):
    await bench.write("mem:/a", "text")

    async def die(*_):
        raise ItemsUnavailable("killed")

    bench.items.finish = die
    worker, task = await running(bench)

    async def committed():
        return await bench.row("mem:/a") is not None and not worker.progress

    await bench.until(committed, task)
    await worker.stop(5)
    await task
    revision = (await bench.row("mem:/a")).revision
    await bench.open()
    assert await bench.state("mem:/a") == State.WORKING
    assert await bench.items.reclaim() == 1  # F67
    await bench.drain()
    assert (await bench.row("mem:/a")).revision == revision
    assert bench.converter.converted == ["text"]
    assert await bench.state("mem:/a") == State.INDEXED


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
async def test_cancelled_anywhere_it_is_done_once_afterwards(bench, steps):
    await bench.write("mem:/a", "text")
    _, task = await running(bench)
    for _ in range(steps):
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await bench.state("mem:/a") in (State.PENDING, State.INDEXED)
    assert bench.spooled() == []
    await bench.drain()
    assert await bench.text("mem:/a") == "text"
    assert await bench.items.counts() == {"docs": {State.INDEXED: 1}}
    assert (await bench.store.info()).documents == 1


async def test_an_items_database_that_is_away_for_a_moment_stops_nothing(bench, monkeypatch):
    claim, failures = bench.items.claim, iter([True, True])

    async def sometimes(*arguments, **more):
        if next(failures, False):
            raise ItemsUnavailable("locked")
        return await claim(*arguments, **more)

    monkeypatch.setattr("haiku.ingester.work.worker.POLL_INTERVAL", 0.01)
    bench.items.claim = sometimes
    await bench.write("mem:/a", "text")
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED
