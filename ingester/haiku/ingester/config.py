"""The `ingester` section of the configuration.

The library keeps the section as plain data; the daemon checks it here, with the same rules:
unknown keys are refused with their path, secrets are never printed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from haiku.ingester.timetable import Timetable, find_zone
from haiku.rag import tagnames
from haiku.rag.config import AppConfig, load_config
from haiku.rag.config.loading import describe_errors
from haiku.rag.config.models import Section
from haiku.rag.exceptions import ConfigError, TagNameRefused


class ApiConfig(Section):
    """The control API: health, readiness, metrics."""

    enabled: bool = Field(True, description="Listen at all.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8765, ge=0, le=65535, description="Port to listen on; 0: any free one.")
    port_taken: Literal["continue", "refuse"] = Field(
        "refuse",
        description="When the port is taken: refuse to start, or continue without the API.",
    )


class GroupConfig(Section):
    """Group commit: how many finished documents go into one commit."""

    max_documents: int = Field(64, ge=1, description="Documents in one commit.")
    max_bytes: int = Field(32_000_000, ge=1, description="Bytes of rows in one commit.")
    window: float = Field(
        0.05, ge=0, description="Seconds a finished document waits for others at most."
    )
    busy_window: float = Field(
        3.0, ge=0, description="The same while more than a few documents are on their way."
    )


class SpoolConfig(Section):
    """Where fetched bytes wait for conversion."""

    dir: Path | None = Field(None, description="Folder; null: beside the items database.")
    max_bytes: int = Field(
        2_000_000_000, ge=1, description="Bytes at most; fetching waits when it is full."
    )


class WorkConfig(Section):
    """How items are worked on."""

    concurrency: int = Field(
        0, ge=0, description="Items under way at once; 0: twelve a conversion worker."
    )
    max_attempts: int = Field(5, ge=1, description="Tries before an item is failed.")
    backoff: float = Field(2.0, gt=0, description="Seconds before the second try; doubles.")
    backoff_max: float = Field(600.0, gt=0, description="Seconds between tries at most.")
    reprocess_outdated: bool = Field(
        True,
        description="Convert again, after everything else, what another pipeline has indexed.",
    )
    lease: float = Field(60.0, gt=1, description="Seconds a claim lasts without being renewed.")


class _Timed(Section):
    """Something that is done by a schedule."""

    @field_validator("cron", check_fields=False)
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            Timetable(value, "UTC")
        return value


class VacuumSchedule(_Timed):
    """Takes away what nobody needs any more, as `haiku-rag vacuum` does."""

    cron: str | None = Field(
        "30 3 * * *",
        description="When: minute, hour, day, month, day of the week; null: never.",
    )


class TagSchedule(_Timed):
    """Names the state of the database now and then, and forgets the oldest of these names."""

    cron: str | None = Field(
        None, description="When: minute, hour, day, month, day of the week; null: never."
    )
    name: str = Field(
        "auto-{slot}",
        description="Name of a tag; {slot} is its nominal time, e.g. 20260329T0230.",
    )
    keep: int = Field(
        7, ge=1, description="Tags with such a name that are kept; older ones are deleted."
    )

    @field_validator("name")
    @classmethod
    def _one_slot(cls, value: str) -> str:
        if value.count("{slot}") != 1:
            raise ValueError("it must have {slot} in it once, so that each tag has its own name")
        sample = value.replace("{slot}", "20260329T0230")
        try:
            tagnames.check(sample)
        except TagNameRefused as error:
            raise ValueError(f"with a time in the place of {{slot}}, {error}") from None
        return value


class ScheduleConfig(Section):
    """What is done at set times, once for all daemons on one items database."""

    timezone: str = Field("UTC", description="Time zone of all times, e.g. Europe/Berlin.")
    misfire_grace: float = Field(
        86_400.0,
        ge=60,
        description="Seconds after which a time that was missed is not made up for.",
    )
    vacuum: VacuumSchedule = Field(default_factory=VacuumSchedule)
    tags: TagSchedule = Field(default_factory=TagSchedule)

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        find_zone(value)
        return value


class FilesystemSource(Section):
    """A folder."""

    type: Literal["fs"] = Field("fs", description="Kind of source.")
    id: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the source; unique."
    )
    path: Path = Field(description="The folder.")
    include: list[str] = Field(
        default_factory=lambda: ["**"], description="gitignore patterns of what is wanted."
    )
    ignore: list[str] = Field(
        default_factory=list, description="gitignore patterns of what is not, after the defaults."
    )
    default_ignore: bool = Field(True, description="Apply the built-in list of ignored names.")
    gitignore: bool = Field(False, description="Honour .gitignore files in the tree.")
    follow_symlinks: bool = Field(
        False, description="Follow links to files inside the root; links to folders never."
    )
    watch: Literal["auto", "native", "poll", "off"] = Field(
        "auto", description="How changes are noticed; auto: poll on network filesystems."
    )
    poll_interval: float = Field(30.0, gt=0, description="Seconds between looks when polling.")
    sweep_interval: float = Field(
        3600.0, gt=0, description="Seconds between full listings, which catch what events missed."
    )
    settle: float = Field(0.5, ge=0, description="Seconds a file must be still before it is taken.")
    delete_guard: float = Field(
        0.5, gt=0, le=1, description="Share of the source whose absence suspends deletions."
    )
    delete_guard_min: int = Field(
        20, ge=0, description="Absences below this number never trip delete_guard."
    )
    max_file_size: int | None = Field(
        None, ge=1, description="Bytes; null: processing.max_file_size."
    )
    required: bool = Field(False, description="Refuse to start when the folder is missing.")

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        path = Path(value).expanduser()
        return Path(os.path.abspath(path))  # noqa: PTH100 - ".." goes as it does from URIs


class IngesterConfig(Section):
    """Settings of the daemon."""

    sources: list[FilesystemSource] = Field(
        default_factory=list, description="The places documents come from."
    )
    items_db: SecretStr | None = Field(
        None,
        description="SQLAlchemy URL of the items database; null: SQLite beside the database.",
    )
    work: WorkConfig = Field(default_factory=WorkConfig)
    group: GroupConfig = Field(default_factory=GroupConfig)
    spool: SpoolConfig = Field(default_factory=SpoolConfig)
    api: ApiConfig = Field(default_factory=ApiConfig)
    schedule: ScheduleConfig = Field(default_factory=ScheduleConfig)
    shutdown_grace: float = Field(
        30.0, ge=0, description="Seconds after SIGTERM for what is in flight."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        "auto", description="auto: text on a terminal, JSON otherwise."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe level that is logged."
    )

    @model_validator(mode="after")
    def _unique_ids(self) -> "IngesterConfig":
        ids = [source.id for source in self.sources]
        doubled = sorted({i for i in ids if ids.count(i) > 1})
        if doubled:
            raise ValueError(f"source id used twice: {', '.join(doubled)}")
        return self


@dataclass(frozen=True, kw_only=True)
class DaemonConfig:
    """What the daemon runs by: the library's settings and its own."""

    app: AppConfig
    ingester: IngesterConfig


def load_daemon_config(
    path: str | Path | None = None, *, overrides: dict[str, Any] | None = None
) -> DaemonConfig:
    """Read the configuration file and check the daemon's section.

    Args:
        path: the file, or None for the usual places.
        overrides: keys of the `ingester` section that replace what the file says.

    Raises:
        ConfigError: as `haiku.rag.config.load_config`, and for the daemon's own keys.
    """
    app = load_config(path)
    try:
        section = IngesterConfig.model_validate({**app.ingester, **(overrides or {})})
    except ValidationError as error:
        raise ConfigError(
            describe_errors(error, str(path or "file or environment"), "ingester.")
        ) from None
    return DaemonConfig(app=app, ingester=section)
