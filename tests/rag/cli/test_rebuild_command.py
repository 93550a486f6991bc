"""rebuild: what it asks, what it says to people and to programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.acceptance.embedding import EmbeddingServer

from haiku.rag.cli import rebuild as room

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def wider(tmp_path: Path) -> Any:
    """A configuration of another embedder."""
    with EmbeddingServer() as server:
        config = tmp_path / "wider.yaml"
        config.write_text(json.dumps({"embeddings": server.settings()}))
        yield config


def test_a_mismatch_names_the_command_and_the_command_mends_it(
    run: Any, database: Path, wider: Path
) -> None:
    refused = run("search", "kettle", "--db", database, "--config", wider)
    assert refused.exit_code == 2
    assert f"haiku-rag rebuild --db {database}" in refused.stderr
    done = run("rebuild", "--db", database, "--config", wider)
    assert done.exit_code == 0, done.stderr
    assert "openai:scripted (16)" in done.stdout
    assert f"{database}/before-" in done.stdout
    assert "Delete that folder" in done.stderr
    found = run("search", "kettle", "--type", "fts", "--db", database, "--config", wider, "--json")
    assert json.loads(found.stdout)[0]["document_title"] == "O'Brien"
    again = run("rebuild", "--db", database, "--config", wider)
    assert again.exit_code == 0
    assert "nothing to do" in again.stdout


def test_tags_are_not_left_behind_without_a_word(run: Any, database: Path, wider: Path) -> None:
    assert run("tag", "create", "release-1", "--db", database).exit_code == 0
    refused = run("rebuild", "--db", database, "--config", wider)
    assert refused.exit_code == 2
    assert "is 1 tag (release-1)" in refused.stderr
    assert "--yes" in refused.stderr
    assert not list(database.glob("rebuilt-*"))
    done = run("rebuild", "--yes", "--db", database, "--config", wider, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["rebuilt"], report["documents"]) == (True, 3)
    assert report["tags"] == ["release-1"]
    kept = run("tag", "list", "--db", report["before"], "--json")
    assert [tag["name"] for tag in json.loads(kept.stdout)] == ["release-1"]
    place = ("--db", database, "--config", wider)
    for missed in (
        run("list", "--as-of", "release-1", *place),
        run("list", "--as-of", "2001-01-01", *place),
        run("tag", "delete", "release-1", *place),
    ):
        assert missed.exit_code == 3
        assert "rebuilt-" not in missed.stderr
        assert f"{database} was rebuilt" in missed.stderr
        assert report["before"] in missed.stderr


def test_no_database_is_made_inside_another(run: Any, database: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(database)
    for refused in (
        run("init", "--db", database / "sub"),
        run("init", "--db", tmp_path / "link" / "a" / "sub"),
        run("rebuild", "--db", database, "--to", database / "sub"),
    ):
        assert refused.exit_code == 1
        assert "inside the folder of the database" in refused.stderr
    assert not (database / "sub").exists()


@pytest.mark.parametrize("nowhere", ["", " "])
def test_an_empty_place_is_not_the_working_directory(
    run: Any, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    refused = run("rebuild", "--to", nowhere, "--db", database)
    assert refused.exit_code == 2
    assert "--to names no place" in refused.stderr
    assert not list(here.iterdir())


@pytest.mark.parametrize(("answer", "goes_on"), [(True, True), (False, False)])
async def test_a_person_is_asked(
    answer: bool, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(room.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(room.typer, "confirm", lambda *_, **__: answer)
    if goes_on:
        await room._agree(["a"])
    else:
        with pytest.raises(room.typer.Exit):
            await room._agree(["a"])
    assert "not carried over" in capsys.readouterr().err


def test_elsewhere(run: Any, database: Path, wider: Path, tmp_path: Path) -> None:
    to = tmp_path / "elsewhere.lancedb"
    done = run("rebuild", "--to", to, "--db", database, "--config", wider)
    assert done.exit_code == 0, done.stderr
    assert run("search", "kettle", "--db", database).exit_code == 0
    listed = run("list", "--db", to, "--config", wider, "--json")
    assert len(json.loads(listed.stdout)) == 3
    assert run("rebuild", "--to", to, "--db", database, "--config", wider).exit_code == 4
