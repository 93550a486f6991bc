"""The edge between the daemon and the places documents come from.

A source lists, looks at and fetches objects, and may tell when something changes. It knows nothing
of items, queues or documents; what its answers mean is decided in `haiku.ingester.sync`. The
filesystem, HTTP, S3, WebDAV and plugins implement the same protocol; tests swap it for a scripted
one.

URIs are the keys. A *tree* is a URI that ends with "/": everything that starts with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import BinaryIO

    from haiku.ingester.items.model import Observation


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a listing that could not be read: nothing below it may be taken for gone."""

    #: A tree, or the URI of a single object.
    tree: str
    #: What stood in the way, for people, e.g. "permission denied".
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """One batch of a listing."""

    observations: Sequence[Observation] = ()
    #: URIs among `observations` that changed so recently that they may be changing still.
    unsettled: frozenset[str] = frozenset()
    incomplete: Sequence[Unread] = ()
    #: Objects that the source's patterns exclude, for its report; they are not observed.
    ignored: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """What was read of an object. The bytes existed at one moment."""

    #: Bytes.
    size: int
    #: Of the bytes, hexadecimal.
    sha256: str
    #: The object's mark at that moment.
    mark: str
    #: Media type the source declares, without parameters, or None.
    declared_type: str | None
    #: Name for people and for its suffix, e.g. "report.pdf".
    name: str
    #: As in `Observation`.
    identity: str | None


class EventKind(StrEnum):
    """What an event is about."""

    #: The object at the URI was made, changed or removed: look at it.
    OBJECT = "object"
    #: Everything below a tree may be different: list it.
    TREE = "tree"
    #: Events were lost: list everything.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened, or may have. Events are hints: what is true is read from the source."""

    kind: EventKind
    #: An object's URI for OBJECT, a tree for TREE, "" for LOST.
    uri: str = ""
    #: A writer has finished with the object (it was closed or put in place whole).
    closed: bool = False


class Watch(Protocol):
    """A watch that is armed."""

    #: "native", or a word of the source's own; shown in its health.
    mode: str

    async def ended(self) -> str:
        """Wait until the watch has died by itself; returns why, for people."""
        ...

    async def stop(self) -> None:
        """Disarm. No event arrives afterwards. May be called twice."""
        ...


class Source(Protocol):
    """A configured place. Safe to use from several tasks of one event loop at once."""

    id: str
    #: "fs", "http", "s3", "webdav", or a plugin's word.
    kind: str

    async def check(self) -> None:
        """Whether the root is there and can be listed.

        Raises:
            SourceMissing: it is not; the message names the configuration key and the place.
            SourceUnavailable: it did not answer; try again.
        """
        ...

    def list(self, under: str | None = None) -> AsyncIterator[Listing]:
        """Everything that is there, or everything below one tree, in batches.

        Objects that vanish meanwhile are left out, parts that cannot be read are named in
        `incomplete`. A listing that ends without an exception is complete but for those. A tree
        that is not there gives an empty listing.

        Raises:
            SourceMissing: the root is not there, or went or was replaced meanwhile.
            SourceIncomplete, SourceUnavailable: broken off; absence means nothing.
        """
        ...

    async def look(self, uris: Sequence[str]) -> dict[str, Observation | None]:
        """The state of some objects now; None for what is not there or not wanted by the patterns.

        Objects of which neither can be told (no permission, no answer) are left out of the result.

        Raises:
            SourceMissing: the root is not there, so that absence means nothing.
        """
        ...

    async def fetch(self, uri: str, into: BinaryIO, *, max_size: int | None = None) -> Fetched:
        """Stream the object's bytes into an open file, in a thread, hashing on the way.

        Args:
            uri: the object.
            into: written from its current position; left open.
            max_size: bytes; None: the source's own limit.

        Raises:
            SourceUnreadable: not there, no permission, a link out of the root, not a regular file.
            SourceTooLarge: over the limit; at most the limit has been written.
            SourceChanged: it changed while it was read; fetch again.
            SourceMissing, SourceUnavailable: the root or the server is away; try again later.
        """
        ...

    def same_bytes(self, before: str, after: str) -> bool:
        """Whether two marks promise equal bytes, whatever the names (a rename may change marks)."""
        ...

    async def watch(self, notify: Callable[[Event], None]) -> Watch | None:
        """Arm a watch over everything; None when the source has none and must be polled.

        Args:
            notify: called in the event loop's thread for every event from now on.

        Raises:
            WatchUnavailable: it should work but does not; the message says why and what to do.
            SourceMissing: the root is not there.
        """
        ...
