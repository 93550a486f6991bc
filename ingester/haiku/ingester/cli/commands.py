"""The commands and their options; what they do is in the modules they import when they run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="haiku-ingester",
    help="Keeps a haiku.rag database in step with folders of documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
failed_app = typer.Typer(help="Items that could not be done.", no_args_is_help=True)
source_app = typer.Typer(help="The places documents come from.", no_args_is_help=True)
app.add_typer(failed_app, name="failed")
app.add_typer(source_app, name="source")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file.", show_default=False),
]
Database = Annotated[
    str | None,
    typer.Option("--db", help="Path of the database.", show_default=False),
]


def _folder(text: str) -> Path:
    """A folder's path; an empty one would be the working folder, which nobody means by it."""
    if not text.strip():
        raise typer.BadParameter("the folder's path is empty")
    return Path(text)


Folder = Annotated[
    list[Path] | None,
    typer.Option(
        "--folder",
        parser=_folder,
        metavar="PATH",
        help="A folder to ingest, besides the configured sources.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
SourceFilter = Annotated[
    str | None,
    typer.Option("--source", help="Only items of this source."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Most items to list.")]


def _finite(value: float) -> float:
    """A number that ends: `nan` and `inf` pass every other check."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} minutes never end")
    return value


def _version(value: bool) -> None:
    if value:
        from haiku.rag import __version__

        typer.echo(f"haiku-ingester {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def serve(config: Config = None, db: Database = None, folder: Folder = None) -> None:
    """Run the daemon: watch the sources and keep the database in step until stopped."""
    from haiku.ingester.cli.running import serve_command

    serve_command(config, db, folder or [])


@app.command("run-batch")
def run_batch(
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="Tag the database, if everything succeeded."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Change nothing; say what would change and what it costs."),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="With --dry-run: write the plan there. Without: do exactly that plan.",
        ),
    ] = None,
    config: Config = None,
    db: Database = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """One complete look at every source; exits when all is done, non-zero if anything failed."""
    if dry_run or plan is not None:
        from haiku.ingester.cli import planning

        planning.command(config, db, folder or [], tag, plan, dry_run=dry_run, as_json=as_json)
        return
    from haiku.ingester.cli.running import batch_command

    batch_command(config, db, folder or [], tag, as_json=as_json)


@app.command()
def status(config: Config = None, db: Database = None, as_json: AsJson = False) -> None:
    """How many items are in which state, and whether a daemon runs."""
    from haiku.ingester.cli import inspecting

    inspecting.status(config, db, as_json=as_json)


@app.command()
def items(
    source: SourceFilter = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only items in this state, e.g. pending or failed."),
    ] = None,
    limit: Limit = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Items to pass over.")] = 0,
    config: Config = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List items by source and path."""
    from haiku.ingester.cli import inspecting

    inspecting.items(config, db, source, state, limit, offset, as_json=as_json)


@failed_app.command("list")
def failed_list(
    source: SourceFilter = None,
    limit: Limit = 50,
    config: Config = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List failed items with stage, attempts and reason."""
    from haiku.ingester.cli import inspecting

    inspecting.failed(config, db, source, limit, as_json=as_json)


@failed_app.command("retry")
def failed_retry(
    uri: Annotated[
        str | None,
        typer.Argument(help="Path or URI of the item.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every failed item.")] = False,
    source: SourceFilter = None,
    config: Config = None,
    db: Database = None,
) -> None:
    """Try failed items again, at once when the daemon runs."""
    from haiku.ingester.cli import asking

    if (uri is None) == (not everything):
        raise typer.BadParameter("give either the path or URI of an item, or --all")
    asking.retry(config, db, source, uri)


@source_app.command("list")
def source_list(config: Config = None, db: Database = None, as_json: AsJson = False) -> None:
    """List configured sources and those that the items database remembers."""
    from haiku.ingester.cli import inspecting

    inspecting.sources(config, db, as_json=as_json)


SourceId = Annotated[str, typer.Argument(help="Id of the source.", metavar="ID")]


@source_app.command("refresh")
def source_refresh(source: SourceId, config: Config = None, db: Database = None) -> None:
    """Have the daemon list the source again now."""
    from haiku.ingester.cli import asking

    asking.refresh(config, db, source)


OneSource = Annotated[
    str | None, typer.Argument(help="Id of the source.", metavar="[ID]", show_default=False)
]
AllSources = Annotated[bool, typer.Option("--all", help="Every source.")]


@source_app.command("resync")
def source_resync(
    source: OneSource = None,
    everything: AllSources = False,
    config: Config = None,
    db: Database = None,
) -> None:
    """After a restore: the source is right. Everything is compared again."""
    _decide("resync", source, everything, config, db)


@source_app.command("keep")
def source_keep(
    source: OneSource = None,
    everything: AllSources = False,
    config: Config = None,
    db: Database = None,
) -> None:
    """After a restore: the restored state is right. What the source has now counts as done."""
    _decide("keep", source, everything, config, db)


def _decide(
    word: str, source: str | None, everything: bool, config: Path | None, db: str | None
) -> None:
    from haiku.ingester.cli import asking

    if (source is None) == (not everything):
        raise typer.BadParameter("give either the id of a source, or --all")
    asking.decide(config, db, source, word)


@source_app.command("confirm-deletes")
def source_confirm_deletes(source: SourceId, config: Config = None, db: Database = None) -> None:
    """Carry out the deletions that were suspended because so much of the source was gone."""
    from haiku.ingester.cli import asking

    asking.confirm_deletes(config, db, source)


@app.command()
def soak(
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="The same seed gives the same actions.", show_default=False),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes", min=0.01, callback=_finite, help="How long, before the last settling."
        ),
    ] = 5.0,
    files: Annotated[
        int, typer.Option("--files", min=1, help="Files in the simulated folder, about.")
    ] = 60,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the temporary folder; a failed run is kept always.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try a daemon on this machine: changes, faults and crashes by a seed, checked all the time."""
    from haiku.ingester.cli.soaking import soak_command

    soak_command(seed, minutes, files, keep=keep, as_json=as_json)
