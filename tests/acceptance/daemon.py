"""Real daemons for tests: start one, feed it, look at it from outside, end it in any way.

A `Site` is a folder of documents with a configuration and a database beside it; it starts daemons
and runs commands as a user would, each a process of its own. What a test looks at, it reads from
its own process, which is another than the daemon's.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import psutil
import yaml
from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from haiku.rag.client import HaikuRAG
    from haiku.rag.models import Document, SearchResult

T = TypeVar("T")

#: Seconds that anything may take on a busy machine before a test gives up.
PATIENCE = 150.0
#: Seconds between looks.
PAUSE = 0.1


def wait_until(
    condition: Callable[[], Any], what: str, *, patience: float = PATIENCE, pause: float = PAUSE
) -> Any:
    """The first true value of `condition`; fails the test when there is none in time."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        if value := condition():
            return value
        time.sleep(pause)
    raise AssertionError(f"not within {patience:.0f} s: {what}; last: {condition()!r}")


def alive(process: psutil.Process) -> bool:
    """Whether a process still runs; one that nobody has waited for yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Site:
    """A place to run daemons in."""

    root: Path
    #: Keys of the configuration, merged over those that keep a test fast.
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.docs = self.root / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.database = self.root / "test.lancedb"
        self.config = self.root / "config.yaml"
        self.configure()

    def configure(self, **ingester: Any) -> None:
        """Write the configuration; keys of its `ingester` section may be replaced."""
        section: dict[str, Any] = {
            "sources": [{"id": "docs", "path": str(self.docs), "settle": 0.1}],
            "api": {"port": 0},
            "work": {"backoff": 0.2, "backoff_max": 1.0, "max_attempts": 2},
            "shutdown_grace": 20,
        }
        settings = dict(self.settings)
        section.update(settings.pop("ingester", {}))
        section.update(ingester)
        data = {"processing": {"workers": 1}, **settings, "ingester": section}
        self.config.write_text(yaml.safe_dump(data), encoding="utf-8")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a document into the folder in one step, as a careful program does."""
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(path)
        return path

    def environment(self) -> dict[str, str]:
        """A user's environment without anything of this one's that could matter."""
        keep = {k: v for k, v in os.environ.items() if not k.startswith("HAIKU_RAG")}
        own = {"HOME": str(self.root), "XDG_CONFIG_HOME": str(self.root / "xdg")}
        return {**keep, **own, "PYTHONFAULTHANDLER": "1"}

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Daemon:
        """Start `haiku-ingester serve` here."""
        command = [sys.executable, "-m", "haiku.ingester.cli", "serve", *self._places(), *arguments]
        return Daemon(self, command, {**self.environment(), **(env or {})})

    def run(self, *arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run a `haiku-ingester` command here to its end."""
        return subprocess.run(
            [sys.executable, "-m", "haiku.ingester.cli", *arguments, *self._places()],
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """What a command prints with `--json`; run in this process, which is quicker."""
        from haiku.ingester.cli import app

        done = CliRunner().invoke(app, [*arguments, "--json", *self._places()])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def search(self, query: str, limit: int = 5) -> list[SearchResult]:
        """Hits of a full-text search by the library, from this process."""
        return self._read(lambda client: client.search(query, limit=limit, search_type="fts"))

    def documents(self) -> list[Document]:
        """Every live document, by the library, from this process."""
        return self._read(lambda client: client.list_documents())

    def _read(self, ask: Callable[[HaikuRAG], Awaitable[T]]) -> T:
        from haiku.rag.client import HaikuRAG
        from haiku.rag.config import AppConfig

        async def read() -> T:
            async with HaikuRAG(self.database, config=AppConfig(), read_only=True) as client:
                return await ask(client)

        return asyncio.run(read())

    def _places(self) -> list[str]:
        return ["--config", str(self.config), "--db", str(self.database)]


class Daemon:
    """A running `haiku-ingester serve`."""

    def __init__(self, site: Site, command: list[str], environment: Mapping[str, str]) -> None:
        self.site = site
        #: Its log, a parsed JSON object a line.
        self.log: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            command,
            cwd=site.root,
            env=dict(environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"level": "text", "message": line.rstrip("\n")})

    # --- looking ----------------------------------------------------------------------------

    def messages(self) -> str:
        """The log as text."""
        return "\n".join(f"{entry['level']} {entry['message']}" for entry in list(self.log))

    @property
    def url(self) -> str:
        """Address of its API, from the line it logs at start."""

        def look() -> str | None:
            self._alive()
            found = re.search(r"http://\S+", self.messages())
            return found.group() if found else None

        return str(wait_until(look, "the API's address in the log"))

    def get(self, path: str) -> httpx.Response:
        """An answer of its API; the first takes as long as it takes to start."""
        return httpx.get(self.url + path, timeout=PATIENCE)

    def wait_ready(self) -> Daemon:
        """Wait until `/ready` answers 200."""

        def ready() -> bool:
            self._alive()
            return self.get("/ready").status_code == 200

        wait_until(ready, f"ready\n{self.messages()}")
        return self

    def counts(self) -> dict[str, int]:
        """Items by state, over all sources, from `/metrics`."""
        found: dict[str, int] = {}
        for line in self.get("/metrics").text.splitlines():
            if match := re.match(r'haiku_ingester_items\{.*state="(\w+)"\} (\S+)', line):
                found[match[1]] = found.get(match[1], 0) + int(float(match[2]))
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        lines = self.get("/metrics").text.splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[{{ ]", line)
        )

    def wait_counts(self, **expected: int) -> Daemon:
        """Wait until the items are in exactly these states."""

        def settled() -> bool:
            self._alive()
            return {s: n for s, n in self.counts().items() if n} == expected

        try:
            wait_until(settled, f"items {expected}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.counts()}\n{self.messages()}") from None
        return self

    def workers(self) -> list[psutil.Process]:
        """Its conversion processes."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _alive(self) -> None:
        code = self.process.poll()
        assert code is None, f"the daemon ended with {code}\n{self.messages()}"

    # --- ending -----------------------------------------------------------------------------

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code, when it has ended; one that does not end is made to say what it does."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.signal(signal.SIGABRT)  # the stacks of all threads go to its log
            self._reader.join(5)
            raise AssertionError(f"{error}\n{self.messages()[-20_000:]}") from None
        self._reader.join(5)
        return code

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self, *, group: bool = False) -> None:
        """SIGKILL; with `group` to its conversion processes as well."""
        if group:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.wait()
