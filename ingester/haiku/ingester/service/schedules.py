"""The scheduled jobs of a running daemon, and of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.ingester.api import Reason
from haiku.ingester.schedule.jobs import Tags, Vacuum
from haiku.ingester.schedule.keeping import Keeper
from haiku.ingester.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from haiku.ingester.config import ScheduleConfig
    from haiku.ingester.metrics import Metrics
    from haiku.ingester.schedule.jobs import Job
    from haiku.ingester.service.rooms import Rooms


def expressions(config: ScheduleConfig) -> dict[str, str]:
    """Job → its cron expression; without those that never run."""
    found = {Vacuum.name: config.vacuum.cron, Tags.name: config.tags.cron}
    return {job: cron for job, cron in found.items() if cron is not None}


def make_keepers(config: ScheduleConfig, rooms: Rooms, metrics: Metrics) -> list[Keeper]:
    """What keeps to the timetable of each job that has one."""
    jobs: list[Job] = [
        Vacuum(rooms.store),
        Tags(rooms.store, config.tags.name, config.tags.keep),
    ]
    crons = expressions(config)
    keepers = []
    for job in jobs:
        if job.name in crons:
            metrics.scheduled(job.name)
            timetable = Timetable(crons[job.name], config.timezone)
            records = rooms.items.schedules
            keepers.append(Keeper(job, timetable, records, metrics, grace=config.misfire_grace))
    return keepers


def failures(keepers: Sequence[Keeper]) -> Iterator[Reason]:
    """A reason for each job whose last run failed, in whatever instance."""
    for keeper in keepers:
        record = keeper.record
        if record is not None and record.outcome == "failed":
            text = f"{record.job} of {record.slot} failed: {record.detail}"
            yield Reason(part=f"schedule:{record.job}", code="schedule_failed", text=text)
