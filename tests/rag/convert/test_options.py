"""Options and the version that the fingerprint hashes."""

import subprocess
import sys

import pytest

from haiku.rag.config.models import ProcessingConfig
from haiku.rag.convert import ConvertOptions, options, pipeline_version
from haiku.rag.exceptions import ConfigError


@pytest.fixture
def installed(monkeypatch):
    """Pretend which distributions are installed."""

    def pretend(**versions: str) -> None:
        monkeypatch.setattr(options, "_version", lambda name: versions.get(name.replace("-", "_")))

    return pretend


def test_the_full_pipeline_needs_its_extra(installed):
    installed(docling_slim="1")
    config = ProcessingConfig(pdf_pipeline="docling")
    for call in (ConvertOptions.from_config, pipeline_version):
        with pytest.raises(ConfigError, match=r"haiku-rag-core\[models\]"):
            call(config)


@pytest.mark.parametrize(
    ("asked", "there", "runs"),
    [
        ("auto", True, "docling"),
        ("auto", False, "native"),
        ("native", True, "native"),
        ("docling", True, "docling"),
    ],
)
def test_what_runs_is_what_the_version_says(installed, asked, there, runs):
    installed(**({"docling": "2"} if there else {}))
    config = ProcessingConfig(pdf_pipeline=asked)
    assert ConvertOptions.from_config(config).pdf_pipeline == runs
    assert f"pdf={runs};" in pipeline_version(config)


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
