"""An embedder that costs nothing and fails when it is told to."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from haiku.rag.exceptions import EmbedderRefused, EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity

Fault = Literal["unavailable", "busy", "refused", "slow"]
FAULTS: tuple[Fault, ...] = ("unavailable", "busy", "refused", "slow")

#: Length of its vectors.
DIM = 16
#: Seconds that a slow request takes, and that a busy server asks to wait.
DELAY = 0.3


class SoakEmbedder:
    """Unit vectors that depend on the text alone."""

    max_tokens = 512

    def __init__(self, identity: EmbeddingIdentity) -> None:
        self.identity = identity
        #: What the next requests meet, first to last.
        self.faults: list[Fault] = []

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dim). Raises what it was told to."""
        import numpy as np

        await self._meet_fault()
        return np.stack([vector(text, self.identity.dim) for text in texts])

    async def _meet_fault(self) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault == "unavailable":
            raise EmbedderUnavailable("the simulated embedder does not answer")
        if fault == "busy":
            raise EmbedderUnavailable("the simulated embedder is busy", retry_after=DELAY)
        if fault == "refused":
            raise EmbedderRefused("the simulated embedder refuses the key")
        if fault == "slow":
            await asyncio.sleep(DELAY)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, shape (dim,)."""
        return vector(text, self.identity.dim)

    async def warm(self) -> None:
        """Nothing is to be loaded."""

    async def close(self) -> None:
        """Nothing is held."""


def vector(text: str, dim: int = DIM) -> NDArray[np.float32]:
    """A unit vector of shape (dim,) that depends on the text alone."""
    import numpy as np

    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    numbers = np.frombuffer((digest * (dim // 32 + 1))[:dim], np.uint8).astype(np.float32) + 1
    return numbers / np.float32(np.linalg.norm(numbers))
