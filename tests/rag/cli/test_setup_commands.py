"""init, init-config, settings: the database and the configuration as such."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from haiku.rag.config import AppConfig, load_config

if TYPE_CHECKING:
    from pathlib import Path


def test_init_makes_a_database_once(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "some folder" / "new.lancedb"
    made = run("init", "--db", path)
    assert made.exit_code == 0
    assert str(path) in made.stdout
    assert json.loads(run("list", "--db", path, "--json").stdout)["total"] == 0
    again = run("init", "--db", path)
    assert (again.exit_code, again.stdout) == (4, "")
    assert "already" in again.stderr
    assert run("search", "anything", "--db", path).exit_code == 0


def test_init_as_json(run: Any, tmp_path: Path) -> None:
    made = json.loads(run("init", "--db", tmp_path / "x.lancedb", "--json").stdout)
    assert made["path"] == str(tmp_path / "x.lancedb")


def test_another_embedder_is_wrong_usage(run: Any, built: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "embeddings: {model: {provider: ollama, name: other, vector_dim: 5}}"
    )
    found = run("list", "--db", built, "--config", tmp_path / "c.yaml")
    assert found.exit_code == 2
    assert "other" in found.stderr


def test_init_config_writes_defaults_and_never_overwrites(run: Any, tmp_path: Path) -> None:
    assert run("init-config").exit_code == 0
    file = tmp_path / "haiku.rag.yaml"
    assert load_config(file, environ={}) == AppConfig()
    assert "# " in file.read_text()
    file.write_text("search: {limit: 9}")
    again = run("init-config")
    assert again.exit_code == 4
    assert "already there" in again.stderr
    assert file.read_text() == "search: {limit: 9}"


def test_init_config_elsewhere_or_to_the_screen(run: Any, tmp_path: Path) -> None:
    assert run("init-config", tmp_path / "own.yaml").exit_code == 0
    printed = run("init-config", "-")
    assert printed.stdout == (tmp_path / "own.yaml").read_text()
    failed = run("init-config", tmp_path / "no" / "folder.yaml")
    assert failed.exit_code == 1
    assert "folder.yaml" in failed.stderr


def test_settings_show_what_is_in_effect_and_from_where(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "haiku.rag.yaml").write_text("search: {limit: 7}\nqa: {model: {api_key: s3cret}}")
    monkeypatch.setenv("HAIKU_RAG__SEARCH__MAX_CONTEXT_CHARS", "123")
    found = run("settings")
    assert found.exit_code == 0
    assert f"# file: {tmp_path / 'haiku.rag.yaml'}" in found.stdout
    assert "HAIKU_RAG__SEARCH__MAX_CONTEXT_CHARS" in found.stdout
    assert yaml.safe_load(found.stdout)["search"] == {"limit": 7, "max_context_chars": 123}
    data = json.loads(run("settings", "--json", "--db", "x.lancedb").stdout)
    assert data["file"] == str(tmp_path / "haiku.rag.yaml")
    assert data["database"] == str(tmp_path / "x.lancedb")
    assert "s3cret" not in found.stdout + json.dumps(data)
    assert data["settings"]["qa"]["model"]["api_key"] == "**********"


def test_settings_without_a_file(run: Any) -> None:
    assert "none; these are the defaults" in run("settings").stdout
    assert json.loads(run("settings", "--json").stdout)["file"] is None


@pytest.mark.parametrize("text", ["search: {limitt: 7}", "a: [", "- x"])
def test_a_wrong_configuration_is_wrong_usage(run: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    found = run("settings", "--config", tmp_path / "c.yaml")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "c.yaml" in found.stderr
    assert run("settings", "--config", tmp_path / "none.yaml").exit_code == 2
