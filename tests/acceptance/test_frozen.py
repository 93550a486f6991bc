"""S9: a writer that was frozen, for however long, never undoes what came meanwhile."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store
from haiku.rag.store.changes import Delete, Move
from tests.acceptance import checking
from tests.acceptance.freezing import POINTS
from tests.rag.store.making import IDENTITY, put

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
#: Seconds; half of it makes an append too old to be made visible.
COLLECT_AFTER = 1.0
NAMES = "abcde"
#: Random moments to freeze at; when it is given, the slow tests take every point as well.
MOMENTS = int(os.environ.get("FREEZES", "8"))
#: The points at which a collector, and a restore, are most likely to do harm.
COLLECTED = ["append document_items", "append chunks", "merge", "execute"]
RESTORED = ["check", "append chunks", "merge", "execute", "merged"]
if "FREEZES" in os.environ:
    COLLECTED, RESTORED = POINTS[POINTS.index(COLLECTED[0]) :], POINTS

Meanwhile = Callable[[Store, str], Awaitable[None]]


class Frozen:
    """A process that commits and stops itself; see `freezing`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._look = psutil.Process(process.pid)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, store: Store) -> "AsyncIterator[Frozen]":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.acceptance.freezing", store.path, str(COLLECT_AFTER)),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            yield cls(process)
        finally:
            process.kill()
            await process.wait()

    def begin(self, name: str, at: str, *, expect: bool) -> None:
        """Have it commit, and stop at a point; "" for none."""
        assert self._process.stdin is not None
        command = json.dumps({"round": name, "at": at, "expect": expect})
        self._process.stdin.write(f"{command}\n".encode())

    async def stopped(self) -> None:
        """Wait until it is."""
        async with asyncio.timeout(60):
            while self._look.status() != psutil.STATUS_STOPPED:
                await asyncio.sleep(0.002)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    async def wake(self) -> dict[str, Any]:
        """Let it go on; returns what became of its commit."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    config = StorageConfig(collect_after=COLLECT_AFTER)
    async with await Store.create(tmp_path / "db.lancedb", IDENTITY, config) as store:
        await store.commit([put("first")])
        await store.upkeep()
        yield store


async def before(store: Store, name: str) -> None:
    await store.commit([put(f"{name}/{uri}", f"{uri} before") for uri in NAMES])


async def under(store: Store, name: str) -> dict[str, str]:
    """What a round's documents are now, by the last part of the URI; S1 and S2 of all."""
    assert checking.look(Path(store.path)).wrong == []
    snapshot = await store.snapshot()
    rows = await snapshot.rows(f"uri LIKE '{name}/%'")
    return {row.uri.split("/")[1]: await snapshot.content(row) for row in rows}


async def has_committed(store: Store, name: str, point: str) -> bool:
    """Whether the frozen commit has happened: after the merge, unless it lost and begins again."""
    committed = "fresh" in await under(store, name)
    assert point == "merged" or not committed
    return committed


async def everything_changes(store: Store, name: str) -> None:
    """Every document of a round gets another content, goes, or is somewhere else."""
    await store.commit(
        [
            put(f"{name}/a", "newer"),
            Delete(uri=f"{name}/b"),
            Move(uri=f"{name}/c", to_uri=f"{name}/z"),
            put(f"{name}/d", "newer"),
            put(f"{name}/e", "newer"),
        ]
    )


async def test_whoever_expects_the_old_state_loses_at_every_point(store: Store) -> None:
    async with Frozen.start(store) as frozen:
        for number, point in enumerate(POINTS):
            name = f"{number}"
            await before(store, name)
            frozen.begin(name, point, expect=True)
            await frozen.stopped()
            committed = await has_committed(store, name, point)
            await everything_changes(store, name)
            newer = await under(store, name)
            told = await frozen.wake()
            if committed:
                assert told["results"] == ["done"] * 6
                assert await under(store, name) == newer
            else:
                lost = ["conflict", "conflict", "absent", "conflict", "conflict", "done"]
                assert told["results"] == lost, point
                assert await under(store, name) == newer | {"fresh": "fresh"}, point
        await before(store, "last")
        frozen.begin("last", "", expect=True)
        # Nothing was left out.
        assert list(dict.fromkeys((await frozen.wake())["seen"])) == POINTS


async def test_whoever_takes_what_is_there_repeats_at_every_point(store: Store) -> None:
    """Frozen until the collector has taken away what it had appended, it appends it again."""
    collected: dict[str, int] = {}
    async with Frozen.start(store) as frozen:
        for number, point in enumerate(POINTS):
            name = f"{number}"
            await before(store, name)
            frozen.begin(name, point, expect=False)
            await frozen.stopped()
            committed = await has_committed(store, name, point)
            await store.commit([Delete(uri=f"{name}/b"), put(f"{name}/fresh", "theirs")])
            if point in COLLECTED:
                collected[point] = await collect(store)
            told = await frozen.wake()
            assert told["results"] == ["done"] * 6, point
            found = await under(store, name)
            mine = {"a": "stale", "c": "c before", "moved": "d before"}
            if committed:
                assert found == mine | {"fresh": "theirs"}
            else:
                assert found == mine | {"b": "stale", "fresh": "fresh"}, point
    assert all(collected.values()), collected


async def collect(store: Store) -> int:
    """Have everything taken away that no document names; returns how many revisions that were."""
    await store.vacuum(full=True)  # first sight
    await asyncio.sleep(COLLECT_AFTER * 1.05)
    return (await store.vacuum(full=True)).collected_revisions


async def test_a_restore_is_not_undone_at_any_point(store: Store) -> None:
    """Frozen with what was true before, while the state before that is restored."""
    async with Frozen.start(store) as frozen:
        for number, point in enumerate(RESTORED):
            name = f"t{number}"
            await before(store, name)
            tagged = await under(store, name)
            await store.create_tag(name)
            await store.commit([put(f"{name}/{uri}", "between") for uri in NAMES])
            frozen.begin(name, point, expect=True)
            await frozen.stopped()
            committed = await has_committed(store, name, point)
            await store.restore_tag(name)
            assert await under(store, name) == tagged
            told = await frozen.wake()
            if committed:
                assert await under(store, name) == tagged
            else:
                assert told["results"] == ["conflict"] * 5 + ["done"], point
                assert await under(store, name) == tagged | {"fresh": "fresh"}, point


async def test_frozen_at_any_moment(store: Store) -> None:
    """Not only at the points: wherever the process happens to be, inside Lance as well."""
    rng = random.Random(11)
    results = set()
    async with Frozen.start(store) as frozen:
        for number in range(MOMENTS):
            name = f"{number}"
            await before(store, name)
            frozen.begin(name, "", expect=True)
            await asyncio.sleep(rng.uniform(0, 0.12))
            frozen.stop()
            await frozen.stopped()
            was = await under(store, name)
            won = was["a"] == "stale"
            assert won == ("fresh" in was) == ("e" not in was) == ("moved" in was)
            await everything_changes(store, name)
            newer = await under(store, name)
            told = await frozen.wake()
            results.add(told["results"][0])
            assert (told["results"][0] == "done") == won
            assert await under(store, name) == (newer if won else newer | {"fresh": "fresh"})
    assert results <= {"done", "conflict"}
