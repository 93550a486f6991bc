"""The `sentence-transformers` provider: models of that library on this machine (an extra)."""

from __future__ import annotations

import asyncio
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from haiku.rag.embed import limits, vectors
from haiku.rag.embed.tokenizers import encodable
from haiku.rag.exceptions import ConfigError, EmbedderRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.config.models import EmbeddingModelConfig

EXTRA = "sentence-transformers"
#: Texts computed at once; the library sorts by length itself.
BATCH = 32


class SentenceTransformersEmbedder:
    """A SentenceTransformer model, loaded on first use and used by one thread."""

    def __init__(self, model: EmbeddingModelConfig) -> None:
        """Nothing is loaded yet. Raises `ConfigError` when the extra is not installed."""
        if importlib.util.find_spec("sentence_transformers") is None:
            raise ConfigError(
                "embeddings.model.provider: sentence-transformers needs an extra; install "
                f"haiku-rag-core[{EXTRA}]"
            )
        self.identity = limits.identity(model)
        self.max_tokens = limits.max_tokens(model)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._model: Any = None

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), dim)."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, texts)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The unit vector of a query, shape (dim,)."""
        row: NDArray[np.float32] = (await self.embed_documents([text]))[0]
        return row

    async def warm(self) -> None:
        """Load the model."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    async def close(self) -> None:
        """End the thread and free the model."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._model = None

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = self._load().encode(
            [encodable(text) for text in texts], batch_size=BATCH, show_progress_bar=False
        )
        return vectors.unit_vectors(rows, len(texts), self.identity)

    def _load(self) -> Any:
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            try:
                self._model = SentenceTransformer(self.identity.name)
            except (OSError, ValueError) as error:
                raise EmbedderRefused(
                    f"sentence-transformers cannot load {self.identity.name!r}: {error}; "
                    "give a folder or the name of a model it can fetch"
                ) from None
        return self._model
