"""A plan as it is written to a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence  # noqa: TC003 - pydantic evaluates the annotations
from pathlib import Path  # noqa: TC003
from typing import Annotated, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from haiku.ingester.exceptions import PlanRefused

#: Of the file format; a change that older programs would misread raises it.
VERSION: Literal[1] = 1

#: Why something is to be done.
Change = Literal["new", "changed", "touched", "outdated", "moved", "gone"]

#: A number of something, as large as the items database can hold.
Count = Annotated[int, Field(ge=0, lt=2**63)]
#: A name that says something.
Name = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cost(_Part):
    """What something takes, estimated."""

    #: Pages, where the format has them.
    pages: Count = 0
    #: Chunks to embed.
    chunks: Count = 0
    #: Seconds of conversion and embedding, on this machine, with nothing else to do.
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            pages=self.pages + other.pages,
            chunks=self.chunks + other.chunks,
            seconds=self.seconds + other.seconds,
        )


class Entry(_Part):
    """One item that would change."""

    source: Name
    uri: Name
    change: Change
    #: What the source said of it; the replay leaves it out when that is another.
    mark: str
    #: Bytes, when known.
    size: Count | None
    #: Of a move: the URI it had.
    moved_from: Name | None
    cost: Cost

    @model_validator(mode="after")
    def _from_where(self) -> Self:
        if (self.change == "moved") != (self.moved_from is not None):
            raise ValueError("moved_from belongs to what is moved, and to nothing else")
        return self


class Plan(_Part):
    """What a run would change."""

    version: Literal[1]
    made_at: AwareDatetime
    #: The database it is for.
    database: Name
    #: Of the pipeline that would convert and embed.
    fingerprint: Name
    #: Source id → why it could not be looked at completely.
    problems: Mapping[str, str]
    #: Each item once.
    entries: Sequence[Entry]

    @field_validator("entries")
    @classmethod
    def _once(cls, entries: Sequence[Entry]) -> Sequence[Entry]:
        named = Counter((entry.source, entry.uri) for entry in entries)
        left = Counter((entry.source, entry.moved_from) for entry in entries if entry.moved_from)
        for source, uri in (*named, *left):
            if named[source, uri] > 1 or left[source, uri] > 1:
                raise ValueError(f"{uri} of {source} is there more than once")
        return entries

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
    except OSError as error:
        raise PlanRefused(f"the plan {file} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise PlanRefused(f"the plan {file} is no text in UTF-8") from error
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        what = first["msg"].removeprefix("Value error, ")
        raise PlanRefused(
            f"{file} is no plan of version {VERSION}: {place}: {what}; make it again "
            "with `haiku-ingester run-batch --dry-run --plan FILE`"
        ) from None
