"""Compaction: what is rewritten, and how much of it at a time. Blocking.

Fragments are small because commits are, and hold rows that were deleted. They are rewritten in
*runs* of neighbours whose bytes together are bounded, one run after the other: memory does not
grow with the table. A run that an index covers costs a remapping of the index as well, so it must
gain more. A fragment that is too large to be rewritten within the memory allowed stays; appends
see to it that such a one holds a single row, and goes as a whole.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haiku.rag import uris
from haiku.rag.store import indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Rewriting takes up to this many times the bytes of a run: twice while it is done (measured: 1.7
#: to 1.9), and the allocator gives back what the last run took only by and by.
MEMORY_FACTOR = 4
#: Fragments of one coverage that are gathered though an index covers them.
MANY = 8
#: A fragment of more than this part of a run's bytes is large enough: only for its deleted rows
#: it is rewritten.
SMALL = 8
#: Share of the rows of a coverage that are deleted before they are written out of it: after
#: commits, and when a person asks for it.
DEAD_SHARE, DEAD_SHARE_BY_HAND = 0.25, 0.1
#: Deleted rows, or their bytes, from which it is worth the work at all without being asked.
DEAD_ROWS, DEAD_BYTES = 200, 1_000_000
#: Bytes read at a time; at least one row.
BATCH_BYTES = 4_000_000
#: Free bytes on the disk that stay free.
DISK_MARGIN = 256_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One fragment."""

    id: int
    #: Rows in the file, and how many of them are deleted.
    rows: int
    dead: int
    #: Bytes of its files, deleted rows included.
    bytes: int
    #: The index segments that cover it.
    coverage: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Neighbouring fragments to be rewritten together."""

    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the fragments' files."""
        return sum(piece.bytes for piece in self.pieces)

    @property
    def rows(self) -> int:
        """Rows in the files."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def dead(self) -> int:
        """Deleted rows among them."""
        return sum(piece.dead for piece in self.pieces)

    @property
    def dead_bytes(self) -> int:
        """Bytes that the deleted rows take, about."""
        return sum(piece.bytes * piece.dead // max(piece.rows, 1) for piece in self.pieces)


def pieces(dataset: Any) -> list[Piece]:
    """The fragments in order."""
    covering = indexes.coverings(dataset)
    found = []
    for fragment in dataset.get_fragments():
        data = fragment.metadata
        found.append(
            Piece(
                id=fragment.fragment_id,
                rows=data.physical_rows,
                dead=data.num_deletions,
                bytes=sum(file.file_size_bytes or 0 for file in data.files),
                coverage=covering.get(fragment.fragment_id, frozenset()),
            )
        )
    return found


def runs(found: Sequence[Piece], most: int, *, by_hand: bool) -> list[Run]:
    """What is worth rewriting.

    Args:
        found: the fragments of a table in order.
        most: bytes of a run at most.
        by_hand: a person asked for it, so that less has to be gained.
    """
    share = DEAD_SHARE_BY_HAND if by_hand else DEAD_SHARE
    dirty = _dirty(found, by_hand=by_hand)
    small = most // SMALL

    def settled(piece: Piece) -> bool:
        """Whether it is large enough, and holds little that is deleted."""
        full = piece.coverage not in dirty or piece.dead <= share / 2 * piece.rows
        return piece.bytes > small and full

    wanted = []
    for coverage, group in groupby(found, key=lambda piece: piece.coverage):
        few = MANY if coverage else 2
        for run in _split(list(group), most, settled):
            gathered = sum(piece.bytes <= small for piece in run.pieces)
            if gathered >= few or (coverage in dirty and run.dead > share / 2 * run.rows):
                wanted.append(run)
    return wanted


def _dirty(found: Sequence[Piece], *, by_hand: bool) -> set[frozenset[str]]:
    """The coverages of which so much is deleted rows that they are to be written out."""
    parts: dict[frozenset[str], list[Piece]] = {}
    for piece in found:
        parts.setdefault(piece.coverage, []).append(piece)
    wholes = {coverage: Run(pieces=tuple(part)) for coverage, part in parts.items()}
    if by_hand:
        return {c for c, whole in wholes.items() if whole.dead > DEAD_SHARE_BY_HAND * whole.rows}
    return {
        coverage
        for coverage, whole in wholes.items()
        if whole.dead > DEAD_SHARE * whole.rows
        and (whole.dead >= DEAD_ROWS or whole.dead_bytes >= DEAD_BYTES)
    }


def _split(group: Sequence[Piece], most: int, settled: Callable[[Piece], bool]) -> Iterator[Run]:
    """Neighbours as long as they fit; what is settled or does not fit alone is left out.

    Several together fill half of what is allowed, so that what they become fits as well.
    """
    held: list[Piece] = []
    for piece in group:
        left_out = piece.bytes > most or settled(piece)
        if held and (left_out or sum(p.bytes for p in held) + piece.bytes > most // 2):
            yield Run(pieces=tuple(held))
            held = []
        if not left_out:
            held.append(piece)
    if held:
        yield Run(pieces=tuple(held))


def rewrite(dataset: Any, chosen: Sequence[Run]) -> None:
    """Rewrite runs, one after the other, in one commit: indexes are remapped once.

    `dataset` is then at the version that made it.

    Raises:
        OSError: another process changed the fragments meanwhile, or the storage failed.
    """
    from lance.optimize import Compaction

    done: list[Any] = []
    options: Any = {}
    for run in chosen:
        options = _options(dataset, run)
        done += [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]
    if done:
        Compaction.commit(dataset, done, options)


def _options(dataset: Any, run: Run) -> dict[str, Any]:
    inside = {piece.id for piece in run.pieces}
    outside = [f.fragment_id for f in dataset.get_fragments() if f.fragment_id not in inside]
    return {
        "excluded_fragment_ids": outside,
        "target_rows_per_fragment": max(run.rows + 1, 1 << 20),
        "materialize_deletions_threshold": 0.0,
        "batch_size": max(1, min(8192, BATCH_BYTES * run.rows // max(run.bytes, 1))),
        "num_threads": 1,
    }


def lacking(database: str, chosen: Sequence[Run]) -> str | None:
    """Why there is no room to rewrite runs now, for people; None when there is."""
    memory = _available_memory()
    needed = int(MEMORY_FACTOR * max(run.bytes for run in chosen))
    if memory is not None and memory < needed:
        return f"{memory / 1e6:,.0f} MB of memory are free, {needed / 1e6:,.0f} MB are needed"
    if uris.is_uri(database):
        return None
    free = shutil.disk_usage(database).free
    least = sum(run.bytes for run in chosen) + DISK_MARGIN
    if free < least:
        return f"{free / 1e6:,.0f} MB of the disk are free, {least / 1e6:,.0f} MB are needed"
    return None


def _available_memory() -> int | None:
    """Bytes that can be taken without harm: of the machine, and of the container's limit."""
    found = [value for value in (_machine_memory(), _container_memory()) if value is not None]
    return min(found, default=None)


def _machine_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def _container_memory() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return max(0, int(limit) - used) if limit.isdigit() else None
