"""The texts that wait to be embedded, and whose turn it is.

In: calls of many texts each. Out: the texts of the next request. Rules:

- half of a request is for the calls with the fewest texts left, half for the oldest call: a small
  document never waits for a huge one, and the huge one advances with every request;
- a call's texts are taken in their order, none is skipped;
- what waits is counted as it comes and goes, never by going through it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(slots=True)
class Size:
    """What texts add up to, or what a request may hold."""

    texts: int = 0
    tokens: int = 0
    #: In UTF-8.
    bytes: int = 0

    def add(self, other: Size) -> None:
        """Count something in."""
        self.texts += other.texts
        self.tokens += other.tokens
        self.bytes += other.bytes

    def subtract(self, other: Size) -> None:
        """Count something out."""
        self.texts -= other.texts
        self.tokens -= other.tokens
        self.bytes -= other.bytes

    def reaches(self, limit: Size) -> bool:
        """Whether it is as much as a limit in any respect."""
        return self.texts >= limit.texts or self.tokens >= limit.tokens or self.bytes >= limit.bytes

    def exceeds(self, limit: Size) -> bool:
        """Whether it is more than a limit in any respect."""
        return self.texts > limit.texts or self.tokens > limit.tokens or self.bytes > limit.bytes

    def halved(self, size: Size) -> Size:
        """Limits that a request of half the refused size keeps to, never above these."""
        return Size(
            min(self.texts, max(1, size.texts // 2)),
            min(self.tokens, max(1, size.tokens // 2)),
            min(self.bytes, max(1, size.bytes // 2)),
        )


@dataclass(eq=False, slots=True)
class Call:
    """One caller: its texts, and the rows that have come so far."""

    texts: Sequence[str]
    #: Of each text.
    tokens: Sequence[int]
    #: Of each text, in UTF-8.
    bytes: Sequence[int]
    done: asyncio.Future[None]
    #: How many texts have been taken into requests.
    taken: int = 0
    #: Rows that have not come yet.
    missing: int = field(init=False)
    rows: list[NDArray[np.float32] | None] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = len(self.texts)
        self.rows = [None] * len(self.texts)

    @property
    def left(self) -> int:
        """Texts that are in no request yet."""
        return len(self.texts) - self.taken

    def size(self) -> Size:
        """Of the texts that are left."""
        first = self.taken
        return Size(self.left, sum(self.tokens[first:]), sum(self.bytes[first:]))

    def fill(self, place: int, row: NDArray[np.float32]) -> None:
        """Take the row of a text; the last one ends the call."""
        self.rows[place] = row
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End the call with an error, unless it has ended."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """One text of a call."""

    call: Call
    #: Its row in the call's answer.
    place: int

    @property
    def text(self) -> str:
        """What is embedded."""
        return self.call.texts[self.place]

    @property
    def size(self) -> Size:
        """What it adds to a request."""
        return Size(1, self.call.tokens[self.place], self.call.bytes[self.place])


class Waiting:
    """Calls with texts that are in no request yet."""

    def __init__(self) -> None:
        #: Of all texts that wait.
        self.size = Size()
        #: In the order of their arrival.
        self._calls: dict[Call, None] = {}
        #: Whether the oldest call is next, rather than the shortest: kept from one request to
        #: the next, so that requests of one text go to them by turns.
        self._oldest_next = False

    def __len__(self) -> int:
        return self.size.texts

    def add(self, call: Call) -> None:
        """Let a call's texts wait."""
        self._calls[call] = None
        self.size.add(call.size())

    def discard(self, calls: Iterable[Call]) -> None:
        """Let go of what is left of these calls."""
        for call in calls:
            if call in self._calls:
                del self._calls[call]
                self.size.subtract(call.size())

    def calls(self) -> list[Call]:
        """All that wait, oldest first."""
        return list(self._calls)

    def take(self, limit: Size) -> list[Text]:
        """The texts of the next request: at least one, and no more than the limit allows."""
        taken: list[Text] = []
        size = Size()
        oldest = _texts(list(self._calls))
        shortest = _texts(sorted(self._calls, key=_left))
        while self.size.texts:
            text = next(oldest if self._oldest_next else shortest)
            size.add(text.size)
            if taken and size.exceeds(limit):
                break
            self._remove(text)
            taken.append(text)
            self._oldest_next = not self._oldest_next
        return taken

    def _remove(self, text: Text) -> None:
        call = text.call
        call.taken += 1
        self.size.subtract(text.size)
        if not call.left:
            del self._calls[call]


def size_of(texts: Iterable[Text]) -> Size:
    """What texts add up to."""
    total = Size()
    for text in texts:
        total.add(text.size)
    return total


def _left(call: Call) -> int:
    return call.left


def _texts(calls: Iterable[Call]) -> Iterator[Text]:
    """The next text of the first call that has one left, again and again."""
    for call in calls:
        while call.left:
            yield Text(call, call.taken)
