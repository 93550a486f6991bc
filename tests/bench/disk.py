"""The store over time: disk, single commits, rewrites, memory of upkeep, growth of commits."""

import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import lance
import numpy as np

from haiku.rag.config.models import StorageConfig
from haiku.rag.records import Box, EmbeddingIdentity, NewChunk, NewItem
from haiku.rag.store import Store, schema
from haiku.rag.store.changes import NewRevision, Put
from haiku.rag.store.tables import size_on_disk
from tests.bench.measures import Figure

DIM = 384
IDENTITY = EmbeddingIdentity(provider="bench", name="random", dim=DIM)
#: Nothing is kept for time travel, and the grace is over soon.
STORAGE = StorageConfig(collect_after=4.0, history=0.0)

_WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in ("rt", "lm", "st", "n", "k")]
_RNG = random.Random(7)
_VECTORS = np.random.default_rng(7).normal(size=(4096, DIM)).astype(np.float32)


def put(uri: str, chunks: int, *, docling: int = 0) -> Put:
    """A document of random words and vectors; about 900 characters a chunk."""
    texts = [" ".join(_RNG.choices(_WORDS, k=200)) for _ in range(chunks)]
    start = _RNG.randrange(len(_VECTORS) - chunks) if chunks < len(_VECTORS) else 0
    box = Box(page=1, left=1.5, top=2.5, right=3.5, bottom=4.5)
    return Put(
        uri=uri,
        revision=NewRevision(
            revision="",
            content="\n\n".join(texts),
            docling=os.urandom(docling or 600 * chunks),
            chunks=[NewChunk(content=t, text=t, page_numbers=(1,), token_count=230) for t in texts],
            vectors=_VECTORS[start : start + chunks],
            items=[
                NewItem(ref=f"#/texts/{n}", label="text", text=t, boxes=(box,))
                for n, t in enumerate(texts)
            ],
        ),
    )


async def commit(store: Store, puts: Iterable[Put], size: int) -> None:
    """Commit in groups."""
    held: list[Put] = []
    for one in puts:
        held.append(one)
        if len(held) == size:
            await store.commit(held)
            held = []
    if held:
        await store.commit(held)


async def settle(store: Store) -> None:
    """Vacuum, with the grace between, until nothing waits."""
    while (again := (await store.vacuum()).again_in) is not None:
        await asyncio.sleep(again)


def live_bytes(store: Store, scratch: Path) -> int:
    """Bytes of the live rows, each table written once: no index, no version, nothing dead."""
    total = 0
    for name in (schema.META, *schema.APPENDED):
        table = lance.dataset(f"{store.path}/{name}.lance")
        path = scratch / f"{name}.lance"
        lance.write_dataset(table.scanner().to_reader(), path, mode="create")
        total += size_on_disk(str(path)) or 0
        shutil.rmtree(path)
    return total


def disk(base: Path) -> list[Figure]:
    """Bytes against the live data, after an ingest and after a vacuum (F71)."""

    async def run() -> tuple[float, float, float]:
        async with await Store.create(base / "disk", IDENTITY, STORAGE) as store:
            await commit(store, (put(f"u{n}", 27) for n in range(300)), 8)
            before = size_on_disk(store.path) or 0
            await asyncio.sleep(STORAGE.collect_after)
            await settle(store)
            live = live_bytes(store, base)
            return live, before / live, (size_on_disk(store.path) or 0) / live

    live, before, after = asyncio.run(run())
    note = f"{live / 1e6:.1f} MB live"
    return [
        Figure(
            "disk after 300 documents in groups, before vacuum", f"{before:.2f} ×", "≤ 3 ×", note
        ),
        Figure("after vacuum, history 0", f"{after:.2f} ×", "≤ 1.5 ×", "indexes included"),
    ]


def singles(base: Path, count: int) -> list[Figure]:
    """One document rewritten by single commits, among some."""

    async def run() -> tuple[list[float], list[int], float]:
        seconds, sizes = [], []
        async with await Store.create(base / "singles", IDENTITY, STORAGE) as store:
            await commit(store, (put(f"u{n}", 20) for n in range(50)), 10)
            for n in range(count):
                change = put(f"u{n % 50}", 20)
                started = time.perf_counter()
                await store.commit([change])
                seconds.append(time.perf_counter() - started)
                if n % 40 == 39:
                    sizes.append(size_on_disk(store.path) or 0)
            await asyncio.sleep(STORAGE.collect_after)
            await settle(store)
            return seconds, sizes, size_on_disk(store.path) or 0

    seconds, sizes, end = asyncio.run(run())
    tenth = max(1, count // 10)
    first, last = (statistics.median(s) * 1e3 for s in (seconds[:tenth], seconds[-tenth:]))
    half = len(sizes) // 2
    early, late = max(sizes[:half]), max(sizes[half:])
    return [
        Figure(
            f"{count} single commits: the last tenth",
            f"{last / first:.2f} ×",
            "flat",
            f"p50 {first:.0f} → {last:.0f} ms",
        ),
        Figure(
            "disk in the second half against the first",
            f"{late / early:.2f} ×",
            "flat",
            f"at most {early / 1e6:.0f} → {late / 1e6:.0f} MB; {end / 1e6:.1f} MB in the end",
        ),
    ]


def rewrites(base: Path, count: int, chunks: int) -> list[Figure]:
    """Search before and after many rewrites of one document among many chunks."""

    async def times(store: Store) -> list[float]:
        found = []
        for n in range(30):
            snapshot = await store.snapshot()
            started = time.perf_counter()
            await asyncio.gather(
                snapshot.vector_search(_VECTORS[n * 7], 10),
                snapshot.text_search(" ".join(_RNG.choices(_WORDS, k=3)), 10),
            )
            found.append(time.perf_counter() - started)
        return found

    async def run() -> tuple[float, float]:
        # By default the dead stay for minutes: nothing is collected before the second search.
        async with await Store.create(base / "rewrites", IDENTITY, StorageConfig()) as store:
            await commit(store, (put(f"u{n}", 25) for n in range(chunks // 25)), 100)
            await store.upkeep()
            await times(store)
            before = await times(store)
            for _ in range(count):
                await store.commit([put("u3", 20)])
            after = await times(store)
            return statistics.median(before) * 1e3, statistics.median(after) * 1e3

    before, after = asyncio.run(run())
    return [
        Figure(
            f"search after {count} rewrites among {chunks:,} chunks",
            f"{after / before:.2f} ×",
            "≤ 1.5 ×",
            f"both legs, p50 {before:.0f} → {after:.0f} ms",
        ),
    ]


def memory(base: Path, documents: int) -> list[Figure]:
    """Peak memory of a vacuum of a table, and of one ten times larger (S7)."""
    peaks = []
    for size in (documents, 10 * documents):
        command = [sys.executable, "-m", "tests.bench.disk", str(base / f"m{size}"), str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    return [
        Figure(
            "peak memory of vacuum, table ten times larger",
            f"{peaks[1] / peaks[0]:.2f} ×",
            "± 20 %",
            f"{peaks[0] / 1e6:.0f} → {peaks[1] / 1e6:.0f} MB, all of the process",
        ),
    ]


async def _vacuum_once(path: str, documents: int) -> int:
    """A fifth of the documents replaced, then a vacuum: the peak of the resident memory."""
    async with await Store.create(path, IDENTITY, STORAGE) as store:
        await commit(store, (put(f"u{n}", 20, docling=100_000) for n in range(documents)), 50)
        await commit(store, (put(f"u{n}", 20, docling=100_000) for n in range(0, documents, 5)), 50)
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.disk", path, "vacuum", stdout=subprocess.PIPE
    )
    out, _ = await done.communicate()
    return int(out)


async def _vacuum(path: str) -> int:
    async with await Store.open(path, STORAGE) as store:
        await settle(store)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def growth(base: Path, sizes: Sequence[int]) -> list[Figure]:
    """A commit of ten documents, at more and more documents."""

    async def run() -> list[float]:
        found = []
        async with await Store.create(base / "growth", IDENTITY, STORAGE) as store:
            there = 0
            for size in sizes:
                more = (put(f"d{n}", 1, docling=10) for n in range(there, size))
                await commit(store, more, 2000)
                there = size
                await settle(store)
                seconds = []
                for n in range(60):
                    group = [put(f"d{(n * 10 + k) % size}", 1, docling=10) for k in range(10)]
                    started = time.perf_counter()
                    await store.commit(group)
                    seconds.append(time.perf_counter() - started)
                found.append(statistics.median(seconds) * 1e3)
        return found

    found = asyncio.run(run())
    each = ", ".join(f"{s:,}: {ms:.0f} ms" for s, ms in zip(sizes, found, strict=True))
    return [
        Figure(
            "commit of ten documents against their number",
            f"{found[-1] / found[0]:.2f} ×",
            "≤ 2 ×",
            each,
        ),
    ]


if __name__ == "__main__":
    if sys.argv[2] == "vacuum":
        print(asyncio.run(_vacuum(sys.argv[1])))
    else:
        print(asyncio.run(_vacuum_once(sys.argv[1], int(sys.argv[2]))))
