"""Commands that change what the database holds."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from haiku.rag import uris
from haiku.rag.cli import output
from haiku.rag.cli.boundary import FAILED, NOT_THERE
from haiku.rag.cli.escaping import one_line
from haiku.rag.cli.reading import find
from haiku.rag.exceptions import DocumentNotFound, HaikuRAGError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from haiku.rag.cli.boundary import Target
    from haiku.rag.client import AddResult, HaikuRAG
    from haiku.rag.write.session import TextFormat


#: What may become of a source.
_STATES = ("stored", "unchanged", "empty", "failed")


def metadata(given: Sequence[str] | None) -> dict[str, Any] | None:
    """KEY=VALUE arguments as a mapping of strings; None when there are none.

    Raises:
        typer.BadParameter: an argument without a key or an equals sign.
    """
    if not given:
        return None
    found: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--meta")
        found[key] = value
    return found


async def add(
    target: Target,
    text: str,
    *,
    uri: str | None,
    title: str | None,
    metadata: dict[str, Any] | None,
    text_format: TextFormat,
    as_json: bool,
) -> None:
    """Store a text."""
    content = await asyncio.to_thread(_standard_input) if text == "-" else text
    async with target.client(writes=True) as client:
        made = await client.create_document(content, uri, title, metadata, text_format)
    if as_json:
        output.print_json(made.model_dump(mode="json", exclude={"content"}))
    else:
        output.pairs([("added", made.title or uris.display(made.uri)), ("id", made.id)])


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")


async def add_sources(
    target: Target,
    sources: Sequence[str],
    *,
    title: str | None,
    metadata: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Store files, folders and pages; exit with 1 when any of them failed."""
    wanted, refused = await asyncio.to_thread(_expand, sources)
    if title is not None and len(wanted) + len(refused) != 1:
        raise typer.BadParameter("it names one document, and there are more", param_hint="--title")
    results = list(refused)
    async with target.client(writes=True) as client:
        with _progress(len(wanted)) as advance:
            async for result in client.add_sources(wanted, title, metadata):
                results.append(result)
                advance(result.uri)
    results.sort(key=lambda result: result.uri)
    if as_json:
        output.print_json(_report(results))
    else:
        _print_report(results)
    if any(result.error for result in results):
        raise typer.Exit(FAILED)


def _expand(sources: Sequence[str]) -> tuple[list[str], list[AddResult]]:
    """The files and pages the sources stand for, and what was refused at once."""
    from haiku.rag.client import AddResult
    from haiku.rag.write.fetch import expand

    wanted: dict[str, None] = {}
    refused = []
    for source in sources:
        try:
            wanted.update(dict.fromkeys(expand(source)))
        except HaikuRAGError as error:
            refused.append(AddResult(uri=source, document=None, error=error, unchanged=False))
    return list(wanted), refused


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error when it is a terminal; gives what to call after each source."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.description}", markup=False),
    )
    screen = output.console(stderr=True)
    with progress.Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(uri: str) -> None:
            bar.update(task, advance=1, description=one_line(uris.display(uri))[-60:])

        yield advance


def _state(result: AddResult) -> str:
    if result.error is not None:
        return "failed"
    if result.document is not None and not result.document.chunk_count:
        return "empty"
    return "unchanged" if result.unchanged else "stored"


def _report(results: Sequence[AddResult]) -> dict[str, Any]:
    states = [_state(result) for result in results]
    counts = {state: states.count(state) for state in _STATES}
    return {**counts, "results": [_entry(result) for result in results]}


def _entry(result: AddResult) -> dict[str, Any]:
    entry: dict[str, Any] = {"uri": result.uri, "state": _state(result)}
    if result.document is not None:
        entry |= {"id": result.document.id, "chunks": result.document.chunk_count}
    if result.error is not None:
        entry["error"] = {"code": result.error.code, "message": str(result.error)}
    return entry


def _print_report(results: Sequence[AddResult]) -> None:
    report = _report(results)
    counts = [f"{report[state]} {state}" for state in ("stored", "unchanged", "empty", "failed")]
    output.console().print(
        ", ".join(part for part in counts if part[:2] != "0 ") or "no files found"
    )
    empty = [(uris.display(r.uri),) for r in results if _state(r) == "empty"]
    if empty:
        output.table(("without text",), empty)
    failed = [(uris.display(r.uri), r.error.code, r.error) for r in results if r.error is not None]
    if failed:
        output.table(("failed", "reason", "what happened"), failed)


async def delete(target: Target, documents: Sequence[str], *, as_json: bool) -> None:
    """Delete documents by id, URI or path; exit with 3 when one was not there."""
    deleted: list[str] = []
    missing: list[str] = []
    async with target.client(writes=True) as client:
        for name in documents:
            found = await _delete(client, name)
            (deleted if found else missing).append(found or name)
    if as_json:
        output.print_json({"deleted": deleted, "not_found": missing})
    elif deleted:
        output.table(("deleted",), [(document_id,) for document_id in deleted])
    for name in missing:
        note = f"haiku-rag: no document has the id, URI or path {name!r}"
        output.console(stderr=True).print(one_line(note))
    if missing:
        raise typer.Exit(NOT_THERE)


async def _delete(client: HaikuRAG, name: str) -> str | None:
    """The id of the document that was deleted; None when there was none."""
    try:
        found = await find(client, name)
    except DocumentNotFound:
        return None
    return found.id if await client.delete_document(found.id) else None
