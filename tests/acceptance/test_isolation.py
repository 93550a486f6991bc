"""A conversion that hangs, leaks or crashes costs one worker and ends in its own failed state."""

import psutil
import pytest

from tests.acceptance.daemon import Daemon, Site, wait_until

#: Starting a process takes seconds on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Rows of a table whose conversion takes long, and much memory.
ROWS = 60_000
NOTES = 6


def bad_csv() -> str:
    rows = "\n".join(f"{n},keeper {n},{n * 7}" for n in range(ROWS))
    return f"number,name,value\n{rows}\n"


def failed(site: Site, daemon: Daemon) -> tuple[str, str]:
    """Code and reason of the one that failed, when all the others are indexed."""
    daemon.wait_counts(indexed=NOTES, failed=1)
    (item,) = site.json("failed", "list")
    return item["code"], item["reason"]


def write_notes(site: Site) -> None:
    for number in range(NOTES):
        site.write(f"note-{number}.md", f"# Note {number}\n\nThe keeper's note {number}.\n")


@pytest.mark.parametrize(
    ("limits", "code", "setting"),
    [
        ({"timeout": 15.0}, "timeout", "processing.timeout"),  # F33
        ({"max_memory": 550_000_000}, "memory", "processing.max_memory"),  # F34
    ],
)
def test_who_goes_over_a_limit(site: Site, limits, code: str, setting: str) -> None:
    site.settings = {"processing": {"workers": 2, **limits}}
    site.configure()
    site.write("bad.csv", bad_csv())
    with site.start() as daemon:
        daemon.wait_ready()
        write_notes(site)
        said, reason = failed(site, daemon)
        assert (said, setting in reason) == (code, True)
        restarts = f'haiku_ingester_worker_restarts_total{{reason="{code}"}} 1.0'
        assert restarts in daemon.get("/metrics").text
        assert daemon.get("/health").json()["status"] == "ok"
        site.write("after.md", "# After\n\nStill at work.\n")
        daemon.wait_counts(indexed=NOTES + 1, failed=1)


def test_a_worker_that_dies(site: Site) -> None:
    site.settings = {"processing": {"workers": 2}}
    site.configure()
    with site.start() as daemon:
        daemon.wait_ready()
        write_notes(site)
        daemon.wait_counts(indexed=NOTES)
        idle = {worker.pid: cpu(worker) for worker in daemon.workers()}
        site.write("bad.csv", bad_csv())

        def busy() -> psutil.Process | None:
            grown = [w for w in daemon.workers() if cpu(w) > idle.get(w.pid, cpu(w)) + 0.5]
            return grown[0] if grown else None

        wait_until(busy, "a worker at the table").kill()
        assert failed(site, daemon)[0] == "crash"
        assert "signal 9" in failed(site, daemon)[1]
        (site.docs / "bad.csv").write_text("number,name\n1,well\n")
        daemon.wait_counts(indexed=NOTES + 1)


def cpu(process: psutil.Process) -> float:
    """CPU seconds so far; none when it is gone."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system
