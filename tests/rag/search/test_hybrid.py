"""Fusion, the legs, and what becomes of odd queries."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_fakes import FakeEmbedder, FakeSnapshot, hit

from haiku.rag.exceptions import EmbedderUnavailable, StoreError
from haiku.rag.search import hybrid, search


async def test_a_hit_of_both_legs_comes_before_the_best_of_one() -> None:
    snapshot = FakeSnapshot(
        vector_hits=[hit("a", 0.9), hit("b", 0.8)], text_hits=[hit("c", 12.0), hit("b", 3.0)]
    )
    found = await search(snapshot, FakeEmbedder(), "q", limit=3)
    assert [result.chunk_id for result in found] == ["b", "a", "c"]
    assert found[0].score == pytest.approx(2 / 62)
    assert found[1].score == pytest.approx(1 / 61)


async def test_a_result_carries_what_the_hit_says() -> None:
    (result,) = await search(
        FakeSnapshot(text_hits=[hit("a", 2.5)]), FakeEmbedder(), "q", limit=1, search_type="fts"
    )
    assert result.model_dump() == {
        "chunk_id": "a",
        "document_id": "d",
        "document_uri": "file:///d.md",
        "document_title": "D",
        "revision": "r1",
        "content": "content of a",
        "score": 2.5,
        "headings": ["H"],
        "labels": ["text"],
        "page_numbers": [1],
        "doc_item_refs": ["#/texts/0"],
        "metadata": {"k": 1},
    }


@pytest.mark.parametrize(
    ("kind", "asked", "scores"),
    [("vector", ["vector"], [0.5, 0.25]), ("fts", ["text"], [7.0, 4.0])],
)
async def test_one_leg_alone_keeps_its_own_scores(
    kind: hybrid.SearchType, asked: list[str], scores: list[float]
) -> None:
    snapshot = FakeSnapshot(
        vector_hits=[hit("a", 0.25), hit("b", 0.5)], text_hits=[hit("a", 4.0), hit("c", 7.0)]
    )
    found = await search(snapshot, FakeEmbedder(), "q", limit=2, search_type=kind)
    assert [result.score for result in found] == scores
    assert [call[0] for call in snapshot.calls] == asked


async def test_full_text_needs_no_embedder() -> None:
    embedder = FakeEmbedder(error=EmbedderUnavailable("down"))
    found = await search(
        FakeSnapshot(text_hits=[hit("a", 1)]), embedder, "q", limit=1, search_type="fts"
    )
    assert len(found) == 1
    assert embedder.texts == []


async def test_ties_are_broken_the_same_way_whatever_the_order() -> None:
    hits = [hit(name, 1.0) for name in "dbca"]
    for vector, text in ((hits, hits[::-1]), (hits[::-1], hits)):
        snapshot = FakeSnapshot(vector_hits=vector, text_hits=text)
        found = await search(snapshot, FakeEmbedder(), "q", limit=9)
        assert [result.chunk_id for result in found] == list("abcd")


async def test_equal_ranks_in_different_legs_score_the_same() -> None:
    snapshot = FakeSnapshot(
        vector_hits=[hit("x", 0.9), hit("y", 0.8), hit("b", 0.1)],
        text_hits=[hit("b", 9), hit("y", 8), hit("x", 7)],
    )
    found = await search(snapshot, FakeEmbedder(), "q", limit=3)
    assert found[0].score == found[1].score
    assert [result.chunk_id for result in found] == ["b", "x", "y"]


async def test_the_text_leg_is_under_way_while_the_query_is_embedded() -> None:
    snapshot = FakeSnapshot(vector_hits=[hit("a", 1)])
    embedder = FakeEmbedder(after=snapshot.text_begun)
    await asyncio.wait_for(search(snapshot, embedder, "q", limit=1), 5)


async def test_both_legs_get_the_filter_and_the_depth() -> None:
    snapshot = FakeSnapshot()
    await search(snapshot, FakeEmbedder(), "q", limit=80, where="id = 'x'")
    assert sorted(snapshot.calls) == [("text", "q", 160, "id = 'x'"), ("vector", 160, "id = 'x'")]


async def test_an_embedder_that_fails_fails_the_search_and_ends_the_other_leg() -> None:
    snapshot = FakeSnapshot(text_waits=True)
    embedder = FakeEmbedder(after=snapshot.text_begun, error=EmbedderUnavailable("down"))
    with pytest.raises(EmbedderUnavailable):
        await search(snapshot, embedder, "q", limit=1)
    assert snapshot.text_cancelled


async def test_a_text_leg_that_fails_does_not_wait_for_the_embedder() -> None:
    snapshot = FakeSnapshot(text_error=StoreError("gone"))
    with pytest.raises(StoreError):
        await asyncio.wait_for(
            search(snapshot, FakeEmbedder(after=asyncio.Event()), "q", limit=1), 5
        )


async def test_cancelling_a_search_ends_its_legs() -> None:
    snapshot = FakeSnapshot(text_waits=True)
    task = asyncio.create_task(search(snapshot, FakeEmbedder(), "q", limit=1))
    await snapshot.text_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert snapshot.text_cancelled


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "\x00\x07", "\ud800"])
async def test_a_blank_query_has_no_hits_and_asks_nobody(query: str) -> None:
    snapshot = FakeSnapshot(vector_hits=[hit("a", 1)], text_hits=[hit("a", 1)])
    embedder = FakeEmbedder()
    assert await search(snapshot, embedder, query, limit=5) == []
    assert snapshot.calls == []
    assert embedder.texts == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_no_hits_wanted(limit: int) -> None:
    assert (
        await search(FakeSnapshot(text_hits=[hit("a", 1)]), FakeEmbedder(), "q", limit=limit) == []
    )


async def test_a_huge_limit_returns_what_there_is() -> None:
    snapshot = FakeSnapshot(text_hits=[hit("a", 1)])
    assert len(await search(snapshot, FakeEmbedder(), "q", limit=10**6)) == 1


async def test_an_unknown_search_type_is_refused() -> None:
    with pytest.raises(ValueError, match="hybrid, vector, fts"):
        await search(FakeSnapshot(), FakeEmbedder(), "q", limit=1, search_type="magic")  # type: ignore[arg-type]


@given(st.text(st.characters()))
def test_a_plain_query_is_one_clean_line(query: str) -> None:
    text = hybrid.plain(query)
    text.encode()
    assert text == " ".join(text.split())
    assert not any(ord(char) < 32 for char in text)


def test_a_plain_query_keeps_its_words_and_signs() -> None:
    assert (
        hybrid.plain('a:b (c) "d" {0} OR\x00e  می\u200cخواهم 采购')
        == 'a:b (c) "d" {0} OR e می\u200cخواهم 采购'
    )
    assert len(hybrid.plain("x" * 10**6)) == hybrid.MAX_QUERY_CHARS
