"""`make bench`: prints the table."""

import argparse

from rich.console import Console
from rich.table import Table

from tests.bench import disk, large, measures, scale


def main() -> None:
    """Run what is asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("names", nargs="*", default=["commands", "latency", "throughput"])
    parser.add_argument("--files", type=int, default=80, help="files of the mixed folder")
    parser.add_argument("--mixed", type=int, default=300, help="files embedded for nothing")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of the mixed folder")
    parser.add_argument("--saves", type=int, default=40, help="saves of a small file")
    parser.add_argument("--repeats", type=int, default=9, help="runs of each command")
    parser.add_argument("--commits", type=int, default=960, help="single commits, and rewrites")
    parser.add_argument("--documents", type=int, default=500_000, help="documents at most")
    parser.add_argument("--tiny", type=int, default=10_000, help="tiny files at once")
    parser.add_argument("--unchanged", type=int, default=100_000, help="files of a sweep")
    parser.add_argument("--chunks", type=int, default=100_000, help="chunks to search")
    parser.add_argument("--large", type=int, default=1_000_000, help="chunks of a large database")
    options = parser.parse_args()
    runs = {
        "commands": lambda base: measures.commands(base, options.repeats),
        "latency": lambda base: measures.latency(base, options.saves),
        "disk": disk.disk,
        "singles": lambda base: disk.singles(base, options.commits),
        "rewrites": lambda base: disk.rewrites(base, options.commits, 50_000),
        "memory": lambda base: disk.memory(base, 400),
        "growth": lambda base: disk.growth(base, [1_000, 20_000, options.documents]),
        "embedding": scale.embedding,
        "edits": scale.edits,
        "free": lambda base: scale.free(base, options.mixed),
        "tiny": lambda base: scale.tiny(base, options.tiny),
        "sweep": lambda base: scale.sweep(base, options.unchanged),
        "idle": lambda base: scale.idle(base, 60.0),
        "search": lambda base: scale.search(base, options.chunks),
        "large": lambda base: large.large(base, options.large),
        "throughput": lambda base: measures.throughput(base, options.files, options.rounds),
    }
    table = Table("what", "measured", "target", "note", title=measures.machine())
    for name in options.names:
        with measures.scratch(name) as base:
            for figure in runs[name](base):
                print(f"{figure.what}: {figure.value} ({figure.note})", flush=True)
                table.add_row(figure.what, figure.value, figure.target, figure.note)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
