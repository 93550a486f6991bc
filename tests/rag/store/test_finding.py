"""Look-ups by an indexed column: as a plain scan finds it, whatever the index covers."""

import random

import numpy as np
import pyarrow as pa
import pytest
from tests.rag.store.making import IDENTITY, put, unit

from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store, indexes, reading, schema
from haiku.rag.store.changes import Delete, Move
from haiku.rag.store.finding import Finder

URIS = [f"file:///{n}" for n in range(12)]


@pytest.mark.parametrize("seed", range(4))
async def test_rows_and_vectors_are_those_of_a_plain_scan(path, seed: int) -> None:
    """Puts, deletions and moves, some with upkeep in between; every version is looked at again."""
    rng = random.Random(seed)
    config = StorageConfig(compact_every=5, max_unindexed_rows=rng.choice([6, 1000]))
    finder, versions = Finder("uri"), []
    async with await Store.create(path, IDENTITY, config) as store:
        store._schedule_upkeep = lambda: None
        texts: set[str] = set()
        for number in range(14):
            changes = [change(rng, number) for _ in range(rng.randint(1, 3))]
            await store.commit(changes)
            texts |= {c.text for p in changes if hasattr(p, "revision") for c in p.revision.chunks}
            if rng.random() < 0.4:
                await store.upkeep()
            meta = store._tables.latest(schema.META)
            versions.append(meta.checkout_version(meta.version))
            snapshot = await store.snapshot()
            for uri in rng.sample(URIS, 4):
                assert await store.row(uri) == await snapshot.get_by_uri(uri)
            await check_vectors(store, rng.sample(sorted(texts), min(5, len(texts))))
        # Newest first: what it has seen deleted is not deleted in an older one.
        for meta in [*reversed(versions), *rng.sample(versions, 5)]:
            for wanted in (URIS[:1], URIS[1:2], URIS[2:3], URIS[3:]):
                found = finder.find(meta, wanted, ["uri", "row_version"], reading.LIVE)
                assert rows(found) == rows(plain(meta, wanted))


def change(rng: random.Random, number: int):
    uri = rng.choice(URIS)
    kind = rng.random()
    if kind < 0.15:
        return Delete(uri=uri)
    if kind < 0.3:
        return Move(uri=uri, to_uri=rng.choice(URIS))
    return put(uri, f"text {number} {rng.randint(0, 3)}", chunks=rng.randint(0, 4))


def plain(meta, wanted: list[str]) -> pa.Table:
    table = meta.to_table(columns=["uri", "row_version", "state"], use_scalar_index=False)
    kept = [row for row in table.to_pylist() if row["uri"] in wanted and row["state"] == "live"]
    return pa.Table.from_pylist(kept, table.schema).select(["uri", "row_version"])


def rows(table: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


async def check_vectors(store: Store, texts: list[str]) -> None:
    asked = {IDENTITY.text_hash(text): text for text in [*texts, "never written"]}
    known = await store.known_vectors([*asked, *asked])
    assert {asked[digest] for digest in known} == set(texts)
    for digest, vector in known.items():
        assert np.allclose(vector, unit(asked[digest]))


async def test_a_look_up_opens_no_fragment_that_cannot_have_it(store: Store, monkeypatch) -> None:
    """However many commits were made since the indexes were."""
    await store.commit([put("file:///0")])
    await store.upkeep()
    for number in range(1, 9):
        await store.commit([put(f"file:///{number}")])
    assert await store.row("nowhere") is None
    monkeypatch.setattr(Finder, "_read", counted := Reads(Finder._read))
    for number in range(9):
        row = await store.row(f"file:///{number}")
        assert row is not None
        assert row.uri == f"file:///{number}"
    assert await store.row("nowhere") is None
    meta = store._tables.latest(schema.META)
    assert len(meta.get_fragments()) - len(indexes.covered(meta, "uri")) >= 8
    assert counted.scans == 0


class Reads:
    """Counts the fragments whose values were not known yet."""

    def __init__(self, read) -> None:
        self._read, self.scans = read, 0

    def __get__(self, finder, _):
        def read(file, fragment):
            self.scans += file not in finder._values
            return self._read(finder, file, fragment)

        return read


async def test_many_values_are_asked_for_in_parts(store: Store) -> None:
    await store.commit([put(f"file:///{n}", chunks=1) for n in range(30)])
    asked = [IDENTITY.text_hash("text part0"), *(f"{n:064x}" for n in range(1200))]
    assert list(await store.known_vectors(asked)) == asked[:1]


async def test_a_uri_that_is_empty_or_not_utf8(store: Store) -> None:
    await store.commit([put("file:///\udcff")])
    row = await store.row("file:///\udcff")
    assert row is not None
    assert row.uri == "file:///%FF"
    assert await store.row("") is None
