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
from haiku.rag.exceptions import DatabaseNotFound

#: Chunks of the long document: its vectors, rows and requests are what could take long.
LONG = 400


async def test_the_watch_sees_what_computes() -> None:
    async def compute(seconds: float) -> None:
        ends = time.thread_time() + seconds
        while time.thread_time() < ends:
            pass

    with watched_loop() as blocked:
        await asyncio.create_task(compute(0.1), name="long")
        await asyncio.create_task(compute(0.001), name="short")
    assert [one.name.split()[0] for one in blocked] == ["long"]
    assert blocked[0].cpu > 0.09


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
        try:
            async with HaikuRAG(database, read_only=True) as rag:
                return await rag.count_documents()
        except DatabaseNotFound:  # the daemon has not made it yet
            return -1

    while await asyncio.to_thread(asyncio.run, look()) != count:
        await asyncio.sleep(0.3)
