"""The real daemon under measurement."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

BIN = Path(sys.executable).parent


class Daemon:
    """A running `haiku-ingester serve` on one folder."""

    def __init__(self, base: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start it, with settings of its own in the environment."""
        self.folder = base / "documents"
        self.database = base / "bench.lancedb"
        self.log = base / "daemon.log"
        self._items = base / "bench.ingester/items.sqlite"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(BIN / "haiku-ingester"),
                    "serve",
                    "--folder",
                    str(self.folder),
                    "--db",
                    str(self.database),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**environment(), **(settings or {})},
            )

    def done(self) -> int:
        """Items that need no more work, read straight from the items database."""
        if self.process.poll() is not None:
            raise SystemExit(f"the daemon ended:\n{self.log.read_text()[-2000:]}")
        with contextlib.closing(sqlite3.connect(f"file:{self._items}?mode=ro", uri=True)) as db:
            states = "('indexed','empty','skipped','failed')"
            row = db.execute(f"select count(*) from items where state in {states}")
            return int(row.fetchone()[0])

    def known(self) -> int:
        """Items that are known, in whatever state."""
        with contextlib.closing(sqlite3.connect(f"file:{self._items}?mode=ro", uri=True)) as db:
            return int(db.execute("select count(*) from items").fetchone()[0])

    def wait(self, count: int, timeout: float = 900.0) -> None:
        """Until `count` items are done."""
        deadline = time.monotonic() + timeout
        while self._done_or_zero() < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"gave up waiting for {count} items; see {self.log}")
            time.sleep(0.02)

    def _done_or_zero(self) -> int:
        try:
            return self.done()
        except sqlite3.OperationalError:  # not made yet
            return 0

    def stop(self) -> None:
        """SIGTERM, and its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def environment() -> dict[str, str]:
    """What a user's process would have: compiled modules, and any free port for the API."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "HAIKU_RAG__INGESTER__API__PORT": "0"}


@contextlib.contextmanager
def running(base: Path, settings: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """A daemon that has done one small file, so that everything is started."""
    daemon = Daemon(base, settings)
    try:
        (daemon.folder / "first.md").write_text("# First\n\nSomething to start with.\n")
        daemon.wait(1)
        yield daemon
    finally:
        daemon.stop()
