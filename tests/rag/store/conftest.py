"""A fresh store a test, closed at its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.rag.store.making import CONFIG, IDENTITY

from haiku.rag.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "db.lancedb"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with await Store.create(path, IDENTITY, CONFIG) as store:
        yield store
