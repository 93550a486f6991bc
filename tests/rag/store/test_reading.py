"""Rows by filter, order and page; names and texts of any kind (F45); LanceDB beside."""

from datetime import UTC, datetime, timedelta
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rag.store.making import CONFIG, IDENTITY, check, contents, put, revision

from haiku.rag.exceptions import StoreError
from haiku.rag.store import Store, sql
from haiku.rag.store.changes import Delete, Put, UpdateMeta

AWKWARD = [
    "O'Brien.md",
    "x' OR 1=1 --",
    "100%_sure.md",
    "back\\slash'",
    "line\nbreak\ttab",
    "nul\0nul",
    "cut\udc80off",
    "cut\udc81off",
    "half\ud83d",
    "\U0001f980 crab é 文",
    '"quoted" `ticked` ;--/*',
    "?$1:name{0}",
]


async def test_names_of_any_kind_are_names(store: Store) -> None:
    await store.commit([put(uri, f"text {n}") for n, uri in enumerate(AWKWARD)])
    snapshot = await store.snapshot()
    assert await snapshot.count() == len(AWKWARD)
    found = await snapshot.by_uris([*AWKWARD, "none", ""])
    assert list(found) == AWKWARD
    for n, uri in enumerate(AWKWARD):
        row = await snapshot.get_by_uri(uri)
        assert row is not None
        assert await snapshot.content(row) == f"text {n}"
        assert await snapshot.get_by_uri(row.uri) == row
    for uri in AWKWARD:
        (outcome,) = await store.commit([Delete(uri=uri)])
        assert outcome.result == "done"
        assert await (await store.snapshot()).get_by_uri(uri) is None
    assert await (await store.snapshot()).count() == 0


async def test_texts_of_any_kind_are_kept(store: Store) -> None:
    text = "nul\0 control\x01 'quotes' \U0001f980 half\ud83d"
    metadata = {"k'": text, "when": datetime(2026, 1, 1, tzinfo=UTC), "é": [1.5, None, {"d": True}]}
    await store.commit([Put(uri="a", revision=revision(text), title=text, metadata=metadata)])
    snapshot = await store.snapshot()
    (row,) = await snapshot.rows()
    kept = text.replace("\ud83d", "\ufffd")
    assert (await snapshot.content(row), row.title) == (kept, kept)
    assert row.metadata["k'"] == kept
    assert row.metadata["é"] == [1.5, None, {"d": True}]
    assert row.metadata["when"].startswith("2026-01-01")
    (chunk, _) = await snapshot.chunks(row)
    assert chunk.text == f"{kept} part0"
    assert (await snapshot.items(row))[0].text == kept
    hashed = IDENTITY.text_hash(f"{text} part0")
    assert set(await store.known_vectors([hashed])) == {hashed}
    assert await snapshot.count("metadata LIKE '%é%'") == 1


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A Lance table with one row, whose name is "other"."""
    folder = tmp_path_factory.mktemp("names")
    return lance.write_dataset(pa.table({"name": ["other"]}), f"{folder}/names.lance")


@settings(max_examples=150, deadline=None)
@given(value=st.one_of(st.text(max_size=20), st.sampled_from([*AWKWARD, "other"])))
def test_a_literal_is_the_value_and_nothing_else(names: Any, value: str) -> None:
    assert names.count_rows(filter=sql.equals("name", value)) == (value == "other")
    same = names.scanner(columns={"name": "name", "same": sql.literal(value)}).to_table()
    assert same["same"].to_pylist() == [sql.clean(value)]


@given(first=st.text(min_size=1), second=st.text(min_size=1))
def test_different_names_without_percent_signs_stay_different(first: str, second: str) -> None:
    cleaned = sql.clean_uri(first), sql.clean_uri(second)
    cleaned[0].encode()
    assert sql.clean_uri(cleaned[0]) == cleaned[0]
    if "%" not in first + second:
        assert (cleaned[0] == cleaned[1]) == (first == second)


def test_conditions_join() -> None:
    assert sql.within("a", []) == "false"
    assert sql.without("a", []) is None
    assert sql.both(None, None) is None
    assert sql.both("a = 1 OR b = 2", None, "c") == "(a = 1 OR b = 2) AND (c)"
    assert [list(p) for p in sql.parts(range(5), 2)] == [[0, 1], [2, 3], [4]]


async def test_rows_come_in_a_stable_order_by_pages(store: Store) -> None:
    await store.commit([put(f"u{n}", title=f"T{n % 3}") for n in range(9)])
    await store.commit([put(f"v{n}") for n in range(3)])
    snapshot = await store.snapshot()
    rows = await snapshot.rows()
    assert [row.uri for row in rows[:3]] == sorted(r.uri for r in rows if r.uri[0] == "v")
    pages = [row for n in range(0, 12, 5) for row in await snapshot.rows(limit=5, offset=n)]
    assert pages == rows
    assert await snapshot.rows(limit=0) == []
    assert {r.uri for r in await snapshot.rows("title = 'T1'")} == {"u1", "u4", "u7"}
    assert await snapshot.count("title IS NULL OR title = 'T1'") == 6
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert await snapshot.count(f"created_at < timestamp '{soon}'") == 12
    assert await snapshot.count("uri = ''") == 0  # the head row is nobody's document
    batches = [row async for batch in snapshot.iter_rows("uri LIKE 'u%'") for row in batch]
    assert sorted(r.uri for r in batches) == [f"u{n}" for n in range(9)]


async def test_a_row_of_another_snapshot_may_be_too_new(store: Store) -> None:
    old = await store.snapshot()
    (outcome,) = await store.commit([put("a")])
    assert outcome.row is not None
    with pytest.raises(StoreError, match="not in this snapshot"):
        await old.content(outcome.row)


async def test_another_reader_sees_a_commit_at_once(store: Store) -> None:
    async with await Store.open(store.path, CONFIG, read_only=True) as reader:
        for n in range(20):
            await store.commit([put(f"u{n % 3}", f"text {n}")])
            assert (await contents(reader))[f"u{n % 3}"] == f"text {n}"


async def test_lancedb_reads_what_we_write_and_we_read_what_it_compacts(store: Store) -> None:
    await store.commit([put("a", "alpha words"), put("b", "beta")])
    await store.upkeep()
    await store.commit([put("b", "gamma"), UpdateMeta(uri="a", title="T")])
    database = await lancedb.connect_async(store.path)
    assert sorted(await database.table_names()) == [
        "chunks",
        "document_items",
        "document_meta",
        "documents",
        "settings",
    ]
    meta = await database.open_table("document_meta")
    rows = await meta.query().where("state = 'live'").to_list()
    assert {row["uri"]: row["title"] for row in rows} == {"a": "T", "b": None}
    chunks = await database.open_table("chunks")
    found = await (await chunks.search("alpha", query_type="fts")).limit(5).to_list()
    assert {row["content"] for row in found} == {"alpha words part0", "alpha words part1"}
    for name in await database.table_names():
        await (await database.open_table(name)).optimize()
    assert await check(await store.snapshot()) == {"a": "alpha words", "b": "gamma"}
    await store.commit([put("c", "delta")])
    assert len(await contents(store)) == 3
