"""The kill run: a daemon that is killed at random moments while its folder changes without pause.

    python -m tests.acceptance.kill --kills 100 --files 300 --seed 7

Now and then the changes pause, the daemon runs on until everything is done, and folder, items and
database are compared. A reader looks at the database all the time. Prints what happened as JSON;
exits with 1 and the reasons when anything did not hold.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from haiku.ingester.soak.folder import KINDS, Folder, prose
from haiku.rag.uris import path_to_uri
from tests.acceptance import checking
from tests.acceptance.daemon import Daemon, Site, alive, wait_until
from tests.acceptance.embedding import EmbeddingServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Seconds a daemon lives before it is ended: at once now and then, else at most this long.
LIFETIME = 6.0
#: Seconds that the workers of a killed daemon may take to notice.
ORPHANS = 60.0
#: Seconds between two changes of the folder, on average.
PAUSE = 0.05
#: Seconds until everything must be done once the changes pause.
PATIENCE = 240.0
#: Seconds of a lease: far more than anybody waits, so that waiting for one would be seen.
LEASE = 3600
#: Files that are moved while the daemon is killed, at each pause.
MOVES = 10


def word(rng: random.Random, subject: str) -> bytes:
    """A docx file."""
    import docx

    document = docx.Document()
    document.add_heading(subject, 1)
    document.add_paragraph(prose(rng, subject))
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


@dataclass
class Report:
    """What a run came to."""

    seed: int
    files: int
    #: Daemons ended, by how.
    ended: Counter[str] = field(default_factory=Counter)
    #: Changes of the folder, by kind.
    steps: Counter[str] = field(default_factory=Counter)
    #: Seconds from the start of a daemon until all was done, at each pause.
    settled: list[float] = field(default_factory=list)
    #: Claims of ended daemons that the next one found.
    resumed: int = 0
    #: Looks of the reader.
    looks: int = 0
    #: Files moved at pauses while the daemon was killed, and how many documents kept their id.
    moves: int = 0
    ids_kept: int = 0
    #: Documents at the end.
    documents: int = 0
    wrong: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(vars(self), indent=2)


class KillRun:
    """One run at a site."""

    def __init__(
        self, site: Site, server: EmbeddingServer, *, seed: int, kills: int, files: int, pauses: int
    ) -> None:
        self.report = Report(seed=seed, files=files)
        self._site = site
        self._rng = random.Random(seed)
        kinds = {**KINDS, "docx": word}
        self._folder = Folder(site.docs, random.Random(seed + 1), files, kinds)
        self._kills = kills
        self._pause_every = max(1, kills // pauses)
        self._changing = threading.Lock()
        self._over = threading.Event()
        self._others = set(_children())
        self._items = site.root / "test.ingester" / "items.sqlite"
        configure(site, server)

    def run(self) -> Report:
        """Do it all."""
        for _ in range(self.report.files // 2):
            self._change()
        threads = [threading.Thread(target=t, daemon=True) for t in (self._churn, self._read)]
        for thread in threads:
            thread.start()
        try:
            for number in range(1, self._kills + 1):
                while self._live_and_die() == "term":
                    pass
                if number % self._pause_every == 0 and not self.report.wrong:
                    self._pause()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        ends = time.monotonic() + ORPHANS
        while (orphans := self._orphans()) and time.monotonic() < ends:
            time.sleep(0.2)
        if orphans:
            self.report.wrong.append(f"processes left behind: {orphans}")
        return self.report

    def _orphans(self) -> list[psutil.Process]:
        """Processes of the run that are still there; those of other tests were there before."""
        return [p for p in _children() if p not in self._others and alive(p)]

    # --- beside the daemons

    def _churn(self) -> None:
        rng = random.Random(self.report.seed + 2)
        while not self._over.wait(rng.expovariate(1 / PAUSE)):
            with self._changing:
                self._change()

    def _change(self) -> None:
        self.report.steps[self._folder.step().kind] += 1

    def _read(self) -> None:
        while not self._over.wait(0.5):
            if (self._site.database / "settings.lance").exists():
                self.report.wrong += checking.look(self._site.database).wrong
                self.report.looks += 1

    # --- daemons

    def _live_and_die(self) -> str:
        """One daemon from its start to its end; says what ended it."""
        daemon = self._site.start()
        at_once = self._rng.random() < 0.15
        time.sleep(self._rng.uniform(0, 0.3 if at_once else LIFETIME))
        how = self._end(daemon)
        if self._rng.random() < 0.3:
            time.sleep(self._rng.uniform(0, 1))
        return how

    def _end(self, daemon: Daemon) -> str:
        how = self._rng.choices(["kill", "kill group", "term", "term, then kill"], [5, 3, 2, 1])[0]
        self.report.ended[how] += 1
        if how == "term":
            self._stop(daemon)
        else:
            if how == "term, then kill":
                daemon.signal(signal.SIGTERM)
                time.sleep(self._rng.uniform(0, 0.5))
            daemon.kill(group=how == "kill group")
        self.report.resumed += self._states()["working"]
        return how

    def _stop(self, daemon: Daemon) -> None:
        code = daemon.stop()
        # Until its modules are loaded, the system's own answer to the signal ends it.
        if code != 0 and (code != -signal.SIGTERM or daemon.log):
            self.report.wrong.append(f"exit code {code} after SIGTERM\n{daemon.messages()}")

    def _pause(self) -> None:
        with self._changing:
            with self._site.start() as daemon:
                self._settle(daemon)
                self._move_under_fire(daemon)
            self.report.documents = len(self._folder.held)

    def _settle(self, daemon: Daemon) -> None:
        """Wait until folder, items and database agree, and say what does not."""
        began = time.monotonic()
        try:
            wait_until(lambda: not self._differences(), "all done", patience=PATIENCE, pause=0.2)
        except AssertionError:
            self.report.wrong += self._differences()[:20]
            self.report.wrong.append(daemon.messages()[-5000:])
        self.report.settled.append(round(time.monotonic() - began, 1))
        self.report.wrong += checking.look(self._site.database).wrong

    def _move_under_fire(self, daemon: Daemon) -> None:
        """Move files of indexed documents, kill the daemon meanwhile: the ids stay."""
        before = checking.look(self._site.database).live
        names: dict[str, str] = {}
        for _ in range(MOVES):
            step = self._folder.move()
            names[step.to] = names.pop(step.name, step.name)
        time.sleep(self._rng.uniform(0, 0.6))
        daemon.kill(group=self._rng.random() < 0.5)
        with self._site.start() as again:
            self._settle(again)
            after = checking.look(self._site.database).live
            self._stop(again)
        for new, old in names.items():
            self.report.moves += 1
            kept = after.get(self._uri(new), {}).get("id") == before[self._uri(old)]["id"]
            self.report.ids_kept += kept
            if not kept:
                self.report.wrong.append(f"{old} → {new} lost its id")

    # --- what should be

    def _uri(self, name: str) -> str:
        return path_to_uri(self._site.docs / name)

    def _differences(self) -> list[str]:
        if not (self._site.database / "settings.lance").exists():
            return ["no database yet"]
        held = {self._uri(n): sha256(b).hexdigest() for n, b in self._folder.held.items()}
        on_disk = {p for p in self._site.docs.rglob("*") if p.is_file()}
        assert {path_to_uri(path) for path in on_disk} == held.keys()
        rows = checking.look(self._site.database).live
        live = {uri: row["content_hash"] for uri, row in rows.items()}
        states = self._states()
        return [
            *(f"no document of {uri}" for uri in held.keys() - live.keys()),
            *(f"a document too many: {uri}" for uri in live.keys() - held.keys()),
            *(f"old content: {u}" for u in held.keys() & live.keys() if held[u] != live[u]),
            *([f"items: {dict(states)}"] if states != Counter(indexed=len(held)) else []),
        ]

    def _states(self) -> Counter[str]:
        if not self._items.exists():
            return Counter()
        with sqlite3.connect(f"file:{self._items}?mode=ro", uri=True, timeout=30) as connection:
            try:
                query = "SELECT state, count(*) FROM items GROUP BY state"
                return Counter(dict(connection.execute(query).fetchall()))
            except sqlite3.OperationalError:  # its tables are not made yet
                return Counter()


def configure(site: Site, server: EmbeddingServer, **ingester: Any) -> None:
    """Settings that let much happen in little time, but for leases, which last for ever."""
    site.settings = {
        "embeddings": server.settings(),
        "storage": {"collect_after": 20, "compact_every": 10, "max_unindexed_rows": 200},
    }
    source = {
        "id": "docs",
        "path": str(site.docs),
        "settle": 0.1,
        "delete_guard": 1.0,
        "delete_guard_min": 1_000_000,
    }
    work: Mapping[str, Any] = {"lease": LEASE, "backoff": 0.2, "backoff_max": 1.0}
    site.configure(**{"sources": [source], "work": work, **ingester})


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def main() -> None:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--pauses", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    make: Callable[..., Any] = tempfile.TemporaryDirectory
    with make(prefix="kill-") as root, EmbeddingServer() as server:
        run = KillRun(Site(Path(root)), server, **vars(options))
        report = run.run()
    print(report.as_json())
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
