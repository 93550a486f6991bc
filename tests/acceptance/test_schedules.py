"""Scheduled runs of real daemons."""

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.daemon import Site, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TWO_DAYS = 2 * 86_400


def miss_two_days(site: Site) -> None:
    """As if nothing had run since the day before yesterday."""
    (file,) = Path(site.root).rglob("items.sqlite")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE schedules SET done_until = ?", [time.time() - TWO_DAYS])
    connection.close()


def test_what_was_missed_is_made_up_for_once_by_one_of_two_daemons(site: Site) -> None:
    slot = (datetime.now(UTC) - timedelta(hours=2)).replace(minute=0)
    cron = f"0 {slot.hour} * * *"
    site.configure(schedule={"vacuum": {"cron": cron}, "tags": {"cron": cron, "name": "t-{slot}"}})
    site.write("a.md", "# A\n\nAbout ants.\n")
    with site.start() as first:
        first.wait_ready().wait_counts(indexed=1)
        assert [job["last_slot"] for job in site.json("status")["schedules"]] == [None, None]
        assert first.metric("haiku_ingester_scheduled_runs_total") == 0
        assert first.stop() == 0
    miss_two_days(site)
    with site.start() as one, site.start() as two:

        def both_done() -> bool:
            jobs = site.json("status")["schedules"]
            return all(job["last_outcome"] == "done" for job in jobs)

        one.wait_ready()
        two.wait_ready()
        wait_until(both_done, "both runs")
        assert sum(d.metric("haiku_ingester_scheduled_runs_total") for d in (one, two)) == 2
        assert one.get("/health").json()["status"] == "ok"
        assert (one.stop(), two.stop()) == (0, 0)
    with site.start() as again:
        again.wait_ready()
        time.sleep(1.0)
        assert again.metric("haiku_ingester_scheduled_runs_total") == 0
        assert again.metric("haiku_ingester_scheduled_last_success_timestamp_seconds") > 0
        assert again.stop() == 0
    assert again.messages().count(f"t-{slot:%Y%m%dT%H%M}") == 0
    assert (one.messages() + two.messages()).count(f"is done: tag t-{slot:%Y%m%dT%H%M}") == 1
