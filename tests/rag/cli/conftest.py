"""A real database, and ways to run the command on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from haiku.rag import ids
from haiku.rag.cli.commands import app
from haiku.rag.config import AppConfig
from haiku.rag.embed import create_embedder, identity
from haiku.rag.records import NewChunk, NewItem
from haiku.rag.store import Store
from haiku.rag.store.changes import NewRevision, Put

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

#: A title and a text that try to steer a terminal and rich.
HOSTILE_TITLE = "\x1b[31mred\x07 [bold]loud[/bold] :smile: \u202egpj.exe"
HOSTILE_TEXT = "Quarterly \x1b]0;owned\x07 figures [link=http://x]click[/link] \x9b2J end"


def _revision(text: str, headings: tuple[str, ...], page: int, vectors: Any) -> NewRevision:
    items = [
        NewItem(ref="#/texts/0", label="section_header", level=1, text=headings[0]),
        NewItem(ref="#/texts/1", label="text", text=text, heading_ref="#/texts/0"),
        NewItem(ref="#/texts/2", label="text", text="It goes on here.", heading_ref="#/texts/0"),
    ]
    chunk = NewChunk(
        content=text,
        text="\n".join([*headings, text]),
        headings=headings,
        labels=("text",),
        page_numbers=(page,),
        doc_item_refs=("#/texts/1",),
        token_count=9,
    )
    return NewRevision(
        revision=ids.new_id(),
        content=f"# {headings[0]}\n\n{text}\n\nIt goes on here.",
        docling=None,
        chunks=[chunk],
        vectors=vectors,
        items=items,
    )


DOCUMENTS = [
    (
        "file:///docs/staff%20handbook.md",
        "Staff handbook",
        ("Holidays", "Allowance"),
        "Employees may take thirty days of paid holiday a year.",
    ),
    ("file:///docs/O'Brien.md", "O'Brien", ("Kitchen",), "The kettle is descaled on Fridays."),
    ("https://example.org/a", HOSTILE_TITLE, ("Figures",), HOSTILE_TEXT),
]


async def _build(path: Path) -> None:
    config = AppConfig()
    embedder = create_embedder(config.embeddings)
    store = await Store.create(str(path), identity(config.embeddings.model), config.storage)
    changes = []
    for page, (uri, title, headings, text) in enumerate(DOCUMENTS, start=3):
        vectors = await embedder.embed_documents([text])
        revision = _revision(text, headings, page, vectors)
        changes.append(Put(uri=uri, revision=revision, title=title, metadata={"page": page}))
    await store.commit(changes)
    await store.close()
    await embedder.close()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "built.lancedb"
    asyncio.run(_build(path))
    return path


@pytest.fixture
def database(built: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    path = tmp_path / "docs.lancedb"
    shutil.copytree(built, path)
    return path


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither files nor variables of whoever runs the tests have a say."""
    for name in [name for name in os.environ if name.startswith("HAIKU_RAG")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("HAIKU_RAG__PROCESSING__WORKERS", "1")
    monkeypatch.chdir(tmp_path)


def run(*arguments: object, input: str | bytes | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def command(*arguments: object) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "haiku.rag.cli", *map(str, arguments)]


def process(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=150, check=False, **more
    )


@pytest.fixture(name="run")
def _run() -> Any:
    return run


@pytest.fixture(name="process")
def _process() -> Any:
    return process


@pytest.fixture(name="command")
def _command() -> Any:
    return command
