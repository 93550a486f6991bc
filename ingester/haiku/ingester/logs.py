"""Logging of the daemon: one place that configures it.

In: the standard library's records, with the fields below passed as `extra=`. Out: short aligned
lines for people on a terminal, one JSON object a line otherwise. Rules: secrets never (values the
configuration calls secret, and passwords inside addresses, are replaced in what is finally
written, tracebacks included); control characters are escaped, so that a file name cannot forge a
line; libraries speak from warning up only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from haiku.rag import uris

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Fields a record may carry (`extra={"source": …}`), in the order they are printed.
#: `duration` is in seconds.
FIELDS = (
    "source",
    "job",
    "uri",
    "stage",
    "code",
    "documents",
    "chunks",
    "duration",
)
#: Libraries whose lines below warning help nobody who runs the daemon.
QUIET = (
    "aiosqlite",
    "alembic",
    "asyncio",
    "docling",
    "docling_core",
    "fontTools",
    "httpcore",
    "httpx",
    "PIL",
    "pypdf",
    "sqlalchemy",
    "urllib3",
    "uvicorn",
    "watchdog",
)

REDACTED = "**********"

_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")
_COLOURS = {logging.DEBUG: "2", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}


def configure(
    *,
    form: Literal["auto", "text", "json"] = "auto",
    level: str = "info",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all logging of this process to one stream (standard error).

    Args:
        form: `auto` is text on a terminal and JSON otherwise.
        level: least severe level that is written.
        secrets: values that must never be written.
        stream: another stream than standard error.
    """
    stream = stream or sys.stderr
    terminal = stream.isatty()
    as_text = form == "text" or (form == "auto" and terminal)
    colour = terminal and not os.environ.get("NO_COLOR")
    inner: logging.Formatter = TextFormatter(colour=colour) if as_text else JsonFormatter()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(RedactingFormatter(inner, secrets))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class RedactingFormatter(logging.Formatter):
    """Replaces secrets in what another formatter wrote."""

    def __init__(self, inner: logging.Formatter, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._inner = inner
        self._secrets = sorted((s for s in secrets if s), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        """The line, without any secret."""
        return redact(self._inner.format(record), self._secrets)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with the given values, and passwords inside addresses, replaced."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return _PASSWORD_IN_ADDRESS.sub(rf"\1:{REDACTED}", text)


class TextFormatter(logging.Formatter):
    """`12:01:02 warning  message  source=docs uri=/docs/a.md`, local time."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, followed by its traceback if it has one."""
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        line = f"{clock} {record.levelname.lower():<8} {escape(record.getMessage())}"
        pairs = [f"{key}={self._value(key, value)}" for key, value in _fields(record).items()]
        if pairs:
            line = f"{line}  {' '.join(pairs)}"
        colour = _COLOURS.get(record.levelno) if self._colour else None
        if colour:
            line = f"\x1b[{colour}m{line}\x1b[0m"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

    @staticmethod
    def _value(key: str, value: object) -> str:
        if key == "duration" and isinstance(value, float):
            return f"{value:.2f}"
        return uris.display(str(value)) if key == "uri" else escape(str(value))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC, ISO 8601), level, logger, message, fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of ASCII JSON."""
        data: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        data.update(_fields(record))
        if isinstance(data.get("duration"), float):
            data["duration"] = round(float(str(data["duration"])), 3)
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


def escape(text: str) -> str:
    """The text with everything that is not printable written as an escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found = {key: getattr(record, key, None) for key in FIELDS}
    return {key: value for key, value in found.items() if value is not None}
