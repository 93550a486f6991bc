"""Several daemons on one database, with one items database and with two; frozen ones wake up."""

import random
import signal
import sqlite3
import time
from contextlib import closing
from hashlib import sha256

import pytest

from haiku.ingester.soak.folder import Folder
from haiku.rag.uris import path_to_uri
from tests.acceptance import checking
from tests.acceptance.daemon import Daemon, Site, wait_until
from tests.acceptance.embedding import EmbeddingServer
from tests.acceptance.kill import configure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


#: So many attempts last longer than it takes to judge that a file is gone for good.
WORK = {"backoff": 0.2, "backoff_max": 1.0, "max_attempts": 20}


def differs(site: Site, folder: Folder) -> list[str]:
    """What the database has that the folder has not, and the other way round."""
    found = checking.look(site.database)
    live = {uri: row["content_hash"] for uri, row in found.live.items()}
    held = {path_to_uri(site.docs / n): sha256(b).hexdigest() for n, b in folder.held.items()}
    return [*found.wrong, *map(str, sorted(live.items() ^ held.items()))]


def change(folder: Folder, steps: int, pause: float = 0.03) -> None:
    for _ in range(steps):
        folder.step()
        time.sleep(pause)


def failed(daemon: Daemon) -> list[str]:
    """Items that it has called failed, with the reasons."""
    return [f"{e['uri']}: {e['message']}" for e in daemon.log if e["message"].startswith("failed ")]


def freeze(site: Site, daemon: Daemon) -> None:
    """Stop it at a moment at which it does not hold SQLite's lock, which nobody could take over."""
    items = site.root / "test.ingester" / "items.sqlite"
    for _ in range(100):
        daemon.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(items, timeout=0.2, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                daemon.signal(signal.SIGCONT)
                time.sleep(0.01)
            else:
                connection.execute("ROLLBACK")
                return
    raise AssertionError("it holds the lock all the time")


def test_one_items_database_and_one_daemon_frozen_in_between(site: Site) -> None:
    """Its claims are taken over; when it wakes up it undoes nothing (S9)."""
    folder = Folder(site.docs, random.Random(3), 30)
    with EmbeddingServer() as server:
        configure(site, server, work={**WORK, "lease": 1.5})
        change(folder, 20, 0)
        with site.start() as one, site.start() as two:
            one.wait_ready()
            two.wait_ready()
            for frozen in (one, two, one):
                change(folder, 15)
                freeze(site, frozen)
                change(folder, 15)
                wait_until(lambda: not differs(site, folder), "the other does its work")
                change(folder, 10)
                frozen.signal(signal.SIGCONT)
                change(folder, 10)
                wait_until(lambda: not differs(site, folder), "both do the work")
            one.wait_counts(indexed=len(folder.held))
            assert failed(one) + failed(two) == []
            assert (one.stop(), two.stop()) == (0, 0)
    assert differs(site, folder) == []


# F31
def test_two_items_databases_make_one_document_of_a_uri(site: Site) -> None:
    """Two daemons that know nothing of each other index the same files at the same time."""
    folder = Folder(site.docs, random.Random(4), 25)
    with EmbeddingServer() as server:
        configure(site, server, work=WORK)
        change(folder, 20, 0)
        with site.start() as one:
            other = f"sqlite+aiosqlite:///{site.root / 'other.sqlite'}"
            configure(site, server, work=WORK, items_db=other)
            with site.start() as two:
                one.wait_ready()
                two.wait_ready()
                for _ in range(4):
                    change(folder, 25)
                    wait_until(lambda: not differs(site, folder), "one document a file")
                for daemon in (one, two):
                    daemon.wait_counts(indexed=len(folder.held))
                    assert failed(daemon) == []
                    assert daemon.stop() == 0
    assert differs(site, folder) == []
