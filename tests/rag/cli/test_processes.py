"""The command as a process: start-up, pipes, terminals, odd environments."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from haiku.rag.version import __version__

#: Packages that no command may need before it does something.
HEAVY = ("asyncio", "docling", "lance", "numpy", "openvino", "pyarrow", "pydantic", "rich", "yaml")


def test_version(process: Any) -> None:
    found = process("--version")
    assert (found.returncode, found.stdout) == (0, f"haiku-rag {__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(process: Any, arguments: list[str]) -> None:
    found = process(*arguments, env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    assert found.returncode == 0
    imported = {line.rsplit("|")[-1].strip() for line in found.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & set(HEAVY)


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["list", "--nonsense"], ["search"], ["list", "--limit", "-1"]]
)
def test_wrong_usage(process: Any, arguments: list[str]) -> None:
    found = process(*arguments)
    assert found.returncode == 2
    assert found.stdout == ""
    assert "Traceback" not in found.stderr


def test_a_search_from_start_to_end(process: Any, built: Path) -> None:
    found = process("search", "days off work", "--db", built, "--json", "--limit", 1)
    assert found.returncode == 0
    assert found.stderr == ""
    assert json.loads(found.stdout)[0]["document_title"] == "Staff handbook"


# F70: most of what such a search took was imports
def test_a_search_imports_neither_pandas_nor_docling(process: Any, built: Path) -> None:
    env = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    found = process("search", "holiday", "--db", built, "--type", "fts", env=env)
    assert found.returncode == 0
    imported = {line.rsplit("|")[-1].strip() for line in found.stderr.splitlines()}
    assert "lance" in imported
    # A refused import is listed as well; pandas.core would be there had it been carried out.
    assert not imported & {"docling", "docling_core", "lancedb", "openvino", "pandas.core", "torch"}


def test_a_closed_pipe_ends_quietly(command: Any, built: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        found = subprocess.run(
            command("list", "--db", built, "--json"),
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=150,
            check=False,
        )
    assert found.returncode == 141
    assert found.stderr == b""


def test_an_ascii_terminal_gets_escapes_instead_of_a_traceback(process: Any, built: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    found = process("search", "holiday", "--db", built, "--type", "fts", env=env)
    assert found.returncode == 0
    assert r"Holidays \u203a Allowance" in found.stdout


def _in_terminal(arguments: list[str], env: dict[str, str]) -> str:
    """What a process prints on a terminal of 60 columns."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        arguments, stdin=side, stdout=side, stderr=side, env={**env, "COLUMNS": "60"}
    )
    os.close(side)
    parts = []
    try:
        while part := os.read(main, 65536):
            parts.append(part)
    except OSError:  # Linux ends a terminal without writers with EIO.
        pass
    os.close(main)
    assert process.wait(150) == 0
    return b"".join(parts).decode()


def test_a_terminal_gets_colours_but_no_commands_of_a_document(command: Any, built: Path) -> None:
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    shown = _in_terminal(command("get", "https://example.org/a", "--db", built), env)
    assert "\x1b[1m" in shown
    assert set(re.findall(r"\x1b\[[0-9;]*m", shown)) <= {"\x1b[0m", "\x1b[1m"}
    assert not re.search(r"\x1b[^\[]|\x07|\x9b|\u202e", shown)
    assert "[link=http://x]" in shown


def test_interrupting_ends_quietly(command: Any, built: Path) -> None:
    """Ctrl-C while a command waits for its input."""
    with subprocess.Popen(
        command("add", "-", "--db", built),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        # The command reads its input only when all imports of its start are done.
        _wait_until_reading(process.pid)
        process.send_signal(2)
        assert process.stdin is not None
        process.stdin.close()
        code = process.wait(150)
        assert process.stderr is not None
        error = process.stderr.read().decode()
    assert code == 130
    assert "Traceback" not in error
    assert "interrupted" in error


def _wait_until_reading(pid: int) -> None:
    """Until a thread of the process sleeps in a read of its standard input."""
    import time

    for _ in range(2400):
        for task in Path(f"/proc/{pid}/task").iterdir():
            words = (task / "syscall").read_text().split()
            if words[:2] == ["0", "0x0"]:
                return
        time.sleep(0.05)
    raise AssertionError("the process never read its input")
