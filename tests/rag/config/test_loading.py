"""Files, environment, interpolation: what wins, and what is refused with which words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag.config import AppConfig, database_path, dump_config, find_config_file, load_config
from haiku.rag.config.models import ResearchConfig
from haiku.rag.exceptions import ConfigError


@pytest.fixture
def config_file(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "conf.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_defaults_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_config_path", lambda *_: tmp_path / "none")
    config = load_config(environ={})
    assert config == AppConfig()
    assert config.search.max_context_chars == 5000
    assert config.processing.chunker_type == "hybrid"
    assert config.qa.model.vision is False


def test_order_of_files(tmp_path, monkeypatch, config_file):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_config_path", lambda *_: home)
    assert find_config_file() is None
    (home / "haiku.rag.yaml").write_text("search: {limit: 1}")
    assert load_config(environ={}).search.limit == 1
    (tmp_path / "haiku.rag.yaml").write_text("search: {limit: 2}")
    assert load_config(environ={}).search.limit == 2
    assert load_config(config_file("search: {limit: 3}"), environ={}).search.limit == 3
    assert load_config(environ={"HAIKU_RAG__SEARCH__LIMIT": "4"}).search.limit == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serch: {}", "serch: unknown key"),
        ("search: {limt: 3}", "search.limt: unknown key"),
        ("embeddings: {model: {nme: x}}", "embeddings.model.nme: unknown key"),
        ("search: {limit: none}", "search.limit"),
        ("search: {limit: 0}", "search.limit"),
        ("- a list", "mapping"),
        ("a: [", "YAML"),
        ("qa: {model: {api_key: '${NOT_SET}'}}", "qa.model.api_key uses ${NOT_SET}"),
    ],
)
def test_refused_with_the_path(config_file, text, words):
    path = config_file(text)
    with pytest.raises(ConfigError, match=r"conf\.yaml") as caught:
        load_config(path, environ={})
    assert words in str(caught.value)


def test_a_wrong_secret_is_not_repeated(config_file):
    with pytest.raises(ConfigError) as caught:
        load_config(config_file("qa: {model: {api_key: [hunter2]}}"), environ={})
    assert "hunter2" not in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load_config(tmp_path / "absent.yaml")


@pytest.mark.parametrize("name", ["HAIKU_RAG__SERCH__LIMIT", "HAIKU_RAG__SEARCH__LIMT"])
def test_unknown_override_is_refused(name):
    with pytest.raises(ConfigError, match=r"(?i)serch|search\.limt"):
        load_config(environ={name: "3"})


def test_haiku_rag_db_is_not_an_override(tmp_path):
    environ = {"HAIKU_RAG_DB": str(tmp_path / "x.lancedb")}
    assert load_config(environ=environ) == AppConfig()


def test_interpolation(config_file):
    path = config_file(
        "prompts: {domain_preamble: 'cost $$5, ${A} ${B:-b: [c]} ${EMPTY:-full}'}\n"
        "search: {limit: '${LIMIT}'}\n"
    )
    config = load_config(path, environ={"A": "x: {y}", "LIMIT": "9", "EMPTY": ""})
    assert config.prompts.domain_preamble == "cost $5, x: {y} b: [c] full"
    assert config.search.limit == 9


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_value_never_becomes_syntax(text):
    from haiku.rag.config.loading import _interpolate

    assert _interpolate({"k": "${V}"}, {"V": text or "x"}, "f") == {"k": text or "x"}
    assert _interpolate(text.replace("$", "$$"), {}, "f") == text


def test_secrets_are_hidden(config_file):
    config = load_config(config_file("embeddings: {model: {api_key: s3cret}}"), environ={})
    assert "s3cret" not in repr(config)
    assert "s3cret" not in str(dump_config(config))
    key = config.embeddings.model.api_key
    assert key is not None
    assert key.get_secret_value() == "s3cret"


def test_secrets_of_the_daemon_and_in_addresses_are_hidden():
    source = {"id": "s3", "secret_access_key": "s3cret", "token": "s3cret", "endpoint": None}
    config = AppConfig.model_validate(
        {
            "ingester": {"sources": [source], "items": "postgresql://me:s3cret@host/db"},
            "embeddings": {"model": {"base_url": "https://me:s3cret@host/v1"}},
        }
    )
    shown = dump_config(config)
    assert "s3cret" not in str(shown)
    assert shown["ingester"]["items"] == "postgresql://me:**********@host/db"
    assert shown["ingester"]["sources"][0]["id"] == "s3"
    assert shown["embeddings"]["batch"]["max_tokens"] == 64_000


def test_database_path_order(tmp_path):
    config = AppConfig.model_validate({"storage": {"data_dir": tmp_path / "data"}})
    environ = {"HAIKU_RAG_DB": str(tmp_path / "env.lancedb")}
    assert database_path(config, tmp_path / "a", environ=environ) == str(tmp_path / "a")
    assert database_path(config, None, environ=environ) == str(tmp_path / "env.lancedb")
    assert database_path(config, None, environ={}) == str(tmp_path / "data/haiku.rag.lancedb")


def test_relative_path_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert database_path(AppConfig(), "my.lancedb", environ={}) == str(tmp_path / "my.lancedb")
    assert database_path(AppConfig(), "s3://bucket/x", environ={}) == "s3://bucket/x"


def test_research_flat_and_nested_are_one():
    flat = ResearchConfig(provider="openai", model="gpt-4o-mini", max_iterations=5)
    nested = ResearchConfig(model={"provider": "openai", "name": "gpt-4o-mini"}, max_iterations=5)
    assert flat == nested
    assert flat.model is not None
    assert (flat.model.provider, flat.model.name) == ("openai", "gpt-4o-mini")


def test_lazy_config_is_an_app_config():
    import haiku.rag.config as room

    assert isinstance(room.Config, AppConfig)
    assert room.Config is room.Config
