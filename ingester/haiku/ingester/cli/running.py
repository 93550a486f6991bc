"""`serve` and `run-batch`: the daemon as a process."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr

from haiku.ingester import logs
from haiku.ingester.cli import inspecting, opening, output
from haiku.ingester.config import load_daemon_config
from haiku.ingester.service.batch import run_once
from haiku.ingester.service.daemon import Daemon
from haiku.ingester.service.places import find_places, with_folders
from haiku.ingester.service.stopping import Stop
from haiku.rag.exceptions import ConfigError, HaikuRAGError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from haiku.ingester.config import DaemonConfig
    from haiku.ingester.service.batch import Batch

log = logging.getLogger("haiku.ingester")

#: Seconds that a thread stuck in the system (a share that hangs) may delay the end.
LAST_RESORT = 10.0
#: Seconds beyond `shutdown_grace` after which a stop that does not end is ended.
STOP_SLACK = 60.0


def serve_command(config_file: Path | None, db: str | None, folders: Sequence[Path]) -> None:
    """Run the daemon until it is told to stop."""

    async def work() -> int:
        config = configure(config_file, folders)
        stop = Stop()
        watching = asyncio.create_task(_bound(stop, config.ingester.shutdown_grace))
        with stop.on_signals():
            code = await _serve(Daemon(config, find_places(config, db), stop))
        watching.cancel()
        _end_even_if_stuck(code, LAST_RESORT)
        return code

    opening.run(work())


async def _serve(daemon: Daemon) -> int:
    try:
        await daemon.serve()
    except HaikuRAGError as error:
        log.critical("%s", error, extra={"code": error.code})
        return opening.exit_code(error)
    log.info("stopped")
    return opening.OK


async def _bound(stop: Stop, grace: float) -> None:
    """See to it that a stop ends: what is promised to who stops the process must not hang on us."""
    await stop.requested.wait()
    _end_even_if_stuck(opening.FAILED, grace + STOP_SLACK)


def _end_even_if_stuck(code: int, after: float) -> None:
    """End the process after so many seconds although a thread hangs; nothing is lost by it.

    What every thread was at goes to standard error.
    """

    def end() -> None:
        log.critical("ended by force: stopping had not ended after %g s", after)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(code)

    timer = threading.Timer(after, end)
    timer.daemon = True
    timer.start()


def batch_command(
    config_file: Path | None,
    db: str | None,
    folders: Sequence[Path],
    tag: str | None,
    *,
    as_json: bool,
) -> None:
    """Look at every source once, do the work, tag the result if it succeeded, and report."""

    async def work() -> int:
        config = configure(config_file, folders)
        stop = Stop()
        with stop.on_signals():
            batch = await run_once(config, find_places(config, db), stop, tag=tag)
        output.print_json(_describe(batch)) if as_json else _print(batch)
        if tag is not None and batch.tag is None:
            output.note(f"not tagged as {tag}, because not everything succeeded")
        return opening.OK if batch.succeeded else opening.FAILED

    opening.run(work())


def configure(config_file: Path | None, folders: Sequence[Path]) -> DaemonConfig:
    """The configuration with the folders of the command line, and logging as it says."""
    config = with_folders(load_daemon_config(config_file), folders)
    section = config.ingester
    logs.configure(form=section.log_format, level=section.log_level, secrets=_secrets(config.app))
    if not section.sources:
        raise ConfigError(
            "there is no source to ingest: give --folder PATH, or list folders under "
            "ingester.sources in the configuration file"
        )
    return config


def _secrets(value: Any) -> Iterator[str]:
    """Every secret in a configuration."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))


def _print(batch: Batch) -> None:
    for source, problem in batch.problems.items():
        output.note(f"{source}: {problem}")
    if batch.failed:
        inspecting.print_failed(batch.failed)
    counts = ", ".join(f"{number} {state}" for state, number in batch.counts.items()) or "no items"
    output.note(f"{counts}; {batch.seconds:.1f} s")
    if batch.tag is not None:
        output.note(f"tagged as {batch.tag}")


def _describe(batch: Batch) -> dict[str, Any]:
    return {
        "succeeded": batch.succeeded,
        "counts": batch.counts,
        "problems": batch.problems,
        "failed": [inspecting.describe(item) for item in batch.failed],
        "tag": batch.tag,
        "seconds": round(batch.seconds, 3),
    }
