"""`run-batch --dry-run` and `run-batch --plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haiku.ingester.cli import inspecting, opening, output
from haiku.ingester.cli.running import configure
from haiku.ingester.plans.making import make_plan
from haiku.ingester.plans.model import read_plan, write_plan
from haiku.ingester.plans.replaying import replay
from haiku.ingester.service.places import find_places
from haiku.ingester.service.stopping import Stop
from haiku.rag.exceptions import ConfigError
from haiku.rag.uris import display

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from haiku.ingester.plans.model import Cost, Plan
    from haiku.ingester.plans.replaying import Replay

#: Entries that are shown to people; a file has them all.
SHOWN = 50


def command(
    config_file: Path | None,
    db: str | None,
    folders: Sequence[Path],
    tag: str | None,
    plan: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a plan, or do one."""

    async def work() -> int:
        if tag is not None:
            raise ConfigError(
                "--tag goes with a complete run only; tag afterwards with `haiku-rag tag create`"
            )
        config = configure(config_file, folders)
        places = find_places(config, db)
        if dry_run:
            made = await make_plan(config, places)
            if plan is not None:
                write_plan(made, plan)
            output.print_json(made.model_dump(mode="json")) if as_json else _print_plan(made)
            if plan is not None and not as_json:
                words = ("run-batch", "--plan", str(plan))
                replaying = opening.command(*words, config=config_file, db=db, folders=folders)
                output.note(f"written to {plan}; do it with: {replaying}")
            return opening.FAILED if made.problems else opening.OK
        assert plan is not None
        stop = Stop()
        with stop.on_signals():
            done = await replay(read_plan(plan), config, places, stop)
        output.print_json(_describe(done)) if as_json else _print_replay(done)
        return opening.OK if done.succeeded else opening.FAILED

    opening.run(work())


def _print_plan(plan: Plan) -> None:
    shown = plan.entries[:SHOWN]
    if shown:
        output.table(
            ["change", "source", "path", "bytes", "pages", "chunks", "seconds"],
            (
                [
                    entry.change,
                    entry.source,
                    display(entry.uri),
                    entry.size,
                    entry.cost.pages or None,
                    entry.cost.chunks or None,
                    f"{entry.cost.seconds:.2f}" if entry.cost.seconds else None,
                ]
                for entry in shown
            ),
        )
    if len(plan.entries) > SHOWN:
        output.note(f"and {len(plan.entries) - SHOWN:,} more; --plan FILE or --json has them all")
    for source, problem in plan.problems.items():
        output.note(f"{source}: {problem}")
    counts = ", ".join(f"{number:,} {change}" for change, number in plan.counts.items())
    output.note(f"{counts}; {_cost(plan.cost)}" if counts else "nothing would change")


def _cost(cost: Cost) -> str:
    pages = f"{cost.pages:,} pages, " if cost.pages else ""
    return f"about {pages}{cost.chunks:,} chunks and {_duration(cost.seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_replay(done: Replay) -> None:
    for entry, reason in done.left_out:
        output.note(f"left out: {display(entry.uri)}: {reason}")
    if done.failed:
        inspecting.print_failed(done.failed)
    output.note(f"{done.done:,} done, {len(done.left_out):,} left out, {len(done.failed):,} failed")


def _describe(done: Replay) -> dict[str, Any]:
    return {
        "succeeded": done.succeeded,
        "done": done.done,
        "left_out": [
            {"source": entry.source, "uri": entry.uri, "change": entry.change, "reason": reason}
            for entry, reason in done.left_out
        ],
        "failed": [inspecting.describe(item) for item in done.failed],
        "stopped": done.stopped,
    }
