"""Outages: nothing is lost or failed, health says so, and work goes on by itself afterwards."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.acceptance import checking
from tests.acceptance.daemon import Daemon, Site, wait_until
from tests.acceptance.embedding import EmbeddingServer, Mood
from tests.acceptance.kill import configure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


def reasons(daemon: Daemon) -> dict[str, str]:
    """Part → why it is not well, as health says."""
    return {r["part"]: r["reason"] for r in daemon.get("/health").json()["reasons"]}


def wait_for_outage(daemon: Daemon, part: str) -> str:
    """Wait until health tells of it; returns what it says."""
    return str(wait_until(lambda: reasons(daemon).get(part), f"an outage of {part}"))


def failures(daemon: Daemon) -> float:
    return daemon.metric("haiku_ingester_outcomes_total.*failed.*")


#: How the server behaves → a word of what health says about it.
MOODS: dict[Mood | Literal["down"], str] = {
    "down": "did not answer",
    "broken": "500",
    "busy": "429",
    "wrong size": "17",
}


# F30
def test_an_embedder_that_does_not_serve_holds_the_work_up(
    site: Site, server: EmbeddingServer
) -> None:
    """New documents wait, changed ones keep their old content, and nothing is failed."""
    configure(site, server)
    server.mood, server.delay = "slow", 0.5
    for number in range(4):
        site.write(f"{number}.md", "What was there before.\n")
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=4)
        assert reasons(daemon) == {}  # slow is only slow
        for kind, word in MOODS.items():
            before = checking.look(site.database).live
            if kind == "down":
                server.down()
            else:
                server.mood = kind
            for number in range(8):
                site.write(f"{number}.md", f"Note {number} while the server is {kind}.\n")
            assert word in wait_for_outage(daemon, "embedder")
            assert daemon.get("/health").json()["status"] == "degraded"
            assert daemon.metric("haiku_ingester_outage.*embedder.*") == 1
            time.sleep(0.6)  # longer than all attempts of an item would last
            assert checking.look(site.database).live == before
            if kind == "down":  # what has gone is removed all the same
                (site.docs / "0.md").unlink()
                wait_until(lambda: len(checking.look(site.database).live) == 3, "a removal")
                site.write("0.md", "Written again while the server is down.\n")
            if kind == "down":
                server.up()
            server.mood = "well"
            began = time.monotonic()
            daemon.wait_counts(indexed=8)
            print(f"{kind}: all done {time.monotonic() - began:.1f} s after it was over")
            wait_until(lambda: not reasons(daemon), "health")
        assert failures(daemon) == 0
        assert daemon.stop() == 0
    found = checking.look(site.database)
    assert (len(found.live), found.wrong) == (8, [])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all that is left of a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return ballast


def test_a_full_disk_holds_the_work_up(site: Site, server: EmbeddingServer, disk: Path) -> None:
    """The database, the items and the spool are on it, the documents elsewhere."""
    configure(site, server)
    site.database = disk / "test.lancedb"
    site.write("old.md", "What was there before.\n")
    ballast = fill(disk)
    with site.start() as daemon:
        assert "No space left" in wait_for_outage(daemon, "items")
        assert daemon.get("/health").json()["status"] == "failing"
        ballast.unlink()
        resume(daemon, 1)

        ballast = fill(disk)
        for number in range(8):
            site.write(f"{number}.md", f"Note {number}.\n")
        wait_until(lambda: reasons(daemon), "health tells of it")
        assert daemon.get("/health").json()["status"] in ("degraded", "failing")
        time.sleep(1.0)
        ballast.unlink()
        resume(daemon, 9)
        assert failures(daemon) == 0
        assert daemon.stop() == 0
    found = checking.look(site.database)
    assert (len(found.live), found.wrong) == (9, [])


def resume(daemon: Daemon, documents: int) -> None:
    """Wait until all is done and well."""
    began = time.monotonic()
    daemon.wait_counts(indexed=documents)
    wait_until(lambda: not reasons(daemon), "health")
    print(f"all well {time.monotonic() - began:.1f} s after there was room")
