"""What sync is told, what it tells, and the part of the items database that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from haiku.ingester.config import FilesystemSource
    from haiku.ingester.items.model import (
        Known,
        Observation,
        Observed,
        SourceRecord,
        Suspension,
    )
    from haiku.ingester.sources.protocol import Unread

#: How changes are noticed: by events, by listing often, or by periodic listings alone.
Mode = Literal["starting", "native", "poll", "off"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """How one source is kept in step."""

    #: Notice changes between the periodic listings at all.
    watch: bool = True
    #: Seconds an object must be still before it is taken.
    settle: float = 0.5
    #: Seconds between listings when changes are polled for.
    poll_interval: float = 30.0
    #: Seconds between listings otherwise.
    sweep_interval: float = 3600.0
    #: Share of what is known whose absence suspends deletions.
    delete_guard: float = 0.5
    #: Fewer absences than this never suspend them.
    delete_guard_min: int = 20

    @classmethod
    def of(cls, config: FilesystemSource) -> Policy:
        """The policy that a source's section asks for."""
        return cls(
            watch=config.watch != "off",
            settle=config.settle,
            poll_interval=config.poll_interval,
            sweep_interval=config.sweep_interval,
            delete_guard=config.delete_guard,
            delete_guard_min=config.delete_guard_min,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepReport:
    """What one full listing found."""

    #: Objects listed.
    found: int = 0
    #: Objects that the patterns exclude.
    ignored: int = 0
    new: int = 0
    changed: int = 0
    moved: int = 0
    #: Wanted removed.
    gone: int = 0
    #: Absent, but not removed because deletions are suspended.
    held_back: int = 0
    #: Changed so recently that they are looked at once more.
    unsettled: int = 0
    #: Parts that could not be read.
    incomplete: Sequence[Unread] = ()
    #: Seconds it took.
    duration: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How a source fares."""

    source_id: str
    mode: Mode
    #: Why it is degraded, for people; empty: all is well.
    reasons: Sequence[str]
    #: The root is away: nothing can be said of the source.
    missing: bool
    #: The last full listing, or None when there has been none in this process.
    last_sweep: SweepReport | None
    #: When it ended (UTC).
    last_sweep_at: datetime | None
    #: Deletions wait for a person.
    suspension: Suspension | None
    #: Times a watch died and was armed again.
    watch_restarts: int
    #: Objects that are waited for to be still.
    settling: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.reasons


class Ledger(Protocol):
    """What sync uses of `haiku.ingester.items.items.Items`; see there."""

    async def observe(
        self, source_id: str, observations: Sequence[Observation], *, live: bool
    ) -> Observed:
        """Take in what a source says."""
        ...

    async def gone(self, source_id: str, uris: Iterable[str], *, live: bool) -> int:
        """Want these removed; how many were known."""
        ...

    async def moved(self, source_id: str, uri: str, to: Observation) -> bool:
        """The object at `uri` is at `to.uri` now; False: taken as an addition and a removal."""
        ...

    async def known(self, source_id: str, under: str | None = None) -> dict[str, Known]:
        """All that is known of a source, or of a tree of it."""
        ...

    async def seen(self, source_id: str) -> dict[str, str]:
        """What was observed last of all that is known of a source, as `Observation.seen`."""
        ...

    async def known_at(self, source_id: str, uris: Sequence[str]) -> dict[str, Known]:
        """What is known of some URIs."""
        ...

    async def known_as(self, source_id: str, identities: Sequence[str]) -> list[Known]:
        """What is known with some identities."""
        ...

    async def count_known(self, source_id: str) -> int:
        """How many items the source has."""
        ...

    async def sources(self) -> dict[str, SourceRecord]:
        """Source id → its record."""
        ...

    async def suspend_deletes(self, source_id: str, *, count: int, reason: str) -> None:
        """Suspend deletions."""
        ...

    async def clear_suspension(self, source_id: str) -> None:
        """Let deletions happen again."""
        ...

    async def swept(self, source_id: str) -> None:
        """A complete listing has ended."""
        ...
