"""The commands and their options. What they do is in `reading`, `writing` and `setup`."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from haiku.rag.cli.boundary import Target, guarded

#: What a command does when it is run.
Work = Coroutine[Any, Any, None]

app = typer.Typer(
    help="Search your own documents: hybrid search over a database of files and pages.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="PATH",
        help="The database. Default: $HAIKU_RAG_DB, else haiku.rag.lancedb in storage.data_dir.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration. Default: ./haiku.rag.yaml, else the one in your own folder.",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse to change anything.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value for programs.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="EXPR",
        help="Only documents for which this holds, e.g. \"uri LIKE '%.pdf' AND title IS NOT NULL\"."
        " Columns: id, uri, title, created_at, updated_at, metadata. A path stands for its URI: "
        "\"uri LIKE '/home/me/%'\".",
    ),
]
Title = Annotated[
    str | None, typer.Option("--title", help="Of a single document; default: its own.")
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TAG|TIME|VERSION",
        help="Read the database as it was: a tag, a time such as 2026-01-31T18:00 (UTC unless it "
        "says otherwise; the last commit not after it), or a version that `history` lists.",
    ),
]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Metadata; may be given several times."),
]


class Kind(StrEnum):
    """How to search."""

    hybrid = "hybrid"
    vector = "vector"
    fts = "fts"


class TextKind(StrEnum):
    """What a text is written in."""

    md = "md"
    html = "html"
    plain = "plain"


def _version(wanted: bool) -> None:
    if wanted:
        from haiku.rag.version import __version__

        typer.echo(f"haiku-rag {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None: ...


@app.command()
@guarded
def init(db: Db = None, config: Config = None, as_json: AsJson = False) -> Work:
    """Make an empty database."""
    from haiku.rag.cli import setup

    return setup.init(db, config, as_json=as_json)


@app.command("init-config")
@guarded
def init_config(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to; - prints it.")] = Path(
        "haiku.rag.yaml"
    ),
) -> None:
    """Write a configuration file with every setting, its default and what it does."""
    from haiku.rag.cli import setup

    setup.init_config(path)


@app.command()
@guarded
def settings(db: Db = None, config: Config = None, as_json: AsJson = False) -> None:
    """Show the settings in effect, and where they come from. Secrets are not shown."""
    from haiku.rag.cli import setup

    setup.settings(db, config, as_json=as_json)


@app.command()
@guarded
def info(
    as_of: AsOf = None,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Show what the database holds."""
    from haiku.rag.cli import reading

    target = Target(db=db, config=config, read_only=read_only, as_of=as_of)
    return reading.info(target, as_json=as_json)


@app.command()
@guarded
def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")],
    uri: Annotated[
        str | None, typer.Option("--uri", help="Its name in the database; default: one of its own.")
    ] = None,
    title: Title = None,
    meta: Meta = None,
    kind: Annotated[
        TextKind, typer.Option("--format", help="What the text is written in.")
    ] = TextKind.md,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Add a text."""
    from haiku.rag.cli import writing

    target = Target(db=db, config=config, read_only=read_only)
    return writing.add(
        target,
        text,
        uri=uri,
        title=title,
        metadata=writing.metadata(meta),
        text_format=kind.value,
        as_json=as_json,
    )


@app.command("add-src")
@guarded
def add_src(
    sources: Annotated[
        list[str], typer.Argument(metavar="PATH|URL...", help="Files, folders, http(s) addresses.")
    ],
    title: Title = None,
    meta: Meta = None,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Add files, folders and web pages; what is unchanged is left as it is.

    Every source is tried. What failed is listed with the reason, and the exit code is 1.
    """
    from haiku.rag.cli import writing

    target = Target(db=db, config=config, read_only=read_only)
    return writing.add_sources(
        target, sources, title=title, metadata=writing.metadata(meta), as_json=as_json
    )


@app.command("list")
@guarded
def list_documents(
    filter: Filter = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Documents at most.")] = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Documents to pass over.")] = 0,
    as_of: AsOf = None,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """List documents, the newest first."""
    from haiku.rag.cli import reading

    target = Target(db=db, config=config, read_only=read_only, as_of=as_of)
    return reading.list_documents(
        target, expression=filter, limit=limit, offset=offset, as_json=as_json
    )


@app.command()
@guarded
def get(
    document: Annotated[str, typer.Argument(metavar="ID|URI|PATH")],
    as_of: AsOf = None,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Show a document with its text."""
    from haiku.rag.cli import reading

    target = Target(db=db, config=config, read_only=read_only, as_of=as_of)
    return reading.get(target, document, as_json=as_json)


@app.command()
@guarded
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Plain words or a question.")],
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Hits at most; default: search.limit.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option("--type", help="Meaning and words together, or one of them.")
    ] = Kind.hybrid,
    filter: Filter = None,
    expand: Annotated[
        bool, typer.Option("--expand/--no-expand", help="Show each hit with the text around it.")
    ] = False,
    as_of: AsOf = None,
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Search the documents."""
    from haiku.rag.cli import reading

    if not query.strip():
        raise typer.BadParameter("the query is empty", param_hint="QUERY")

    target = Target(db=db, config=config, read_only=read_only, as_of=as_of)
    return reading.search(
        target,
        query,
        limit=limit,
        search_type=kind.value,
        expression=filter,
        expand=expand,
        as_json=as_json,
    )


@app.command("rm", hidden=True)
@app.command()
@guarded
def delete(
    documents: Annotated[list[str], typer.Argument(metavar="ID|URI|PATH...")],
    db: Db = None,
    config: Config = None,
    read_only: ReadOnly = False,
    as_json: AsJson = False,
) -> Work:
    """Delete documents. Also: rm."""
    from haiku.rag.cli import writing

    target = Target(db=db, config=config, read_only=read_only)
    return writing.delete(target, documents, as_json=as_json)


@app.command("history")
@guarded
def show_history(
    limit: Annotated[int, typer.Option("--limit", min=1, help="Commits at most.")] = 20,
    db: Db = None,
    config: Config = None,
    as_json: AsJson = False,
) -> Work:
    """List commits whose states can still be read, the newest first."""
    from haiku.rag.cli import tags

    return tags.history(Target(db=db, config=config, read_only=True), limit, as_json=as_json)


@app.command()
@guarded
def vacuum(
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="DURATION",
            help="How long superseded versions stay readable, e.g. 0, 12h or 7d; "
            "default: storage.history.",
        ),
    ] = None,
    db: Db = None,
    config: Config = None,
    as_json: AsJson = False,
) -> Work:
    """Free the disk of what nobody needs, and gather what is scattered. Safe at any time."""
    from haiku.rag.cli import upkeep

    target = Target(db=db, config=config, read_only=False)
    return upkeep.vacuum(target, history=history, as_json=as_json)


@app.command()
@guarded
def rebuild(
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PATH|URI",
            help="Make the new database there and leave the old one as it is; for a remote "
            "database the only way. Default: in its place.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, though there are tags.")
    ] = False,
    db: Db = None,
    config: Config = None,
    as_json: AsJson = False,
) -> Work:
    """Make the database anew for the embedder and chunker configured now, while it is in use.

    Everything comes from the database itself; no source is read. Searches and writes go on with
    the old one until the end. One that was broken off goes on where it ended.
    """
    from haiku.rag.cli import rebuild as room

    return room.rebuild(db, config, to=to, yes=yes, as_json=as_json)


tag_app = typer.Typer(
    help="Names for states of the database: make, list, restore, delete.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(tag_app, name="tag")

TagName = Annotated[str, typer.Argument(metavar="NAME", help="The tag's name.")]


@tag_app.command("create")
@guarded
def tag_create(
    name: TagName, db: Db = None, config: Config = None, as_json: AsJson = False
) -> Work:
    """Name the state of this moment; nobody need stop writing."""
    from haiku.rag.cli import tags

    return tags.create(Target(db=db, config=config, read_only=False), name, as_json=as_json)


@tag_app.command("list")
@guarded
def tag_list(db: Db = None, config: Config = None, as_json: AsJson = False) -> Work:
    """List tags, the oldest first; partial ones are marked."""
    from haiku.rag.cli import tags

    return tags.listing(Target(db=db, config=config, read_only=True), as_json=as_json)


@tag_app.command("restore")
@guarded
def tag_restore(
    name: TagName, db: Db = None, config: Config = None, as_json: AsJson = False
) -> Work:
    """Make the state that the tag names today's; today's gets a tag of its own before."""
    from haiku.rag.cli import tags

    return tags.restore(Target(db=db, config=config, read_only=False), name, as_json=as_json)


@tag_app.command("delete")
@guarded
def tag_delete(
    name: TagName, db: Db = None, config: Config = None, as_json: AsJson = False
) -> Work:
    """Delete a tag, also a partial one; what only it needs may then be cleaned up."""
    from haiku.rag.cli import tags

    return tags.delete(Target(db=db, config=config, read_only=False), name, as_json=as_json)
