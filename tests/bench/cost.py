"""What something costs: seconds by the clock, and seconds of processors.

The clock says what a user waits for. On a machine that others use as well it says little about
the program; the processors' seconds vary far less, and are what remains when something is idle.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass
class Cost:
    """Of one piece of work; filled when it has ended."""

    #: Seconds by the clock.
    seconds: float = 0.0
    #: Seconds of all processors, children included.
    cpu: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.cpu + other.cpu)

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu:.1f} CPU-s)"


@contextmanager
def spent(pid: int | None = None) -> Iterator[Cost]:
    """The cost of the block in a process (this one by default) and everything below it."""
    root = psutil.Process(pid or os.getpid())
    cost = Cost()
    started, before = time.perf_counter(), _cpu(root)
    yield cost
    cost.seconds = time.perf_counter() - started
    cost.cpu = _cpu(root) - before


def _cpu(root: psutil.Process) -> float:
    """CPU seconds of a process and its children; those that ended are in their parent's figures."""
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:  # its parent has it now
            continue
    return total
