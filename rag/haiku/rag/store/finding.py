"""Rows by the values of one indexed column, for a process that asks again and again. Blocking.

An index leaves out the newest fragments, and each of them costs every scan its own opening. They
are few and never change their values: those are read once and kept, and a fragment is scanned only
when it holds one of the values that are wanted. Without hits a look-up costs the index alone,
however many commits were made since it was brought up to date.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from haiku.rag.store import indexes, sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class _Coverage:
    """What the index of a column covers at one version of a table."""

    version: int
    #: Whether it covers anything.
    indexed: bool
    #: The fragments it leaves out, by data file.
    outside: Mapping[str, Any]


class Finder:
    """Finds rows of one table by one column. Safe to use from several threads."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._lock = threading.Lock()
        self._known = _Coverage(version=-1, indexed=False, outside={})
        #: Data file → the values in it, deleted rows included.
        self._values: dict[str, frozenset[str]] = {}

    def find(
        self, dataset: Any, values: Sequence[str], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """The rows whose column has one of the values, and that `where` admits.

        Args:
            dataset: the table at a version; versions need not ascend.
            values: any number; none is wanted twice.
            columns: what is read of each row.
            where: a condition over the table's columns.
        """
        found = [dataset.schema.empty_table().select(list(columns))]
        for part in sql.parts(values):
            condition = sql.both(sql.within(self._column, part), where)
            for scope in self._scopes(dataset, part):
                scanner = dataset.scanner(columns=list(columns), filter=condition, **scope)
                found.append(scanner.to_table())
        return pa.concat_tables(found)

    def _scopes(self, dataset: Any, values: Sequence[str]) -> Iterator[dict[str, Any]]:
        """What to scan: all that the index covers, and the other fragments that hold a value."""
        coverage = self._coverage(dataset)
        if coverage.indexed:
            yield {"fast_search": True}
        outside = coverage.outside.items()
        holding = [part for file, part in outside if not self._read(file, part).isdisjoint(values)]
        if holding:
            yield {"fragments": holding, "use_scalar_index": False}

    def _coverage(self, dataset: Any) -> _Coverage:
        """That of the dataset's version; worked out once as long as the version is the same."""
        with self._lock:
            if self._known.version != dataset.version:
                self._known = _coverage(dataset, self._column)
                outside = self._known.outside
                self._values = {f: v for f, v in self._values.items() if f in outside}
            return self._known

    def _read(self, file: str, fragment: Any) -> frozenset[str]:
        values = self._values.get(file)
        if values is None:
            # A row that is deleted now is not deleted at the version of another reader.
            scanner = fragment.scanner(
                columns=[self._column], with_row_id=True, include_deleted_rows=True
            )
            values = frozenset(scanner.to_table()[self._column].to_pylist())
            self._values[file] = values
        return values


def _coverage(dataset: Any, column: str) -> _Coverage:
    covered = indexes.covered(dataset, column)
    fragments = dataset.get_fragments()
    outside = {f.metadata.files[0].path: f for f in fragments if f.fragment_id not in covered}
    return _Coverage(
        version=dataset.version, indexed=len(outside) < len(fragments), outside=outside
    )
