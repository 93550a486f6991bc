"""When deletions wait for a person, on a real items database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from haiku.ingester.config import WorkConfig
from haiku.ingester.items.items import Items
from haiku.ingester.sync.guard import WINDOW, Guard
from haiku.ingester.sync.model import Policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

POLICY = Policy(delete_guard=0.5, delete_guard_min=20)


@pytest.fixture
async def items(tmp_path: Path) -> AsyncIterator[Items]:
    items = await Items.open(f"sqlite:///{tmp_path}/items.db", "i", WorkConfig())
    yield items
    await items.close()


@pytest.mark.parametrize(
    ("absent", "known", "allowed"),
    [
        (0, 0, True),
        (19, 19, True),
        (20, 20, False),
        (20, 40, True),
        (21, 40, False),
        (50, 100, True),
        (51, 100, False),
        (100, 100, False),
    ],
)
async def test_share_and_minimum(items: Items, absent: int, known: int, allowed: bool) -> None:
    guard = Guard("docs", items, POLICY)
    assert await guard.allows_swept(absent, known) is allowed
    assert (guard.suspension is None) is allowed
    assert await Guard("docs", items, POLICY).allows_live(absent, known, 0.0) is allowed


async def test_suspension_outlives_the_process_and_names_the_way_out(items: Items) -> None:
    assert not await Guard("docs", items, POLICY).allows_swept(60, 100)
    guard = Guard("docs", items, POLICY)
    await guard.load()
    assert guard.suspension is not None
    assert "60 of 100" in guard.suspension.reason
    assert "confirm-deletes docs" in guard.suspension.reason
    assert not await guard.allows_live(1, 100, 0.0)
    assert not await guard.allows_swept(60, 100)
    assert await Guard("other", items, POLICY).allows_swept(1, 100)


async def test_person_confirms(items: Items) -> None:
    guard = Guard("docs", items, POLICY)
    assert not await guard.allows_swept(60, 100)
    assert await guard.allows_swept(60, 100, confirmed=True)
    assert (await items.suspension("docs")) is None
    assert await guard.allows_live(1, 40, 0.0)


async def test_what_had_vanished_is_back(items: Items) -> None:
    guard = Guard("docs", items, POLICY)
    assert not await guard.allows_swept(60, 100)
    assert not await guard.allows_swept(21, 100)  # under the share, but not back
    assert not await guard.allows_swept(0, 100, complete=False) or guard.suspension is not None
    assert guard.suspension is not None
    assert await guard.allows_swept(3, 100)
    assert guard.suspension is None


async def test_departures_one_by_one_count_together(items: Items) -> None:
    guard = Guard("docs", items, POLICY)
    for second in range(5):
        assert await guard.allows_live(10, 100 - 10 * second, float(second))
    assert not await guard.allows_live(10, 50, 5.0)
    assert guard.suspension is not None


async def test_slow_departures_do_not(items: Items) -> None:
    guard = Guard("docs", items, POLICY)
    for n in range(9):
        assert await guard.allows_live(10, 100 - 10 * n, n * (WINDOW + 1))


async def test_root_that_is_missing_and_comes_back_empty(items: Items) -> None:
    """A mount that is gone leaves its mount point: few or many, nothing is removed."""
    from haiku.ingester.items.model import Observation

    guard = Guard("docs", items, POLICY)
    await guard.root_missing("away")
    assert guard.suspension is None  # nothing to protect
    await items.observe("docs", [Observation(str(n), "m") for n in range(3)], live=False)
    await guard.root_missing("away")
    assert guard.suspension is not None
    assert not await guard.allows_swept(3, 3)
    assert await guard.allows_swept(1, 3)
    assert guard.suspension is None
