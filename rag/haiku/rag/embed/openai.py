"""The `openai` provider: OpenAI, or any server with its /embeddings route."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from haiku.rag.embed import http, limits, vectors
from haiku.rag.embed.tokenizers import encodable
from haiku.rag.exceptions import ConfigError, EmbedderRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.config.models import EmbeddingModelConfig

BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIEmbedder(http.ServerEmbedder):
    """Embeddings by POST /embeddings."""

    def __init__(self, model: EmbeddingModelConfig, *, timeout: float) -> None:
        """Nothing is sent yet.

        Raises:
            ConfigError: OpenAI itself without a key, or an address that is none.
        """
        key = model.api_key.get_secret_value() if model.api_key else os.environ.get(KEY_VARIABLE)
        if not key and model.base_url is None:
            raise ConfigError(
                f"embeddings.model: openai needs a key; set {KEY_VARIABLE} or "
                "embeddings.model.api_key, or name another server in embeddings.model.base_url"
            )
        self.identity = limits.identity(model)
        self.max_tokens = limits.max_tokens(model)
        self._endpoint = http.Endpoint(
            "openai", model.base_url or BASE_URL, key=key, timeout=timeout
        )

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), dim), from one request."""
        body: dict[str, Any] = {
            "model": self.identity.name,
            "input": [encodable(text) for text in texts],
            "encoding_format": "float",
        }
        if self.identity.name.startswith("text-embedding-3"):
            # These shorten their vectors on request.
            body["dimensions"] = self.identity.dim
        limit = http.answer_limit(len(texts), self.identity)
        answer = await self._endpoint.post("/embeddings", body, limit=limit)
        return vectors.unit_vectors(_rows(answer, len(texts)), len(texts), self.identity)


def _rows(answer: Any, count: int) -> list[Any]:
    """The vectors in the order of the texts: `index` says which text each belongs to."""
    try:
        items = answer["data"]
        rows = {item.get("index", place): item["embedding"] for place, item in enumerate(items)}
        return [rows[place] for place in range(count)]
    except (AttributeError, KeyError, TypeError):
        raise EmbedderRefused(
            f"openai answered without one embedding for each of {count} texts"
        ) from None
