"""A site for each test, and nothing left running after it."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.daemon import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder of documents with a configuration and a database beside it."""
    yield Site(tmp_path)
    for process in psutil.Process().children(recursive=True):
        if any(str(tmp_path) in part for part in _command(process)):
            process.kill()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
