"""What the workers of the pool's tests run. Imports little, so that workers start quickly."""

import os
import signal
import time
from pathlib import Path


def meet(mine: str, other: str) -> int:
    """Show oneself and wait until the other call has come; the process it ran in."""
    Path(mine).touch()
    while not Path(other).exists():
        time.sleep(0.01)
    return os.getpid()


def title(path: str, name: str) -> str | None:
    """The title of a converted file."""
    from haiku.rag.convert import ConvertOptions, local

    return local.convert_file(path, name=name, options=ConvertOptions()).title


def write_pid_and_sleep(path: str) -> None:
    """Tell the process, whole or not at all, then hang."""
    Path(path + ".new").write_text(str(os.getpid()))
    Path(path + ".new").rename(path)
    time.sleep(600)


def signal_self() -> str:
    """Send what a terminal sends to the whole group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    return "alive"
