"""Cron expressions in a time zone: which slots there are, and the moment at which each comes.

A *slot* is a nominal wall-clock time, and each has exactly one moment, so that nothing runs twice
or not at all when clocks change: one that does not exist, because the clock is put forward over
it, comes with the first moment after the gap; one that exists twice, because the clock is put
back, comes at its first occurrence only. A later slot never has an earlier moment.

APScheduler finds the slots, on a calendar without clock changes; the rule for these is here, and
so are cron's own conventions where APScheduler has others: 0 and 7 are Sunday, and when both a day
of the month and a day of the week are asked for, either will do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apscheduler.triggers.cron import CronTrigger

#: Short names of common expressions.
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS = "minute, hour, day of the month, month, day of the week"
_DAYS = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d+))?", re.ASCII)
#: By how much a clock was ever put back at once, at most: a day, at the date line.
_LONGEST_FOLD = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One nominal time and the moment it comes."""

    #: Wall-clock time, without a zone.
    nominal: datetime
    #: Epoch seconds.
    at: float

    def __str__(self) -> str:
        return self.nominal.isoformat(timespec="minutes")


class Timetable:
    """The slots of one cron expression in one time zone."""

    def __init__(self, expression: str, zone: str) -> None:
        """Read the expression.

        Args:
            expression: minute, hour, day of the month, month, day of the week; or a macro.
            zone: e.g. "UTC" or "Europe/Berlin".

        Raises:
            ValueError: either is wrong, or there never is such a day; says what and why.
        """
        self._zone = find_zone(zone)
        self._triggers = list(_triggers(expression))
        if self._first(datetime(2000, 1, 1)) is None:
            raise ValueError(f"{expression!r} names a day that never comes")

    def after(self, moment: float) -> Slot:
        """The first slot that comes after a moment (epoch seconds)."""
        nominal = self._wall(moment)
        while (slot := self._slot(nominal)).at <= moment:
            nominal = slot.nominal + _MINUTE
        return slot

    def latest(self, now: float, within: float) -> Slot | None:
        """The latest slot that has come by `now`, unless it came more than `within` seconds ago.

        Of several that come at one moment, after a gap, it is the last.
        """
        early, late = self._wall(now - within), self._wall(now) + _LONGEST_FOLD
        if self._slot(early).at > now:
            return None
        while late - early > _MINUTE:
            middle = early + (late - early) / 2
            if self._slot(middle).at <= now:
                early = middle
            else:
                late = middle
        slot = self._slot(early)
        return slot if slot.at >= now - within else None

    def _slot(self, start: datetime) -> Slot:
        """The first slot whose nominal time is not before `start`."""
        nominal = self._first(start)
        assert nominal is not None  # the calendar repeats itself
        return Slot(nominal=nominal, at=self._moment(nominal))

    def _first(self, start: datetime) -> datetime | None:
        aware = start.replace(tzinfo=UTC)
        found = (trigger.get_next_fire_time(None, aware) for trigger in self._triggers)
        return min((each.replace(tzinfo=None) for each in found if each), default=None)

    def _moment(self, nominal: datetime) -> float:
        """When a wall clock first shows this time or a later one."""
        late = int(nominal.replace(tzinfo=self._zone).timestamp())
        if self._wall(late) == nominal:
            return float(late)
        early = int(nominal.replace(tzinfo=self._zone, fold=1).timestamp())  # before the gap
        while late - early > 1:
            middle = (early + late) // 2
            if self._wall(middle) < nominal:
                early = middle
            else:
                late = middle
        return float(late)

    def _wall(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self._zone).replace(tzinfo=None, fold=0)


def find_zone(name: str) -> ZoneInfo:
    """The time zone with a name.

    Raises:
        ValueError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"no time zone {name!r}; use a name like Europe/Berlin, or UTC") from None


def _triggers(expression: str) -> Iterator[CronTrigger]:
    """What finds the slots; the earliest of their answers is the next."""
    fields = MACROS.get(expression.strip().lower(), expression).lower().split()
    if len(fields) != 5:
        raise ValueError(f"{expression!r} is no cron expression: five fields are needed: {FIELDS}")
    minute, hour, day, month, weekday = fields
    either = not day.startswith("*") and not weekday.startswith("*")
    weekdays = _weekdays(weekday)
    for days in ((day, "*"), ("*", weekdays)) if either else ((day, weekdays),):
        yield _trigger(expression, minute, hour, month, *days)


def _trigger(
    expression: str, minute: str, hour: str, month: str, day: str, weekday: str
) -> CronTrigger:
    from apscheduler.triggers.cron import CronTrigger

    try:
        return CronTrigger(
            minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=UTC
        )
    except ValueError as error:
        raise ValueError(f"{expression!r} is no cron expression: {error}") from None


def _weekdays(field: str) -> str:
    """Days of the week by name: their numbers mean other days to APScheduler."""
    days = {day for part in field.split(",") for day in _days(part)}
    return ",".join(WEEKDAYS[day] for day in sorted(days))


def _days(part: str) -> Iterator[int]:
    found = _DAYS.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is no day of the week")
    step = int(found["step"] or 1)
    if step == 0:
        raise ValueError(f"{part!r} is no day of the week: a step of 0 goes nowhere")
    first = _day(found["first"] or "0")
    last = 6 if found["first"] is None or found["step"] else first
    if found["last"]:
        last = _day(found["last"])
    last += 7 if last < first else 0
    return (day % 7 for day in range(first, last + 1, step))


def _day(text: str) -> int:
    if text in WEEKDAYS:
        return WEEKDAYS.index(text)
    if not text.isdecimal() or int(text) > 7:
        raise ValueError(f"{text!r} is no day of the week: use 0 to 7 or sun to sat")
    return int(text)
