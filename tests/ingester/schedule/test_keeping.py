"""Each slot runs once: over clock changes, restarts, several daemons, crashes and failures."""

import asyncio

import pytest
from tests.ingester.schedule.conftest import DAY, Clock, Maker, Recording, moment

from haiku.ingester.exceptions import RunFailed
from haiku.ingester.schedule.keeping import Keeper

HOUR = 3600.0


async def pass_time(clock: Clock, hours: float, *keepers: Keeper, step: float = HOUR / 2) -> None:
    """Let the clock go on, and everybody look each half hour."""
    for _ in range(round(hours * HOUR / step)):
        clock.now += step
        for keeper in keepers:
            await keeper.look()


async def test_a_job_that_nobody_knew_has_missed_nothing(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    keeper = await daemon()
    await keeper.look()
    assert job.begun == []
    await pass_time(clock, 15, keeper)
    assert job.begun == []
    await pass_time(clock, 49, keeper)
    assert job.begun == ["2026-05-05T03:30", "2026-05-06T03:30", "2026-05-07T03:30"]
    assert job.outcomes == ["done"] * 3
    assert job.success == moment("2026-05-07T03:30")


@pytest.mark.parametrize(
    ("zone", "start", "slots"),
    [
        ("Europe/Berlin", "2026-03-28T20:00", ["2026-03-29T02:30", "2026-03-30T02:30"]),
        ("Europe/Berlin", "2026-10-24T20:00", ["2026-10-25T02:30", "2026-10-26T02:30"]),
        ("America/New_York", "2026-03-07T20:00", ["2026-03-08T02:30", "2026-03-09T02:30"]),
        ("America/New_York", "2026-10-31T20:00", ["2026-11-01T02:30", "2026-11-02T02:30"]),
    ],
)
async def test_two_daemons_and_restarts_over_a_clock_change(
    daemon: Maker, clock: Clock, job: Recording, zone: str, start: str, slots: list[str]
) -> None:
    clock.now = moment(start, zone)
    one, two = await daemon("one", "30 2 * * *", zone), await daemon("two", "30 2 * * *", zone)
    await one.look()
    for _ in range(2):
        await pass_time(clock, 3, one, two)
        one = await daemon("one", "30 2 * * *", zone)  # a restart
        await pass_time(clock, 2, two, one)
    await pass_time(clock, 24, one, two)
    assert job.begun == slots


async def test_missed_slots_are_made_up_for_once(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    await (await daemon()).look()
    clock.now = moment("2026-05-09T17:00")  # four were missed
    keeper = await daemon()
    await pass_time(clock, 3, keeper)
    assert job.begun == ["2026-05-09T03:30"]


async def test_one_missed_too_long_ago_is_left(daemon: Maker, clock: Clock, job: Recording) -> None:
    weekly = {"cron": "0 0 * * 0"}
    await (await daemon(**weekly)).look()
    clock.now = moment("2026-05-11T00:01")
    await (await daemon(**weekly)).look()
    assert job.begun == []
    clock.now = moment("2026-05-17T23:59")
    await (await daemon(**weekly)).look()
    assert job.begun == ["2026-05-17T00:00"]


async def test_a_clock_that_jumps_back_repeats_nothing(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    keeper = await daemon()
    await keeper.look()
    await pass_time(clock, 16, keeper)
    clock.now -= 20 * HOUR
    await pass_time(clock, 24, keeper, await daemon("two"))
    assert job.begun == ["2026-05-05T03:30"]
    await pass_time(clock, 24, keeper)
    assert job.begun == ["2026-05-05T03:30", "2026-05-06T03:30"]


async def test_a_clock_that_was_a_year_ahead_does_not_stop_the_job(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    keeper = await daemon()
    await keeper.look()
    clock.now += 365 * DAY
    await keeper.look()
    clock.now -= 365 * DAY
    await pass_time(clock, 24, keeper)
    assert job.begun == ["2027-05-04T03:30", "2026-05-05T03:30"]


async def test_a_failure_is_recorded_and_not_repeated(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    keeper = await daemon()
    await keeper.look()
    job.error = RunFailed("the disk is short")
    await pass_time(clock, 24, keeper)
    assert (job.begun, job.outcomes) == (["2026-05-05T03:30"], ["failed"])
    other = await daemon("two")
    await other.look()
    assert other.record is not None
    assert (other.record.outcome, other.record.detail) == ("failed", "the disk is short")
    assert (other.record.succeeded_at, job.success) == (None, None)
    job.error = None
    await pass_time(clock, 24, other)
    assert other.record.outcome == "done"
    assert other.record.detail == "all of it"
    assert job.success == other.record.succeeded_at.timestamp()  # type: ignore[union-attr]


async def test_any_error_of_a_job_is_only_its_own(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    keeper = await daemon()
    await keeper.look()
    job.error = ZeroDivisionError()
    await pass_time(clock, 24, keeper)
    assert keeper.record is not None
    assert keeper.record.detail == "ZeroDivisionError"


async def cut(keeper: Keeper, job: Recording, clock: Clock) -> asyncio.Task[None]:
    """A run that is under way."""
    if not job.hangs:
        await keeper.look()
    clock.now = moment("2026-05-05T03:30")
    job.hangs = True
    job.running.clear()
    looking = asyncio.create_task(keeper.look())
    await job.running.wait()
    return looking


async def test_a_run_that_is_cut_short_is_made_up_for(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    for _ in range(3):  # stopping is no attempt
        looking = await cut(await daemon(), job, clock)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert job.outcomes == ["cut_short"] * 3
    job.hangs = False
    await (await daemon("two")).look()  # at once, whoever it is
    assert job.begun == ["2026-05-05T03:30"] * 4
    assert job.outcomes[3:] == ["done"]


async def test_while_one_is_at_it_no_other_is(daemon: Maker, clock: Clock, job: Recording) -> None:
    looking = await cut(await daemon(), job, clock)
    other = await daemon("two")
    await other.look()
    assert len(job.begun) == 1
    assert other.record is not None
    assert other.record.running_since is not None
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


async def die(keeper: Keeper, clock: Clock, job: Recording) -> None:
    """Begin the run of the slot and leave it, as a killed process does."""
    slot = keeper._timetable.latest(clock.now, DAY)
    assert slot is not None
    await keeper._records.begin(keeper.job, slot)
    job.begun.append("died")


async def test_a_run_whose_process_died_is_done_once_more(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    await (await daemon()).look()
    clock.now = moment("2026-05-05T03:30")
    await die(await daemon(), clock, job)
    other = await daemon("two")
    await other.look()
    assert job.begun == ["died"]  # until its lease lapses
    await (await daemon()).look()  # the same instance: at once
    assert job.begun == ["died", "2026-05-05T03:30"]


async def test_a_run_that_kills_its_process_is_given_up(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    await (await daemon()).look()
    clock.now = moment("2026-05-05T03:30")
    await die(await daemon(), clock, job)
    clock.now += 61.0
    await die(await daemon("two"), clock, job)
    clock.now += 61.0
    keeper = await daemon()
    await pass_time(clock, 3, keeper)
    assert job.begun == ["died", "died"]
    assert keeper.record is not None
    assert keeper.record.outcome == "failed"
    assert "died" in str(keeper.record.detail)
    assert job.outcomes == ["failed"]
    await pass_time(clock, 24, keeper)
    assert job.begun[2:] == ["2026-05-06T03:30"]


async def test_who_was_frozen_past_the_lease_stops_and_records_nothing(
    daemon: Maker, clock: Clock, job: Recording
) -> None:
    frozen = await daemon(lease=1.5)  # renewed every half second
    looking = await cut(frozen, job, clock)
    clock.now += 2.0
    quick = Recording()
    await (await daemon("two", job=quick)).look()
    assert quick.begun == ["2026-05-05T03:30"]
    await asyncio.wait_for(looking, 20)
    assert job.outcomes == ["cut_short"]
    assert frozen.record is not None
    assert frozen.record.outcome == "done"


async def test_the_loop_waits_for_the_slot(
    daemon: Maker, clock: Clock, job: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, waits = await daemon(), []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.now += seconds
        if job.begun:
            raise asyncio.CancelledError

    clock.now = moment("2026-05-05T03:28:50")
    monkeypatch.setattr("haiku.ingester.schedule.keeping.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await keeper.run()
    assert waits == [30.0, 30.0, 10.0, 30.0]
    assert job.begun == ["2026-05-05T03:30"]
