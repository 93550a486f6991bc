"""A real store, a real items database and the real write path; scripted bytes and conversion."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from haiku.ingester.config import WorkConfig
from haiku.ingester.items import Items, Observation, State
from haiku.ingester.sources.protocol import Fetched
from haiku.ingester.work import Pipeline, Spool, Worker
from haiku.ingester.work.outages import Outages
from haiku.rag.config import AppConfig
from haiku.rag.exceptions import HaikuRAGError, SourceTooLarge, SourceUnreadable
from haiku.rag.records import EmbeddingIdentity, NewChunk
from haiku.rag.store import Store
from haiku.rag.write import GroupCommitter, Prepared, Writer

DIM = 384


class Bytes:
    """A source that is a mapping; every write gives a new mark."""

    kind = "bytes"

    def __init__(self, id: str = "docs") -> None:
        self.id = id
        #: URI → content and mark.
        self.content: dict[str, tuple[bytes, str]] = {}
        #: URI → errors that the next fetches raise, first to last.
        self.errors: dict[str, list[HaikuRAGError]] = {}
        #: URIs that are there but cannot be read.
        self.denied: set[str] = set()
        self.fetched: Counter[str] = Counter()
        self._serial = 0

    def write(self, uri: str, text: str | bytes) -> Observation:
        self._serial += 1
        data = text.encode() if isinstance(text, str) else text
        self.content[uri] = data, f"mark-{self._serial}"
        return self.observation(uri)

    def observation(self, uri: str) -> Observation:
        data, mark = self.content[uri]
        return Observation(uri, mark, len(data))

    async def look(self, uris: Sequence[str]) -> dict[str, Observation | None]:
        return {u: self.observation(u) if u in self.content else None for u in uris}

    async def fetch(self, uri: str, into: BinaryIO, *, max_size: int | None = None) -> Fetched:
        self.fetched[uri] += 1
        await asyncio.sleep(0)
        if self.errors.get(uri):
            raise self.errors[uri].pop(0)
        if uri not in self.content or uri in self.denied:
            raise SourceUnreadable(f"{uri} cannot be read")
        data, mark = self.content[uri]
        if max_size is not None and len(data) > max_size:
            raise SourceTooLarge(f"{uri} is larger than {max_size:,} bytes")
        into.write(data)
        return Fetched(
            size=len(data),
            sha256=sha256(data).hexdigest(),
            mark=mark,
            declared_type=None,
            name=uri.rsplit("/", 1)[-1],
            identity=None,
        )


class Converter:
    """Stands for the worker processes: one chunk a line."""

    def __init__(self) -> None:
        #: Text → what converting it raises.
        self.errors: dict[str, Exception] = {}
        #: When set, conversions wait for it.
        self.gate: asyncio.Event | None = None
        #: Texts, in the order their conversion began.
        self.converted: list[str] = []
        #: Of each conversion: the seconds after which it may be put off.
        self.patience: list[float | None] = []

    async def run(
        self, _function: Any, path: str, *_: Any, patience: float | None, **__: Any
    ) -> Prepared:
        text = Path(path).read_text()
        self.patience.append(patience)
        self.converted.append(text)
        if self.gate is not None:
            await self.gate.wait()
        if text in self.errors:
            raise self.errors[text]
        lines = [line for line in text.split("\n") if line]
        return Prepared(
            title=None,
            content_type="text/plain",
            content=text,
            docling=None,
            items=(),
            chunks=tuple(NewChunk(content=line, text=line) for line in lines),
        )

    async def close(self, grace: float = 0.0) -> None:
        pass


class Embedding:
    """Stands for the embedder and its queue."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.embedded: list[str] = []

    async def embed(self, texts: Sequence[str], *, tokens: Sequence[int] | None = None) -> Any:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        self.embedded += texts
        vectors = np.zeros((len(texts), DIM), dtype=np.float32)
        vectors[:, 0] = 1.0
        return vectors

    async def close(self) -> None:
        pass


class Seen:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.stages: Counter[str] = Counter()

    def outcome(self, source: str, outcome: str, code: str = "") -> None:
        self.outcomes[outcome, code] += 1

    def stage(self, name: str, seconds: float) -> None:
        self.stages[name] += 1

    def working(self, count: int) -> None:
        pass


class Bench:
    """Everything between a source and a store, with the means to look at both ends."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.source = Bytes()
        self.converter = Converter()
        self.embedding = Embedding()
        self.seen = Seen()
        self.writer = Writer(
            store=store,
            pool=self.converter,  # type: ignore[arg-type]
            embedder=self.embedding,  # type: ignore[arg-type]
            queue=self.embedding,  # type: ignore[arg-type]
            config=AppConfig(),
        )
        self.config = WorkConfig(max_attempts=3, backoff=0.01, backoff_max=0.02, lease=60.0)
        self.now: Callable[[], float] | None = None
        self.stack = contextlib.AsyncExitStack()
        self.items: Items
        self.pipeline: Pipeline

    async def open(self, instance: str = "one", *, spool: int = 50_000_000) -> "Bench":
        """Items and pipeline of an instance; again: as after a restart."""
        url = f"sqlite:///{self.folder / 'items.db'}"
        self.items = await Items.open(url, instance, self.config)
        self.stack.push_async_callback(self.items.close)
        committer = GroupCommitter(self.store, window=0.005, still_mine=self.items.still_held)
        self.stack.push_async_callback(committer.close)
        self.pipeline = Pipeline(
            sources={"docs": self.source},
            writer=self.writer,
            committer=committer,
            spool=await Spool.open(self.folder / "spool", spool),
            max_file_size=10_000_000,
            outages=Outages(backoff=0.02),
        )
        return self

    def worker(self, concurrency: int = 4) -> Worker:
        return Worker(
            self.items,
            self.pipeline,
            concurrency=concurrency,
            lease=self.config.lease,
            observer=self.seen,
        )

    async def write(self, uri: str, text: str | bytes, *, live: bool = True) -> None:
        await self.items.observe("docs", [self.source.write(uri, text)], live=live)

    async def drain(self, worker: Worker | None = None) -> None:
        """Work until nothing is left to do."""
        worker = worker or self.worker()
        running = asyncio.create_task(worker.run())
        await self.until(self.is_quiet, running)
        await worker.stop(5)
        await running

    async def drain_all_but(self, uri: str, worker: Worker) -> None:
        """Work until nothing is left to do but one item, which stays."""
        running = asyncio.create_task(worker.run())

        async def others_are_done() -> bool:
            states = (await self.items.counts())["docs"]
            return states.get(State.INDEXED, 0) == len(self.source.content) - 1

        await self.until(others_are_done, running)
        await worker.stop(5)
        await running
        assert await self.state(uri) in (State.PENDING, State.FAILED)

    async def is_quiet(self) -> bool:
        return await self.items.outstanding() == 0

    async def until(self, condition: Callable[[], Any], running: asyncio.Task[None]) -> None:
        async with asyncio.timeout(30):
            while not await condition():
                if running.done():
                    running.result()
                await asyncio.sleep(0.01)

    async def state(self, uri: str) -> State | None:
        item = await self.items.get("docs", uri)
        return item.state if item else None

    async def row(self, uri: str) -> Any:
        return await (await self.store.snapshot()).get_by_uri(uri)

    async def text(self, uri: str) -> str | None:
        snapshot = await self.store.snapshot()
        row = await snapshot.get_by_uri(uri)
        return None if row is None else await snapshot.content(row)

    def spooled(self) -> list[Path]:
        return list((self.folder / "spool").iterdir())


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database to copy: making one takes longer than most tests."""
    path = tmp_path_factory.mktemp("store") / "db.lancedb"

    async def make() -> None:
        identity = EmbeddingIdentity(provider="test", name="ones", dim=DIM)
        store = await Store.create(path, identity, AppConfig().storage)
        await store.close()

    asyncio.run(make())
    return path


@pytest.fixture
async def bench(empty_store: Path, tmp_path: Path) -> AsyncIterator[Bench]:
    import shutil

    path = tmp_path / "db.lancedb"
    shutil.copytree(empty_store, path)
    async with await Store.open(path, AppConfig().storage) as store:
        made = Bench(store, tmp_path)
        async with made.stack:
            yield await made.open()
