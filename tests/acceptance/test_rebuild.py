"""F39: a database is rebuilt beside a daemon that works on it; the daemon ends and starts anew."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from haiku.rag.client import HaikuRAG
from haiku.rag.config import load_config
from haiku.rag.models import Document
from haiku.rag.write.rebuild import RebuildReport
from tests.acceptance.daemon import Site
from tests.acceptance.embedding import EmbeddingServer
from tests.acceptance.kill import configure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


def use_another_model(site: Site) -> None:
    """Change the configuration; a daemon that runs has the old one."""
    settings: dict[str, Any] = yaml.safe_load(site.config.read_text(encoding="utf-8"))
    settings["embeddings"]["model"]["name"] = "another"
    site.config.write_text(yaml.safe_dump(settings), encoding="utf-8")


async def rebuild(site: Site) -> RebuildReport:
    return await HaikuRAG.rebuild(site.database, config=load_config(site.config))


async def documents(site: Site) -> dict[str, Document]:
    config = load_config(site.config)
    async with HaikuRAG(site.database, config=config, read_only=True) as client:
        return {d.uri.rsplit("/", 1)[-1]: d for d in await client.list_documents()}


def test_the_daemon_ends_when_its_database_was_rebuilt_and_goes_on_when_started(
    site: Site, server: EmbeddingServer
) -> None:
    configure(site, server)
    for number in range(3):
        site.write(f"{number}.md", f"# Document {number}\n\nIt says {number}.\n")
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=3)
        before = asyncio.run(documents(site))
        use_another_model(site)
        report = asyncio.run(rebuild(site))
        assert (report.rebuilt, report.documents) == (True, 3)
        assert daemon.wait() == 1
        last = daemon.log[-1]
        assert (last["level"], last["code"]) == ("critical", "replaced")
        assert "open it again" in last["message"]
    site.write("0.md", "# Document 0\n\nIt says something else.\n")
    site.write("3.md", "# Document 3\n\nIt says 3.\n")
    asked = len(server.requests)
    with site.start() as daemon:
        daemon.wait_ready().wait_counts(indexed=4)
        assert daemon.stop() == 0
    after = asyncio.run(documents(site))
    assert set(after) == {f"{n}.md" for n in range(4)}
    assert {name: after[name].id for name in before} == {n: d.id for n, d in before.items()}
    assert [after[name].updated_at == before[name].updated_at for name in sorted(before)] == [
        False,
        True,
        True,
    ]
    assert sum(texts for _, texts in server.requests[asked:]) == 2
