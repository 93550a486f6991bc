"""Marks: what the versions were at a moment, by the clock of the machine that looked.

A collector may only take what it has itself seen dead for `collect_after`, and a version may only
go when it has been superseded for as long. No writer's clock can tell that: they are on other
machines, wrong, or set back. So upkeep notes in `settings` now and then which versions were the
newest, and acts on notes of the same host that are old enough by a clock that cannot be set.

In: the newest versions. Out: the mark to act on. Blocking: run in the store's threads.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from haiku.rag.store import schema, settings
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from haiku.rag.store.tables import Tables

#: The key of the marks in `settings`.
KEY = "upkeep"
#: Marks kept of all hosts; the oldest of others go first.
MOST = 32
#: A new mark is made when the youngest is older than this part of `collect_after`, by schedule
#: and by hand. So there are never many, and none is replaced before it has come of age.
SPACING, SPACING_BY_HAND = 1 / 2, 1 / 8

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The newest versions at a moment."""

    #: Whose clock it is; see `here`.
    host: str
    #: Seconds by that clock, from before the versions were looked at.
    at: float
    #: Table → version, of all five.
    versions: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Book:
    """What upkeep notes in `settings`."""

    marks: tuple[Mark, ...] = ()
    #: When the tables were last searched for rows that no document names: seconds since 1970.
    full_look: float = 0.0

    def own(self, host: str, now: float) -> list[Mark]:
        """The marks of a host, the oldest first; none from the future of a clock set back."""
        return sorted(
            (mark for mark in self.marks if mark.host == host and mark.at <= now),
            key=lambda mark: mark.at,
        )


def here() -> tuple[str, float]:
    """The name of this machine's clock, and its time.

    On Linux the clock counts from the boot, sleep included, for all processes: its name is the
    boot's. Elsewhere it is the calendar's, which a wrong setting may make jump.
    """
    boot = _boot_id()
    return (boot, clock()) if boot else (f"node-{uuid.getnode():x}", time.time())


@cache
def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def load(values: Mapping[str, str]) -> Book:
    """The book in the settings; an empty one where it makes no sense."""
    try:
        data = json.loads(values[KEY])
        marks = tuple(Mark(**mark) for mark in data["marks"])
        return Book(marks=marks, full_look=float(data["full_look"]))
    except (KeyError, ValueError, TypeError):
        return Book()


def read(tables: Tables) -> Book:
    """The book as it is now."""
    return load(settings.read(tables.latest(schema.SETTINGS)))


def mature(book: Book, collect_after: float) -> Mark | None:
    """The youngest mark of this host that is old enough to act on."""
    host, now = here()
    old = [mark for mark in book.own(host, now) if now - mark.at >= collect_after]
    return old[-1] if old else None


def age(book: Book) -> float | None:
    """Seconds since this host's youngest mark; None when it has none."""
    host, now = here()
    own = book.own(host, now)
    return now - own[-1].at if own else None


def place(tables: Tables, collect_after: float, spacing: float, full_look: float | None) -> bool:
    """Note the newest versions, unless this host has done so a moment ago.

    Args:
        tables: of the database.
        collect_after: seconds after which a mark is mature.
        spacing: part of `collect_after` that the youngest mark must be older than.
        full_look: when a full look was made, if one was.

    Returns:
        Whether it was noted; not when another process wrote to the settings at this moment.
    """
    dataset = tables.latest(schema.SETTINGS)
    values = settings.read(dataset)
    book = load(values)
    youngest = age(book)
    host, now = here()
    marks = book.marks
    if youngest is None or youngest >= spacing * collect_after:
        view = tables.newest()
        versions = {table: int(view.datasets[table].version) for table in schema.READ}
        versions[schema.SETTINGS] = int(dataset.version)
        marks = _thinned(book, Mark(host=host, at=now, versions=versions), collect_after)
    elif full_look is None:
        return False
    looked = max(book.full_look, full_look or 0.0)
    return settings.write(dataset, {**values, KEY: _dump(marks, looked)})


def _thinned(book: Book, new: Mark, collect_after: float) -> tuple[Mark, ...]:
    """The marks with a new one: of the mature ones of its host the youngest is enough."""
    own = [*book.own(new.host, new.at), new]
    mature = [mark for mark in own if new.at - mark.at >= collect_after]
    others = [mark for mark in book.marks if mark.host != new.host]
    kept = [*mature[-1:], *own[len(mature) :]]
    return (*others[-max(MOST - len(kept), 0) :], *kept) if len(kept) < MOST else tuple(kept)


def _dump(marks: Sequence[Mark], full_look: float) -> str:
    return json.dumps({"marks": [asdict(mark) for mark in marks], "full_look": full_look})
