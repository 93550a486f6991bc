"""Appends of rows to one table. Blocking.

A row of `documents` may hold a hundred megabytes. So that upkeep never has to rewrite such a row
to get rid of a neighbour, it gets a fragment of its own, which goes as a whole when the row does;
and no fragment of smaller rows is larger than what upkeep rewrites at once.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

#: Bytes of a row from which it is alone in its fragment.
LARGE_ROW = 16_000_000
#: Bytes after which smaller rows begin another fragment.
FRAGMENT_BYTES = 48_000_000


def append(dataset: Any, rows: Any) -> Any:
    """Append an Arrow table, or the batches that a reader streams; the dataset that has them.

    Raises:
        OSError: the storage failed, and nothing was appended.
    """
    import lance
    import pyarrow as pa
    from lance.fragment import write_fragments

    fragments = []
    batches = rows.to_batches() if hasattr(rows, "to_batches") else rows
    for _, parts in groupby(_numbered(_pieces(batches)), key=itemgetter(0)):
        reader = pa.RecordBatchReader.from_batches(rows.schema, (part for _, part in parts))
        fragments += write_fragments(reader, dataset)
    if not fragments:
        return dataset
    appended = lance.LanceOperation.Append(fragments)
    return lance.LanceDataset.commit(dataset, appended, read_version=dataset.version)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, cut so that none is much larger than a large row, and such a row is alone."""
    for batch in batches:
        if batch.nbytes < LARGE_ROW:
            yield batch
        else:
            for start, length in _cuts(batch):
                yield batch.slice(start, length)


def _cuts(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Start and length of each piece of a large batch."""
    start = held = 0
    for row in range(batch.num_rows):
        size = batch.slice(row, 1).nbytes
        if row > start and held + size >= LARGE_ROW:
            yield start, row - start
            start, held = row, 0
        held += size
    if batch.num_rows:
        yield start, batch.num_rows - start


def _numbered(pieces: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The pieces, each with the number of the fragment it goes into."""
    number = held = 0
    for piece in pieces:
        large = piece.num_rows == 1 and piece.nbytes >= LARGE_ROW
        if held and (large or held + piece.nbytes > FRAGMENT_BYTES):
            number, held = number + 1, 0
        yield number, piece
        held += FRAGMENT_BYTES if large else piece.nbytes
