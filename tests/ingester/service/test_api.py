"""The control API over a real socket."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from haiku.ingester.api import Health, Reason
from haiku.ingester.api.app import create_app
from haiku.ingester.api.listening import address, bind, is_loopback
from haiku.ingester.api.server import Server
from haiku.ingester.exceptions import PortTaken
from haiku.rag.exceptions import ConfigError

MISSING = Reason(part="source:docs", code="source_missing", text="/docs is not there")


class Scripted:
    """A reporter that says what the test says."""

    def __init__(self, health: Health) -> None:
        self.now = health

    def health(self) -> Health:
        return self.now

    async def metrics(self) -> tuple[bytes, str]:
        return b"a 1\n", "text/plain; version=1.0.0"


@asynccontextmanager
async def serving(
    reporter: Scripted, *, show_reasons: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    sock = bind("127.0.0.1", 0)
    server = Server(create_app(reporter, show_reasons=show_reasons), sock)
    task = asyncio.create_task(server.run())
    try:
        async with httpx.AsyncClient(base_url=address(sock)) as client:
            yield client
    finally:
        server.stop()
        await asyncio.wait_for(task, 5)


async def test_health_is_ok_degraded_or_failing() -> None:
    reporter = Scripted(Health(ready=True))
    async with serving(reporter) as client:
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        reporter.now = Health(reasons=[MISSING])
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert answer.json()["reasons"] == [
            {"part": "source:docs", "code": "source_missing", "reason": "/docs is not there"}
        ]
        reporter.now = Health(
            reasons=[MISSING, Reason(part="store", code="busy", text="x", fatal=True)]
        )
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "failing")


async def test_ready_follows_the_daemon() -> None:
    reporter = Scripted(Health())
    async with serving(reporter) as client:
        assert (await client.get("/ready")).status_code == 503
        reporter.now = Health(ready=True)
        assert (await client.get("/ready")).status_code == 200


async def test_metrics_come_with_their_content_type() -> None:
    async with serving(Scripted(Health())) as client:
        answer = await client.get("/metrics")
        assert answer.text == "a 1\n"
        assert answer.headers["content-type"] == "text/plain; version=1.0.0"


async def test_paths_are_shown_on_this_machine_only() -> None:
    async with serving(Scripted(Health(reasons=[MISSING])), show_reasons=False) as client:
        answer = await client.get("/health")
        assert "/docs" not in answer.text
        assert answer.json()["reasons"] == [{"part": "source:docs", "code": "source_missing"}]


async def test_nothing_else_is_served() -> None:
    async with serving(Scripted(Health())) as client:
        for path in ("/", "/docs", "/openapi.json", "/redoc", "/items"):
            assert (await client.get(path)).status_code == 404


def test_a_taken_port_names_its_holder_and_the_way_out() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PortTaken) as error:
            bind("127.0.0.1", port)
    assert str(port) in str(error.value)
    assert f"process {os.getpid()}" in str(error.value)
    assert "ingester.api.port" in str(error.value)


def test_an_address_of_another_machine_names_the_keys() -> None:
    with pytest.raises(ConfigError, match=r"ingester\.api\.host"):
        bind("192.0.2.1", 8765)
    with pytest.raises(ConfigError, match=r"ingester\.api\.host"):
        bind("no such host.invalid", 8765)


def test_loopback_is_told_from_the_rest() -> None:
    for host, expected in (("127.0.0.1", True), ("0.0.0.0", False)):
        sock = bind(host, 0)
        assert is_loopback(sock) is expected
        sock.close()
