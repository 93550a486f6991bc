"""list, get, search, info: what they print and how they end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

#: What a terminal obeys; none of it may come out of a document.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

#: A search that needs no model.
SEARCH = ("search", "holiday", "--type", "fts")


def test_list_shows_every_document(run: Any, built: Any) -> None:
    found = run("list", "--db", built)
    assert found.exit_code == 0
    assert "Staff handbook" in found.stdout
    assert "/docs/staff handbook.md" in found.stdout
    assert len(found.stdout.splitlines()) == 4


def test_list_as_json(run: Any, built: Any) -> None:
    found = json.loads(run("list", "--db", built, "--json").stdout)
    assert found["total"] == 3
    assert {d["uri"] for d in found["documents"]} >= {"file:///docs/O'Brien.md"}
    assert "content" not in found["documents"][0]


def test_list_pages_and_says_that_there_is_more(run: Any, built: Any) -> None:
    pages = [
        json.loads(run("list", "--db", built, "--json", "--limit", 2, "--offset", at).stdout)
        for at in (0, 2)
    ]
    ids = [d["id"] for page in pages for d in page["documents"]]
    assert len(set(ids)) == 3
    assert "2 of 3 documents" in run("list", "--db", built, "--limit", 2).stderr


@pytest.mark.parametrize(("option", "count"), [("--offset", 0), ("--limit", 3)])
def test_list_takes_any_number(run: Any, built: Any, option: str, count: int) -> None:
    found = run("list", "--db", built, "--json", option, 10**30)
    assert found.exit_code == 0
    assert len(json.loads(found.stdout)["documents"]) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [("uri = 'file:///docs/O''Brien.md'", 1), ("title LIKE '%handbook'", 1), ("", 3)],
)
def test_list_filters(run: Any, built: Any, expression: str, count: int) -> None:
    found = run("list", "--db", built, "--json", "--filter", expression)
    assert json.loads(found.stdout)["total"] == count


@pytest.mark.parametrize("command", [["list"], ["search", "holiday"]])
def test_a_wrong_filter_is_wrong_usage(run: Any, built: Any, command: list[str]) -> None:
    found = run(*command, "--db", built, "--filter", "x' OR 1=1 --")
    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith("haiku-rag: the filter is wrong at position 1")
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["file:///docs/O'Brien.md", "/docs/O'Brien.md"])
def test_get_by_uri_and_path(run: Any, built: Any, name: str) -> None:
    found = run("get", name, "--db", built)
    assert found.exit_code == 0
    assert "# Kitchen" in found.stdout
    assert "The kettle" in found.stdout


def test_get_by_id_as_json_gives_the_very_text(run: Any, built: Any) -> None:
    some = run("list", "--db", built, "--json", "--filter", "uri LIKE 'https%'")
    listed = json.loads(some.stdout)
    found = run("get", listed["documents"][0]["id"], "--db", built, "--json")
    document = json.loads(found.stdout)
    assert "\x1b]0;owned\x07" in document["content"]
    assert document["title"].startswith("\x1b[31mred\x07")
    assert document["metadata"] == {"page": 5}
    assert not OBEYED.search(found.stdout)


def test_get_what_is_not_there(run: Any, built: Any) -> None:
    found = run("get", "nothing", "--db", built)
    assert (found.exit_code, found.stdout) == (3, "")
    assert "no document has the id, URI or path 'nothing'" in found.stderr


def test_search_prints_what_a_person_wants_to_know(run: Any, built: Any) -> None:
    found = run("search", "how many days off", "--db", built, "--limit", 1)
    assert found.exit_code == 0
    first, where, headings, text = found.stdout.splitlines()[:4]
    assert re.fullmatch(r"1\. Staff handbook  0\.\d{4}", first)
    assert where.strip() == "/docs/staff handbook.md  p. 3"
    assert headings.strip() == "Holidays › Allowance"
    assert text.strip() == "Employees may take thirty days of paid holiday a year."


@pytest.mark.parametrize("kind", ["hybrid", "vector", "fts"])
def test_search_as_json(run: Any, built: Any, kind: str) -> None:
    found = run("search", "kettle descaled", "--db", built, "--type", kind, "--json")
    hits = json.loads(found.stdout)
    assert hits[0]["document_title"] == "O'Brien"
    assert hits[0]["page_numbers"] == [4]
    assert [hit["score"] for hit in hits] == sorted((h["score"] for h in hits), reverse=True)


def test_search_expands_when_asked(run: Any, built: Any) -> None:
    plain = json.loads(run(*SEARCH, "--db", built, "--json").stdout)[0]
    whole = json.loads(run(*SEARCH, "--db", built, "--json", "--expand").stdout)[0]
    assert "It goes on here" not in plain["content"]
    assert whole["content"].startswith("# Holidays")
    assert whole["content"].endswith("It goes on here.")
    assert "It goes on here." in run(*SEARCH, "--db", built, "--expand").stdout


def test_search_filters(run: Any, built: Any) -> None:
    found = run(
        "search",
        "holiday kettle",
        "--type",
        "fts",
        "--db",
        built,
        "--json",
        "--filter",
        "title = 'O''Brien'",
    )
    assert [hit["document_title"] for hit in json.loads(found.stdout)] == ["O'Brien"]


@pytest.mark.parametrize("query", ['a:b (c "d {0} OR NOT *', "\x00\ud800", "采购订单", "-- x"])
def test_any_query_is_answered(run: Any, built: Any, query: str) -> None:
    found = run("search", "--db", built, "--json", "--type", "fts", "--", query)
    assert found.exit_code == 0
    assert isinstance(json.loads(found.stdout), list)


def test_nothing_found_is_said_on_standard_error(run: Any, built: Any) -> None:
    found = run("search", "zzqqy", "--type", "fts", "--db", built)
    assert (found.exit_code, found.stdout) == (0, "")
    assert "nothing found" in found.stderr


def test_an_empty_database_is_said_to_be_empty(run: Any, tmp_path: Any) -> None:
    run("init", "--db", tmp_path / "new.lancedb")
    result = run("search", "anything", "--db", tmp_path / "new.lancedb")
    assert result.exit_code == 0
    assert result.stderr == "the database has no documents yet\n"
    assert result.stdout == ""


def test_an_empty_query_is_a_mistake(run: Any, built: Any) -> None:
    found = run("search", "  ", "--db", built)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "query is empty" in found.stderr


@pytest.mark.parametrize(
    "command",
    [["list"], ["get", "https://example.org/a"], ["search", "figures", "--type", "fts"]],
)
def test_documents_cannot_steer_the_terminal_or_the_markup(
    run: Any, built: Any, command: list[str]
) -> None:
    found = run(*command, "--db", built)
    assert found.exit_code == 0
    assert not OBEYED.search(found.stdout)
    assert r"\x1b[31mred\x07 [bold]loud[/bold] :smile: \u202egpj.exe" in found.stdout
    if command[0] != "list":
        assert "[link=http://x]click[/link]" in found.stdout


def test_info(run: Any, built: Any) -> None:
    found = run("info", "--db", built)
    assert found.exit_code == 0
    assert str(built) in found.stdout
    assert re.search(r"documents +3\b", found.stdout)
    data = json.loads(run("info", "--db", built, "--json").stdout)
    assert data["documents"] == 3
    assert data["identity"]["dim"] == 384


@pytest.mark.parametrize(
    "command", [["list"], ["info"], ["get", "x"], ["search", "x"], ["delete", "x"], ["add", "x"]]
)
def test_no_database_is_said_and_none_is_made(run: Any, tmp_path: Any, command: list[str]) -> None:
    """F47: neither readers nor writers make a database, or the folders on the way."""
    path = tmp_path / "missing" / "x.lancedb"
    found = run(*command, "--db", path)
    assert found.exit_code == 3
    assert found.stdout == ""
    assert str(path) in found.stderr
    assert "haiku-rag init" in found.stderr
    assert not path.parent.exists()


def test_reading_changes_nothing(run: Any, database: Any) -> None:
    def files() -> dict[str, tuple[int, int]]:
        found = (p for p in database.rglob("*") if p.is_file())
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in found}

    before = files()
    for command in (["list"], ["info"], ["get", "/docs/O'Brien.md"], ["search", "x", "--expand"]):
        assert run(*command, "--db", database, "--read-only").exit_code == 0
    assert files() == before


def test_the_database_may_come_from_the_environment(
    run: Any, built: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAIKU_RAG_DB", str(built))
    assert run("list").exit_code == 0
