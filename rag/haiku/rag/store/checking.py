"""Whether tables at fixed versions belong together: every live revision has all its rows (S1).

And in which rows two states of `document_meta` differ.

Streams the `revision` columns: memory grows with the live documents, not with their rows.
Blocking: run in the store's threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from haiku.rag.store import reading, schema, sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

#: Rows whose revision is compared at a time.
BATCH_ROWS = 1 << 16
#: Revisions that are looked up one by one at most; more are found by reading the column.
FEW = 2000


def differing(wanted: pa.Table, here: pa.Table) -> tuple[pa.Table, list[str]]:
    """How rows of `document_meta` differ from those that are wanted, by `uri` and `row_version`.

    Args:
        wanted: rows as they are to be.
        here: all rows there are but the head row, with their `state`.

    Returns:
        The wanted rows that are not here as they are wanted, and the URIs of live documents here
        that no wanted row names.
    """
    place = pc.index_in(wanted["uri"], value_set=here["uri"].combine_chunks())
    same = pc.equal(pc.take(here["row_version"], place), wanted["row_version"])
    changed = wanted.filter(pc.invert(pc.fill_null(same, False)))
    named = pc.is_in(here["uri"], value_set=wanted["uri"].combine_chunks())
    gone = here.filter(pc.and_(pc.invert(named), pc.equal(here["state"], "live")))
    return changed, gone["uri"].to_pylist()


def complete(datasets: Mapping[str, Any]) -> bool:
    """Whether every live revision of `document_meta` has its rows in the appended tables."""
    expected = datasets[schema.META].to_table(
        columns=["revision", "chunk_count", "item_count"], filter=reading.LIVE
    )
    revisions = expected["revision"].combine_chunks()
    return all(
        np.array_equal(rows(datasets[table], revisions), wanted)
        for table, wanted in _wanted(expected).items()
    )


def _wanted(expected: pa.Table) -> dict[str, NDArray[np.int64]]:
    """Table → the number of rows of each revision."""
    return {
        schema.DOCUMENTS: np.ones(expected.num_rows, np.int64),
        schema.ITEMS: expected["item_count"].to_numpy().astype(np.int64),
        schema.CHUNKS: expected["chunk_count"].to_numpy().astype(np.int64),
    }


def rows(dataset: Any, revisions: pa.Array) -> NDArray[np.int64]:
    """The number of rows each revision has in a table, in the order of `revisions`."""
    found = np.zeros(len(revisions), np.int64)
    filters: list[str | None] = [None]
    if len(revisions) <= FEW:
        filters = [sql.within("revision", part) for part in sql.parts(revisions.to_pylist())]
    for condition in filters:
        batches = dataset.to_batches(columns=["revision"], filter=condition, batch_size=BATCH_ROWS)
        for batch in batches:
            place = pc.index_in(batch["revision"], value_set=revisions).drop_null()
            found += np.bincount(place.to_numpy(), minlength=len(revisions))
    return found
