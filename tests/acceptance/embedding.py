"""A server that embeds by script: at once and for nothing, or down, slow, wrong or strict."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from types import TracebackType

DIM = 16

Mood = Literal["well", "slow", "wrong size", "busy", "broken"]


class EmbeddingServer:
    """`POST /v1/embeddings`, as OpenAI answers it, in threads of this process."""

    def __init__(self) -> None:
        #: How requests are answered.
        self.mood: Mood = "well"
        #: Seconds that an answer takes when slow, and that a busy server asks to wait.
        self.delay = 1.0
        #: (monotonic seconds, texts) of every request.
        self.requests: list[tuple[float, int]] = []
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Listen; again at the same port after `down`."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", self._port), handler)
        self._port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections; those that are open are closed at their next request."""
        if self._server is not None:
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()

    @property
    def listening(self) -> bool:
        return self._server is not None

    def settings(self) -> dict[str, Any]:
        """The `embeddings` section of a configuration that uses it."""
        return {
            "model": {
                "provider": "openai",
                "name": "scripted",
                "vector_dim": DIM,
                "base_url": f"http://127.0.0.1:{self._port}/v1",
                "api_key": "none",
            },
            "max_attempts": 2,
            "timeout": 5.0,
        }

    def answer(self, texts: list[str]) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Status, headers and body for a request."""
        self.requests.append((time.monotonic(), len(texts)))
        if self.mood == "broken":
            return 500, {}, {"error": "out of order"}
        if self.mood == "busy":
            return 429, {"Retry-After": str(self.delay)}, {"error": "too many requests"}
        if self.mood == "slow":
            time.sleep(self.delay)
        dim = DIM + (self.mood == "wrong size")
        data = [{"index": i, "embedding": vector(text, dim)} for i, text in enumerate(texts)]
        return 200, {}, {"data": data}


def vector(text: str, dim: int = DIM) -> list[float]:
    """Numbers that depend on the text alone."""
    digest = sha256(text.encode()).digest()
    return [digest[n % 32] / 255 + 0.01 for n in range(dim)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients are killed in the middle of requests here."""


class _Handler(BaseHTTPRequestHandler):
    owner: EmbeddingServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        texts = json.loads(self.rfile.read(length))["input"]
        if not self.owner.listening:
            self.close_connection = True
            return
        status, headers, body = self.owner.answer(texts)
        payload = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(payload))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
