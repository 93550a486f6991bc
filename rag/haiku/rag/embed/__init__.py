"""Text to vectors: one small module a provider, batching for all of them.

In: texts and the `embeddings` section. Out: unit vectors (float32), token counts, the identity
that the store checks. Rules:

- `create_embedder` gives an `Embedder` (see `protocol`); nothing loads or connects before its
  first use, and importing this package imports nothing heavy;
- every failure is an `EmbedError`: unavailable is worth trying again, refused is not;
- many texts go through an `EmbedQueue`, which keeps to the limits of a request;
- nothing is downloaded, and nothing is reported to anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.rag.embed.limits import identity, max_tokens
from haiku.rag.embed.protocol import Embedder, Tokenizer
from haiku.rag.embed.queue import EmbedQueue, QueueStats
from haiku.rag.exceptions import ConfigError

if TYPE_CHECKING:
    from haiku.rag.config.models import EmbeddingModelConfig, EmbeddingsConfig

__all__ = [
    "EmbedQueue",
    "Embedder",
    "QueueStats",
    "Tokenizer",
    "check_model",
    "create_embedder",
    "identity",
    "load_tokenizer",
    "max_tokens",
]

PROVIDERS = ("local", "openai", "ollama", "sentence-transformers")
#: Providers with models that put text and pictures into one space.
MULTIMODAL_PROVIDERS = ("vllm", "voyageai", "cohere")


def check_model(model: EmbeddingModelConfig) -> None:
    """Refuse a model section that no embedder can be made of.

    Raises:
        ConfigError: unknown provider; `multimodal` on one without it; another embedded model.
    """
    if model.multimodal and model.provider not in MULTIMODAL_PROVIDERS:
        raise ConfigError(
            f"embeddings.model.multimodal: {model.provider} has no model for text and pictures; "
            f"set it to false, or use one of {', '.join(MULTIMODAL_PROVIDERS)}"
        )
    if model.provider not in PROVIDERS:
        raise ConfigError(
            f"embeddings.model.provider: {model.provider!r} is not known; "
            f"it must be one of {', '.join(PROVIDERS)}"
        )
    if model.provider == "local":
        _check_local(model)


def _check_local(model: EmbeddingModelConfig) -> None:
    from haiku.rag.embed import minilm

    if (model.name, model.vector_dim) != (minilm.NAME, minilm.DIM):
        raise ConfigError(
            f"embeddings.model: the provider local has one model, {minilm.NAME} with vector_dim "
            f"{minilm.DIM}, not {model.name} with {model.vector_dim}; correct them, or name "
            "another provider"
        )


def create_embedder(config: EmbeddingsConfig) -> Embedder:
    """The embedder that the configuration names. Nothing is loaded or sent yet.

    Raises:
        ConfigError: see `check_model`; a missing key, address or extra.
    """
    model = config.model
    check_model(model)
    if model.provider == "openai":
        from haiku.rag.embed.openai import OpenAIEmbedder

        return OpenAIEmbedder(model, timeout=config.timeout)
    if model.provider == "ollama":
        from haiku.rag.embed.ollama import OllamaEmbedder

        return OllamaEmbedder(model, timeout=config.timeout)
    if model.provider == "sentence-transformers":
        from haiku.rag.embed.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(model)
    from haiku.rag.embed.local import LocalEmbedder

    return LocalEmbedder()


def load_tokenizer(model: EmbeddingModelConfig) -> Tokenizer:
    """What counts the model's tokens, offline.

    `embeddings.model.tokenizer` where it is set; the embedded model's own; that of a
    sentence-transformers model given as a folder; else an estimate that errs upwards.

    Raises:
        ConfigError: the file that `embeddings.model.tokenizer` names cannot be used.
        EmbedderRefused: the embedded model's file is missing or damaged.
    """
    from pathlib import Path

    from haiku.rag.embed import minilm, tokenizers

    if model.tokenizer is not None:
        return tokenizers.from_file(model.tokenizer)
    if model.provider == "local":
        return tokenizers.FileTokenizer(minilm.read_tokenizer())
    if model.provider == "sentence-transformers":
        own = Path(model.name) / "tokenizer.json"
        if own.is_file():
            return tokenizers.from_file(own)
    return tokenizers.CautiousTokenizer()
