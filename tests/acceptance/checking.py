"""Looks at a database from outside, with Lance alone, and says what does not hold (S1, S2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance

if TYPE_CHECKING:
    from pathlib import Path

_META = ["uri", "id", "revision", "state", "content_hash", "chunk_count", "item_count"]
#: Table → the column of `document_meta` with the number of rows a revision has there.
_COUNTS = {"documents": None, "chunks": "chunk_count", "document_items": "item_count"}


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a database found."""

    #: URI → the row of `document_meta`, of live documents.
    live: dict[str, dict[str, Any]]
    #: What does not hold, for people.
    wrong: list[str]


def look(database: Path) -> Look:
    """The live documents, and every breach of S1 and S2 among them."""
    meta = lance.dataset(str(database / "document_meta.lance")).to_table(columns=_META).to_pylist()
    rows = [row for row in meta if row["state"] in ("live", "deleted")]
    live = [row for row in rows if row["state"] == "live"]
    wrong = [f"{n} rows of {u}" for u, n in Counter(row["uri"] for row in rows).items() if n > 1]
    ids = Counter(row["id"] for row in live)
    wrong += [f"{number} live rows of the id {id}" for id, number in ids.items() if number > 1]
    for table, column in _COUNTS.items():
        wrong += _miscounted(database, table, column, live)
    return Look({row["uri"]: row for row in live}, wrong)


def _miscounted(
    database: Path, table: str, column: str | None, live: list[dict[str, Any]]
) -> list[str]:
    found = lance.dataset(str(database / f"{table}.lance")).to_table(columns=["revision"])
    counts = Counter(found["revision"].to_pylist())
    return [
        f"{row['uri']} ({row['revision']}) has {counts[row['revision']]} rows in {table}, "
        f"not {wanted}"
        for row in live
        if counts[row["revision"]] != (wanted := row[column] if column else 1)
    ]
