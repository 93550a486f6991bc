"""A clock of the collector's that a test sets, and what tests of upkeep look at."""

from typing import Any

import lance
import pytest
from tests.rag.store.making import CONFIG

from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store, marks, reading, schema

#: Superseded versions are of no use to anybody.
NO_HISTORY = CONFIG.model_copy(update={"history": 0.0})


class Clock:
    """The clock that marks are made by."""

    def __init__(self) -> None:
        self.host = "this one"
        self.now = 1_000.0

    def here(self) -> tuple[str, float]:
        return self.host, self.now

    def grace(self, config: StorageConfig = CONFIG) -> None:
        """Let as much time pass as the dead are kept."""
        self.now += config.collect_after


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(marks, "here", clock.here)
    return clock


def table(store: Store, name: str) -> Any:
    return lance.dataset(f"{store.path}/{name}.lance")


def revisions(store: Store, name: str = schema.DOCUMENTS) -> set[str]:
    """The revisions that have rows in a table."""
    return set(table(store, name).to_table(columns=["revision"])["revision"].to_pylist())


def all_revisions(store: Store) -> set[str]:
    """The revisions that have rows anywhere."""
    return set().union(*(revisions(store, name) for name in schema.APPENDED))


async def live(store: Store) -> set[str]:
    return {row.revision for row in await (await store.snapshot()).rows()}


def condemned(store: Store) -> frozenset[str]:
    return reading.head(table(store, schema.META)).condemned


def replaced(store: Store) -> set[str]:
    return set(reading.replaced_revisions(table(store, schema.META)))


async def collect(store: Store, clock: Clock) -> None:
    """Vacuum until nothing is left that could go."""
    for _ in range(3):
        await store.vacuum(0)
        clock.grace()
    report = await store.vacuum(0)
    assert not report.errors, report.errors


async def settled(store: Store) -> None:
    """Wait for the upkeep that commits have set off."""
    await store.upkeep()
