"""A filesystem source over a temporary root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from haiku.ingester.config import FilesystemSource
from haiku.ingester.sources.fs import FolderSource

if TYPE_CHECKING:
    from pathlib import Path

    from haiku.ingester.items.model import Observation
    from haiku.ingester.sources.protocol import Unread

MakeSource = Callable[..., FolderSource]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def make_source(root: Path) -> MakeSource:
    """Makes the source; keywords are keys of its section."""

    def make(*, limit: int = 1_000_000, **config: Any) -> FolderSource:
        section = FilesystemSource(**{"id": "docs", "path": root} | config)
        return FolderSource(section, max_file_size=limit)

    return make


async def listed(
    source: FolderSource, under: str | None = None
) -> tuple[dict[str, Observation], list[Unread]]:
    """A whole listing: observations by URI, and the parts that could not be read."""
    found: dict[str, Observation] = {}
    unread: list[Unread] = []
    async for listing in source.list(under):
        found.update({o.uri: o for o in listing.observations})
        unread.extend(listing.incomplete)
    return found, unread


@pytest.fixture
def listing_of() -> Callable[..., Any]:
    return listed
