"""vacuum: what it says to people and to programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from haiku.rag.cli import upkeep
from haiku.rag.exceptions import ConfigError
from haiku.rag.store import cleaning

HANDBOOK = "file:///docs/staff%20handbook.md"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead need not wait."""
    monkeypatch.setenv("HAIKU_RAG__STORAGE__COLLECT_AFTER", "0.01")


def test_what_has_to_wait_is_said_with_its_time(run: Any, database: Any) -> None:
    run("delete", HANDBOOK, "--db", database)
    done = run("vacuum", "--history", "0", "--db", database)
    assert done.exit_code == 0, done.stderr
    assert re.search(r"1 revision can be collected in (2 min|1 min \d+ s)", done.stderr)


def test_a_vacuum_reports_in_figures(run: Any, database: Any, quick: None) -> None:
    run("delete", HANDBOOK, "--db", database)
    for _ in range(3):
        done = run("vacuum", "--history", "0", "--db", database, "--json")
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
    assert report["waiting_revisions"] == 0
    assert report["errors"] == []
    assert report["bytes_after"] <= report["bytes_before"]
    shown = run("vacuum", "--db", database)
    assert shown.exit_code == 0
    assert re.search(r"on disk +[\d.,]+ MB → [\d.,]+ MB", shown.stdout)
    found = json.loads(run("search", "kettle", "--type", "fts", "--db", database, "--json").stdout)
    assert found[0]["document_title"] == "O'Brien"


def test_failures_end_in_exit_code_1(
    run: Any, database: Any, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("No space left on device")

    run("vacuum", "--db", database)
    monkeypatch.setattr(cleaning, "clean", fail)
    done = run("vacuum", "--db", database)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("1.5h", 5400), ("30m", 1800), ("7d", 604_800), (" 2 W ", 1_209_600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert upkeep.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1", "1y", "1d2h", "nan", "١"])
def test_what_is_no_duration_is_refused(run: Any, database: Any, text: str) -> None:
    with pytest.raises(ConfigError, match="duration"):
        upkeep.duration(text)
    assert run("vacuum", f"--history={text}", "--db", database).exit_code == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (100, "1 min 40 s"), (3600, "1 h"), (3725.4, "1 h 2 min 5 s")]
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert upkeep.spoken(seconds) == text
