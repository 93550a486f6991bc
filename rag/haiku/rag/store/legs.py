"""The two legs of a search on a snapshot: vectors and full text, live chunks only.

Dead rows stay in `chunks` until they are collected. Replaced revisions are excluded up front while
they are few (by the full-text leg when it meets any). Whatever else is dead (appended and not
committed, left by a crash) is dropped by a look-up of the hits' revisions, and more is fetched
until the limit is reached or nothing is left. The results are those of a prefilter in any case.
A leg tells ids; what the best of both legs hold is read at the end, for reading a hundred
chunks with their documents costs as much as finding them. Blocking: run in the store's threads.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from haiku.rag.store import reading, revisions, schema, sql
from haiku.rag.store.info import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from haiku.rag.store.changes import Row
    from haiku.rag.store.finding import Finder
    from haiku.rag.store.info import StoredChunk
    from haiku.rag.store.tables import View

    #: Fetches the best `k` chunks under a filter: id, revision and a score column, best first.
    Fetch = Callable[[int, str | None], pa.Table]

#: Replaced revisions that are excluded up front at most; beyond, they are over-fetched.
MAX_EXCLUDED = 2000
#: Revisions matching a filter that are listed up front at most; beyond, hits are checked.
MAX_INCLUDED = 2000
#: Revisions that are remembered to be live at most: some 5 MB.
MAX_REMEMBERED = 50_000
#: Times the limit that the full-text leg fetches first without any filter. A filter makes a
#: full-text search several times slower, a vector search hardly; most queries meet no dead rows.
PROBE = 3
#: How much more is fetched when dead rows took places.
GROWTH = 4


def vector(view: View, query: NDArray[np.float32], limit: int, where: str | None) -> list[Found]:
    """The chunks nearest to a vector by cosine."""
    chunks = view.datasets[schema.CHUNKS]

    def fetch(k: int, condition: str | None) -> pa.Table:
        return chunks.to_table(
            columns=["id", "revision", "_distance"],
            nearest={"column": "vector", "q": query, "k": k, "metric": "cosine"},
            filter=condition,
            prefilter=True,
        )

    return _live(view, fetch, limit, where, _similarity, probe=False)


def text(view: View, query: str, limit: int, where: str | None) -> list[Found]:
    """The chunks that hold words of a text, by BM25. The text is never parsed as a query."""
    from lance.query import MatchQuery

    chunks = view.datasets[schema.CHUNKS]
    match = MatchQuery(sql.clean(query), schema.FULL_TEXT[1])

    def fetch(k: int, condition: str | None) -> pa.Table:
        return chunks.to_table(
            columns=["id", "revision", "_score"],
            full_text_query=match,
            limit=k,
            filter=condition,
            prefilter=True,
        )

    return _live(view, fetch, limit, where, _bm25, probe=True)


def chunks_of(view: View, found: Sequence[Found]) -> dict[tuple[str, str], StoredChunk]:
    """(Chunk id, revision) → the chunk, of what was found; perhaps of other revisions as well."""
    table, columns = view.datasets[schema.CHUNKS], list(revisions.CHUNK_COLUMNS)
    rows = [
        row
        for part in sql.parts([one.chunk_id for one in found])
        for row in table.to_table(columns=columns, filter=sql.within("id", part)).to_pylist()
    ]
    return {(row["id"], row["revision"]): revisions.load_chunk(row) for row in rows}


def rows_of(view: View, found: Sequence[Found]) -> dict[str, Row]:
    """Revision → the document, of what was found."""
    wanted = sorted({one.revision for one in found})
    return {row.revision: row for row in reading.rows_in(view.meta, "revision", wanted)}


def _live(
    view: View,
    fetch: Fetch,
    limit: int,
    where: str | None,
    score: Callable[[dict[str, Any]], float],
    *,
    probe: bool,
) -> list[Found]:
    """The best `limit` live ones; with `probe` unfiltered ones are tried first."""
    rows = view.datasets[schema.CHUNKS].count_rows()
    if limit < 1 or not rows:
        return []

    def look(k: int, condition: str | None) -> tuple[list[Found], bool]:
        """The live ones of the best `k`, and whether no more are wanted or there are no more."""
        found = fetch(k, condition).to_pylist()
        live = sorted(_keep_live(view, found, where, score), key=_best_first)[:limit]
        return live, len(live) == limit or len(found) < k or k >= rows

    condition = _included(view.meta, where)
    if condition is None:
        if probe:
            live, done = look(min(PROBE * limit, rows), None)
            if done:
                return live
        condition = _excluded(view.meta)
    k = min(limit, rows)
    while True:
        live, done = look(k, condition)
        if done:
            return live
        k = min(k * GROWTH, rows)


def _included(meta: Any, where: str | None) -> str | None:
    """The filter that admits only what `where` does; None when that is not a short list."""
    if where is None:
        return None
    matching = reading.revisions_matching(meta, where, MAX_INCLUDED + 1)
    return sql.within("revision", matching) if len(matching) <= MAX_INCLUDED else None


def _excluded(meta: Any) -> str | None:
    """The filter that keeps replaced revisions out; None when there are none, or too many."""
    replaced = reading.replaced_revisions(meta)
    return sql.without("revision", replaced) if len(replaced) <= MAX_EXCLUDED else None


def _keep_live(
    view: View,
    found: Sequence[dict[str, Any]],
    where: str | None,
    score: Callable[[dict[str, Any]], float],
) -> list[Found]:
    live = _live_among(view, {row["revision"] for row in found}, where)
    return [
        Found(chunk_id=row["id"], revision=row["revision"], score=value)
        for row, value in ((row, score(row)) for row in found)
        if row["revision"] in live and not math.isnan(value)
    ]


def _live_among(view: View, named: set[str], where: str | None) -> set[str]:
    """Those of the revisions that are live, and that `where` admits."""
    if where is not None:
        return reading.live_revisions(view.meta, sorted(named), where)
    live = named & view.live
    if unknown := named - live:
        fresh = reading.live_revisions(view.meta, sorted(unknown), None)
        if len(view.live) < MAX_REMEMBERED:
            view.live.update(fresh)
        live |= fresh
    return live


def _similarity(row: dict[str, Any]) -> float:
    return 1.0 - float(row["_distance"])


def _bm25(row: dict[str, Any]) -> float:
    return float(row["_score"])


def _best_first(found: Found) -> tuple[float, str]:
    return -found.score, found.chunk_id


def known_vectors(
    chunks: Any, hashes: Finder, wanted: Sequence[str]
) -> dict[str, NDArray[np.float32]]:
    """The vectors stored under text hashes, by hash."""
    table = hashes.find(chunks, wanted, ["text_hash", "vector"])
    return dict(zip(table["text_hash"].to_pylist(), vectors_of(table), strict=True))


def vectors_of(table: pa.Table) -> NDArray[np.float32]:
    """The `vector` column, shape (rows, dim)."""
    column = table["vector"].combine_chunks()
    flat: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1) if len(column) else flat.reshape(0, 0)
