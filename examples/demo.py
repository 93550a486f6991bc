"""`make demo`: the real daemon on ten real files, three searches, one change. Nothing is faked.

Everything is written below `.demo/` in the project's folder, which may be deleted afterwards.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEMO = ROOT / ".demo"
FOLDER = DEMO / "documents"
DATABASE = DEMO / "haiku.rag.lancedb"
LOG = DEMO / "daemon.log"
BIN = Path(sys.executable).parent
SEARCHES = (
    "how long must medication last if a storm keeps the boat away",
    "why do tern chicks survive better since the sandeels are back",
    "battery module warranty claim number",
)
PATIENCE = 180.0  # seconds for each wait
QUIET = 4.0  # seconds without a word while files are indexed


def main() -> int:
    """Run the demonstration; 0 when everything happened as it should."""
    shutil.rmtree(DEMO, ignore_errors=True)
    shutil.copytree(ROOT / "examples/documents", FOLDER)
    count = len(list(FOLDER.iterdir()))
    say(
        f"The daemon indexes {count} files, three searches find something in them, one file is "
        "changed.\nThat takes about 40 seconds, on a slow or busy machine two minutes."
    )
    say(f"1. The daemon watches {rel(FOLDER)} ({count} files). Its log: {rel(LOG)}")
    daemon = start()
    try:
        print("\n   Files indexed:", flush=True)
        progress = Progress(count)
        wait("all files are indexed", lambda: progress.reached(indexed(daemon)))
        print(flush=True)
        show("haiku-ingester", "items", "--db", str(DATABASE))
        say("2. Three searches, each in a process of its own, while the daemon runs")
        for query in SEARCHES:
            show("haiku-rag", "search", query, "--limit", "2", "--db", str(DATABASE))
        say("3. One file is changed; the daemon notices by itself")
        change(daemon)
    finally:
        code = stop(daemon)
    say("4. The daemon was told to stop (SIGTERM)")
    print(f"   exit status {code}\n")
    farewell()
    return code


class Progress:
    """Says how many files are indexed: when it is another number, and every few seconds."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began = self._said_at = time.monotonic()
        self._said = 0

    def reached(self, done: int) -> bool:
        """Whether all are."""
        now = time.monotonic()
        if done != self._said or now - self._said_at >= QUIET:
            self._said, self._said_at = done, now
            loading = "" if done else " (the daemon loads its converters first)"
            seconds = now - self._began
            print(f"   {seconds:3.0f} s: {done} of {self._count} files{loading}", flush=True)
        return done == self._count


def start() -> subprocess.Popen[bytes]:
    """The daemon, its log in a file."""
    command = [
        str(BIN / "haiku-ingester"),
        "serve",
        "--folder",
        str(FOLDER),
        "--db",
        str(DATABASE),
    ]
    print(f"   $ {shown(command)}")
    with LOG.open("wb") as log:
        return subprocess.Popen(
            command, cwd=DEMO, stdout=log, stderr=log, env=environment(), stdin=subprocess.DEVNULL
        )


def environment() -> dict[str, str]:
    """This process's environment, with a control API on any free port."""
    return {**os.environ, "HAIKU_RAG__INGESTER__API__PORT": "0"}


def indexed(daemon: subprocess.Popen[bytes]) -> int:
    """How many items are done; raises when one failed or the daemon ended."""
    if daemon.poll() is not None:
        raise SystemExit(f"the daemon ended with status {daemon.returncode}:\n{LOG.read_text()}")
    result = run("haiku-ingester", "items", "--limit", "100", "--json", "--db", str(DATABASE))
    if result.returncode:
        return 0
    states = [item["state"] for item in json.loads(result.stdout)]
    if "failed" in states:
        show("haiku-ingester", "failed", "list", "--db", str(DATABASE))
        raise SystemExit("a file of the demonstration failed")
    return states.count("indexed")


def change(daemon: subprocess.Popen[bytes]) -> None:
    """Change the handbook and show that a search finds the new text."""
    handbook = FOLDER / "handbook.md"
    old, new = "VHF channel 16", "VHF channel 67, since the relay moved to Holm"
    print(f"   {rel(handbook)}: “{old}” becomes “{new}”")
    handbook.write_text(handbook.read_text().replace(old, new))
    changed = time.monotonic()
    query = "emergency frequency"
    wait("the change is found", lambda: new in hit(query))
    print(f"   found {time.monotonic() - changed:.1f} s later, the start of the command included\n")
    show("haiku-rag", "search", query, "--limit", "1", "--db", str(DATABASE))


def hit(query: str) -> str:
    """Text of the best hit."""
    result = run("haiku-rag", "search", query, "--limit", "1", "--json", "--db", str(DATABASE))
    hits = json.loads(result.stdout) if result.returncode == 0 else []
    return " ".join(hits[0]["content"].split()) if hits else ""


def stop(daemon: subprocess.Popen[bytes]) -> int:
    """End the daemon as a service manager would."""
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
    return daemon.wait(timeout=60)


def farewell() -> None:
    """Where things are, and what to try next."""
    print(f"The database is {rel(DATABASE)}. Try next:\n")
    for line in (
        f'{rel(BIN / "haiku-rag")} search "closed paths" --db {rel(DATABASE)}',
        f"{rel(BIN / 'haiku-rag')} list --db {rel(DATABASE)}",
        f"{rel(BIN / 'haiku-rag')} info --db {rel(DATABASE)}",
        "make serve FOLDER=~/documents    # the daemon on a folder of yours",
    ):
        print(f"   {line}")
    print()


def wait(what: str, true: Callable[[], bool]) -> None:
    """Ask again and again, with patience."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up waiting until {what}; see {rel(LOG)}")
        time.sleep(0.2)


def show(*command: str) -> None:
    """Run a command as a person would, its output on the terminal."""
    print(f"   $ {shown(command)}", flush=True)
    subprocess.run([str(BIN / command[0]), *command[1:]], check=True)
    print(flush=True)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command and keep its output."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]], capture_output=True, text=True, check=False
    )


def say(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n", flush=True)


def shown(command: Sequence[str]) -> str:
    """A command line with paths relative to the project."""
    return shlex.join(str(rel(Path(part))) if part.startswith("/") else part for part in command)


def rel(path: Path) -> Path:
    """The path as seen from the project's folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
