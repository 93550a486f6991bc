"""What all items need and what at times does not answer: the embedder, the database, the disk.

An item that met an outage has done nothing wrong: that was no attempt of its own, and it would be
no use to begin others. So work pauses, for longer each time, but for removals, which need the
database alone; then one item at a time is begun, until one has been served. Who fails while
others are served is at fault itself, and its attempt counts: so one bad document cannot keep the
others out.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from haiku.rag.exceptions import (
    Conflict,
    EmbedderRefused,
    EmbedderUnavailable,
    RequestRefused,
    StoreError,
    WorkerUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds of a pause at most.
LONGEST_PAUSE = 30.0


@dataclass(kw_only=True, slots=True)
class Outage:
    """Something that does not answer now."""

    #: "embedder", "store", "spool" or "workers".
    part: str
    #: The error's short word and text.
    code: str
    text: str
    #: Pauses so far.
    failures: int
    #: Clock at which it is tried again.
    resume_at: float


class Outages:
    """The outages of one process."""

    def __init__(
        self, *, backoff: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """No outage yet.

        Args:
            backoff: seconds of the first pause; each one is twice the one before.
            clock: monotonic seconds.
        """
        self._backoff = backoff
        self._clock = clock
        self._open: dict[str, Outage] = {}
        self._served: dict[str, float] = {}

    def served(self, part: str) -> None:
        """The part did what an item needed."""
        self._served[part] = self._clock()
        self._open.pop(part, None)

    def failed(
        self, part: str, *, code: str, text: str, began: float, after: float | None = None
    ) -> float | None:
        """Seconds to pause, or None when the fault is the item's own.

        Args:
            part: what did not answer.
            code: the error's short word.
            text: the error, for people.
            began: `time.monotonic()` at which work on the item began.
            after: seconds that the other side asked for.
        """
        if self._served.get(part, began) > began:
            return None
        now = self._clock()
        known = self._open.get(part)
        if known is not None and now < known.resume_at:
            return known.resume_at - now
        failures = known.failures + 1 if known else 1
        pause = max(self._pause(failures), after or 0.0)
        self._open[part] = Outage(
            part=part, code=code, text=text, failures=failures, resume_at=now + pause
        )
        return pause

    def _pause(self, failures: int) -> float:
        longest = min(LONGEST_PAUSE, self._backoff * 2 ** min(failures - 1, 20))
        return float(longest * random.uniform(0.75, 1.0))

    @property
    def pause(self) -> float:
        """Seconds for which nothing should be begun."""
        now = self._clock()
        return max((outage.resume_at - now for outage in self), default=0.0)

    def has(self, part: str) -> bool:
        """Whether the part does not answer."""
        return part in self._open

    @property
    def failures(self) -> int:
        """Pauses of the longest outage so far; 0: there is none."""
        return max((outage.failures for outage in self), default=0)

    def __iter__(self) -> Iterator[Outage]:
        return iter(list(self._open.values()))


def part_of(error: Exception) -> str | None:
    """What the error says is out of order for everybody; None: it is about the item."""
    if isinstance(error, EmbedderUnavailable):
        return "embedder"
    if isinstance(error, EmbedderRefused):
        return None if isinstance(error, RequestRefused) else "embedder"
    if isinstance(error, StoreError):
        return None if isinstance(error, Conflict) else "store"
    if isinstance(error, WorkerUnavailable):
        return "workers"
    return "spool" if isinstance(error, OSError) else None
