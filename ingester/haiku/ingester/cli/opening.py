"""What every command needs: the configuration, the items database, and errors as one clear line."""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from haiku.ingester.config import load_daemon_config
from haiku.ingester.exceptions import NotKnown, PlanRefused, PortTaken, SourceMissing
from haiku.ingester.items.items import Items
from haiku.ingester.logs import escape, redact
from haiku.ingester.service.places import find_places
from haiku.rag.exceptions import (
    ConfigError,
    HaikuRAGError,
    IdentityMismatch,
    SchemaMismatch,
    TagNameRefused,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.service.places import Places

#: Exit codes; the package's docstring says what they mean.
OK, FAILED, USAGE, NOT_THERE, MISSING, PORT = range(6)

_CODES: dict[type[HaikuRAGError], int] = {
    ConfigError: USAGE,
    IdentityMismatch: USAGE,
    SchemaMismatch: USAGE,
    TagNameRefused: USAGE,
    PlanRefused: USAGE,
    NotKnown: NOT_THERE,
    SourceMissing: MISSING,
    PortTaken: PORT,
}


def exit_code(error: HaikuRAGError) -> int:
    """The exit code for an error of ours."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command's work to its end and exit with its code; an error of ours is one line."""
    try:
        code = asyncio.run(work)
    except HaikuRAGError as error:
        fail(str(error), exit_code(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(code)


def command(*words: str, config: Path | None, db: str | None, folders: Sequence[Path] = ()) -> str:
    """A command for the same places, as it can be pasted into a shell."""
    given = [("--config", config), ("--db", db), *(("--folder", folder) for folder in folders)]
    options = [text for name, value in given if value is not None for text in (name, str(value))]
    return shlex.join(["haiku-ingester", *words, *options])


def fail(message: str, code: int) -> None:
    """Say what is wrong on standard error, and exit."""
    lines = [escape(part) for part in redact(message).splitlines()]
    print("haiku-ingester: " + "\n".join(lines), file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """What a command works on."""

    config: DaemonConfig
    places: Places
    items: Items

    def check_source(self, source: str) -> None:
        """Refuse a source that is not configured.

        Raises:
            NotKnown: it is not; the message lists those that are.
        """
        known = self.source_ids
        if source not in known:
            raise NotKnown(
                f"no source {source!r} is configured; there is {', '.join(known) or 'none'}"
            )

    async def check_filter(self, source: str | None) -> None:
        """Refuse a source to filter by that is neither configured nor has items.

        Raises:
            NotKnown: it is not; the message lists those that are.
        """
        if source is None or source in self.source_ids:
            return
        known = sorted({*self.source_ids, *await self.items.counts()})
        if source not in known:
            raise NotKnown(f"no source {source!r}; there is {', '.join(known) or 'none'}")

    @property
    def source_ids(self) -> list[str]:
        """The configured sources."""
        return [source.id for source in self.config.ingester.sources]


@asynccontextmanager
async def opened(config_file: Path | None, db: str | None) -> AsyncIterator[Opened]:
    """The configuration and the items database, which must be there.

    Raises:
        ConfigError, NotKnown, ItemsUnavailable.
    """
    config = load_daemon_config(config_file)
    places = find_places(config, db)
    items = await Items.open(places.items_url, "command", config.ingester.work, create=False)
    try:
        yield Opened(config=config, places=places, items=items)
    finally:
        await items.close()
