"""Four processes write the same and different documents while one reads: S1–S4 (F31)."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.rag.store.making import CONFIG, contents, put
from tests.rag.store.racing import COUNTER, PAIR

from haiku.rag.store import Store
from haiku.rag.store.changes import ABSENT

ROUNDS = 10
ROOT = Path(__file__).parents[3]


class Racer:
    """One process; see `racing`."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.rag.store.racing",
            *self._arguments,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"ready\n"

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def end(self) -> dict[str, Any]:
        out, _ = await self._process.communicate(b"")  # its input ends
        assert self._process.returncode == 0
        result: dict[str, Any] = json.loads(out)
        return result


@pytest.mark.slow
async def test_writers_and_readers_in_processes_of_their_own(store: Store) -> None:
    await store.commit([put(COUNTER, metadata={"n": 0}), *(put(f"{PAIR[0]}/{n}") for n in "ab")])
    writers = [Racer("write", store.path, f"writer{n}", str(ROUNDS)) for n in range(4)]
    reader = Racer("read", store.path)
    await asyncio.gather(*(racer.start() for racer in [*writers, reader]))
    for racer in [*writers, reader]:
        racer.begin()
    written = await asyncio.gather(*(writer.end() for writer in writers))
    read = await reader.end()

    found = await contents(store)
    for writer in written:
        assert {uri: found[uri] for uri in writer["own"]} == writer["own"]
        assert writer["upkeep_errors"] is None
    row = await (await store.snapshot()).get_by_uri(COUNTER)
    assert row is not None
    assert row.metadata["n"] == sum(w["increments"] for w in written) > 0
    assert len([u for u in found if u.startswith("once/")]) == sum(w["creations"] for w in written)
    assert sum(w["lost_races"] for w in written) > 0  # they did meet
    assert read["looks"] > 0
    assert read["halves"] == 0


async def test_many_creators_of_one_uri_make_one_document(store: Store) -> None:
    """F31: a hundred creations at the same URIs, from stores that know nothing of each other."""
    stores = [store, *[await Store.open(store.path, CONFIG) for _ in range(3)]]
    for n in range(25):
        tries = [s.commit([put(f"u{n}", f"by {i}", expected=ABSENT)]) for i, s in enumerate(stores)]
        results = [o.result for (o,) in await asyncio.gather(*tries)]
        assert sorted(results) == ["conflict"] * 3 + ["done"]
        row = await (await store.snapshot()).get_by_uri(f"u{n}")
        assert row is not None
        assert await (await store.snapshot()).content(row) == f"by {results.index('done')}"
    assert len(await contents(store)) == 25
    for other in stores[1:]:
        await other.close()
