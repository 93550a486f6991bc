"""A part that fails is said and tried again; what cannot be mended is raised."""

import asyncio
import logging
import os
import signal

import pytest

from haiku.ingester.api import Status
from haiku.ingester.exceptions import ItemsUnavailable
from haiku.ingester.metrics import Metrics
from haiku.ingester.service import supervising
from haiku.ingester.service.reporting import Reports
from haiku.ingester.service.stopping import Stop
from haiku.ingester.service.supervising import Stopped, Supervisor
from haiku.rag.exceptions import DatabaseReplaced, IdentityMismatch


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_DELAY", 0.01)


@pytest.fixture
def reports() -> Reports:
    return Reports(Metrics())


async def test_a_part_that_fails_degrades_and_runs_again(reports: Reports) -> None:
    supervisor, tries = Supervisor(reports, Stop()), 0

    async def part() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ItemsUnavailable("locked")
        assert reports.health().status is Status.FAILING
        assert [reason.text for reason in reports.health().reasons] == ["locked"]

    await asyncio.wait_for(supervisor.keep("items", part, fatal=True), 5)
    assert tries == 3
    assert reports.health().status is Status.OK


async def test_a_bug_in_a_part_is_logged_with_its_traceback(
    reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def part() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ZeroDivisionError("a bug")

    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(Supervisor(reports, Stop()).keep("x", part, fatal=False), 5)
    (record,) = caplog.records
    assert record.exc_info
    assert "a bug" in record.getMessage()


async def test_the_same_failure_is_logged_once(
    reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def make() -> str:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise OSError("disk is away")
        return "open"

    with caplog.at_level(logging.ERROR):
        assert await Supervisor(reports, Stop()).open("store", make) == "open"
    assert len(caplog.records) == 1
    assert reports.health().status is Status.OK


async def test_what_no_waiting_mends_is_raised(reports: Reports) -> None:
    async def make() -> None:
        raise IdentityMismatch("another embedder")

    with pytest.raises(IdentityMismatch):
        await Supervisor(reports, Stop()).open("store", make)


async def test_a_stop_ends_the_waiting(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_DELAY", 60.0)
    stop = Stop()

    async def make() -> None:
        raise OSError("away")

    async def part() -> None:
        raise OSError("away")

    asyncio.get_running_loop().call_later(0.05, stop.ask)
    async with asyncio.timeout(5):
        with pytest.raises(Stopped):
            await Supervisor(reports, stop).open("store", make)
        await Supervisor(reports, stop).keep("x", part, fatal=False)


async def test_cancelling_ends_a_part(reports: Reports) -> None:
    ended = asyncio.Event()

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(Supervisor(reports, Stop()).keep("x", part, fatal=False))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended.is_set()
    assert task.cancelled()


async def test_signals_ask_politely_and_then_at_once() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = Stop()
    try:
        with stop.on_signals():
            assert not stop.requested.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(stop.requested.wait(), 5)
            assert not stop.at_once.is_set()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(stop.at_once.wait(), 5)
        os.kill(os.getpid(), signal.SIGTERM)  # ignored: the process ends with its own code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_sleep_says_whether_a_stop_came() -> None:
    stop = Stop()
    assert await stop.sleep(0.01) is False
    stop.ask()
    assert await stop.sleep(60) is True


async def test_a_database_that_was_rebuilt_ends_the_daemon(reports: Reports) -> None:
    stop = Stop()
    supervisor = Supervisor(reports, stop)

    async def part() -> None:
        raise DatabaseReplaced("was rebuilt")

    await asyncio.wait_for(supervisor.keep("store", part, fatal=False), 5)
    await asyncio.wait_for(supervisor.keep("work", part, fatal=True), 5)
    assert stop.requested.is_set()
    assert not stop.at_once.is_set()
    assert str(supervisor.ended) == "was rebuilt"
