"""add, add-src, delete: what they store, what they report, how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from haiku.rag.uris import path_to_uri

if TYPE_CHECKING:
    from pathlib import Path


def test_add_standard_input_and_find_it(run: Any, database: Path) -> None:
    text = "\ufeff# Rules\n\nThe gate closes at nine, naïve زیرزمین".encode() + b"\xff end"
    options = ("--uri", "note:1", "--title", "Gate", "--meta", "by=me", "--meta", "a=b=c")
    made = run("add", "-", "--db", database, "--json", *options, input=text)
    assert made.exit_code == 0
    document = json.loads(made.stdout)
    assert (document["uri"], document["title"]) == ("note:1", "Gate")
    assert document["metadata"] == {"by": "me", "a": "b=c"}
    found = run("search", "gate closes", "--type", "fts", "--db", database, "--json")
    assert json.loads(found.stdout)[0]["document_id"] == document["id"]
    content = json.loads(run("get", "note:1", "--db", database, "--json").stdout)["content"]
    assert content.startswith("# Rules")
    assert "naïve زیرزمین\ufffd end" in content


@pytest.mark.parametrize(
    "arguments",
    [["add", "x", "--meta", "novalue"], ["add", "x", "--format", "pdf"], ["add"], ["add-src"]],
)
def test_wrong_usage(run: Any, database: Path, arguments: list[str]) -> None:
    assert run(*arguments, "--db", database).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["add", "x"], ["add-src", "."], ["delete", "/docs/O'Brien.md"]]
)
def test_read_only_refuses(run: Any, database: Path, arguments: list[str]) -> None:
    found = run(*arguments, "--db", database, "--read-only")
    assert found.exit_code == 1
    assert "read-only" in found.stderr
    assert json.loads(run("list", "--db", database, "--json").stdout)["total"] == 3


def test_every_file_of_a_folder_is_tried(run: Any, database: Path, tmp_path: Path) -> None:
    """F65: five good files, a corrupt one, five good ones, an empty one."""
    folder = tmp_path / "in box"
    (folder / "deep").mkdir(parents=True)
    for name in "abcdefghij":
        (folder / ("deep" if name < "d" else "") / f"{name}.md").write_text(
            f"# {name}\n\nword{name}"
        )
    (folder / "ee-broken.docx").write_bytes(b"PK\x03\x04 this is no docx")
    (folder / "nothing.txt").write_bytes(b"")
    first = run("add-src", folder, "https+nonsense://x", "--db", database)
    assert first.exit_code == 1
    assert first.stdout.splitlines()[0] == "10 stored, 1 empty, 2 failed"
    broken = next(line for line in first.stdout.splitlines() if "ee-broken.docx" in line)
    assert str(folder / "ee-broken.docx") in broken
    assert "corrupt" in broken
    assert "https+nonsense" in first.stdout
    again = json.loads(run("add-src", folder, "--db", database, "--json").stdout)
    assert (again["stored"], again["unchanged"], again["failed"]) == (0, 10, 1)
    states = {entry["uri"]: entry for entry in again["results"]}
    assert states[path_to_uri(folder / "ee-broken.docx")]["error"]["code"] == "corrupt"
    assert states[path_to_uri(folder / "nothing.txt")]["state"] == "empty"
    listed = run("list", "--db", database, "--json", "--filter", "uri LIKE '%in\\%20box%'")
    assert json.loads(listed.stdout)["total"] == 11
    one = run("add-src", folder / "j.md", "--title", "T", "--meta", "k=v", "--db", database)
    assert one.exit_code == 0
    found = json.loads(run("get", folder / "j.md", "--db", database, "--json").stdout)
    assert (found["title"], found["metadata"]) == ("T", {"k": "v"})


def test_a_title_is_for_one_file(run: Any, database: Path, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"text of {name}")
    found = run("add-src", "a.md", "b.md", "--title", "T", "--db", database)
    assert found.exit_code == 2
    assert "--title" in found.stderr


def test_a_missing_source_fails_and_is_named(run: Any, database: Path) -> None:
    found = run("add-src", "nowhere.md", "--db", database)
    assert found.exit_code == 1
    assert "1 failed" in found.stdout
    assert "nowhere.md" in found.stdout
    assert "unreadable" in found.stdout


def test_an_empty_folder_is_nothing_to_do(run: Any, database: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = run("add-src", "empty", "--db", database)
    assert (found.exit_code, found.stdout.strip()) == (0, "no files found")


def test_deleting_what_is_not_there_prints_no_table(run: Any, database: Path) -> None:
    found = run("delete", "nope", "--db", database)
    assert found.exit_code == 3
    assert found.stdout == ""
    assert "'nope'" in found.stderr


@pytest.mark.parametrize("name", ["delete", "rm"])
def test_delete_by_path_and_say_what_was_not_there(run: Any, database: Path, name: str) -> None:
    found = run(name, "/docs/O'Brien.md", "x' OR 1=1 --", "--db", database, "--json")
    assert found.exit_code == 3
    report = json.loads(found.stdout)
    assert len(report["deleted"]) == 1
    assert report["not_found"] == ["x' OR 1=1 --"]
    assert json.loads(run("list", "--db", database, "--json").stdout)["total"] == 2
    assert run(name, "https://example.org/a", "--db", database).exit_code == 0
