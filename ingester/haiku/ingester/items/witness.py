"""Tells whether somebody has written to a SQLite file, for almost nothing.

An idle daemon would otherwise ask the tables once a second whether a command or another process
has left work: that is most of what it costs. SQLite counts commits in memory that its connections
share (`PRAGMA data_version`, https://www.sqlite.org/pragma.html#pragma_data_version).
"""

from __future__ import annotations

import sqlite3


class Witness:
    """Watches one file, or nothing when the database is no file."""

    def __init__(self, file: str | None) -> None:
        """Watch `file`, which must be there; None: nothing is known."""
        self._connection = (
            sqlite3.connect(file, isolation_level=None, check_same_thread=False) if file else None
        )

    def token(self) -> int | None:
        """Another number than before: some other connection has committed. None: unknown.

        Takes microseconds and waits for nobody, so that it may be called from the event loop.
        """
        if self._connection is None:
            return None
        try:
            (value,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        return int(value)

    def close(self) -> None:
        """Watch no more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
