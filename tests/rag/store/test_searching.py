"""Both legs give live chunks only, as a prefilter would: F43, F49, F50, and brute force beside."""

import random
import string
from dataclasses import replace

import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.rag.store.making import DIM, IDENTITY, put, revision, text_hits, unit, vector_hits

from haiku.rag.exceptions import IdentityMismatch
from haiku.rag.records import NewChunk
from haiku.rag.store import Snapshot, Store, legs, schema
from haiku.rag.store.changes import Delete, Move, Put


async def uris(
    snapshot: Snapshot, query: str, limit: int = 10, where: str | None = None
) -> list[str]:
    return [hit.row.uri for hit in await text_hits(snapshot, query, limit, where)]


async def test_a_rare_word_is_found_right_after_the_first_commit(store: Store) -> None:
    assert await text_hits(await store.snapshot(), "xylophone", 5) == []
    await store.commit([put("a", "xylophone"), put("b", "drum")])
    assert set(await uris(await store.snapshot(), "Xylophone")) == {"a"}


async def test_indexes_come_with_the_first_rows_and_cover_what_follows(store: Store) -> None:
    made = (await store.upkeep()).created  # none over zero rows; one has its head row
    assert {name.split(".")[0] for name in made} == {"document_meta"}
    await store.commit([put("a", "running in cafés")])
    await store.upkeep()
    await store.commit([put("b", "he runs to the cafe")])
    snapshot = await store.snapshot()
    assert set(await uris(snapshot, "run cafe")) == {"a", "b"}  # stems, accents, new rows
    info = await store.info()
    columns = {(i.table, i.column) for i in info.indexes}
    assert columns == {(t, c) for t, cs in schema.SCALAR_INDEXES.items() for c in cs} | {
        schema.FULL_TEXT
    }


async def test_a_hit_says_where_it_is_and_how_near(store: Store) -> None:
    await store.commit([put("a", "alpha", title="A"), put("b", "beta")])
    snapshot = await store.snapshot()
    (hit,) = await vector_hits(snapshot, unit("alpha part1"), 1)
    assert (hit.row.title, hit.chunk.content, hit.chunk.order) == ("A", "alpha part1", 1)
    assert hit.score == pytest.approx(1.0, abs=1e-5)
    assert list(hit.chunk.headings) == ["alpha"]
    assert hit.chunk.document_id == hit.row.id
    scores = [h.score for h in await vector_hits(snapshot, unit("alpha part1"), 10)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4
    assert await vector_hits(snapshot, unit("x"), 0) == []
    with pytest.raises(IdentityMismatch, match="length 3"):
        await vector_hits(snapshot, np.ones(3, np.float32), 5)


async def test_replaced_deleted_and_moved_documents(store: Store) -> None:
    await store.commit([put("a", "old words"), put("b", "gone words"), put("c", "moved words")])
    before = await store.snapshot()
    await store.commit([put("a", "new words"), Delete(uri="b"), Move(uri="c", to_uri="d")])
    after = await store.snapshot()
    assert set(await uris(before, "words")) == {"a", "b", "c"}
    assert set(await uris(after, "words")) == {"a", "d"}
    assert await uris(after, "old gone") == []
    near = await vector_hits(after, unit("old words part0"), 10)
    assert {h.row.uri for h in near} == {"a", "d"}
    assert len(near) == 4


async def test_rows_that_a_crash_left_take_no_place(store: Store) -> None:
    await store.commit([put(f"u{n}", "word", chunks=1) for n in range(3)])
    chunks = lance.dataset(f"{store.path}/chunks.lance")
    left = chunks.to_table().to_pylist() * 40
    for row in left:
        row["revision"] = "never committed"
    chunks.insert(pa.Table.from_pylist(left, schema=chunks.schema))
    await store.commit([put("u3", "word", chunks=1)])
    snapshot = await store.snapshot()
    assert sorted(await uris(snapshot, "word", 4)) == ["u0", "u1", "u2", "u3"]
    assert len({h.row.uri for h in await vector_hits(snapshot, unit("word part0"), 4)}) == 4


@pytest.mark.parametrize("listed", [True, False], ids=["listed up front", "checked afterwards"])
async def test_a_filter_loses_nothing(
    store: Store, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F50: one matching document, ranked last of many, is still returned."""
    if not listed:
        monkeypatch.setattr(legs, "MAX_INCLUDED", 0)
        monkeypatch.setattr(legs, "MAX_EXCLUDED", 0)
    await store.commit([put(f"u{n}", "needle " * 8, chunks=3) for n in range(300)])
    await store.commit([put("far", "needle and many other words that make it rank low", chunks=1)])
    await store.commit([put("u7", "needle anew", chunks=3)])
    snapshot = await store.snapshot()
    assert await uris(snapshot, "needle", 5, "uri = 'far'") == ["far"]
    query = -unit("needle and many other words that make it rank low part0")
    (hit,) = await vector_hits(snapshot, query, 5, "uri = 'far'")
    assert (hit.row.uri, round(hit.score)) == ("far", -1)
    assert len(await text_hits(snapshot, "needle", 20, "uri LIKE 'u%'")) == 20
    assert await uris(snapshot, "anew", 5, "uri LIKE 'u%'") == ["u7"] * 3
    assert await uris(snapshot, "needle", 5, "uri = 'nowhere'") == []


async def test_vector_search_is_what_brute_force_finds(store: Store) -> None:
    rng = random.Random(5)
    texts: dict[str, str] = {}
    for step in range(30):
        uri = f"u{rng.randrange(12)}"
        texts[uri] = f"text {step}"
        await store.commit([put(uri, texts[uri], chunks=3, metadata={"n": step % 2})])
    snapshot = await store.snapshot()
    every = {f"{t} part{n}": unit(f"{t} part{n}") for t in texts.values() for n in range(3)}
    for seed in range(10):
        query = unit(f"query {seed}")
        expected = sorted(every, key=lambda name: -float(every[name] @ query))[:7]
        assert [h.chunk.text for h in await vector_hits(snapshot, query, 7)] == expected
        odd = [h for h in await vector_hits(snapshot, query, 99) if h.row.metadata["n"]]
        filtered = await vector_hits(snapshot, query, 99, "metadata LIKE '%\"n\": 1%'")
        assert [h.chunk.id for h in filtered] == [h.chunk.id for h in odd]


async def test_plain_queries_are_never_parsed(store: Store) -> None:
    """F49: 2,000 random queries, no exception; the awkward ones find what their words say."""
    await store.commit([put("a", 'the OR gate: f(x) "quoted" {0} not~2 and* c++ O\'Brien')])
    await store.upkeep()
    snapshot = await store.snapshot()
    for query in ("gate:", "f(x", '"quoted', "{0}", "OR", "NOT gate", "and*", "not~2", "O'Brien"):
        assert await uris(snapshot, query), query
    for query in ("", " ", "\0", "\ud800", "(", ":", "\\", "🦀", "  \n\t", "+-&&||!^"):
        assert await uris(snapshot, query) == [], query
    rng = random.Random(49)
    for _ in range(2000):
        query = "".join(rng.choices(string.printable, k=rng.randrange(1, 30)))
        await text_hits(snapshot, query, 3)
    await text_hits(snapshot, "word " * 5000 + "x" * 100_000, 3)


async def test_vectors_are_known_by_the_text_they_came_from(store: Store) -> None:
    texts = [f"text {n}" for n in range(1200)]
    chunks = [NewChunk(content=t, text=t) for t in texts]
    vectors = np.stack([unit(t) for t in texts])
    await store.commit(
        [Put(uri="a", revision=replace(revision(""), chunks=chunks, vectors=vectors))]
    )
    hashes = [IDENTITY.text_hash(t) for t in texts]
    known = await store.known_vectors([*hashes, *hashes[:5], "no hash'", IDENTITY.text_hash("new")])
    assert set(known) == set(hashes)
    assert all(np.array_equal(known[h], v) for h, v in zip(hashes, vectors, strict=True))
    assert known[hashes[0]].shape == (DIM,)
    assert await store.known_vectors([]) == {}
    assert await store.known_vectors(["none"]) == {}
