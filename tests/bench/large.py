"""What grows with the number of chunks, and what does not."""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from haiku.rag.client import HaikuRAG
from haiku.rag.config import AppConfig
from haiku.rag.embed import identity
from haiku.rag.store import Store
from tests.bench import disk
from tests.bench.measures import Figure

#: Chunks of each document.
EACH = 50
#: Chunks of the database that the large one is compared with.
SMALL = 50_000

_RNG = random.Random(11)


def large(base: Path, chunks: int) -> list[Figure]:
    """The same look-ups, searches and commits in a small and in a large database."""
    small, big = (asyncio.run(_measure(base / str(n), n // EACH)) for n in (SMALL, chunks))
    return [
        Figure(
            f"{what}, {chunks:,} chunks against {SMALL:,}",
            f"{big[what] / small[what]:.2f} ×",
            "what does not scan: flat",
            f"{small[what]:.1f} → {big[what]:.1f} ms",
        )
        for what in small
    ]


async def _measure(path: Path, documents: int) -> dict[str, float]:
    """What is done → milliseconds, medians."""
    app = AppConfig()
    async with await Store.create(path, identity(app.embeddings.model), disk.STORAGE) as store:
        await disk.commit(store, (disk.put(f"u{n}", EACH) for n in range(documents)), 100)
        await disk.settle(store)

    async def opening() -> None:
        async with HaikuRAG(path, read_only=True, config=app) as client:
            await client.get_document_by_uri("u1")

    found = {"opening, and one document by its URI": await _median(opening, 5)}
    async with await Store.open(path, disk.STORAGE) as store:

        async def row() -> None:
            assert await store.row(f"u{_RNG.randrange(documents)}")

        async def commit() -> None:
            numbers = _RNG.sample(range(documents), 10)
            await store.commit([disk.put(f"u{n}", EACH) for n in numbers])

        async def text() -> None:
            words = " ".join(_RNG.choices(disk._WORDS, k=3))
            snapshot = await store.snapshot()
            await snapshot.hits(await snapshot.text_search(words, 10))

        async def vector() -> None:
            snapshot = await store.snapshot()
            query = disk._VECTORS[_RNG.randrange(len(disk._VECTORS))]
            await snapshot.hits(await snapshot.vector_search(query, 10))

        found["a document's row"] = await _median(row, 40)
        found["full-text search"] = await _median(text, 20)
        found["vector search (exact: it scans)"] = await _median(vector, 8)
        found["commit of ten documents"] = await _median(commit, 20)
    return found


async def _median(work: Callable[[], Awaitable[None]], times: int) -> float:
    """Milliseconds; the first run, which fills caches, is left out."""
    await work()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        await work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3
