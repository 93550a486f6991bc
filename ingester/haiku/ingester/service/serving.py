"""The control API as a part of the daemon."""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING

from haiku.ingester.api import Reason, listening
from haiku.ingester.exceptions import PortTaken

if TYPE_CHECKING:
    import socket

    from haiku.ingester.config import ApiConfig
    from haiku.ingester.service.reporting import Reports

log = logging.getLogger(__name__)

#: Seconds between tries to get a port that another process holds.
TRY_AGAIN = 15.0


class ControlApi:
    """Answers `/health`, `/ready` and `/metrics` until it is cancelled."""

    def __init__(self, config: ApiConfig, reports: Reports) -> None:
        self._config = config
        self._reports = reports
        self._socket: socket.socket | None = None

    def listen(self) -> None:
        """Take the port now, before anything else is started.

        Raises:
            PortTaken: another process has it, and `port_taken` is `refuse`.
            ConfigError: the address is not one of this machine's.
        """
        if not self._config.enabled:
            return
        try:
            self._socket = self._bind()
        except PortTaken as error:
            if self._config.port_taken == "refuse":
                raise
            self._reports.degrade(Reason(part="api", code=error.code, text=str(error)))
            log.warning("running without the API: %s", error)

    async def run(self) -> None:
        """Serve; a port that is taken is tried again from time to time."""
        if not self._config.enabled:
            return
        while self._socket is None:
            await asyncio.sleep(TRY_AGAIN)
            try:
                self._socket = self._bind()
            except PortTaken:
                continue
        await self._serve(self._socket)

    def _bind(self) -> socket.socket:
        bound = listening.bind(self._config.host, self._config.port)
        log.info("health and metrics at %s", listening.address(bound))
        return bound

    async def _serve(self, sock: socket.socket) -> None:
        # The web framework takes a second to import; what ingests need not wait for it.
        await asyncio.to_thread(import_module, "haiku.ingester.api.app")
        from haiku.ingester.api import server
        from haiku.ingester.api.app import create_app

        app = create_app(self._reports, show_reasons=listening.is_loopback(sock))
        self._socket = None
        self._reports.clear("api")
        running = server.Server(app, sock)
        task = asyncio.create_task(running.run())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            running.stop()
            await asyncio.wait([task], timeout=2 * server.CLOSE_GRACE)
            raise
        finally:
            task.cancel()
