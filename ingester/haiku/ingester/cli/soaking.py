"""`soak`: the simulator as a command."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from haiku.ingester.cli import opening, output
from haiku.ingester.logs import TextFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.ingester.soak.simulation import Report, Simulation

#: Seconds between lines that say how far it is.
PROGRESS = 10.0


def soak_command(
    seed: int | None, minutes: float, files: int, *, keep: bool, as_json: bool
) -> None:
    """Simulate, report, and exit with 0 when everything held."""

    async def work() -> int:
        chosen = random.randrange(10**6) if seed is None else seed
        root = Path(tempfile.mkdtemp(prefix="haiku-soak-"))
        output.note(f"seed {chosen}, in {root}")
        # Writers that meet are what is tried here, and each meeting is a warning of Lance's.
        os.environ.setdefault("LANCE_LOG", "error")
        with _logging_to(root / "soak.log"):
            report = await _simulate(root, chosen, minutes, files)
        output.print_json(report.plain()) if as_json else _print(report)
        if keep or not report.holds:
            output.note(f"kept: {root} (soak.log says what the daemon did)")
        else:
            shutil.rmtree(root, ignore_errors=True)
        return opening.OK if report.holds else opening.FAILED

    opening.run(work())


async def _simulate(root: Path, seed: int, minutes: float, files: int) -> Report:
    from haiku.ingester.soak import simulation
    from haiku.ingester.soak.script import Script

    async with simulation.opened(root, seed=seed, files=files) as made:
        return await made.run(Script(seed), minutes * 60, _Progress())


class _Progress:
    """Says now and then how far it is, where somebody may be waiting."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, made: Simulation) -> None:
        if time.monotonic() - self._last >= PROGRESS:
            self._last = time.monotonic()
            told = made.report
            output.note(
                f"{told.seconds:.0f} s: {sum(told.actions.values())} actions, "
                f"{sum(told.changes.values())} changes, {told.looks} looks"
            )


@contextmanager
def _logging_to(file: Path) -> Iterator[None]:
    """Have the daemon's log beside its data, not on the screen."""
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(TextFormatter())
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        handler.close()


def _print(report: Report) -> None:
    for title, counts in (("action", report.actions), ("change", report.changes)):
        output.table([title, "times"], sorted(counts.items()))
    output.line(
        f"{report.documents} documents in the end; {report.looks} looks; {report.commit_faults} "
        f"faults met a commit; all was done within {report.longest_settle:.1f} s at most"
    )
    for text in report.wrong[:20]:
        print(f"  {text}", file=sys.stderr)  # noqa: T201
    verdict = "everything held" if report.holds else f"{len(report.wrong)} things did not hold"
    output.line(f"seed {report.seed}: {verdict} ({report.seconds:.0f} s)")
