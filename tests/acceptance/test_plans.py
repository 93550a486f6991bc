"""`run-batch --dry-run` and `--plan`: said first, then done exactly so."""

import hashlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.daemon import Site

#: Starting a process takes seconds on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def planned(site: Site, *, code: int = 0) -> dict[str, Any]:
    done = site.run("run-batch", "--dry-run", "--json", "--plan", str(site.root / "plan.json"))
    assert done.returncode == code, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    assert plan == json.loads((site.root / "plan.json").read_text())
    return plan


def replayed(site: Site, *, code: int = 0) -> dict[str, Any]:
    done = site.run("run-batch", "--json", "--plan", str(site.root / "plan.json"))
    assert done.returncode == code, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def changes(plan: dict[str, Any]) -> dict[str, str]:
    return {Path(entry["uri"]).name: entry["change"] for entry in plan["entries"]}


def fingerprint_of(folder: Path) -> dict[str, str]:
    """Every file of a folder and its content, but for what SQLite shares while it is open."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def names(site: Site) -> list[str]:
    return sorted(Path(document.uri).name for document in site.documents())


def test_a_plan_of_an_empty_place_creates_nothing_and_is_done_exactly(site: Site) -> None:
    site.write("a.md", "# Anchor\n\nHeld by a chain.\n")
    site.write("b.txt", "Buoys are red and green.\n")
    before = sorted(path.name for path in site.root.iterdir())
    plan = planned(site)
    assert changes(plan) == {"a.md": "new", "b.txt": "new"}
    assert all(entry["cost"]["chunks"] >= 1 for entry in plan["entries"])
    assert all(entry["cost"]["seconds"] > 0 for entry in plan["entries"])
    assert sorted(path.name for path in site.root.iterdir()) == [*before, "plan.json"]

    site.write("later.md", "Came after the plan.\n")
    result = replayed(site)
    assert (result["succeeded"], result["done"]) == (True, 2)
    assert names(site) == ["a.md", "b.txt"]

    result = replayed(site, code=1)
    assert (result["done"], len(result["left_out"])) == (0, 2)
    assert "it is indexed already" in json.dumps(result["left_out"])
    assert names(site) == ["a.md", "b.txt"]


def test_every_kind_of_change_is_planned_and_what_moved_on_is_left_out(site: Site) -> None:
    for name in ("changed", "touched", "moved", "gone", "again", "same", "lost"):
        site.write(f"{name}.md", f"# {name}\n\nThe text of {name}.\n")
    assert site.run("run-batch").returncode == 0
    kept = {Path(document.uri).name: document.id for document in site.documents()}
    rest = fingerprint_of(site.root)

    site.write("changed.md", "# changed\n\nOther words now.\n")
    site.write("again.md", "# again\n\nChanged once.\n")
    shutil.copy(site.docs / "touched.md", site.docs / "copy")
    (site.docs / "copy").replace(site.docs / "touched.md")
    (site.docs / "moved.md").rename(site.docs / "elsewhere.md")
    (site.docs / "gone.md").unlink()
    (site.docs / "lost.md").unlink()
    plan = planned(site)
    assert changes(plan) == {
        "changed.md": "changed",
        "again.md": "changed",
        "touched.md": "touched",
        "elsewhere.md": "moved",
        "gone.md": "gone",
        "lost.md": "gone",
    }
    now = fingerprint_of(site.root)
    assert {n for n in now if now[n] != rest.get(n)} == {
        "docs/changed.md",
        "docs/again.md",
        "docs/elsewhere.md",
        "plan.json",
    }

    site.write("again.md", "# again\n\nChanged twice.\n")
    site.write("lost.md", "# lost\n\nFound.\n")
    result = replayed(site, code=1)
    left = {Path(one["uri"]).name: one["reason"] for one in result["left_out"]}
    assert left == {
        "again.md": "it has changed since the plan was made",
        "lost.md": "it is there again",
    }
    assert result["done"] == 4
    found = {Path(document.uri).name: document.id for document in site.documents()}
    assert set(found) == {
        "changed.md",
        "again.md",
        "touched.md",
        "elsewhere.md",
        "same.md",
        "lost.md",
    }
    assert found["elsewhere.md"] == kept["moved.md"]
    assert "Other words" in site.search("other words")[0].content
    assert not site.search("twice")


def test_a_plan_that_does_not_fit_is_refused(site: Site) -> None:
    site.write("a.md", "A note.\n")
    file = site.root / "plan.json"
    said = site.run("run-batch", "--dry-run", "--plan", str(file)).stderr
    (doing,) = [line.partition("do it with: ")[2] for line in said.splitlines() if "do it" in line]
    assert shlex.split(doing)[:4] == ["haiku-ingester", "run-batch", "--plan", str(file)]
    assert {"--config", "--db"} & set(shlex.split(doing))
    good = json.loads(file.read_text())
    for change, message in [
        ({"database": "/elsewhere.lancedb"}, "not for"),
        ({"fingerprint": "0" * 16}, "another configuration or version"),
        ({"version": 2}, "version"),
        ({"entries": [{**good["entries"][0], "source": "nosuch"}]}, "nosuch"),
    ]:
        file.write_text(json.dumps({**good, **change}))
        done = site.run("run-batch", "--plan", str(file))
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
    file.write_text("{")
    assert "no plan of version 1" in site.run("run-batch", "--plan", str(file)).stderr
    file.unlink()
    assert "cannot be read" in site.run("run-batch", "--plan", str(file)).stderr
