"""Plans as files: what was written is read again, and what was never written is refused."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from haiku.ingester.exceptions import PlanRefused
from haiku.ingester.plans.model import Cost, Entry, Plan, read_plan, write_plan

A = Entry(
    source="docs",
    uri="file:///docs/a.md",
    change="new",
    mark="m",
    size=3,
    moved_from=None,
    cost=Cost(chunks=1, seconds=0.5),
)
MOVED = A.model_copy(update={"uri": "file:///b.md", "change": "moved", "moved_from": "file:///c"})
PLAN = Plan(
    version=1,
    made_at=datetime(2026, 1, 31, tzinfo=UTC),
    database="/x.lancedb",
    fingerprint="f",
    problems={"more": "not there"},
    entries=[A, MOVED],
)


def changed(plan: Any, path: str, value: Any) -> Any:
    """The plan with something else at a place such as `entries.0.size`; ...: with nothing."""
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inside = plan
    for part in way:
        inside = inside[part]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return plan


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    write_plan(PLAN, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == PLAN


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((key, ...) for key in Plan.model_fields),
        *((f"entries.0.{key}", ...) for key in Entry.model_fields),
        ("version", 2),
        ("made_at", "2026-01-31T00:00:00"),
        ("database", ""),
        ("entries.0.uri", ""),
        ("entries.0.change", "unfinished"),
        ("entries.0.size", -1),
        ("entries.0.size", 2**63),
        ("entries.0.cost.chunks", -1),
        ("entries.0.cost.pages", 10**30),
        ("entries.0.cost.seconds", -0.1),
        ("entries.0.cost.seconds", float("nan")),
        ("entries.0.cost.seconds", float("inf")),
        ("entries.0.moved_from", "file:///c"),
        ("entries.1.moved_from", None),
        ("entries.0.more", 1),
    ],
)
def test_what_no_plan_has_is_refused(tmp_path: Path, path: str, value: Any) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(PLAN.model_dump(mode="json"), path, value)))
    with pytest.raises(PlanRefused, match="no plan of version 1") as refused:
        read_plan(file)
    assert path.split(".")[0] in str(refused.value)


@pytest.mark.parametrize(
    "entries",
    [
        [A, MOVED, A],
        [A, A.model_copy(update={"change": "changed"})],
        [MOVED, MOVED.model_copy(update={"uri": "file:///d.md"})],
    ],
)
def test_an_item_is_in_a_plan_once(tmp_path: Path, entries: list[Entry]) -> None:
    plan = PLAN.model_dump(mode="json") | {"entries": [e.model_dump() for e in entries]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(PlanRefused, match="of docs is there more than once"):
        read_plan(tmp_path / "plan.json")


def test_two_sources_may_have_the_same_file(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"entries": [A, A.model_copy(update={"source": "more"})]})
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_a_file_that_cannot_be_read_is_named_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(PlanRefused, match=r"missing\.json cannot be read: No such file") as refused:
        read_plan(tmp_path / "missing.json")
    assert "Errno" not in str(refused.value)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanRefused, match="no text in UTF-8"):
        read_plan(tmp_path / "bytes.json")
