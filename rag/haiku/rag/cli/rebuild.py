"""`haiku-rag rebuild`: asks about tags, shows how far it is, and says where what was before is."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from haiku.rag.cli import output
from haiku.rag.cli.boundary import USAGE, fail
from haiku.rag.cli.escaping import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from haiku.rag.config import AppConfig
    from haiku.rag.write.copying import Progress
    from haiku.rag.write.rebuild import RebuildReport


async def rebuild(
    db: str | None, config_file: Path | None, *, to: str | None, yes: bool, as_json: bool
) -> None:
    """Rebuild, and report."""
    from haiku.rag.client import HaikuRAG
    from haiku.rag.config import database_path, load_config

    if to is not None and not to.strip():
        fail("--to names no place; leave it out to rebuild in place", USAGE)
    config = load_config(config_file)
    path = database_path(config, db)
    if to is None and not yes:
        await _agree(await _tags(path, config))
    with _progress() as progress:
        report = await HaikuRAG.rebuild(path, config=config, to=to, progress=progress)
    if as_json:
        output.print_json(asdict(report))
        return
    output.pairs(_done(report))
    for line in _notes(report):
        output.console(stderr=True).print(line)


async def _tags(path: str, config: AppConfig) -> list[str]:
    """The names of the database's tags; it is not opened for an embedder, whichever it is for."""
    from haiku.rag.store import Store

    async with await Store.open(path, config.storage, read_only=True) as store:
        return [tag.name for tag in await store.list_tags()]


async def _agree(tags: Sequence[str]) -> None:
    """Ask whether tags may stay behind; without anybody to ask, refuse."""
    if not tags:
        return
    are = "is 1 tag" if len(tags) == 1 else f"are {len(tags)} tags"
    what = (
        f"there {are} ({one_line(', '.join(tags[:5]))}"
        f"{', …' if len(tags) > 5 else ''}). Tags name states of the old database and are not "
        "carried over: they stay with what was before"
    )
    if not sys.stdin.isatty():
        fail(f"{what}. Nothing was done; give --yes to rebuild all the same", USAGE)
    output.console(stderr=True).print(what + ".")
    if not await asyncio.to_thread(typer.confirm, "Rebuild?", err=True):
        fail("nothing was done")


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error when it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich import progress

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=output.console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _done(report: RebuildReport) -> list[tuple[str, object]]:
    if not report.rebuilt:
        return [("nothing to do", f"all is made for {report.embedder} as configured now")]
    return [
        ("rebuilt", report.path),
        ("embedder", report.embedder),
        ("documents", f"{report.documents:,}"),
        ("with the chunks they had", report.kept_chunks or None),
        ("texts embedded", f"{report.embedded:,}"),
        ("vectors known already", f"{report.reused:,}" if report.reused else None),
        ("what was before", report.before),
    ]


def _notes(report: RebuildReport) -> Iterator[str]:
    """What a person should know or do."""
    if report.rebuilt and report.before:
        yield (
            "What was before is a database of its own, for the old embedder, with its tags. "
            "Delete that folder when it is not needed any more."
        )
    if report.behind:
        yield f"{report.behind:,} documents were changed in the old database since they were copied"
    for uri, reason in report.not_chunked.items():
        yield one_line(f"{uri} kept the chunks it had: {reason}")
    if report.left:
        yield one_line(
            f"the new database is in place, but not all was tidied up: {report.left}; "
            "the next rebuild does it"
        )
