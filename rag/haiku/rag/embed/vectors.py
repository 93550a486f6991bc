"""Checks on what an embedder answers, before anyone stores it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haiku.rag.exceptions import EmbedderRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity


def unit_vectors(
    rows: Sequence[Any], count: int, identity: EmbeddingIdentity
) -> NDArray[np.float32]:
    """The rows as checked unit vectors, shape (count, dim).

    Raises:
        EmbedderRefused: too few or many, of another length, or with NaN or only zeros.
    """
    import numpy as np

    if len(rows) != count:
        raise EmbedderRefused(f"{identity} answered {len(rows)} vectors for {count} texts")
    try:
        vectors = np.asarray(rows, np.float64).reshape(count, -1)
    except (TypeError, ValueError):
        raise EmbedderRefused(f"{identity} answered rows that are not vectors") from None
    if count and vectors.shape[1] != identity.dim:
        raise EmbedderRefused(
            f"{identity} answered vectors of length {vectors.shape[1]}, but "
            f"embeddings.model.vector_dim is {identity.dim}; set it to {vectors.shape[1]}"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbedderRefused(f"{identity} answered a vector of zeros or with NaN")
    units: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return units
