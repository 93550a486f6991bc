"""What does not answer pauses the work, and is nobody's failure but its own."""

import asyncio
import time

import pytest

from haiku.ingester.items import State
from haiku.ingester.service.figures import outage_reasons
from haiku.ingester.work.outages import Outages, part_of
from haiku.rag.exceptions import (
    Conflict,
    DocumentCorrupt,
    EmbedderRefused,
    EmbedderUnavailable,
    IdentityMismatch,
    RequestRefused,
    StoreBusy,
    WorkerUnavailable,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock) -> Outages:
    return Outages(backoff=2.0, clock=clock)


def fail(outages: Outages, began: float = 0.0, after: float | None = None) -> float | None:
    return outages.failed("embedder", code="x", text="503", began=began, after=after)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (EmbedderUnavailable("503"), "embedder"),
        (EmbedderRefused("401"), "embedder"),
        (RequestRefused("413"), None),
        (StoreBusy("lost"), "store"),
        (IdentityMismatch("vectors of length 3"), "store"),
        (Conflict("changed"), None),
        (WorkerUnavailable("no process"), "workers"),
        (OSError(28, "No space left on device"), "spool"),
        (DocumentCorrupt("not a zip"), None),
    ],
)
def test_what_is_everybodys_and_what_is_the_items(error, part):
    assert part_of(error) == part


def test_pauses_double_up_to_a_bound(outages, clock):
    pauses = []
    for _ in range(8):
        pauses.append(fail(outages))
        clock.now += pauses[-1]
    assert 1.5 <= pauses[0] <= 2.0
    assert 3.0 <= pauses[1] <= 4.0
    assert 22.5 <= pauses[-1] <= 30.0
    assert outages.failures == 8


def test_who_fails_in_the_same_pause_is_no_second_failure(outages, clock):
    pause = fail(outages)
    clock.now += 1.0
    assert fail(outages) == pytest.approx(pause - 1.0)
    assert outages.failures == 1


def test_a_server_that_asks_for_longer_gets_it(outages):
    assert fail(outages, after=300.0) == 300.0
    assert outages.pause == 300.0


def test_who_fails_while_others_are_served_is_at_fault(outages, clock):
    began = clock.now
    clock.now += 1.0
    outages.served("embedder")
    assert fail(outages, began=began) is None
    assert outages.failures == 0
    assert fail(outages, began=clock.now) is not None


def test_an_outage_ends_when_somebody_is_served(outages):
    fail(outages)
    (reason,) = outage_reasons(outages)
    assert (reason.part, reason.code) == ("embedder", "x")
    assert "503" in reason.text
    outages.served("store")
    assert outages.failures == 1
    outages.served("embedder")
    assert (outages.failures, outages.pause, list(outage_reasons(outages))) == (0, 0.0, [])


async def test_an_outage_costs_no_item_an_attempt(bench):
    """Down for far more calls than any item has attempts."""
    bench.embedding.errors = [EmbedderUnavailable("503") for _ in range(9)]
    for number in range(6):
        await bench.write(f"mem:/{number}", f"text {number}")
    await bench.drain(bench.worker(concurrency=3))
    assert await bench.items.counts() == {"docs": {State.INDEXED: 6}}
    assert bench.seen.outcomes["failed", "embedder_unavailable"] == 0
    assert bench.embedding.errors == []


async def test_what_has_gone_is_removed_although_the_embedder_is_down(bench):
    for name in "ab":
        await bench.write(f"mem:/{name}", f"text {name}")
    await bench.drain(bench.worker())
    bench.pipeline.outages.failed(
        "embedder", code="x", text="503", began=time.monotonic(), after=600.0
    )
    await bench.items.gone("docs", ["mem:/a"], live=True)
    await bench.write("mem:/b", "text b changed")
    working = asyncio.create_task(bench.worker().run())
    async with asyncio.timeout(20):
        while await bench.items.get("docs", "mem:/a") is not None:
            await asyncio.sleep(0.02)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert {state: n for state, n in (await bench.items.counts())["docs"].items() if n} == {
        State.PENDING: 1
    }
    assert await bench.store.row("mem:/a") is None


async def test_nothing_is_removed_while_the_database_is_away(bench):
    await bench.write("mem:/a", "text")
    await bench.drain(bench.worker())
    bench.pipeline.outages.failed(
        "store", code="x", text="disk", began=time.monotonic(), after=600.0
    )
    await bench.items.gone("docs", ["mem:/a"], live=True)
    working = asyncio.create_task(bench.worker().run())
    await asyncio.sleep(1.5)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert (await bench.items.get("docs", "mem:/a")).state == State.GONE


async def test_one_item_tries_whether_an_outage_is_over(bench):
    bench.embedding.errors = [EmbedderUnavailable("503") for _ in range(7)]
    for number in range(12):
        await bench.write(f"mem:/{number}", f"text {number}")
    calls, most, under_way = [], 0, 0
    embed = bench.embedding.embed

    async def watched(texts, **more):
        nonlocal most, under_way
        under_way += 1
        if bench.pipeline.outages.failures and len(calls) >= 4:  # those begun before it
            most = max(most, under_way)
        calls.append(len(bench.embedding.errors))
        try:
            return await embed(texts, **more)
        finally:
            under_way -= 1

    bench.embedding.embed = watched
    await bench.drain(bench.worker(concurrency=4))
    assert most == 1
    assert await bench.items.counts() == {"docs": {State.INDEXED: 12}}


async def test_a_document_that_breaks_the_embedder_keeps_nobody_out(bench):
    embed = bench.embedding.embed

    async def choosy(texts, **more):
        if "poison" in texts:
            raise EmbedderUnavailable("500")
        return await embed(texts, **more)

    bench.embedding.embed = choosy
    await bench.write("mem:/poison", "poison")
    for number in range(40):
        await bench.write(f"mem:/{number}", f"text {number}")
    worker = bench.worker(concurrency=3)
    await bench.drain_all_but("mem:/poison", worker)
    assert (await bench.items.counts())["docs"][State.INDEXED] == 40


async def test_a_key_that_is_refused_from_now_on_fails_nobody_who_is_under_way(bench):
    """Others were served since it was begun: still it is no fault of its content."""
    embed, served = bench.embedding.embed, asyncio.Event()

    async def expires(texts, **more):
        if "slow" in texts and not served.is_set():
            await served.wait()
            raise EmbedderRefused("401")
        vectors = await embed(texts, **more)
        asyncio.get_running_loop().call_later(0.1, served.set)
        return vectors

    bench.embedding.embed = expires
    await bench.write("mem:/slow", "slow")
    await bench.write("mem:/quick", "quick")
    await bench.drain()
    assert bench.seen.outcomes["retry", "embedder_refused"] == 1
    assert await bench.items.counts() == {"docs": {State.INDEXED: 2}}
