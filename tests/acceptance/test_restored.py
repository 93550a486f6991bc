"""A running daemon whose database somebody restores: it holds its source until it is told."""

import json
import subprocess
import sys

import pytest

from tests.acceptance.daemon import Daemon, Site, wait_until

#: Starting a process takes seconds on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def tag(site: Site, *arguments: str) -> str:
    """Run `haiku-rag tag …` as a person beside the daemon does."""
    done = subprocess.run(
        [sys.executable, "-m", "haiku.rag.cli", "tag", *arguments, "--db", str(site.database)],
        cwd=site.root,
        env=site.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def titles(site: Site) -> set[str]:
    return {document.uri.rsplit("/", 1)[-1] for document in site.documents()}


def held(daemon: Daemon) -> bool:
    return daemon.metric("haiku_ingester_source_held") == 1


def test_a_restore_holds_the_source_until_resync_or_keep(site: Site) -> None:
    site.write("old.md", "An old note about kettles.\n")
    with site.start() as daemon:
        daemon.wait_counts(indexed=1)
        tag(site, "create", "v1")
        site.write("new.md", "A new note about teapots.\n")
        daemon.wait_counts(indexed=2)

        tag(site, "restore", "v1")
        wait_until(lambda: held(daemon), "held")
        assert titles(site) == {"old.md"}
        health = daemon.get("/health").json()
        assert (health["status"], health["reasons"][0]["code"]) == ("degraded", "restored")
        assert "resync docs" in site.run("status").stdout
        (source,) = site.json("source", "list")
        assert source["held_since"]
        site.write("later.md", "A later note.\n")
        daemon.wait_counts(indexed=2, pending=1)
        assert titles(site) == {"old.md"}

        assert site.run("source", "keep", "docs").returncode == 0
        wait_until(lambda: not held(daemon), "kept")
        daemon.wait_counts(indexed=1, skipped=2)
        assert titles(site) == {"old.md"}
        site.write("new.md", "The new note has changed.\n")
        daemon.wait_counts(indexed=2, skipped=1)
        assert titles(site) == {"old.md", "new.md"}

        tag(site, "restore", "v1")
        wait_until(lambda: held(daemon), "held again")
        assert daemon.stop() == 0

    batch = site.run("run-batch")
    assert batch.returncode == 1
    assert "source resync docs" in batch.stderr
    assert titles(site) == {"old.md"}
    assert site.run("source", "resync", "--all").returncode == 0
    done = site.run("run-batch", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"indexed": 3}
    assert titles(site) == {"old.md", "new.md", "later.md"}
