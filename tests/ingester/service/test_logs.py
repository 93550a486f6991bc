"""What the daemon's log lines look like, and what they never hold."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.ingester import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_terminal_gets_text_and_a_pipe_gets_json() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    logs.configure(stream=terminal)
    logging.getLogger("x").info("committed", extra={"documents": 3})
    logs.configure(stream=pipe)
    logging.getLogger("x").info("committed", extra={"documents": 3})
    assert "committed  documents=3" in lines(terminal)[0]
    assert json.loads(lines(pipe)[0])["documents"] == 3


def test_json_lines_carry_time_level_and_fields() -> None:
    stream = io.StringIO()
    logs.configure(form="json", stream=stream)
    extra = {"source": "docs", "uri": "file:///a%20b", "stage": "convert", "duration": 1.23456}
    logging.getLogger("haiku.ingester.work").warning("corrupt", extra=extra)
    found = json.loads(lines(stream)[0])
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "warning",
        "logger": "haiku.ingester.work",
        "message": "corrupt",
        "source": "docs",
        "uri": "file:///a%20b",
        "stage": "convert",
        "duration": 1.235,
    }


def test_text_shows_paths_decoded_and_escapes_control_characters() -> None:
    stream = Terminal()
    logs.configure(form="text", stream=stream)
    logging.getLogger("x").info("named\n12:00:00 error forged", extra={"uri": "file:///a%0Ab%20c"})
    assert len(lines(stream)) == 1
    assert "uri=/a\\nb c" in lines(stream)[0]


def test_secrets_never_appear_not_even_in_a_traceback() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        logs.configure(form=form, stream=stream, secrets=["hunter2", ""])  # type: ignore[arg-type]
        try:
            raise RuntimeError("key hunter2, postgresql://me:pa%20ss@db/items")
        except RuntimeError:
            logging.getLogger("x").exception("failed with hunter2")
        text = stream.getvalue()
        assert "hunter2" not in text
        assert "pa%20ss" not in text
        assert "me:**********@db" in text


def test_libraries_are_quiet_below_warning_even_at_debug() -> None:
    stream = io.StringIO()
    logs.configure(level="debug", stream=stream)
    logging.getLogger("httpx").info("noise")
    logging.getLogger("docling.something").debug("noise")
    logging.getLogger("watchdog.observers").warning("matters")
    assert [json.loads(line)["message"] for line in lines(stream)] == ["matters"]


def test_configuring_twice_writes_each_line_once() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    logs.configure(stream=stream)
    logging.getLogger("x").info("once")
    assert len(lines(stream)) == 1


@given(st.text())
def test_any_message_is_one_line(message: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (message,), None)
    assert len(logs.TextFormatter().format(record).splitlines()) == 1
    assert json.loads(logs.JsonFormatter().format(record))["message"] == message
