"""Waits until an object is still, so that a file is not taken while it is being written.

An object is still when nothing was reported of it for `settle` seconds and two looks, half of that
apart, gave the same mark. One that never is (a log, a file rewritten many times a second) is taken
as it is after `PATIENCE` times `settle`, if meanwhile a writer has finished with it at least once.
A file that is held open and written to without a pause, as a long copy is, is not taken before it
pauses. Reading it checks once more that it does not change.

Plain data and no clock of its own: times are passed in, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Times `settle` after which an object that never is still is taken as it is.
PATIENCE = 10


@dataclass(slots=True)
class _Waiting:
    #: When it was first reported since it was taken last.
    first: float
    #: When it was reported last.
    last: float
    #: A writer has finished with it since `first`.
    closed: bool = False
    #: The mark of the first look after `last`.
    mark: str | None = None


class Settler:
    """Objects that are waited for."""

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def touch(self, uri: str, now: float, *, closed: bool = False, mark: str | None = None) -> None:
        """Something was reported of an object, or a listing saw it with this mark just now."""
        waiting = self._waiting.setdefault(uri, _Waiting(now, now))
        waiting.last, waiting.mark = now, mark
        waiting.closed = waiting.closed or closed

    def due(self, now: float) -> list[str]:
        """The objects that are to be looked at now; tell `seen` what was found."""
        return [uri for uri, waiting in self._waiting.items() if self._due_at(waiting) <= now]

    def next_due(self) -> float | None:
        """When the next look is due, or None when nothing is waited for."""
        return min(map(self._due_at, self._waiting.values()), default=None)

    def seen(self, uri: str, mark: str | None, now: float) -> bool:
        """A look found this mark (None: nothing there); whether the object is to be taken now.

        Once it is to be taken, or is not there, it is not waited for any more.
        """
        waiting = self._waiting.get(uri)
        if waiting is None:
            return mark is not None
        if mark is None or self._takes(waiting, mark, now):
            del self._waiting[uri]
            return mark is not None
        if waiting.mark is not None and waiting.mark != mark:
            waiting.last = now
        waiting.mark = mark
        return False

    def drop(self, uri: str) -> None:
        """Wait for an object no more."""
        self._waiting.pop(uri, None)

    def _takes(self, waiting: _Waiting, mark: str, now: float) -> bool:
        still = waiting.mark == mark and now >= waiting.last + self._settle
        return still or now >= self._patience_ends(waiting)

    def _due_at(self, waiting: _Waiting) -> float:
        wait = self._settle if waiting.mark is not None else self._settle / 2
        return min(waiting.last + wait, self._patience_ends(waiting))

    def _patience_ends(self, waiting: _Waiting) -> float:
        return waiting.first + PATIENCE * self._settle if waiting.closed else float("inf")
