"""What is known of models without asking anyone: identity and input limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.rag.records import EmbeddingIdentity

if TYPE_CHECKING:
    from haiku.rag.config.models import EmbeddingModelConfig

#: Tokens of a model nobody knows: what most encoders read.
DEFAULT_MAX_TOKENS = 512

#: Tokens each model reads, by the end of a provider's path and without a tag.
MAX_TOKENS = {
    "all-minilm": 256,
    "all-MiniLM-L6-v2": 256,
    "all-MiniLM-L12-v2": 128,
    "all-mpnet-base-v2": 384,
    "bge-m3": 8192,
    "embeddinggemma": 2048,
    "mxbai-embed-large": 512,
    "nomic-embed-text": 2048,
    "qwen3-embedding": 8192,
    "snowflake-arctic-embed": 512,
    "snowflake-arctic-embed2": 8192,
    "text-embedding-3-large": 8191,
    "text-embedding-3-small": 8191,
    "text-embedding-ada-002": 8191,
}


def identity(model: EmbeddingModelConfig) -> EmbeddingIdentity:
    """What the configured model's vectors come from."""
    return EmbeddingIdentity(provider=model.provider, name=model.name, dim=model.vector_dim)


def max_tokens(model: EmbeddingModelConfig) -> int:
    """Most tokens of one text: as configured, as known, or `DEFAULT_MAX_TOKENS`.

    The embedded model's limit cannot be raised.
    """
    known = MAX_TOKENS.get(model.name.rsplit("/", 1)[-1].split(":")[0], DEFAULT_MAX_TOKENS)
    if model.provider == "local":
        return min(model.max_tokens or known, known)
    return model.max_tokens or known
