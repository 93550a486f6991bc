"""Commands that ask something of the daemon, through the items database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.ingester.cli import opening, output
from haiku.ingester.exceptions import NotKnown
from haiku.ingester.items import RequestKind
from haiku.rag import uris

if TYPE_CHECKING:
    from pathlib import Path


def retry(config: Path | None, db: str | None, source: str | None, uri: str | None) -> None:
    """Make failed items pending again: one, those of a source, or all."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            await here.check_filter(source)
            wanted = uri if uri is None or uris.is_uri(uri) else uris.path_to_uri(uri)
            count = await here.items.retry(source_id=source, uri=wanted)
            if not count and wanted is not None:
                raise NotKnown(f"{uris.display(wanted)} is no item that failed or was passed over")
            output.line(f"{count} {'item' if count == 1 else 'items'} to be tried again")
            return opening.OK

    opening.run(work())


def refresh(config: Path | None, db: str | None, source: str) -> None:
    """Ask for a listing of the source."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            here.check_source(source)
            await here.items.request(source, RequestKind.REFRESH)
            output.line(f"asked; a running daemon lists {source} now, another when it starts")
            return opening.OK

    opening.run(work())


def confirm_deletes(config: Path | None, db: str | None, source: str) -> None:
    """Ask for the suspended deletions of the source to be carried out."""

    async def work() -> int:
        async with opening.opened(config, db) as here:
            here.check_source(source)
            suspension = await here.items.suspension(source)
            if suspension is None:
                output.line(f"no deletions of {source} are suspended")
                return opening.OK
            await here.items.request(source, RequestKind.CONFIRM_DELETES)
            output.line(
                f"confirmed: about {suspension.count} items of {source} are removed by the "
                "running daemon now, or by the next one at its start"
            )
            return opening.OK

    opening.run(work())


def decide(config: Path | None, db: str | None, source: str | None, word: str) -> None:
    """After a restore: say which side is right, for one source or for all."""
    kind = RequestKind(word)

    async def work() -> int:
        async with opening.opened(config, db) as here:
            if source is not None:
                here.check_source(source)
            wanted = [source] if source is not None else here.source_ids
            records = await here.items.sources()
            for name in wanted:
                await here.items.request(name, kind)
                record = records.get(name)
                held = record is not None and record.held_since is not None
                note = "" if held else " (it is not held, as far as is known)"
                output.line(f"{word} of {name} asked{note}")
            output.line(
                "a running daemon does it now, else the next one, or run-batch, at its start"
            )
            return opening.OK

    opening.run(work())
