"""What an item will cost, from its size and kind, and from items of its kind that were indexed.

An estimate, not a promise: it is right to a factor of two or so for a folder of ordinary files, and
nothing is converted for it. The constants are what the bundled documents took on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from haiku.ingester.plans.model import Cost

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Chunks that the embedder of the installation makes vectors of in a second.
CHUNKS_PER_SECOND = 100.0
#: Seconds that any document takes beside what its size costs.
EACH = 0.01


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a format gives and takes."""

    #: Bytes of the file for each chunk.
    chunk_bytes: float
    #: Seconds of conversion and chunking for a million bytes.
    seconds: float


_TEXT = _Kind(600, 3.0)
_KINDS = {
    ".pdf": _Kind(15_000, 7.0),
    ".docx": _Kind(7_000, 2.0),
    ".pptx": _Kind(7_000, 4.0),
    ".xlsx": _Kind(3_000, 6.0),
    ".html": _Kind(1_500, 20.0),
    ".htm": _Kind(1_500, 20.0),
    ".csv": _Kind(200, 30.0),
    ".eml": _Kind(1_500, 5.0),
    ".epub": _Kind(3_000, 3.0),
}
#: Chunks and seconds of a page, where pages are known.
_PAGE = Cost(pages=1, chunks=3, seconds=0.06)


class Estimator:
    """Knows how many bytes a chunk took, by suffix, in what is indexed already."""

    def __init__(self, indexed: Iterable[tuple[str, int, int]], *, workers: int) -> None:
        """Learn from items.

        Args:
            indexed: URI, bytes and chunks of items that are indexed.
            workers: conversions at once.
        """
        sizes: dict[str, list[int]] = {}
        for uri, size, chunks in indexed:
            total = sizes.setdefault(suffix(uri), [0, 0])
            total[0] += size
            total[1] += chunks
        self._seen = {s: size / chunks for s, (size, chunks) in sizes.items() if size and chunks}
        self._workers = max(1, workers)

    def cost(self, uri: str, size: int | None, pages: int | None = None) -> Cost:
        """Of converting and embedding one item; without a size, of an average small one."""
        kind, size = _KINDS.get(suffix(uri), _TEXT), 5_000 if size is None else size
        if not size:
            return Cost(seconds=EACH)
        each = self._seen.get(suffix(uri))
        if pages and each is None:
            chunks, seconds = pages * _PAGE.chunks, pages * _PAGE.seconds
        else:
            chunks = max(1, round(size / (each or kind.chunk_bytes)))
            seconds = size / 1e6 * kind.seconds
        seconds = (EACH + seconds) / self._workers + chunks / CHUNKS_PER_SECOND
        return Cost(pages=pages or 0, chunks=chunks, seconds=round(seconds, 3))


def suffix(uri: str) -> str:
    """The suffix of a URI's last part, in lower case."""
    return PurePosixPath(urlsplit(uri).path).suffix.lower()


def count_pages(path: str) -> int | None:
    """Pages of a PDF file, or None when it cannot be read. Runs in a worker process."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            return len(document)
    except pypdfium2.PdfiumError:
        return None
