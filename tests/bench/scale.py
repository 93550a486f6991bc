"""The main job at scale: the embedder, edits, many files, sweeps, idling, search."""

import asyncio
import json
import os
import re
import statistics
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import psutil
import tokenizers

from haiku.ingester.config import FilesystemSource, WorkConfig
from haiku.ingester.items.items import Items
from haiku.ingester.items.model import Claim, Indexed
from haiku.ingester.sources.fs import FolderSource
from haiku.ingester.sync.model import Policy
from haiku.ingester.sync.syncer import SourceSync
from haiku.rag.client import HaikuRAG
from haiku.rag.config import AppConfig
from haiku.rag.embed import create_embedder, identity, minilm
from haiku.rag.embed.engines import OnnxEngine
from haiku.rag.store import Store, schema
from tests.bench import corpus, disk
from tests.bench.cost import spent
from tests.bench.daemon import Daemon, running
from tests.bench.measures import Figure

#: Texts to embed, and sentences of each: about 230 tokens.
TEXTS, SENTENCES = 256, 8
#: Numbers of a vector.
DIM = minilm.DIM
#: What onnxruntime's own defaults would be used with.
ONNX_BATCH = 32


def embedding(base: Path) -> list[Figure]:
    """The default model against onnxruntime on the same file at its defaults."""
    pool = corpus.sentences()
    texts = [" ".join(pool[n * SENTENCES : (n + 1) * SENTENCES]) for n in range(TEXTS)]
    config = AppConfig()
    embedder = create_embedder(config.embeddings)
    tokenizer = tokenizers.Tokenizer.from_str(minilm.read_tokenizer().decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(minilm.MAX_TOKENS)
    onnx = OnnxEngine(os.cpu_count() or 1)
    encoded = [tokenizer.encode(text).ids for text in texts]
    ours, theirs = [], []

    async def run() -> tuple[np.ndarray, np.ndarray]:
        await embedder.embed_documents(texts[:8])
        for _ in range(3):
            with spent() as cost:
                vectors = await embedder.embed_documents(texts)
            ours.append(cost.seconds)
            with spent() as cost:
                reference = np.concatenate(
                    [
                        onnx.run(*_padded(encoded[at : at + ONNX_BATCH]))
                        for at in range(0, TEXTS, ONNX_BATCH)
                    ]
                )
            theirs.append(cost.seconds)
        await embedder.close()
        return vectors, reference

    vectors, reference = asyncio.run(run())
    ratio = statistics.median(theirs) / statistics.median(ours)
    rate = TEXTS / statistics.median(ours)
    cosine = float((vectors * reference).sum(axis=1).min())
    note = f"{rate:.0f} chunks/s here, {TEXTS / statistics.median(theirs):.0f} there"
    return [
        Figure("embedding against onnxruntime, batch 32", f"{ratio:.1f} ×", "≥ 4 ×", note),
        Figure("smallest cosine between both", f"{cosine:.5f}", "≥ 0.999"),
    ]


def _padded(encoded: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, encoded))
    ids = np.zeros((len(encoded), longest), np.int32)
    mask = np.zeros((len(encoded), longest), np.float32)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


#: What a request to the embedder that costs nothing gets back for each text.
_NOTHING = json.dumps([0.05] * DIM)


class _Nothing(BaseHTTPRequestHandler):
    """Answers `POST /v1/embeddings` with the same vector for every text."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        rows = (f'{{"index":{n},"embedding":{_NOTHING}}}' for n in range(len(texts)))
        body = f'{{"data":[{",".join(rows)}]}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def free(base: Path, count: int) -> list[Figure]:
    """Documents per CPU second of the daemon and its workers when embedding costs them nothing."""
    files = corpus.Writer(3, length=2).folder(base / "corpus", count)
    size = sum(path.stat().st_size for path in files) / 1e6
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Nothing)
    Thread(target=server.serve_forever, daemon=True).start()
    model = {
        "provider": "openai",
        "name": "nothing",
        "vector_dim": str(DIM),
        "base_url": f"http://127.0.0.1:{server.server_port}/v1",
        "api_key": "none",
    }
    settings = {f"HAIKU_RAG__EMBEDDINGS__MODEL__{k.upper()}": v for k, v in model.items()}
    with running(base / "daemon", settings) as daemon, spent(daemon.process.pid) as cost:
        (base / "corpus").rename(daemon.folder / "corpus")
        daemon.wait(count + 1)
        chunks = _metric(daemon, "haiku_ingester_embedded_chunks_total")
    server.shutdown()
    note = f"{count} files, {size:.1f} MB, {chunks:.0f} chunks in {cost}"
    value = f"{count / cost.cpu:.1f}"
    return [Figure("documents per CPU-s, embedding free", value, "≥ 5 × 0.8 to 1.0", note)]


def _metric(daemon: Daemon, name: str) -> float:
    address = re.search(r"http://[\d.]+:\d+", daemon.log.read_text())
    assert address is not None
    with urllib.request.urlopen(f"{address.group()}/metrics") as answer:
        text = answer.read().decode()
    return sum(float(v) for v in re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE))


def edits(base: Path) -> list[Figure]:
    """What an edit of one paragraph, a move and a touch of a long document cost."""
    embedded = "haiku_ingester_embedded_chunks_total"
    converted = 'haiku_ingester_stage_seconds_count{stage="convert"}'
    commits = "haiku_ingester_commits_total"
    pool = corpus.sentences()
    sections = [f"## Part {n}\n\n" + " ".join(pool[n * 4 : n * 4 + 7]) for n in range(500)]
    with running(base) as daemon:
        path = daemon.folder / "long.md"

        def change(do: Callable[[], object]) -> tuple[int, int]:
            before = _metric(daemon, embedded), _metric(daemon, converted)
            seen = _metric(daemon, commits)
            do()
            while _metric(daemon, commits) == seen:
                time.sleep(0.1)
            time.sleep(1.0)
            after = _metric(daemon, embedded), _metric(daemon, converted)
            return int(after[0] - before[0]), int(after[1] - before[1])

        chunks, _ = change(lambda: path.write_text("# Long\n\n" + "\n\n".join(sections)))
        sections[250] += " One more sentence, about quokkas."
        edited = change(lambda: path.write_text("# Long\n\n" + "\n\n".join(sections)))
        touched = change(path.touch)
        moved = change(lambda: path.rename(daemon.folder / "moved.md"))
    note = f"of {chunks}"
    return [
        Figure("chunks embedded after an edit of one paragraph", f"{edited[0]}", "≤ 3", note),
        Figure("embedded and converted after a move", f"{moved[0]} and {moved[1]}", "0 and 0"),
        Figure("embedded and converted after a touch", f"{touched[0]} and {touched[1]}", "0 and 0"),
    ]


def tiny(base: Path, count: int) -> list[Figure]:
    """Many tiny files at once: when all are known, the daemon's memory, where its CPU goes."""
    folder = base / "tiny"
    folder.mkdir(parents=True)
    pool = corpus.sentences()
    texts = [f"# Note {n}\n\n{pool[n % len(pool)]} It is number {n}.\n" for n in range(count)]
    for number, text in enumerate(texts):
        (folder / f"{number:06d}.md").write_text(text)
    with running(base / "daemon") as daemon:
        own = psutil.Process(daemon.process.pid)
        workers = own.children(recursive=True)
        before = _seconds([own]), _seconds(workers)
        peak = known = 0.0
        started = time.perf_counter()
        folder.rename(daemon.folder / "tiny")
        while daemon.done() < count + 1:
            peak = max(peak, own.memory_info().rss)
            if not known and daemon.known() >= count + 1:
                known = time.perf_counter() - started
            time.sleep(0.1)
        took = time.perf_counter() - started
        all_of_it = _seconds([own]) - before[0], _seconds(workers) - before[1]
    bare = _embedding_seconds(texts)
    share = (all_of_it[1] + bare) / sum(all_of_it)
    note = f"all indexed after {took:.0f} s, {sum(all_of_it):.0f} CPU-s"
    parts = f"workers {all_of_it[1]:.0f} s, the same texts embedded bare {bare:.0f} s"
    return [
        Figure(f"{count:,} tiny files known after", f"{known:.1f} s", "≤ 15 s", note),
        Figure("the daemon's own memory, peak", f"{peak / 1e6:.0f} MB", "≤ 500 MB"),
        Figure("CPU in conversion and embedding", f"{share:.0%}", "≥ 60 %", parts),
    ]


def _embedding_seconds(texts: list[str]) -> float:
    async def run() -> float:
        embedder = create_embedder(AppConfig().embeddings)
        await embedder.embed_documents(texts[:8])
        with spent() as cost:
            for at in range(0, len(texts), 64):
                await embedder.embed_documents(texts[at : at + 64])
        await embedder.close()
        return cost.cpu

    return asyncio.run(run())


def _seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes if process.is_running())


def sweep(base: Path, count: int) -> list[Figure]:
    """A sweep of unchanged files against listing and stating the same tree."""
    root = base / "tree"
    for number in range(count):
        if number % 200 == 0:
            (root / f"{number // 2000}" / f"{number // 200}").mkdir(parents=True)
        (root / f"{number // 2000}" / f"{number // 200}" / f"{number:06d}.md").touch()
    section = FilesystemSource(id="tree", path=root, ignore=["*.tmp", "build/"])

    async def run() -> tuple[list[float], list[float]]:
        url = f"sqlite:///{base / 'items.sqlite'}"
        items = await Items.open(url, "bench", WorkConfig())
        sync = SourceSync(FolderSource(section, max_file_size=10**9), items, Policy.of(section))
        await sync.run_once()
        while claims := await items.claim(2000):
            await asyncio.gather(*(items.finish(claim, _done(claim)) for claim in claims))
        sweeps, bare = [], []
        for _ in range(3):
            with spent() as cost:
                _look(root)
            bare.append(cost.cpu)
            with spent() as cost:
                await sync.run_once()
            sweeps.append(cost.cpu)
        await items.close()
        return sweeps, bare

    sweeps, bare = asyncio.run(run())
    ratio = statistics.median(sweeps) / statistics.median(bare)
    note = f"{statistics.median(sweeps):.2f} against {statistics.median(bare):.2f} CPU-s"
    return [Figure(f"sweep of {count:,} unchanged files", f"{ratio:.1f} ×", "≤ 4 ×", note)]


def _done(claim: Claim) -> Indexed:
    return Indexed(
        content_hash="h", mark=claim.mark, fingerprint="f", document_id="d", chunk_count=1
    )


def _look(root: Path) -> int:
    """`scandir` and `stat` of a tree."""
    found, folders = 0, [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    found += os.stat(entry.path).st_size >= 0
    return found


def idle(base: Path, seconds: float) -> list[Figure]:
    """What a daemon costs that has nothing to do."""
    with running(base) as daemon:
        time.sleep(5.0)
        with spent(daemon.process.pid) as cost:
            time.sleep(seconds)
    share = cost.cpu / cost.seconds
    return [Figure("CPU while idle", f"{share:.2%}", "≤ 1 %", f"over {seconds:.0f} s")]


def search(base: Path, chunks: int) -> list[Figure]:
    """Hybrid search against the slower of Lance's own legs on the same tables."""
    app = AppConfig()
    each = 50

    async def fill() -> None:
        async with await Store.create(base / "s", identity(app.embeddings.model), app.storage) as s:
            await disk.commit(s, (disk.put(f"u{n}", each) for n in range(chunks // each)), 100)
            await s.vacuum()

    async def run() -> tuple[list[float], dict[str, list[float]]]:
        import lance
        from lance.query import MatchQuery

        table = lance.dataset(f"{base / 's'}/{schema.CHUNKS}.lance")
        columns = ["id", "revision", "content"]
        hybrid: list[float] = []
        legs: dict[str, list[float]] = {"vector": [], "text": []}
        async with HaikuRAG(base / "s", read_only=True, config=app) as client:
            embedder = create_embedder(app.embeddings)
            for number in range(25):
                words = " ".join(disk._RNG.choices(disk._WORDS, k=3))
                vector = await embedder.embed_query(words)
                times = [time.perf_counter()]
                await client.search(words, limit=5)
                times.append(time.perf_counter())
                nearest = {"column": "vector", "q": vector, "k": 5, "metric": "cosine"}
                table.to_table(columns=columns, nearest=nearest)
                times.append(time.perf_counter())
                match = MatchQuery(words, schema.FULL_TEXT[1])
                table.to_table(columns=columns, full_text_query=match, limit=5)
                times.append(time.perf_counter())
                if number >= 5:  # the first ones fill caches
                    hybrid.append(times[1] - times[0])
                    legs["vector"].append(times[2] - times[1])
                    legs["text"].append(times[3] - times[2])
            await embedder.close()
        return hybrid, legs

    asyncio.run(fill())
    hybrid, legs = asyncio.run(run())
    medians = {name: statistics.median(times) for name, times in legs.items()}
    ratio = statistics.median(hybrid) / max(medians.values())
    note = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in medians.items())
    note = f"{1000 * statistics.median(hybrid):.0f} ms; {note}"
    return [Figure(f"hybrid search, {chunks:,} chunks, p50", f"{ratio:.2f} ×", "≤ 1.25 ×", note)]
