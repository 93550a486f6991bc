"""What the providers behind a server share: one client, bounded answers, errors of our tree.

Rules: a key never appears in a message; redirects are not followed, so that no key goes to
another host; an answer is read up to a limit and checked before anyone uses it.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import re
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from haiku.rag.exceptions import (
    ConfigError,
    EmbedderRefused,
    EmbedderUnavailable,
    RequestRefused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx
    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity

#: Bytes of JSON that one number of a vector may take.
BYTES_A_NUMBER = 32
#: Bytes an answer may have beside its vectors.
BYTES_APART = 1_000_000
#: Seconds to wait for a connection.
CONNECT_TIMEOUT = 10.0

_LATER = frozenset({408, 409, 425, 429})
_TOO_LARGE = re.compile(
    r"too (large|long|many|big)|maxim|exceed|at most|limit|batch.?size|context.?length", re.I
)


class Endpoint:
    """An HTTP server that turns JSON into JSON."""

    def __init__(
        self, provider: str, base_url: str, *, key: str | None, timeout: float, hint: str = ""
    ) -> None:
        """Nothing is opened yet.

        Args:
            provider: its name, for messages.
            base_url: http(s) address that paths are appended to.
            key: sent as a bearer token.
            timeout: seconds for one answer.
            hint: what to do about an unknown model, for messages.

        Raises:
            ConfigError: the address is not one of http or https.
        """
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"embeddings.model.base_url: {base_url!r} must start with http:// or https://"
            )
        self.provider = provider
        self.base_url = base_url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._hint = hint
        self._client: httpx.AsyncClient | None = None

    async def post(self, path: str, body: Mapping[str, Any], *, limit: int) -> Any:
        """The JSON that the server answers.

        Args:
            path: appended to the base address, with its leading slash.
            body: sent as JSON.
            limit: bytes of the answer at most.

        Raises:
            EmbedderUnavailable: no or an interrupted answer, or 408, 409, 425, 429, 5xx.
            RequestRefused: 400, 413, 422.
            EmbedderRefused: any other refusal, or an answer that is too large or no JSON.
        """
        import httpx

        content = await asyncio.to_thread(lambda: json.dumps(body).encode())
        try:
            async with self._open().stream("POST", self.base_url + path, content=content) as answer:
                payload = await _read(answer, limit)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise EmbedderUnavailable(
                f"{self.provider} at {self.base_url} did not answer: {reason}; "
                "is the server running and the address right?"
            ) from None
        if payload is None:
            raise EmbedderRefused(
                f"{self.provider} at {self.base_url} answered more than {limit:,} bytes; "
                "check embeddings.model.vector_dim and the address"
            )
        if not answer.is_success:
            self._refuse(answer, payload)
        try:
            return await asyncio.to_thread(json.loads, payload)
        except ValueError:
            raise EmbedderRefused(
                f"{self.provider} at {self.base_url} did not answer JSON: {self._excerpt(payload)}"
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._client = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_TIMEOUT)),
            )
        return self._client

    def _refuse(self, answer: httpx.Response, payload: bytes) -> NoReturn:
        status = answer.status_code
        said = f"{self.provider} at {self.base_url} answered {status}: {self._excerpt(payload)}"
        if status in _LATER or status >= 500:
            wait = retry_after(answer.headers.get("retry-after"))
            raise EmbedderUnavailable(said, retry_after=wait)
        if status in (400, 413, 422):
            large = status == 413 or _TOO_LARGE.search(payload.decode("utf-8", "replace"))
            raise RequestRefused(said, too_large=bool(large))
        if status in (401, 403):
            said += "; check embeddings.model.api_key"
        elif status == 404:
            said += f"; check embeddings.model.name and base_url{self._hint}"
        raise EmbedderRefused(said)

    def _excerpt(self, payload: bytes) -> str:
        text = " ".join(payload[:2000].decode("utf-8", "replace").split())
        if self._key:
            text = text.replace(self._key, "***")
        return text[:200] or "(nothing)"


async def _read(answer: httpx.Response, limit: int) -> bytes | None:
    """The body, or None when it is longer than the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.aiter_bytes():
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return b"".join(parts)


class ServerEmbedder(ABC):
    """What is the same for every embedder whose model is a server's."""

    _endpoint: Endpoint

    @abstractmethod
    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), dim), from one request."""

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The unit vector of a query, shape (dim,)."""
        row: NDArray[np.float32] = (await self.embed_documents([text]))[0]
        return row

    async def warm(self) -> None:  # noqa: B027 - nothing is to be done, by none of them
        """Nothing: the model is the server's."""

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()


def retry_after(header: str | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3): a number, or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def answer_limit(texts: int, identity: EmbeddingIdentity) -> int:
    """Bytes that an answer with one vector a text may have."""
    return BYTES_APART + texts * identity.dim * BYTES_A_NUMBER
