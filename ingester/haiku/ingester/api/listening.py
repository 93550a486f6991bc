"""The control API's socket, bound before anything else starts; needs no web framework."""

from __future__ import annotations

import errno
import ipaddress
import socket

import psutil

from haiku.ingester.exceptions import PortTaken
from haiku.rag.exceptions import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at the address; port 0 takes a free one.

    Raises:
        PortTaken: another process listens there; the message names it where the system tells.
        ConfigError: the address is not one of this machine's.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise _bad_address(host, port, error) from None
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(_taken(host, port)) from None
        raise _bad_address(host, port, error) from None
    sock.setblocking(False)
    return sock


def _bad_address(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(
        f"the control API cannot listen on {host}:{port} ({error.strerror or error}); "
        "check ingester.api.host and ingester.api.port"
    )


def _taken(host: str, port: int) -> str:
    return (
        f"port {port} on {host} is taken by {holder(port)}; stop it, set ingester.api.port to "
        "another one, or set ingester.api.port_taken to continue to run without the API"
    )


def holder(port: int) -> str:
    """Who listens on the port: `name (process 123)`, or what is known of it."""
    try:
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            listens = connection.status == psutil.CONN_LISTEN
            if listens and local and local.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return "another process (the system does not say which to this user)"


def address(sock: socket.socket) -> str:
    """The address of a bound socket as a URL."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine reaches the socket."""
    return ipaddress.ip_address(sock.getsockname()[0].partition("%")[0]).is_loopback
