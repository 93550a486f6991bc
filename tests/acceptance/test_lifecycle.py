"""The daemon as a process: fed, searched, stopped, killed, started again."""

import signal
import socket
import sqlite3
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from haiku.rag.models import SearchResult
from tests.acceptance.daemon import Site, alive, wait_until

#: Starting a process takes seconds on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Rows of a table that takes a conversion worker some seconds.
SLOW_ROWS = 6000


def slow_csv(word: str) -> str:
    """A document whose conversion takes long enough to be interrupted."""
    rows = "\n".join(f"{n},{word} {n},{n * 7}" for n in range(SLOW_ROWS))
    return f"number,name,value\n{rows}\n"


def uris_of(site: Site) -> list[str]:
    return sorted(Path(document.uri).name for document in site.documents())


def test_a_folder_is_kept_in_step_while_others_search(site: Site) -> None:
    site.write("first.md", "# Lighthouse\n\nThe lamp is lit at dusk by the keeper.\n")
    site.write("sub/second.txt", "Tide tables are printed every January.\n")
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=2)
        assert site.search("lamp keeper")[0].document_title == "Lighthouse"
        kept = {d.uri: d.id for d in site.documents()}

        site.write("third.html", "<html><title>Buoys</title><body><p>Red ones.</p></body></html>")
        site.write("first.md", "# Lighthouse\n\nThe lamp runs by solar panels now.\n")
        daemon.wait_counts(indexed=3)
        wait_until(lambda: "solar" in _text(site.search("lamp")), "the changed text")

        (site.docs / "sub" / "second.txt").rename(site.docs / "moved.txt")
        wait_until(lambda: "moved.txt" in uris_of(site), "the moved file")
        moved = next(d for d in site.documents() if d.uri.endswith("/moved.txt"))
        assert moved.id in kept.values()

        (site.docs / "third.html").unlink()
        wait_until(lambda: uris_of(site) == ["first.md", "moved.txt"], "the deletion")
        assert site.search("buoys") == []

        assert daemon.get("/health").json()["status"] == "ok"
        assert daemon.metric("haiku_ingester_commits_total") >= 1
        assert daemon.stop() == 0
    assert uris_of(site) == ["first.md", "moved.txt"]


def _text(hits: list[SearchResult]) -> str:
    return " ".join(hit.content for hit in hits)


def test_sigterm_finishes_what_is_in_flight_and_loses_nothing(site: Site) -> None:
    for number in range(30):
        site.write(f"{number}.md", f"# Note {number}\n\nBody of note {number}.\n")
    site.write("slow.csv", slow_csv("item"))
    with site.start() as daemon:
        wait_until(lambda: daemon.counts().get("working"), "work under way")
        assert daemon.stop() == 0
        assert "stopped" in daemon.messages()
    assert _states(site)["working"] == 0
    with site.start() as daemon:
        daemon.wait_counts(indexed=31)
        assert daemon.stop() == 0
    assert len(uris_of(site)) == 31


def test_a_second_sigterm_stops_at_once(site: Site) -> None:
    site.configure(shutdown_grace=600)
    for number in range(4):
        site.write(f"slow-{number}.csv", slow_csv(f"item{number}"))
    with site.start() as daemon:
        wait_until(lambda: daemon.counts().get("working"), "work under way")
        workers = daemon.workers()
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: "ask again" in daemon.messages(), "the first request")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    wait_until(lambda: not any(map(alive, workers)), "the workers to end", patience=20)
    states = _states(site)
    assert states["working"] == 0
    assert states["pending"] > 0
    assert _attempts(site) == {0}


def test_after_sigkill_its_own_claims_are_resumed_at_once_and_indexed_once(site: Site) -> None:
    site.configure(work={"lease": 600, "backoff": 0.2})
    site.write("slow.csv", slow_csv("item"))
    site.write("quick.md", "A quick note about harbours.\n")
    with site.start() as daemon:
        wait_until(lambda: _working(site, "slow.csv"), "the slow file under way")
        workers = daemon.workers()
        daemon.kill()
    wait_until(lambda: not any(map(alive, workers)), "the workers to end", patience=20)
    assert _states(site)["working"] >= 1
    started = time.monotonic()
    with site.start() as daemon:
        daemon.wait_counts(indexed=2)
        assert time.monotonic() - started < 300  # far below the lease
        assert daemon.stop() == 0
    assert uris_of(site) == ["quick.md", "slow.csv"]
    assert Counter(document.uri for document in site.documents()).most_common(1)[0][1] == 1


def test_two_readers_search_while_documents_arrive(site: Site) -> None:
    site.write("0.md", "# Note 0\n\nThe anchor word is here.\n")
    with site.start() as daemon:
        daemon.wait_counts(indexed=1)
        for number in range(1, 25):
            site.write(f"{number}.md", f"# Note {number}\n\nThe anchor word number {number}.\n")
        first, second = site.search("anchor", 50), site.search("anchor", 50)
        assert 1 <= len(first) <= len(second) <= 25
        daemon.wait_counts(indexed=25)
        assert len(site.search("anchor", 50)) == 25
        assert daemon.stop() == 0


# F66
def test_a_taken_port_refuses_the_start_and_names_its_holder(site: Site) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        site.configure(api={"port": port})
        with site.start() as daemon:
            assert daemon.wait() == 5
            assert f"port {port}" in daemon.messages()
            assert f"process {psutil.Process().pid}" in daemon.messages()

        site.configure(api={"port": port, "port_taken": "continue"})
        site.write("note.md", "Ingested without an API.\n")
        with site.start() as daemon:
            wait_until(lambda: _states(site)["indexed"] == 1, "the note indexed")
            assert "running without the API" in daemon.messages()
            assert daemon.stop() == 0


def test_a_missing_source_does_not_stop_the_others(site: Site) -> None:
    site.write("note.md", "All is well here.\n")
    sources = [
        {"id": "lost", "path": str(site.root / "not-there")},
        {"id": "docs", "path": str(site.docs)},
    ]
    site.configure(sources=sources)
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=1)
        health = daemon.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        reasons = health.json()["reasons"]
        assert {reason["part"] for reason in reasons} == {"source:lost"}
        assert any("not-there" in reason["reason"] for reason in reasons), reasons
        assert len({reason["reason"] for reason in reasons}) == len(reasons)
        assert daemon.stop() == 0

    sources[0]["required"] = True
    site.configure(sources=sources)
    with site.start() as daemon:
        assert daemon.wait() == 4
        assert "not-there" in daemon.messages()


def test_a_wrong_configuration_is_refused_in_a_line(site: Site) -> None:
    site.configure(sweep="often")
    with site.start() as daemon:
        assert daemon.wait() == 2
        assert "ingester.sweep: unknown key" in daemon.messages()
        assert "Traceback" not in daemon.messages()


def test_requests_of_commands_are_done_within_moments(site: Site) -> None:
    site.configure(sources=[{"id": "docs", "path": str(site.docs), "watch": "off"}])
    broken = site.write("broken.docx", b"PK\x03\x04 this is no archive")
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(failed=1)
        (failed,) = site.json("failed", "list")
        assert failed["stage"] == "convert"
        assert failed["reason"]

        site.write("new.md", "Found only when somebody asks.\n")
        assert site.run("source", "refresh", "docs").returncode == 0
        daemon.wait_counts(failed=1, indexed=1)

        assert site.run("failed", "retry", str(broken)).returncode == 0
        wait_until(
            lambda: daemon.metric("haiku_ingester_outcomes_total.*failed.*") == 2, "second failure"
        )
        assert daemon.stop() == 0


def test_suspended_deletions_are_carried_out_when_confirmed(site: Site) -> None:
    for number in range(30):
        site.write(f"{number}.md", f"Note {number}.\n")
    with site.start() as daemon:
        daemon.wait_counts(indexed=30)
        for number in range(28):
            (site.docs / f"{number}.md").unlink()
        site.run("source", "refresh", "docs")
        wait_until(
            lambda: daemon.metric("haiku_ingester_deletes_suspended") == 1, "suspended deletions"
        )
        assert daemon.get("/health").json()["status"] == "degraded"
        assert len(site.documents()) >= 11
        assert site.run("source", "confirm-deletes", "docs").returncode == 0
        daemon.wait_counts(indexed=2)
        wait_until(lambda: len(site.documents()) == 2, "the deletions")
        assert daemon.metric("haiku_ingester_deletes_suspended") == 0
        assert daemon.stop() == 0


def test_lost_databases_are_made_again(site: Site) -> None:
    site.write("note.md", "Something worth keeping.\n")
    with site.start() as daemon:
        daemon.wait_counts(indexed=1)
        assert daemon.stop() == 0
    document = site.documents()[0]

    state = site.root / "test.ingester"
    for file in state.glob("items.sqlite*"):
        file.unlink()
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=1)
        assert daemon.metric("haiku_ingester_stage_seconds_count.*convert") == 0
        assert daemon.stop() == 0
    assert site.documents()[0] == document

    site.database.rename(site.root / "elsewhere")
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=1)
        assert daemon.stop() == 0
    assert site.documents()[0].uri == document.uri


def _states(site: Site) -> Counter[str]:
    found: Counter[str] = Counter()
    if not (site.root / "test.ingester" / "items.sqlite").exists():
        return found
    for source in site.json("status")["sources"]:
        found.update(source["items"])
    return found


def _attempts(site: Site) -> set[int]:
    return {item["attempts"] for item in site.json("items", "--state", "pending")}


def _working(site: Site, name: str) -> bool:
    file = site.root / "test.ingester" / "items.sqlite"
    if not file.exists():
        return False
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        try:
            rows = connection.execute(
                "SELECT 1 FROM items WHERE state = 'working' AND uri LIKE ?", (f"%/{name}",)
            ).fetchall()
        except sqlite3.OperationalError:
            return False
    return bool(rows)
