"""Version cleanup: which versions of a table may go. Blocking.

A version goes when it was already superseded at a mature mark of this host, so never before
`collect_after`, whatever the clocks of writers say; never when it is tagged. What is younger than
`storage.history` is kept for time travel, as far as that needs it:

- of `document_meta` every version is a state of its own; beyond the newest `RECENT` one in each
  of `SPREAD` parts of the history stays;
- of the appended tables a later version serves as well, until rows are deleted: the last version
  before each deletion stays;
- `settings` is not travelled in.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from haiku.rag.store import schema
from haiku.rag.store.tables import versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Versions of `document_meta` within the history that are all kept, and how many beyond.
RECENT, SPREAD = 500, 500


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """One version of a table."""

    version: int
    #: When it was made, seconds since 1970, by its writer's clock.
    at: float
    #: Rows in it.
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What a cleanup took away."""

    versions: int = 0
    bytes: int = 0


def clean(
    dataset: Any, table: str, *, before: int, history: float, keep: str, now: float
) -> Cleaned:
    """Remove the versions of a table that are not needed.

    Args:
        dataset: the table.
        table: its name.
        before: the version that was the newest at the mark.
        history: seconds to keep for time travel.
        keep: see `storage.vacuum_keep`.
        now: seconds since 1970.
    """
    tagged = {int(tag["version"]) for tag in dataset.tags.list().values()}
    if keep == "since_oldest_tag":
        before = min([before, *tagged])
    old = [number for number in versions(dataset) if number < before and number not in tagged]
    if old and history > 0:
        old = sorted(set(old) & set(expendable(_states(dataset), table, history, now)))
    if not old:
        return Cleaned()
    stats = dataset.cleanup_old_versions(versions=old, error_if_tagged_old_versions=False)
    return Cleaned(versions=int(stats.old_versions), bytes=int(stats.bytes_removed))


def expendable(states: Sequence[State], table: str, history: float, now: float) -> Iterator[int]:
    """The versions that time travel within `history` does not need, of ascending states."""
    recent = len(states) - RECENT
    for place, (state, following) in enumerate(pairwise(states)):
        past = now - following.at > history
        if past or table == schema.SETTINGS:
            spare = True
        elif table == schema.META:
            width = history / SPREAD
            spare = place < recent and state.at // width == following.at // width
        else:
            spare = following.version == state.version + 1 and following.rows >= state.rows
        if spare:
            yield state.version


def _states(dataset: Any) -> list[State]:
    return sorted(
        (
            State(
                version=int(version["version"]),
                at=version["timestamp"].timestamp(),
                rows=int(version["metadata"]["total_rows"]),
            )
            for version in dataset.versions()
        ),
        key=lambda state: state.version,
    )
