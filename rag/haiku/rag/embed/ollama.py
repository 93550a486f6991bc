"""The `ollama` provider: models served by Ollama."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from haiku.rag.embed import http, limits, vectors
from haiku.rag.embed.tokenizers import encodable
from haiku.rag.exceptions import EmbedderRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.config.models import EmbeddingModelConfig

HOST_VARIABLE = "OLLAMA_HOST"
PORT = 11434


class OllamaEmbedder(http.ServerEmbedder):
    """Embeddings by POST /api/embed."""

    def __init__(self, model: EmbeddingModelConfig, *, timeout: float) -> None:
        """Nothing is sent yet. Raises `ConfigError` for an address that is none."""
        self.identity = limits.identity(model)
        self.max_tokens = limits.max_tokens(model)
        self._endpoint = http.Endpoint(
            "ollama",
            model.base_url or address(os.environ.get(HOST_VARIABLE, "")),
            key=model.api_key.get_secret_value() if model.api_key else None,
            timeout=timeout,
            hint=f" (or fetch the model: ollama pull {model.name})",
        )

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), dim), from one request."""
        body = {"model": self.identity.name, "input": [encodable(text) for text in texts]}
        limit = http.answer_limit(len(texts), self.identity)
        answer = await self._endpoint.post("/api/embed", body, limit=limit)
        rows = answer.get("embeddings") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise EmbedderRefused("ollama answered without embeddings; is it older than 0.2?")
        return vectors.unit_vectors(rows, len(texts), self.identity)


def address(host: str) -> str:
    """The server's address from what OLLAMA_HOST may hold: nothing, host, host:port or a URL.

    An address to listen on everywhere is asked at this machine's own.
    """
    if not host:
        return f"http://127.0.0.1:{PORT}"
    if "://" in host:
        return host
    parts = urlsplit(f"//{host}")
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    return f"http://{f'[{name}]' if ':' in name else name}:{parts.port or PORT}"
