"""Commands that read the database and cannot change it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from haiku.rag.cli import output
from haiku.rag.exceptions import DocumentNotFound

if TYPE_CHECKING:
    from haiku.rag.cli.boundary import Target
    from haiku.rag.client import HaikuRAG
    from haiku.rag.models import Document, SearchType
    from haiku.rag.store import StoreInfo


async def list_documents(
    target: Target, *, expression: str | None, limit: int, offset: int, as_json: bool
) -> None:
    """A page of the documents."""
    async with target.client() as client:
        found = await client.list_documents(limit=limit, offset=offset, filter=expression)
        total = await client.count_documents(expression)
    if as_json:
        shown = [d.model_dump(mode="json", exclude={"content"}) for d in found]
        output.print_json({"total": total, "offset": offset, "documents": shown})
        return
    output.documents(found)
    if total > len(found):
        note = f"{len(found)} of {total} documents; more with --limit and --offset"
        output.console(stderr=True).print(note)


async def get(target: Target, document: str, *, as_json: bool) -> None:
    """One document with its content."""
    async with target.client() as client:
        found = await find(client, document)
    if as_json:
        output.print_json(found.model_dump(mode="json"))
    else:
        output.document(found)


async def find(client: HaikuRAG, document: str) -> Document:
    """The document with an id, a URI or a path.

    Raises:
        DocumentNotFound: none has it.
    """
    found = await client.get_document_by_id(document) or await client.get_document_by_uri(document)
    if found is None:
        raise DocumentNotFound(
            f"no document has the id, URI or path {document!r}; see `haiku-rag list`"
        )
    return found


async def search(
    target: Target,
    query: str,
    *,
    limit: int | None,
    search_type: SearchType,
    expression: str | None,
    expand: bool,
    as_json: bool,
) -> None:
    """The best hits for a query."""
    async with target.client(searches=search_type != "fts") as client:
        found = await client.search(query, limit, search_type, expression)
        if expand:
            found = await client.expand_context(found)
        empty = not found and not await client.count_documents()
    if as_json:
        output.print_json([hit.model_dump(mode="json") for hit in found])
    elif found:
        output.hits(found, query, whole=expand)
    else:
        nothing = "the database has no documents yet" if empty else "nothing found"
        output.console(stderr=True).print(nothing)


async def info(target: Target, *, as_json: bool) -> None:
    """What the database is and holds."""
    async with target.client() as client:
        found = await client.info()
    if as_json:
        output.print_json(asdict(found))
    else:
        _print_info(found)


def _print_info(found: StoreInfo) -> None:
    output.pairs(
        [
            ("database", found.path),
            ("documents", f"{found.documents:,}"),
            ("chunks", f"{found.chunks:,}"),
            ("on disk", None if found.bytes is None else f"{found.bytes / 1e6:,.1f} MB"),
            ("embedder", found.identity),
            ("schema", found.schema_version),
            ("created", output.moment(found.created_at)),
            ("replaced revisions", found.replaced_revisions or None),
        ]
    )
    output.console().print()
    versions = ((name, f"{rows:,}", found.versions.get(name)) for name, rows in found.rows.items())
    output.table(("table", "rows", "version"), versions)
    output.console().print()
    covered = ((f"{i.table}.{i.column}", f"{i.unindexed_rows:,}") for i in found.indexes)
    output.table(("index", "rows outside"), covered)
