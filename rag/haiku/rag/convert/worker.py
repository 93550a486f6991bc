"""The child's side of the pool: how a worker process starts, runs a call and answers.

A call and its outcome cross the process border as bytes that this module packs and unpacks
itself, so that an argument or an exception that cannot be pickled is an error of that one call.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from haiku.rag.exceptions import ConversionCrashed, ConversionMemory

if TYPE_CHECKING:
    from collections.abc import Callable

#: Address space for data beyond the limit that the watchdog sees, as a stop for sudden demands.
HEADROOM = 2.0


def start(max_memory: int) -> None:
    """Set a fresh worker up: signals, streams, memory, and an end when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # systemd and terminals signal the whole group; when workers end is the daemon's decision.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with_parent()
    _silence()
    _limit(max_memory)


def call(payload: bytes) -> bytes:
    """Run the packed call and pack what it returned or raised."""
    try:
        function, args = pickle.loads(payload)
        outcome: tuple[bool, Any] = (True, function(*args))
    except MemoryError:
        outcome = (False, ConversionMemory("a conversion asked for more memory than a worker has"))
    # The border between processes: whatever the function raised goes back to who called it,
    # except what would end the caller's process as well.
    except Exception as error:  # noqa: BLE001
        outcome = (False, error)
    except BaseException as error:  # noqa: BLE001
        outcome = (False, ConversionCrashed(f"a conversion tried to end its process: {error!r}"))
    return _packed(outcome)


def pack_call(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """A call as bytes.

    Raises:
        TypeError, AttributeError, pickle.PicklingError: the call cannot cross a process border.
    """
    return pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)


def _packed(outcome: tuple[bool, Any]) -> bytes:
    try:
        packed = pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
        if not outcome[0]:
            pickle.loads(packed)
    # An object's own pickling code may raise anything.
    except Exception as error:  # noqa: BLE001
        detail = f"{outcome[1]!r:.500} ({error})"
        kind = "returned" if outcome[0] else "raised"
        lost = ConversionCrashed(f"a worker {kind} what cannot leave its process: {detail}")
        return pickle.dumps((False, lost))
    return packed


def _die_with_parent() -> None:
    """End when the parent is gone, even while native code holds the interpreter.

    The pipe to the parent closes when it dies. The kernel's SIGIO on that ends the process by its
    default action without Python's help; a thread does it where there is no such signal.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()
    try:
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        return


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _silence() -> None:
    """Keep parsers' prints and logs away from the streams of the parent."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for life
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def _limit(max_memory: int) -> None:
    """A hard stop for sudden demands; the watchdog in the parent sees what grows."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(max_memory * HEADROOM) + 1_000_000_000
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
