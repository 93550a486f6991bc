"""Fetches one file or URL into a folder of its own, with a size limit and a hash.

The daemon's sources have their own fetchers; this one serves a person who names a path or URL.
"""

import asyncio
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from haiku.rag import uris
from haiku.rag.exceptions import (
    SourceChanged,
    SourceTooLarge,
    SourceUnavailable,
    SourceUnreadable,
)
from haiku.rag.ignore import ignore_spec

if TYPE_CHECKING:
    import httpx

#: Bytes read at a time.
BLOCK = 1 << 20
#: Redirects followed before giving up.
MAX_REDIRECTS = 10
#: Seconds without a byte, and seconds for a whole download.
STALL, TOTAL = 30.0, 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """Bytes that existed at one moment, on local disk."""

    uri: str
    path: Path
    #: File name, for the type by suffix.
    name: str
    #: Media type a server declared.
    declared: str | None
    #: SHA-256 of the bytes, hexadecimal.
    content_hash: str
    #: Bytes.
    size: int


def source_uri(source: str | Path) -> str:
    """The URI under which a path or URL is stored.

    Raises:
        SourceUnreadable: a scheme that this program does not fetch.
    """
    text = os.fspath(source)
    if not uris.is_uri(text):
        return uris.path_to_uri(Path(text).expanduser())
    scheme = urlsplit(text).scheme.lower()
    if scheme == "file":
        return uris.path_to_uri(uris.uri_to_path(text))
    if scheme in ("http", "https"):
        return urldefrag(text).url
    raise SourceUnreadable(
        f"{text}: {scheme}:// cannot be fetched; give a path, file:// or http(s)://"
    )


def expand(source: str | Path) -> Iterator[str]:
    """The URIs a path or URL stands for: itself, or every file below a folder, sorted.

    Hidden leftovers and partial downloads (`haiku.rag.ignore`) are passed over; links to folders
    are not followed, so that a loop cannot make the walk endless.
    """
    uri = source_uri(source)
    if not uri.startswith("file://") or not (root := uris.uri_to_path(uri)).is_dir():
        yield uri
        return
    spec = ignore_spec()
    for folder, subfolders, files in os.walk(root):
        base = os.path.relpath(folder, root)
        subfolders[:] = sorted(
            name for name in subfolders if not spec.match_file(f"{base}/{name}/".removeprefix("./"))
        )
        for name in sorted(files):
            if not spec.match_file(f"{base}/{name}".removeprefix("./")):
                yield uris.path_to_uri(os.path.join(folder, name))  # noqa: PTH118 - any bytes


async def fetch(uri: str, into: Path, *, max_size: int) -> Fetched:
    """Copy what the URI names into the folder `into`.

    Raises:
        SourceUnreadable, SourceTooLarge, SourceChanged, SourceUnavailable.
    """
    if uri.startswith("file://"):
        return await asyncio.to_thread(_fetch_file, uri, into, max_size)
    return await _fetch_http(uri, into, max_size)


class _Sink:
    """Writes, counts and hashes, and refuses what is over the limit."""

    def __init__(self, out: BinaryIO, what: str, max_size: int) -> None:
        self._out, self._what, self._max = out, what, max_size
        self._hash = sha256()
        self.size = 0

    def write(self, block: bytes) -> None:
        self.size += len(block)
        if self.size > self._max:
            raise SourceTooLarge(
                f"{self._what} is larger than {self._max:,} bytes (processing.max_file_size)"
            )
        self._hash.update(block)
        self._out.write(block)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _fetch_file(uri: str, into: Path, max_size: int) -> Fetched:
    path = uris.uri_to_path(uri)
    shown = uris.display(uri)
    try:
        # Not blocking: opening a named pipe must not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceUnreadable(f"{shown} cannot be read: {reason}") from None
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        os.close(descriptor)
        raise SourceUnreadable(f"{shown} is not a regular file")
    target = into / "source"
    with os.fdopen(descriptor, "rb") as file, target.open("wb") as out:
        sink = _Sink(out, shown, max_size)
        try:
            while block := file.read(BLOCK):
                sink.write(block)
        except OSError as error:
            raise SourceUnavailable(f"{shown} stopped while being read: {error.strerror}") from None
        if _moment(os.fstat(descriptor)) != _moment(before):
            raise SourceChanged(f"{shown} changed while it was being read; try again")
    return Fetched(
        uri=uri,
        path=target,
        name=path.name,
        declared=None,
        content_hash=sink.hexdigest(),
        size=sink.size,
    )


def _moment(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


async def _fetch_http(uri: str, into: Path, max_size: int) -> Fetched:
    import httpx

    from haiku.rag.version import __version__

    target = into / "source"
    timeout = httpx.Timeout(STALL)
    headers = {"User-Agent": f"haiku-rag/{__version__}"}
    try:
        async with (
            asyncio.timeout(TOTAL),
            httpx.AsyncClient(timeout=timeout, headers=headers, follow_redirects=False) as client,
        ):
            response = await _follow(client, uri)
            try:
                with target.open("wb") as out:
                    sink = _Sink(out, uri, max_size)
                    async for block in response.aiter_bytes(BLOCK):
                        await asyncio.to_thread(sink.write, block)
            finally:
                await response.aclose()
    except TimeoutError:
        raise SourceUnavailable(f"{uri} took longer than {TOTAL:.0f} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceUnavailable(f"{uri} did not answer properly: {error}") from None
    return Fetched(
        uri=uri,
        path=target,
        name=unquote(urlsplit(uri).path).rsplit("/", 1)[-1] or "index",
        declared=response.headers.get("content-type"),
        content_hash=sink.hexdigest(),
        size=sink.size,
    )


async def _follow(client: "httpx.AsyncClient", uri: str) -> "httpx.Response":
    """The final response. A redirect may not lead to a private address on another host."""

    host, url = urlsplit(uri).hostname, uri
    for _ in range(MAX_REDIRECTS):
        response = await client.send(client.build_request("GET", url), stream=True)
        if not response.is_redirect:
            _check_status(response, uri)
            return response
        await response.aclose()
        url = urljoin(url, response.headers["location"])
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise SourceUnreadable(f"{uri} redirects to {parts.scheme}://, which is not followed")
        if parts.hostname != host and await _is_private(parts.hostname or ""):
            raise SourceUnreadable(f"{uri} redirects to the private address {parts.hostname}")
    raise SourceUnreadable(f"{uri} redirects more than {MAX_REDIRECTS} times")


def _check_status(response: "httpx.Response", uri: str) -> None:
    status = response.status_code
    if status in (408, 425, 429) or status >= 500:
        raise SourceUnavailable(f"{uri} answered {status}; try again later")
    if status != 200:
        raise SourceUnreadable(f"{uri} answered {status} {response.reason_phrase}")


async def _is_private(host: str) -> bool:
    """Whether any address of the host is not public."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(
        not ipaddress.ip_address(str(entry[4][0]).split("%")[0]).is_global for entry in found
    )
