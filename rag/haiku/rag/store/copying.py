"""Copies of revisions out of a state of the past, under new names, in bounded memory. Blocking."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from haiku.rag.store import schema, sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes of rows read at a time, as well as Lance can tell.
BATCH_BYTES = 16_000_000
#: Rows of `documents` read at a time: each may hold a hundred megabytes.
DOCUMENT_ROWS = 4
ROWS = 4096


def copies(datasets: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Table → what to append to it: the rows of the revisions `names` lists, under their new names.

    Args:
        datasets: the state they are copied from.
        names: revision → the name of its copy.
    """
    return {table: _copy(datasets[table], table, names) for table in schema.APPENDED}


def _copy(dataset: Any, table: str, names: Mapping[str, str]) -> Any:
    batches = _batches(dataset, table, names)
    first = next(batches, None)
    if first is None:
        return dataset.schema.empty_table()
    return pa.RecordBatchReader.from_batches(dataset.schema, chain([first], batches))


def _batches(dataset: Any, table: str, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    place = dataset.schema.get_field_index("revision")
    for part in sql.parts(list(names)):
        found = dataset.to_batches(
            filter=sql.within("revision", part),
            batch_size=DOCUMENT_ROWS if table == schema.DOCUMENTS else ROWS,
            batch_readahead=1,
            io_buffer_size=BATCH_BYTES,
        )
        for batch in found:
            if batch.num_rows:
                renamed = [names[revision] for revision in batch["revision"].to_pylist()]
                yield batch.set_column(place, "revision", pa.array(renamed, pa.string()))
