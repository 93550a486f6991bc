"""What runs the embedded model: OpenVINO, or onnxruntime where OpenVINO cannot load.

Both take padded token ids and return unit vectors, and may be called from several threads.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from haiku.rag.embed import graph, minilm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

#: Compiled models kept in the cache folder, newest first; each is 55 MB.
KEPT_COMPILED = 3
#: More streams than this only cost memory.
MAX_STREAMS = 16

_import_lock = threading.Lock()


class Engine(Protocol):
    """Runs the model on one padded batch."""

    #: "openvino/bf16", "openvino/f32" or "onnxruntime".
    name: str
    #: Padded tokens that one call should hold for the best speed.
    batch_tokens: int
    #: Calls that gain from being made at once.
    streams: int

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors of shape (batch, 384) for token ids and mask of shape (batch, length)."""
        ...


def load_engine(cache_dir: Path | None, streams: int | None = None) -> Engine:
    """The fastest engine that loads here.

    Args:
        cache_dir: where compiled models are kept between runs; None keeps none.
        streams: batches computed at once; None: one a processor this process may use.

    Raises:
        EmbedderRefused: the model's files are missing or damaged.
    """
    streams = streams or min(available_cpus(), MAX_STREAMS)
    try:
        openvino = import_openvino()
    except (ImportError, OSError) as error:
        logger.warning("OpenVINO cannot be loaded (%s); onnxruntime runs the model, slower", error)
        return OnnxEngine(streams)
    return OpenVinoEngine(openvino, cache_dir, streams)


def available_cpus() -> int:
    """Processors this process may use: its affinity, and its control group's quota if lower."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    return count


def import_openvino() -> Any:
    """The `openvino` module, imported so that it reports nothing to anyone.

    Its `__init__` imports the conversion tools, which send an event over the network by way of
    `openvino_telemetry`. The tools are kept out during the import (the package allows for their
    absence, and loads three times as fast), and the telemetry package for good: the tools fall
    back to a stub when somebody imports them later.
    """
    with _import_lock:
        if "openvino" not in sys.modules:
            sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
            with _absent("openvino.tools.ovc"):
                import openvino
        import openvino

        return openvino


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Make one module's import fail within the block."""
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


class OpenVinoEngine:
    """The model compiled by OpenVINO, in bf16 where the processor computes in it."""

    #: Eight texts of the usual chunk size; larger batches leave the processor's cache.
    batch_tokens = 2048

    def __init__(self, openvino: Any, cache_dir: Path | None, streams: int) -> None:
        core = openvino.Core()
        bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        precision = "bf16" if bf16 else "f32"
        self.name = f"openvino/{precision}"
        self.streams = streams
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": streams,
            # The conversion workers share the processors; a pinned thread would wait for one.
            "ENABLE_CPU_PINNING": False,
        }
        cache = _CompiledCache(cache_dir, self._cache_key(openvino, core, settings))
        compiled = cache.load(core, settings)
        if compiled is None:
            model = graph.build(core, minilm.read_model())
            compiled = core.compile_model(model, "CPU", settings)
            cache.save(compiled)
        # One more than streams, so that a query starts before the queued documents.
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams + 1):
            self._requests.put(compiled.create_infer_request())

    @staticmethod
    def _cache_key(openvino: Any, core: Any, settings: dict[str, Any]) -> str:
        device = core.get_property("CPU", "FULL_DEVICE_NAME")
        parts = (minilm.MODEL_SHA256, graph.VERSION, openvino.__version__, device, repr(settings))
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors of shape (batch, 384)."""
        request = self._requests.get()
        try:
            request.infer([ids, mask])
            return np.array(request.get_output_tensor(0).data, np.float32)
        finally:
            self._requests.put(request)


class _CompiledCache:
    """One compiled model in the user's cache folder, with its checksum before it.

    A folder that cannot be read or written means no cache, never an error.
    """

    def __init__(self, folder: Path | None, key: str) -> None:
        self._path = folder / f"minilm-{key}.blob" if folder else None

    def load(self, core: Any, settings: dict[str, Any]) -> Any | None:
        """The compiled model, or None when there is none that can be used."""
        if self._path is None:
            return None
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        digest, blob = content[:32], memoryview(content)[32:]
        if hashlib.sha256(blob).digest() != digest:
            logger.info("the compiled model %s is damaged and is made again", self._path)
            return None
        try:
            return core.import_model(bytes(blob), "CPU", settings)
        except RuntimeError as error:
            logger.info("the compiled model %s cannot be used: %s", self._path, error)
            return None

    def save(self, compiled: Any) -> None:
        """Keep a compiled model for the next start, and remove old ones."""
        if self._path is None:
            return
        blob = compiled.export_model().getvalue()
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(hashlib.sha256(blob).digest() + blob)
            temporary.replace(self._path)
            self._prune()
        except OSError as error:
            logger.debug("the compiled model is not kept: %s", error)
            with suppress(OSError):
                temporary.unlink()

    def _prune(self) -> None:
        assert self._path is not None
        blobs = self._path.parent.glob("minilm-*.blob")
        newest = sorted(blobs, key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest[KEPT_COMPILED:]:
            path.unlink(missing_ok=True)


class OnnxEngine:
    """The ONNX file run by onnxruntime in f32: slower, and everywhere."""

    name = "onnxruntime"
    #: One text at a time is its fastest.
    batch_tokens = minilm.MAX_TOKENS

    def __init__(self, streams: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = streams
        self.streams = 1
        self._session = onnxruntime.InferenceSession(
            minilm.read_model(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors of shape (batch, 384)."""
        inputs = {
            "input_ids": ids.astype(np.int64),
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros(ids.shape, np.int64),
        }
        (states,) = self._session.run(None, inputs)
        total = (states * mask[:, :, None]).sum(axis=1)
        return np.asarray(total / np.linalg.norm(total, axis=1, keepdims=True), np.float32)
