"""Hybrid search: the vector and the full-text leg side by side, fused by rank.

Fusion is reciprocal rank fusion: a hit scores the sum of 1 / (K + rank) over the legs that found
it (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
Rank Learning Methods", SIGIR 2009). Ranks rather than scores are added, so that a cosine
similarity and a BM25 score need no common scale.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from haiku.rag.models import SearchResult, SearchType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from haiku.rag.embed.protocol import Embedder
    from haiku.rag.store import Found, Hit, Snapshot

#: The constant of the fusion, as in the paper: how little the first ranks stand out.
K = 60
#: Hits each leg contributes at least, however few are wanted: fusion needs depth to agree on.
DEPTH = 100
#: Characters of a query that are used; no embedder reads further, and full text only slows.
MAX_QUERY_CHARS = 10_000

#: Control characters and lone surrogates: no word has them, and not every embedder takes them.
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Leg = Literal["vector", "text"]
_LEGS: dict[SearchType, tuple[Leg, ...]] = {
    "hybrid": ("vector", "text"),
    "vector": ("vector",),
    "fts": ("text",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A chunk that was found, and what each leg said of it."""

    found: Found
    #: Higher is better: the fused score, or the leg's own when there is only one.
    score: float
    #: Its place in each leg that found it, from 1.
    ranks: Mapping[Leg, int]


async def search(
    snapshot: Snapshot,
    embedder: Embedder,
    query: str,
    *,
    limit: int,
    search_type: SearchType = "hybrid",
    where: str | None = None,
) -> list[SearchResult]:
    """The best hits for a query, best first.

    Args:
        snapshot: what is searched.
        embedder: makes the query's vector; not called for "fts".
        query: plain text. A blank one has no hits.
        limit: hits at most; below 1 there are none.
        search_type: "hybrid", "vector" or "fts".
        where: SQL of a checked `Filter`; both legs apply it before they rank.

    Raises:
        EmbedError: the query did not become a vector; the search is not done by half.
        ValueError: an unknown `search_type`.
    """
    if search_type not in _LEGS:
        raise ValueError(f"search_type {search_type!r} is unknown; use one of {', '.join(_LEGS)}")
    text = plain(query)
    if not text or limit < 1:
        return []
    legs = _LEGS[search_type]
    depth = max(DEPTH, 2 * limit) if len(legs) > 1 else limit
    found = await _run(snapshot, embedder, text, legs=legs, depth=depth, where=where)
    best = fuse(found)[:limit]
    hits = await snapshot.hits([candidate.found for candidate in best])
    return [_result(hit, candidate.score) for hit, candidate in zip(hits, best, strict=True)]


def plain(query: str) -> str:
    """The query on one line, without control characters or halves of surrogate pairs."""
    return " ".join(_UNREADABLE.sub(" ", query[:MAX_QUERY_CHARS]).split())


def fuse(legs: Mapping[Leg, Sequence[Found]]) -> list[Candidate]:
    """The finds of all legs in one order, best first. Ties are ordered by best rank, then id."""
    if len(legs) == 1:
        ((leg, finds),) = legs.items()
        return [
            Candidate(found=found, score=found.score, ranks={leg: rank})
            for rank, found in enumerate(_ordered(finds), start=1)
        ]
    by_id: dict[str, Found] = {}
    ranks_by_id: dict[str, dict[Leg, int]] = {}
    for leg, finds in legs.items():
        for rank, found in enumerate(_ordered(finds), start=1):
            by_id.setdefault(found.chunk_id, found)
            ranks_by_id.setdefault(found.chunk_id, {})[leg] = rank
    candidates = [
        Candidate(found=found, score=_share(ranks_by_id[chunk_id]), ranks=ranks_by_id[chunk_id])
        for chunk_id, found in by_id.items()
    ]
    return sorted(candidates, key=lambda c: (-c.score, min(c.ranks.values()), c.found.chunk_id))


def _share(ranks: Mapping[Leg, int]) -> float:
    return sum(1 / (K + rank) for rank in ranks.values())


def _ordered(finds: Sequence[Found]) -> list[Found]:
    return sorted(finds, key=lambda found: (-found.score, found.chunk_id))


async def _run(
    snapshot: Snapshot,
    embedder: Embedder,
    query: str,
    *,
    legs: Sequence[Leg],
    depth: int,
    where: str | None,
) -> dict[Leg, list[Found]]:
    """What each leg finds. The text leg is under way while the query is being embedded."""
    tasks: dict[Leg, asyncio.Task[list[Found]]] = {}
    if "text" in legs:
        tasks["text"] = asyncio.create_task(snapshot.text_search(query, depth, where))
    if "vector" in legs:
        tasks["vector"] = asyncio.create_task(
            _vector_leg(snapshot, embedder, query, depth=depth, where=where)
        )
    try:
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return {leg: tasks[leg].result() for leg in legs}


async def _vector_leg(
    snapshot: Snapshot, embedder: Embedder, query: str, *, depth: int, where: str | None
) -> list[Found]:
    vector = await embedder.embed_query(query)
    return await snapshot.vector_search(vector, depth, where)


def _result(hit: Hit, score: float) -> SearchResult:
    chunk, row = hit.chunk, hit.row
    return SearchResult(
        chunk_id=chunk.id,
        document_id=row.id,
        document_uri=row.uri,
        document_title=row.title,
        revision=chunk.revision,
        content=chunk.content,
        score=score,
        headings=list(chunk.headings),
        labels=list(chunk.labels),
        page_numbers=list(chunk.page_numbers),
        doc_item_refs=list(chunk.doc_item_refs),
        metadata=dict(chunk.metadata),
    )
