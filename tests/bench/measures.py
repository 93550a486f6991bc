"""What is measured: each function returns rows for the table."""

import asyncio
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from haiku.rag.config import AppConfig
from tests.bench import corpus, parts
from tests.bench.cost import Cost, spent
from tests.bench.daemon import BIN, Daemon, environment, running


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    what: str
    value: str
    target: str
    note: str = ""


def throughput(base: Path, count: int, rounds: int) -> list[Figure]:
    """A mixed folder moved under a running daemon, against the sum of its parts run bare.

    Each round has other files, and the one that goes first alternates. The medians count: a
    machine that others use as well is now faster and now slower.
    """
    found = [_round(base / str(number), count, number) for number in range(rounds)]
    for one in found:
        print(one.note, flush=True)
    times = [one.daemon.seconds / one.bare.total.seconds - 1 for one in found]
    cpus = [one.daemon.cpu / one.bare.total.cpu - 1 for one in found]
    return [
        _over("daemon over the sum of its parts", times, "≤ +30 %", "by the clock"),
        _over("the same in CPU seconds", cpus, "", "children included"),
    ]


@dataclass(frozen=True)
class Round:
    """What the same files cost the daemon and the parts."""

    daemon: Cost
    bare: parts.Parts

    @property
    def note(self) -> str:
        """Both in words."""
        bare = self.bare
        return (
            f"{bare.documents} files, {bare.chunks} chunks: daemon {self.daemon}; bare "
            f"{bare.total}: convert {bare.convert}, embed {bare.embed}, append {bare.append}"
        )


def _round(base: Path, count: int, seed: int) -> Round:
    folder = base / "daemon/documents/corpus"
    files = corpus.Writer(seed).folder(base / "corpus", count)
    if seed % 2:
        daemon = _through(base, folder)
        files = [folder / path.name for path in files]
        return Round(daemon, parts.measure(files, base / "bare", AppConfig()))
    bare = parts.measure(files, base / "bare", AppConfig())
    return Round(_through(base, folder), bare)


def _through(base: Path, folder: Path) -> Cost:
    """The cost of a folder that is moved under a running daemon."""
    count = len(list((base / "corpus").iterdir()))
    with running(base / "daemon") as daemon, spent(daemon.process.pid) as cost:
        (base / "corpus").rename(folder)
        daemon.wait(count + 1)
    return cost


def _over(what: str, shares: list[float], target: str, note: str) -> Figure:
    rounds = ", ".join(f"{share:+.0%}" for share in shares)
    return Figure(what, f"{statistics.median(shares):+.0%}", target, f"{note}; rounds {rounds}")


def latency(base: Path, rounds: int) -> list[Figure]:
    """From the save of a small file to a hit in this process, which is not the daemon's."""
    with running(base) as daemon:
        times = sorted(asyncio.run(_saves(daemon, rounds)))
    p95 = times[min(len(times) - 1, int(0.95 * len(times)))]
    note = f"{rounds} saves: p50 {statistics.median(times):.2f} s, max {times[-1]:.2f} s"
    return [Figure("save → hit in another process, p95", f"{p95:.2f} s", "≤ 1.5 s", note)]


async def _saves(daemon: Daemon, rounds: int) -> list[float]:
    from haiku.rag.client import HaikuRAG

    times = []
    async with HaikuRAG(daemon.database, read_only=True) as client:
        await client.search("warm up")
        for number in range(rounds):
            word = f"quokka{number:04d}x"
            (daemon.folder / f"note{number}.md").write_text(
                f"# Note {number}\n\nThe {word} sleeps."
            )
            started = time.perf_counter()
            while not any(word in hit.content for hit in await client.search(word)):
                await asyncio.sleep(0.01)
            times.append(time.perf_counter() - started)
    return times


def commands(base: Path, repeats: int) -> list[Figure]:
    """Whole commands, as a person waits for them; the median."""
    folder, database = base / "documents", base / "commands.lancedb"
    corpus.Writer(2).folder(folder, 100)
    run = [str(BIN / "haiku-ingester"), "run-batch", "--folder", str(folder)]
    subprocess.run([*run, "--db", str(database)], check=True, capture_output=True)
    search = ["haiku-rag", "search", "generator expressions", "--db", str(database)]
    return [
        Figure("haiku-rag --help", _median(["haiku-rag", "--help"], repeats), "≤ 0.4 s"),
        Figure("haiku-ingester --help", _median(["haiku-ingester", "--help"], repeats), "≤ 0.4 s"),
        Figure("open a database (no imports)", _opening(database), "≤ 0.5 s"),
        Figure("haiku-rag search, whole command", _median(search, repeats), "≤ 1.5 s"),
    ]


def _median(command: list[str], repeats: int) -> str:
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            check=True,
            capture_output=True,
            env=environment(),
        )
        times.append(time.perf_counter() - started)
    return f"{statistics.median(times[1:]):.2f} s"


def _opening(database: Path) -> str:
    from haiku.rag.client import HaikuRAG

    async def once() -> float:
        started = time.perf_counter()
        async with HaikuRAG(database, read_only=True) as client:
            await client.count_documents()
        return time.perf_counter() - started

    asyncio.run(once())
    return f"{statistics.median(asyncio.run(once()) for _ in range(5)):.3f} s"


@contextlib.contextmanager
def scratch(name: str):
    """A folder that goes when the measurement is over."""
    with tempfile.TemporaryDirectory(prefix=f"haiku-bench-{name}-") as folder:
        yield Path(folder)


def machine() -> str:
    """A line about the machine."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
