"""Refuses to use Lance in a process that was forked after it had been loaded.

Lance's calls are carried out by threads that a fork does not copy: in the child every call would
wait for ever. A child that was forked before may load and use it.
"""

from __future__ import annotations

import os
import sys

from haiku.rag.exceptions import StoreError

#: Processes of this program that were forked with Lance loaded: this one, or none.
_FORKED: set[int] = set()


def _after_fork() -> None:
    if "lance" in sys.modules:
        _FORKED.add(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_process() -> None:
    """Refuse to go on in a forked process.

    Raises:
        StoreError: Lance was loaded before the fork.
    """
    if os.getpid() in _FORKED:
        raise StoreError(
            "this process was forked after a database had been opened, and Lance does not survive "
            'a fork: start processes with multiprocessing\'s "spawn" (or fork before the first '
            "database is opened)"
        )
