"""How far a claim has come, and how long each step took."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from haiku.ingester.work.observer import Observer


@dataclass
class Progress:
    """Of one claim."""

    observer: Observer
    #: Called when the step changes.
    changed: Callable[[], None] = lambda: None
    #: The step under way, or the last one: "fetch", "convert", "embed", "commit".
    stage: str = "fetch"
    #: Bytes that wait for their commit, roughly.
    size: int = 0
    #: Monotonic seconds at which the claim was begun.
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """Name the step, and tell the observer how long it took when it went well."""
        self.stage = stage
        self.changed()
        begun = time.monotonic()
        yield
        self.observer.stage(stage, time.monotonic() - begun)

    @property
    def elapsed(self) -> float:
        """Seconds since the claim was begun."""
        return time.monotonic() - self.started
