"""Cron expressions and the moments of their slots, over changes of the clock too."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haiku.ingester.timetable import Slot, Timetable

DAY = 86_400.0


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def coming(expression: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    """The nominal times of the next slots."""
    table, at, found = Timetable(expression, zone), moment(start, zone), []
    for _ in range(count):
        slot = table.after(at)
        found.append(str(slot))
        at = slot.at
    return found


def runs(expression: str, zone: str, start: str, hours: int, step: int = 600) -> list[Slot]:
    """What somebody who looks every `step` seconds runs."""
    table, begin = Timetable(expression, zone), moment(start)
    done, last = [], begin - 1.0
    for tick in range(0, hours * 3600, step):
        slot = table.latest(begin + tick, DAY)
        if slot is not None and slot.at > last:
            done.append(slot)
            last = slot.at
    return done


def utc(slot: Slot) -> str:
    return datetime.fromtimestamp(slot.at, UTC).strftime("%d %H:%M")


def test_a_daily_slot_is_found_before_and_after() -> None:
    table = Timetable("30 3 * * *", "UTC")
    assert str(table.after(moment("2026-05-04T03:29:59"))) == "2026-05-04T03:30"
    assert str(table.after(moment("2026-05-04T03:30:00"))) == "2026-05-05T03:30"
    assert str(table.latest(moment("2026-05-04T03:30:00"), DAY)) == "2026-05-04T03:30"
    assert str(table.latest(moment("2026-05-04T03:29:59"), DAY)) == "2026-05-03T03:30"
    assert table.latest(moment("2026-05-04T03:29:59"), 3600.0) is None


ZONES = [
    # zone, the night the clock goes forward, its slots at 01:30, 02:30 and 03:30 in UTC
    ("Europe/Berlin", "2026-03-28T20:00", ["29 00:30", "29 01:00", "29 01:30"]),
    ("America/New_York", "2026-03-08T03:00", ["08 06:30", "08 07:00", "08 07:30"]),
]


@pytest.mark.parametrize(("zone", "start", "moments"), ZONES)
def test_a_slot_that_does_not_exist_comes_right_after_the_gap(
    zone: str, start: str, moments: list[str]
) -> None:
    for hour, at in zip((1, 2, 3), moments, strict=True):
        (slot,) = runs(f"30 {hour} * * *", zone, start, 12)
        assert (slot.nominal.hour, utc(slot)) == (hour, at)
    assert [utc(slot) for slot in runs("30 1-3 * * *", zone, start, 12)] == moments


NIGHTS_BACK = [
    # zone, the night the clock goes back, the hour there twice, 30 past it and the hours around it
    ("Europe/Berlin", "2026-10-24T20:00", 2, ["24 23:30", "25 00:30", "25 02:30"]),
    ("America/New_York", "2026-11-01T00:00", 1, ["01 04:30", "01 05:30", "01 07:30"]),
]


@pytest.mark.parametrize(("zone", "start", "hour", "moments"), NIGHTS_BACK)
def test_a_slot_that_exists_twice_comes_at_its_first_occurrence_only(
    zone: str, start: str, hour: int, moments: list[str]
) -> None:
    for each, at in zip((hour - 1, hour, hour + 1), moments, strict=True):
        (slot,) = runs(f"30 {each} * * *", zone, start, 12)
        assert (slot.nominal.hour, utc(slot)) == (each, at)
    found = runs(f"30 {hour - 1}-{hour + 1} * * *", zone, start, 12)
    assert [utc(slot) for slot in found] == moments


@pytest.mark.parametrize(("zone", "start", "hour", "moments"), NIGHTS_BACK)
def test_between_the_occurrences_the_next_slot_is_the_one_after_both(
    zone: str, start: str, hour: int, moments: list[str]
) -> None:
    table = Timetable("*/10 * * * *", zone)
    first = moment(start.replace(start[8:], moments[1].replace(" ", "T")))
    slot = table.after(first + 3600.0)
    assert (slot.nominal.hour, slot.nominal.minute) == (hour + 1, 0)
    assert slot.at == first + 5400.0
    latest = table.latest(first + 3600.0, DAY)
    assert latest is not None
    assert (latest.nominal.hour, latest.nominal.minute) == (hour, 50)


def test_of_slots_that_come_at_once_the_last_counts() -> None:
    found = runs("*/20 * * * *", "Europe/Berlin", "2026-03-29T00:30", 1)
    assert [str(slot)[11:] for slot in found] == ["01:40", "03:00", "03:20"]


def test_a_day_that_a_zone_left_out_and_half_hour_changes() -> None:
    (apia,) = runs("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00", 48)
    assert apia.at == moment("2011-12-31T00:00", "Pacific/Apia")
    (howe,) = runs("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 12)
    assert howe.at == moment("2026-10-04T02:30", "Australia/Lord_Howe")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_each_day_of_a_year_has_its_slot_once(zone: str) -> None:
    found = runs("30 2 * * *", zone, "2026-01-01T12:00", 24 * 365, step=43_200)
    days = [slot.nominal.date() for slot in found]
    assert days == [days[0] + timedelta(days=n) for n in range(len(days))]
    assert len(days) >= 364


@settings(max_examples=40, deadline=None)
@given(
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Pacific/Apia", "UTC"]),
    expression=st.sampled_from(["30 2 * * *", "*/7 1-3 * * *", "0 0 * * 0", "59 23 28-31 * *"]),
    at=st.integers(1_300_000_000, 1_900_000_000),
)
def test_next_and_latest_agree(zone: str, expression: str, at: int) -> None:
    table = Timetable(expression, zone)
    slot = table.after(at)
    assert slot.at > at
    before = table.latest(slot.at - 1, 60 * DAY)
    assert before is not None
    assert before.at <= at
    assert before.nominal < slot.nominal
    reached = table.latest(slot.at, 60 * DAY)
    assert reached is not None
    assert reached.at == slot.at
    assert reached.nominal >= slot.nominal


def test_days_of_the_week_are_those_of_cron() -> None:
    sunday = ["2026-05-03T00:00", "2026-05-10T00:00"]
    for field in ("0", "7", "sun", "SUN", "0,7", "7-7"):
        assert coming(f"0 0 * * {field}", "2026-05-01", 2) == sunday
    assert coming("0 0 * * 1-5", "2026-05-01", 2) == ["2026-05-04T00:00", "2026-05-05T00:00"]
    for field in ("5-7", "fri-sun", "5,6,0", "0,5-6"):
        assert [d[8:10] for d in coming(f"0 0 * * {field}", "2026-05-01", 3)] == ["02", "03", "08"]
    assert [d[8:10] for d in coming("0 0 * * */2", "2026-05-02", 4)] == ["03", "05", "07", "09"]
    assert [d[8:10] for d in coming("0 0 * * 1/3", "2026-05-02", 3)] == ["04", "07", "11"]


def test_a_day_of_the_month_or_of_the_week() -> None:
    assert [d[8:10] for d in coming("0 0 13 * 5", "2026-05-02", 3)] == ["08", "13", "15"]
    assert [d[8:10] for d in coming("0 0 */10 * 1", "2026-05-02", 1)] == ["11"]  # both, for a step


def test_macros() -> None:
    assert coming("@daily", "2026-05-01", 1) == ["2026-05-02T00:00"]
    assert coming(" @Weekly ", "2026-05-01", 1) == ["2026-05-03T00:00"]


@pytest.mark.parametrize(
    "expression",
    [
        *("", "30 3 * *", "30 3 * * * *", "60 3 * * *", "a 3 * * *", "* * 0 * *", "* * * 13 *"),
        *("* * * * 8", "* * * * x", "* * * * 1-", "* * * * */0", "*/0 * * * *", "@reboot"),
        *("0 0 30 2 *", "* * * * -1", "5-3 * * * *"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: str) -> None:
    with pytest.raises(ValueError, match=r"cron expression|day"):
        Timetable(expression, "UTC")


@pytest.mark.parametrize("zone", ["", "Mars/Base", "Europe", "../UTC", "/etc/passwd", "a\0b"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Timetable("* * * * *", zone)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789*/,-? monfriL#@", max_size=24))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        table = Timetable(text, "Europe/Berlin")
    except ValueError:
        return
    assert table.after(1_800_000_000.0).at > 1_800_000_000.0
