"""The scheduled jobs, for `status`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from haiku.ingester.cli import output
from haiku.ingester.timetable import Timetable

if TYPE_CHECKING:
    from haiku.ingester.cli.opening import Opened
    from haiku.ingester.items import JobRecord


async def listed(here: Opened) -> list[dict[str, Any]]:
    """Each job that has a schedule: its next slot, and what became of the last."""
    from haiku.ingester.service.schedules import expressions

    config = here.config.ingester.schedule
    records = await here.items.schedules.all()
    return [
        {
            "job": job,
            "cron": cron,
            "timezone": config.timezone,
            **_next(Timetable(cron, config.timezone), here.items.schedules.clock()),
            **_last(records.get(job)),
        }
        for job, cron in expressions(config).items()
    ]


def _next(timetable: Timetable, now: float) -> dict[str, Any]:
    slot = timetable.after(now)
    return {"next_slot": str(slot), "next_at": datetime.fromtimestamp(slot.at, UTC)}


def _last(record: JobRecord | None) -> dict[str, Any]:
    fields = ("slot", "outcome", "detail", "ended_at", "succeeded_at")
    last = {f"last_{field}": getattr(record, field, None) for field in fields}
    return {**last, "running_since": record.running_since if record else None}


def show(found: list[dict[str, Any]]) -> None:
    """Them as a table, when there are any."""
    if found:
        columns = ["schedule", "next", "zone", "last", "outcome", "ended", "what"]
        output.table(columns, (_row(each) for each in found))


def _row(each: dict[str, Any]) -> list[object]:
    running = each["running_since"] is not None
    return [
        each["job"],
        "now" if running else each["next_slot"],
        each["timezone"],
        each["last_slot"] or "never",
        each["last_outcome"],
        output.ago(each["last_ended_at"]) if each["last_ended_at"] else "",
        each["last_detail"],
    ]
