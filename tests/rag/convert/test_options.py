"""Options and the version that the fingerprint hashes."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from haiku.rag.config.models import ProcessingConfig
from haiku.rag.convert import ConvertOptions, models, pipeline_version, settle
from haiku.rag.exceptions import ConfigError


@pytest.fixture
def installed(monkeypatch):
    """Pretend which distributions are installed."""

    def pretend(**versions: str) -> None:
        monkeypatch.setattr(models, "version", lambda name: versions.get(name.replace("-", "_")))

    return pretend


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Pretend which of Docling's models are in its folder."""
    monkeypatch.setenv("DOCLING_ARTIFACTS_PATH", str(tmp_path))

    def pretend(*names: str) -> None:
        for name in names:
            path = tmp_path / models.NEEDED[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    return pretend


def test_the_full_pipeline_needs_its_extra(installed):
    installed(docling_slim="1")
    config = ProcessingConfig(pdf_pipeline="docling")
    for call in (settle, pipeline_version):
        with pytest.raises(ConfigError, match=r"haiku-rag-core\[models\]"):
            call(config)


def test_the_full_pipeline_needs_its_models(installed, fetched, tmp_path):
    installed(docling="2")
    fetched("layout")
    with pytest.raises(ConfigError) as caught:
        settle(ProcessingConfig(pdf_pipeline="docling"))
    command = f"docling-tools models download tableformer rapidocr -o {tmp_path}"
    assert command in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "there", "runs"),
    [
        ("auto", True, "docling"),
        ("auto", False, "native"),
        ("native", True, "native"),
        ("docling", True, "docling"),
    ],
)
def test_what_runs_is_what_the_version_says(installed, fetched, asked, there, runs):
    installed(**({"docling": "2"} if there else {}))
    fetched(*models.NEEDED)
    config = ProcessingConfig(pdf_pipeline=asked)
    assert ConvertOptions.from_config(config).pdf_pipeline == runs
    assert settle(config).pdf_pipeline == runs
    assert f"pdf={runs};" in pipeline_version(config)


def test_auto_without_models_is_native_and_says_so_once(installed, fetched, caplog):
    fetched("layout", "rapidocr")
    installed()
    with caplog.at_level(logging.WARNING):
        assert settle(ProcessingConfig()).pdf_pipeline == "native"
        assert caplog.messages == []  # who never asked for models need not hear of them
        installed(docling="2")
        settled = settle(ProcessingConfig())
        assert settle(settled).pdf_pipeline == "native"
    (said,) = caplog.messages
    assert "tableformer" in said
    assert "layout," not in said


def test_models_that_go_later_change_nothing_that_was_settled(installed, fetched):
    installed(docling="2")
    fetched(*models.NEEDED)
    settled = settle(ProcessingConfig())
    installed()
    assert ConvertOptions.from_config(settled).pdf_pipeline == "docling"


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, "~/.cache/docling/models"),
        ({"DOCLING_CACHE_DIR": "/var/cache/docling"}, "/var/cache/docling/models"),
        ({"DOCLING_CACHE_DIR": "/a", "DOCLING_ARTIFACTS_PATH": "~/weights"}, "~/weights"),
    ],
)
def test_where_models_are_looked_for(monkeypatch, variables, place):
    for name in ("DOCLING_CACHE_DIR", "DOCLING_ARTIFACTS_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert models.folder() == Path(place).expanduser()


def test_versions_change_the_version(installed):
    installed(docling_parse="7.1")
    before = pipeline_version(ProcessingConfig())
    installed(docling_parse="7.2")
    assert pipeline_version(ProcessingConfig()) != before
    assert pipeline_version(ProcessingConfig()) == pipeline_version(ProcessingConfig(workers=3))


def test_nothing_heavy_is_imported_outside_workers():
    code = (
        "import sys, haiku.rag.convert.pool, haiku.rag.convert.sniff, haiku.rag.convert as c;"
        "from haiku.rag.config.models import ProcessingConfig as P; c.pipeline_version(P());"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " ('docling', 'docling_core', 'pandas', 'numpy', 'pyarrow', 'lxml')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
