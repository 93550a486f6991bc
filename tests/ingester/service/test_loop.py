"""Nothing blocks the daemon's event loop for more than 50 ms."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.ingester.service.loopwatch import watched_loop

from haiku.ingester.config import DaemonConfig, IngesterConfig
from haiku.ingester.service.daemon import Daemon
from haiku.ingester.service.places import find_places
from haiku.ingester.service.stopping import Stop
from haiku.rag.client import HaikuRAG
from haiku.rag.config import AppConfig

#: Chunks of the long document: its vectors, rows and requests are what could take long.
LONG = 400


async def test_the_watch_sees_what_computes_and_what_waits() -> None:
    async def compute() -> None:
        ends = time.thread_time() + 0.1
        while time.thread_time() < ends:
            pass

    async def wait() -> None:
        time.sleep(1.2)

    with watched_loop() as blocked:
        for _ in range(3):  # a busy machine hides a wait now and then
            await asyncio.gather(
                *(asyncio.create_task(one(), name="it") for one in (compute, wait))
            )
    assert {"it" in one.name for one in blocked} == {True}
    assert max(one.cpu for one in blocked) > 0.09
    assert max(one.wall - one.cpu for one in blocked) > 1.1


def configure(folder: Path) -> DaemonConfig:
    return DaemonConfig(
        app=AppConfig.model_validate({"storage": {"data_dir": folder / "data"}}),
        ingester=IngesterConfig.model_validate(
            {"sources": [{"id": "docs", "path": folder / "docs"}], "api": {"port": 0}}
        ),
    )


@pytest.mark.timeout(300)
async def test_indexing_does_not_block_the_loop(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    config, stop = configure(tmp_path), Stop()
    places = find_places(config)
    write(docs, "first.md", 1)
    daemon = asyncio.create_task(Daemon(config, places, stop).serve())
    await documents(places.database, 1)  # what is loaded at the start is loaded now
    with watched_loop() as blocked:
        for number in range(120):
            write(docs, f"{number}.md", number % 7 + 1)
        write(docs, "long.md", LONG)
        await documents(places.database, 122)
        for number in range(60):
            (docs / f"{number}.md").unlink()
        await documents(places.database, 62)
    stop.ask()
    await daemon
    assert blocked == []


def write(folder: Path, name: str, sections: int) -> None:
    words = "lantern quay tide vessel harbour keel mast reef " * 20
    text = [f"# {name}", *(f"## Part {n} of {name}\n\n{words}" for n in range(sections))]
    (folder / name).write_text("\n\n".join(text))


async def documents(database: str, count: int) -> None:
    """Wait until a reader in another thread sees so many."""

    async def look() -> int:
        async with HaikuRAG(database, read_only=True) as rag:
            return await rag.count_documents()

    while True:
        await asyncio.sleep(0.3)
        if Path(database).exists() and await asyncio.to_thread(asyncio.run, look()) == count:
            return
