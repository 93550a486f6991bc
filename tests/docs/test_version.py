"""One version number for both distributions, and the daemon pins the library's exactly."""

import tomllib
from importlib import metadata
from pathlib import Path

from haiku.rag import __version__

ROOT = Path(__file__).parents[2]


def test_one_version_everywhere():
    daemon = tomllib.loads((ROOT / "ingester/pyproject.toml").read_text(encoding="utf-8"))
    assert daemon["project"]["version"] == __version__
    assert f"haiku-rag-core=={__version__}" in daemon["project"]["dependencies"]
    assert metadata.version("haiku-rag-core") == metadata.version("haiku-ingester") == __version__
