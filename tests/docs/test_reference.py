"""The reference pages say what the code says."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from haiku.ingester.config import IngesterConfig
from haiku.rag.config.models import AppConfig

ROOT = Path(__file__).parents[2]


def _generator():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(_generator().pages()), ids=lambda path: path.name)
def test_generated_page_is_current(path):
    assert path.read_text(encoding="utf-8") == _generator().pages()[path], "run `make docs`"


def test_example_is_the_defaults():
    data = yaml.safe_load((ROOT / "config.example.yaml").read_text(encoding="utf-8"))
    assert IngesterConfig.model_validate(data.pop("ingester")) == IngesterConfig()
    assert AppConfig.model_validate(data) == AppConfig()


def test_every_setting_and_option_is_explained():
    for name in ("configuration.md", "cli.md"):
        rows = [
            line
            for line in (ROOT / "docs/reference" / name).read_text(encoding="utf-8").splitlines()
            if line.startswith("| `")
        ]
        assert len(rows) > 30
        assert [row for row in rows if row.rstrip("| ").endswith("`")] == []
