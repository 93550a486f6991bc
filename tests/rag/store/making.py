"""What the store's tests are made of: revisions, stores, and the invariants to check."""

from collections import Counter
from hashlib import sha256
from typing import Any

import numpy as np

from haiku.rag.config.models import StorageConfig
from haiku.rag.records import Box, EmbeddingIdentity, NewChunk, NewItem
from haiku.rag.store import Hit, Snapshot, Store, schema
from haiku.rag.store.changes import NewRevision, Put

DIM = 8
IDENTITY = EmbeddingIdentity(provider="test", name="vectors", dim=DIM)
CONFIG = StorageConfig()


def unit(seed: int | str) -> np.ndarray:
    """A unit vector that depends on the seed alone."""
    number = int.from_bytes(sha256(repr(seed).encode()).digest()[:7], "big")
    vector = np.random.default_rng(number).normal(size=DIM).astype(np.float32)
    return vector / np.linalg.norm(vector)


async def text_hits(
    snapshot: Snapshot, query: str, limit: int, where: str | None = None
) -> list[Hit]:
    """What a full-text search finds, read."""
    return await snapshot.hits(await snapshot.text_search(query, limit, where))


async def vector_hits(
    snapshot: Snapshot, vector: np.ndarray, limit: int, where: str | None = None
) -> list[Hit]:
    """What a vector search finds, read."""
    return await snapshot.hits(await snapshot.vector_search(vector, limit, where))


def revision(text: str, chunks: int = 2, items: int = 2, **fields: Any) -> NewRevision:
    """A revision whose content, chunks and items all say `text`."""
    texts = [f"{text} part{i}" for i in range(chunks)]
    values: dict[str, Any] = {
        "revision": "",
        "content": text,
        "docling": text.encode("utf-8", "replace"),
        "chunks": [NewChunk(content=t, text=t, headings=(text,), page_numbers=(1,)) for t in texts],
        "vectors": np.stack([unit(t) for t in texts]) if texts else np.empty((0, DIM), np.float32),
        "items": [
            NewItem(
                ref=f"#/texts/{i}",
                label="paragraph",
                text=text,
                boxes=(Box(page=1, left=0.1, top=1, right=2.5, bottom=3),),
            )
            for i in range(items)
        ],
    }
    return NewRevision(**{**values, **fields})


def put(uri: str, text: str = "text", *, chunks: int = 2, **fields: Any) -> Put:
    """A `Put` of `revision(text)`."""
    return Put(uri=uri, revision=revision(text, chunks), **fields)


async def check(snapshot: Snapshot) -> dict[str, str]:
    """S1 and S2 on a snapshot; uri → content of the live documents.

    Every live revision has all its rows, and those rows say one and the same text; there is one
    row a URI and one live row an id.
    """
    meta = snapshot._view.meta.to_table(columns=["uri", "id", "state"]).to_pylist()
    uris = Counter(row["uri"] for row in meta)
    assert set(uris.values()) == {1}, uris.most_common(3)
    live = Counter(row["id"] for row in meta if row["state"] == "live")
    assert set(live.values()) <= {1}, live.most_common(3)
    found = {}
    for row in await snapshot.rows():
        content = await snapshot.content(row)
        chunks = await snapshot.chunks(row)
        items = await snapshot.items(row)
        assert (len(chunks), len(items)) == (row.chunk_count, row.item_count), row.uri
        assert [c.order for c in chunks] == list(range(len(chunks)))
        assert {c.document_id for c in chunks} <= {row.id}
        assert {i.text for i in items} <= {content}
        assert [c.text for c in chunks] == [f"{content} part{n}" for n in range(len(chunks))]
        found[row.uri] = content
    documents = snapshot._view.datasets[schema.DOCUMENTS].to_table(columns=["revision"])
    assert max(Counter(documents["revision"].to_pylist()).values(), default=1) == 1
    return found


async def contents(store: Store) -> dict[str, str]:
    """`check` on the newest snapshot."""
    return await check(await store.snapshot())


async def dump(snapshot: Snapshot) -> dict[str, Any]:
    """URI → everything readers can see of a document, to the byte, but not its revision's name."""
    tables = {
        table: dataset.to_table().to_pylist()
        for table, dataset in snapshot._view.datasets.items()
        if table != schema.META
    }
    own = ("revision", "row_version")
    found = {}
    for row in await snapshot.rows():
        parts = {
            table: sorted(
                (
                    {name: value for name, value in data.items() if name != "revision"}
                    for data in rows
                    if data["revision"] == row.revision
                ),
                key=lambda data: data.get("order", 0),
            )
            for table, rows in tables.items()
        }
        fields = {n: getattr(row, n) for n in type(row).__dataclass_fields__ if n not in own}
        found[row.uri] = {"row": fields, **parts}
    return found
