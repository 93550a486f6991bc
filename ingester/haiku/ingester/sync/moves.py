"""Tells a move from a removal and an addition.

First by identity: what is new has the inode of exactly one item that is not at its old place, and
size and mtime are those it had. Else by content: its bytes are those of exactly one item that went
just now. Whatever is ambiguous, or changed as well, is a new document; its conversion is repeated,
but the vectors of known text are used again.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from haiku.ingester.exceptions import IngesterError
from haiku.rag.exceptions import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from typing import TypeVar

    from haiku.ingester.items.model import Known, Observation
    from haiku.ingester.sources.protocol import Source

    T = TypeVar("T")

#: Objects that are read for their hash at most, of those that came at one time.
MOST_HASHED = 256


@dataclass(frozen=True, slots=True)
class Moved:
    """One move."""

    old: Known
    to: Observation


def by_identity(
    new: Sequence[Observation], absent: Sequence[Known], same_bytes: Callable[[str, str], bool]
) -> list[Moved]:
    """Pairs that share an identity nobody else has, and whose marks promise equal bytes."""
    there = _single(new, lambda observation: None if observation.skip else observation.identity)
    gone = _single(absent, lambda known: known.identity)
    return [
        Moved(known, there[identity])
        for identity, known in gone.items()
        if identity in there and same_bytes(known.mark, there[identity].mark)
    ]


async def by_content(
    source: Source, new: Sequence[Observation], absent: Sequence[Known]
) -> list[Moved]:
    """Pairs of equal content that nobody else has; reads what is new and of a size that went."""
    sizes = {known.size for known in absent if known.size and known.content_hash}
    candidates = [o for o in new if o.size in sizes and not o.skip][:MOST_HASHED]
    hashes = {o.uri: await _hash(source, o) for o in candidates}
    there = _single(candidates, lambda observation: hashes[observation.uri])
    gone = _single(absent, lambda known: known.content_hash)
    return [
        Moved(known, there[content_hash])
        for content_hash, known in gone.items()
        if content_hash in there
    ]


def _single(values: Iterable[T], key: Callable[[T], Hashable | None]) -> dict[Hashable, T]:
    """Those whose key no other one has, by key."""
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for value in values:
        found = key(value)
        if found is not None:
            groups[found].append(value)
    return {found: group[0] for found, group in groups.items() if len(group) == 1}


async def _hash(source: Source, observation: Observation) -> str | None:
    """SHA-256 of an object that is as it was observed, else None."""
    sink = await asyncio.to_thread(open, os.devnull, "wb")
    try:
        fetched = await source.fetch(observation.uri, sink)
    except (SourceError, IngesterError):
        return None  # whoever works on it will say why it cannot be read
    finally:
        await asyncio.to_thread(sink.close)
    return fetched.sha256 if fetched.mark == observation.mark else None
