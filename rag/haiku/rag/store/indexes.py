"""The indexes of a table: what they cover, and bringing them up to date. Blocking.

New fragments are gathered into one *before* an index takes them in: compacting what an index
covers would rewrite the index. An index takes them in as a new segment, and small segments are
merged: what a commit costs grows with the logarithm of the table at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from haiku.rag.store import schema
from haiku.rag.store.info import IndexCoverage

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A segment that is at most this many times as large as what comes after it is merged with it.
SEGMENT_RATIO = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What the indexes of a table do not cover yet."""

    fragments: int
    rows: int


def columns_of(table: str) -> Iterator[str]:
    """The columns of a table that are to have an index."""
    yield from schema.SCALAR_INDEXES[table]
    if table == schema.FULL_TEXT[0]:
        yield schema.FULL_TEXT[1]


def missing(dataset: Any, table: str) -> list[str]:
    """Columns whose index is not there though there are rows: none is made over zero rows."""
    if not dataset.count_rows():
        return []
    there = {name for index in dataset.describe_indices() for name in index.field_names}
    return [column for column in columns_of(table) if column not in there]


def create(dataset: Any, table: str, column: str) -> None:
    """Make the index of a column."""
    if (table, column) == schema.FULL_TEXT:
        dataset.create_scalar_index(column, "INVERTED", **schema.FULL_TEXT_OPTIONS)
    else:
        dataset.create_scalar_index(column, "BTREE")


def ensure_full_text(chunks: Any) -> None:
    """Make the full-text index if there are rows and it is not there."""
    table, column = schema.FULL_TEXT
    if column in missing(chunks, table):
        create(chunks.checkout_version(chunks.version), table, column)


def coverage(dataset: Any, table: str) -> list[IndexCoverage]:
    """How far the indexes of a table reach; one that is not there is left out."""
    rows = _rows_by_fragment(dataset)
    found = []
    for index in dataset.describe_indices():
        outside = sum(n for f, n in rows.items() if f not in _fragments(index))
        found += [
            IndexCoverage(table=table, column=name, unindexed_rows=outside)
            for name in index.field_names
        ]
    return found


def covered(dataset: Any, column: str) -> set[int]:
    """The fragments that the index of a column covers; none when there is no index."""
    indexes = (i for i in dataset.describe_indices() if column in i.field_names)
    return {fragment for index in indexes for fragment in _fragments(index)}


def backlog(dataset: Any) -> Backlog:
    """What is outside at least one index."""
    covered = [_fragments(index) for index in dataset.describe_indices()]
    outside = [
        rows
        for fragment, rows in _rows_by_fragment(dataset).items()
        if any(fragment not in fragments for fragments in covered)
    ]
    return Backlog(fragments=len(outside), rows=sum(outside))


def coverings(dataset: Any) -> dict[int, frozenset[str]]:
    """Fragment → the index segments that cover it; what none covers is left out."""
    found: dict[int, set[str]] = {}
    for index in dataset.describe_indices():
        for segment in index.segments:
            for fragment in segment.fragment_ids:
                found.setdefault(fragment, set()).add(str(segment.uuid))
    return {fragment: frozenset(segments) for fragment, segments in found.items()}


def extend(dataset: Any) -> None:
    """Have every index cover every row."""
    rows = _rows_by_fragment(dataset)
    merged = max((_to_merge(index, rows) for index in dataset.describe_indices()), default=0)
    dataset.optimize.optimize_indices(num_indices_to_merge=merged)


def _to_merge(index: Any, rows: dict[int, int]) -> int:
    """How many of the newest segments go into the new one: those not much larger than it.

    So an index has few segments (each costs every search its filter again) and a row is written
    to it a few times, not once a commit.
    """
    total = sum(n for fragment, n in rows.items() if fragment not in _fragments(index))
    count = 0
    for segment in reversed(index.segments):
        size = sum(rows.get(fragment, 0) for fragment in segment.fragment_ids)
        if size > SEGMENT_RATIO * total:
            break
        total += size
        count += 1
    return count


def _rows_by_fragment(dataset: Any) -> dict[int, int]:
    return {f.fragment_id: f.metadata.num_rows for f in dataset.get_fragments()}


def _fragments(index: Any) -> set[int]:
    return {fragment for segment in index.segments for fragment in segment.fragment_ids}
