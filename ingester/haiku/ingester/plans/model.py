"""A plan as it is written to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - pydantic evaluates the annotations
from datetime import datetime  # noqa: TC003
from pathlib import Path  # noqa: TC003
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from haiku.ingester.exceptions import PlanRefused

#: Of the file format; a change that older programs would misread raises it.
VERSION: Literal[1] = 1

#: Why something is to be done.
Change = Literal["new", "changed", "touched", "outdated", "unfinished", "moved", "gone"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cost(_Part):
    """What something takes, estimated."""

    #: Pages, where the format has them.
    pages: int = 0
    #: Chunks to embed.
    chunks: int = 0
    #: Seconds of conversion and embedding, on this machine, with nothing else to do.
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            pages=self.pages + other.pages,
            chunks=self.chunks + other.chunks,
            seconds=self.seconds + other.seconds,
        )


class Entry(_Part):
    """One item that would change."""

    source: str
    uri: str
    change: Change
    #: What the source said of it; the replay leaves it out when that is another.
    mark: str
    #: Bytes, when known.
    size: int | None = None
    #: Of a move: the URI it had.
    moved_from: str | None = None
    cost: Cost = Cost()


class Plan(_Part):
    """What a run would change."""

    version: Literal[1] = VERSION
    made_at: datetime
    #: The database it is for.
    database: str
    #: Of the pipeline that would convert and embed.
    fingerprint: str
    #: Source id → why it could not be looked at completely.
    problems: Mapping[str, str] = {}
    entries: Sequence[Entry] = ()

    @property
    def cost(self) -> Cost:
        """Of all entries."""
        return sum((entry.cost for entry in self.entries), Cost())

    @property
    def counts(self) -> dict[str, int]:
        """Change → entries."""
        found: dict[str, int] = {}
        for entry in self.entries:
            found[entry.change] = found.get(entry.change, 0) + 1
        return found


def write_plan(plan: Plan, file: Path) -> None:
    """Write a plan; an existing file is replaced.

    Raises:
        PlanRefused: the file cannot be written.
    """
    try:
        file.write_text(plan.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PlanRefused(f"the plan cannot be written to {file}: {error.strerror}") from error


def read_plan(file: Path) -> Plan:
    """Read a plan.

    Raises:
        PlanRefused: the file cannot be read, or is no plan of this version.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise PlanRefused(f"the plan {file} cannot be read: {error}") from error
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise PlanRefused(
            f"{file} is no plan of version {VERSION}: {place}: {first['msg']}; make it again "
            "with `haiku-ingester run-batch --dry-run --plan FILE`"
        ) from None
