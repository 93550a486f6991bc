"""uvicorn in the daemon's loop, on a socket that is bound already."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI

#: Seconds that open requests get when the server stops.
CLOSE_GRACE = 1  # second


class Server:
    """uvicorn on a socket that is bound already; the daemon owns signals and stopping."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=CLOSE_GRACE,
        )
        self._server = _Quiet(config)
        self._sock = sock

    async def run(self) -> None:
        """Serve until `stop` or cancellation."""
        try:
            await self._server.serve(sockets=[self._sock])
        finally:
            self._sock.close()

    def stop(self) -> None:
        """Let `run` return within about a second."""
        self._server.should_exit = True


class _Quiet(uvicorn.Server):
    """uvicorn without its own signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield
