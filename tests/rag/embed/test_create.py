"""Which embedder a configuration gives, and what is refused before anything runs."""

import subprocess
import sys
import types

import numpy as np
import pytest

from haiku.rag.config.models import EmbeddingModelConfig, EmbeddingsConfig
from haiku.rag.embed import create_embedder, identity, max_tokens
from haiku.rag.embed.local import LocalEmbedder
from haiku.rag.exceptions import ConfigError


def config(**model):
    return EmbeddingsConfig(model=model)


def test_the_default_is_the_embedded_model():
    embedder = create_embedder(EmbeddingsConfig())
    assert isinstance(embedder, LocalEmbedder)
    assert embedder.identity == identity(EmbeddingsConfig().model)
    assert embedder.max_tokens == max_tokens(EmbeddingsConfig().model) == 256


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"provider": "nobody"}, "'nobody' is not known; it must be one of local, openai"),
        ({"provider": "vllm"}, "is not known"),
        ({"multimodal": True}, r"embeddings\.model\.multimodal: local .*vllm, voyageai, cohere"),
        ({"provider": "openai", "multimodal": True}, "multimodal"),
        ({"name": "other"}, "all-MiniLM-L6-v2 with vector_dim 384, not other with 384"),
        ({"vector_dim": 768}, "not all-MiniLM-L6-v2 with 768"),
        ({"provider": "openai", "base_url": "ftp://box"}, r"base_url: 'ftp://box' must start"),
        ({"provider": "openai"}, "OPENAI_API_KEY"),
        ({"provider": "sentence-transformers"}, r"haiku-rag-core\[sentence-transformers\]"),
    ],
)
def test_refused(model, said, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=said):
        create_embedder(config(**model))


def test_keys_and_addresses_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("OLLAMA_HOST", "box:1")
    openai = create_embedder(config(provider="openai", name="text-embedding-3-small"))
    assert openai.max_tokens == 8191
    ollama = create_embedder(config(provider="ollama", name="mxbai-embed-large:latest"))
    assert ollama.max_tokens == 512
    assert ollama._endpoint.base_url == "http://box:1"


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ({}, 256),
        ({"max_tokens": 100}, 100),
        ({"max_tokens": 1000}, 256),
        ({"provider": "openai", "name": "unheard-of"}, 512),
        ({"provider": "openai", "name": "unheard-of", "max_tokens": 9000}, 9000),
        (
            {"provider": "sentence-transformers", "name": "sentence-transformers/all-MiniLM-L6-v2"},
            256,
        ),
    ],
)
def test_limits(model, limit):
    assert max_tokens(EmbeddingModelConfig(**model)) == limit


async def test_sentence_transformers(monkeypatch):
    """Against a stand-in: the library needs gigabytes that a test does not install."""

    class SentenceTransformer:
        def __init__(self, name):
            if name == "missing":
                raise OSError("no such model")

        def encode(self, texts, batch_size, show_progress_bar):
            return np.array([[len(text), 0.0] for text in texts], np.float32)

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    embedder = create_embedder(config(provider="sentence-transformers", name="m", vector_dim=2))
    assert (await embedder.embed_documents(["a", "bc"])).tolist() == [[1, 0], [1, 0]]
    assert (await embedder.embed_query("a")).tolist() == [1, 0]
    await embedder.close()
    missing = create_embedder(config(provider="sentence-transformers", name="missing"))
    with pytest.raises(Exception, match="no such model"):
        await missing.embed_query("a")
    await missing.close()


def test_importing_is_light():
    code = (
        "import sys, haiku.rag.embed as e; from haiku.rag.config.models import EmbeddingsConfig;"
        "e.identity(EmbeddingsConfig().model);"
        "print([m for m in ('numpy', 'openvino', 'tokenizers', 'httpx') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
