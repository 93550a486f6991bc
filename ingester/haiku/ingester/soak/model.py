"""What should be, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from haiku.rag.uris import path_to_uri

if TYPE_CHECKING:
    from haiku.ingester.soak.folder import Folder, Step

#: Hash of no bytes: a file that is written in place is empty for a moment.
EMPTY = sha256(b"").hexdigest()


@dataclass
class Model:
    """The folder, the rival's documents, and what every reader must find meanwhile."""

    folder: Folder
    #: URI → content of the rival's documents.
    rivals: dict[str, str] = field(default_factory=dict)
    #: Tag → the rival's documents when it was made.
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    #: URIs of files that have been indexed and are there all the time since (S4).
    steady: set[str] = field(default_factory=set)
    #: URI → hash of every content that stood there.
    contents: dict[str, set[str]] = field(default_factory=dict)
    #: What did not hold, for people.
    wrong: list[str] = field(default_factory=list)

    def change(self) -> Step:
        """Change the folder once."""
        before = dict(self.folder.held)
        step = self.folder.step()
        for name, content in self.folder.held.items():
            if before.get(name) != content:
                known = self.contents.setdefault(self.uri(name), {EMPTY})
                known.add(sha256(content).hexdigest())
        self.steady -= {self.uri(name) for name in before.keys() - self.folder.held.keys()}
        return step

    def wanted(self) -> dict[str, str]:
        """URI → hash of what the folder holds."""
        return {self.uri(n): sha256(b).hexdigest() for n, b in self.folder.held.items()}

    def settled(self) -> None:
        """Everything is indexed now."""
        self.steady = set(self.wanted())

    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return path_to_uri(self.folder.root / name)

    def blame(self, text: str) -> None:
        """Note what did not hold."""
        self.wrong.append(text)
