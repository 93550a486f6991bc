"""Copies of revisions out of a state of the past, under new names, in bounded memory. Blocking.

The rows of a few fragments are read at a time, with batches as long as the average of their rows
allows: rows of a hundred megabytes are alone in their fragments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from haiku.rag.store import schema, sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes of rows read at a time; at least one row.
BATCH_BYTES = 8_000_000
#: Bytes of the fragments that are read together; at least one fragment.
GROUP_BYTES = 64_000_000
#: Rows read at a time at most.
MOST_ROWS = 4096
#: Rows whose revision is compared at a time.
_LOOK_ROWS = 1 << 16


@dataclass(kw_only=True, slots=True)
class _Group:
    """Neighbouring fragments that are read together."""

    fragments: list[Any] = field(default_factory=list)
    #: Wanted revisions with rows there.
    revisions: dict[str, None] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    @property
    def batch_size(self) -> int:
        """Rows that are about `BATCH_BYTES`."""
        return max(1, min(MOST_ROWS, BATCH_BYTES * self.rows // max(self.bytes, 1)))


def copies(datasets: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Table → what to append to it: the rows of the revisions `names` lists, under their new names.

    Args:
        datasets: the state they are copied from.
        names: revision → the name of its copy.
    """
    return {table: _copy(datasets[table], names) for table in schema.APPENDED}


def _copy(dataset: Any, names: Mapping[str, str]) -> Any:
    batches = _batches(dataset, names)
    first = next(batches, None)
    if first is None:
        return dataset.schema.empty_table()
    return pa.RecordBatchReader.from_batches(dataset.schema, chain([first], batches))


def _batches(dataset: Any, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    place = dataset.schema.get_field_index("revision")
    for group in _groups(dataset, names):
        for part in sql.parts(list(group.revisions)):
            found = dataset.to_batches(
                fragments=group.fragments,
                filter=sql.within("revision", part),
                batch_size=group.batch_size,
                batch_readahead=1,
                fragment_readahead=1,
                use_scalar_index=False,
            )
            for batch in found:
                if batch.num_rows:
                    renamed = [names[revision] for revision in batch["revision"].to_pylist()]
                    yield batch.set_column(place, "revision", pa.array(renamed, pa.string()))


def _groups(dataset: Any, names: Mapping[str, str]) -> Iterator[_Group]:
    """The fragments with rows of the revisions, in groups of bounded size."""
    wanted = pa.array(list(names), pa.string())
    group = _Group()
    for fragment in dataset.get_fragments():
        revisions = _wanted_in(fragment, wanted)
        if not revisions:
            continue
        size = sum(file.file_size_bytes or 0 for file in fragment.metadata.files)
        if group.fragments and group.bytes + size > GROUP_BYTES:
            yield group
            group = _Group()
        group.fragments.append(fragment)
        group.revisions.update(dict.fromkeys(revisions))
        group.rows += fragment.metadata.physical_rows
        group.bytes += size
    if group.fragments:
        yield group


def _wanted_in(fragment: Any, wanted: pa.Array) -> list[str]:
    found: dict[str, None] = {}
    for batch in fragment.to_batches(columns=["revision"], batch_size=_LOOK_ROWS):
        revisions = pc.unique(batch["revision"])
        hits = revisions.filter(pc.is_in(revisions, value_set=wanted))
        found.update(dict.fromkeys(hits.to_pylist()))
    return list(found)
