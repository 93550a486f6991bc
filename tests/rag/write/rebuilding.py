"""What the tests of rebuilds are made of, and a process of its own that is killed within one.

    python -m tests.rag.write.rebuilding PATH STEP

rebuilds a database for `WIDER` and kills itself before the step; prints "done" when it never came
to it. No converter and no server is needed: the documents have chunks of their own.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.rag.store.making import CONFIG, unit

from haiku.rag.config import AppConfig
from haiku.rag.records import EmbeddingIdentity
from haiku.rag.store import Store
from haiku.rag.write import rebuild as room
from haiku.rag.write.rebuild import RebuildReport

#: The embedder to rebuild for: twice as wide as `making.IDENTITY`.
WIDER = EmbeddingIdentity(provider="openai", name="wider", dim=16)
WIDER_CONFIG = AppConfig.model_validate(
    {
        "embeddings": {
            "model": {
                "provider": WIDER.provider,
                "name": WIDER.name,
                "vector_dim": WIDER.dim,
                "base_url": "http://127.0.0.1:9",
                "api_key": "none",
            }
        },
        "processing": {"workers": 1},
    }
)


class Wider:
    """Vectors that depend on the text alone, at once."""

    identity = WIDER
    max_tokens = 256

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.stack([await self.embed_query(text) for text in texts])

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        return np.resize(unit(text), WIDER.dim).astype(np.float32) / np.float32(2**0.5)

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


async def rebuild(path: str | Path, **more: Any) -> RebuildReport:
    """Rebuild a database for `WIDER`."""
    return await room.rebuild(str(path), WIDER_CONFIG, embedder=Wider(), **more)


def open_wider(path: str | Path, **more: Any) -> Any:
    """Open a database with the new embedder."""
    return Store.open(path, CONFIG, identity=WIDER, **more)


async def main(path: str, fatal: str) -> None:
    """Rebuild until the step comes."""

    async def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    await rebuild(path, step=step)
    print("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
