"""How the daemon is: a status and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Status(StrEnum):
    """The answer in a word."""

    #: Everything works.
    OK = "ok"
    #: Something needs a person, the rest goes on.
    DEGRADED = "degraded"
    #: Nothing can be ingested.
    FAILING = "failing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why the daemon is not simply ok."""

    #: What it is about: "store", "items", "work", "api" or "source:ID".
    part: str
    #: Short stable word, e.g. "source_missing".
    code: str
    #: What happened and what to do; may name paths.
    text: str
    #: True when nothing can be ingested because of it.
    fatal: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The daemon's state at a moment."""

    reasons: Sequence[Reason] = ()
    #: Store, items and the first listing of every reachable source are there.
    ready: bool = False

    @property
    def status(self) -> Status:
        """The worst of the reasons."""
        if any(reason.fatal for reason in self.reasons):
            return Status.FAILING
        return Status.DEGRADED if self.reasons else Status.OK


class Reporter(Protocol):
    """What the API asks; the service answers."""

    def health(self) -> Health:
        """The state now. Never blocks, never raises."""
        ...

    async def metrics(self) -> tuple[bytes, str]:
        """The Prometheus text and its Content-Type."""
        ...
