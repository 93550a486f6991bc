"""The embedder's edge: what every provider implements and what may be swapped in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity


class Embedder(Protocol):
    """Turns texts into unit vectors. Implementations are safe to call concurrently."""

    #: What the vectors come from; equal identities give interchangeable vectors.
    identity: EmbeddingIdentity
    #: Most tokens of one text, special tokens included.
    max_tokens: int

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dim), in the order of the texts.

        Raises:
            EmbedderUnavailable: worth trying again, perhaps after `retry_after` seconds.
            RequestTooLarge: the same texts in smaller requests may be taken.
            EmbedderRefused: the request, key, model or dimension is wrong.
        """
        ...

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, shape (dim,). Raises as `embed_documents`."""
        ...

    async def warm(self) -> None:
        """Load what the first text would otherwise wait for. Asks nothing of a server."""
        ...

    async def close(self) -> None:
        """Release connections, threads and memory."""
        ...


class Tokenizer(Protocol):
    """Counts tokens as the embedding model will, without a network."""

    #: Texts joined by a line end count what they count alone, special tokens once: True only
    #: where that is certain, so that joined texts need not be counted again.
    additive: bool

    def count(self, text: str) -> int:
        """Number of tokens, special tokens included."""
        ...

    def ends(self, text: str) -> list[int]:
        """Where each token ends, in characters, ascending; special tokens aside.

        It says where a text may be cut; what a piece then counts, `count` says.
        """
        ...
