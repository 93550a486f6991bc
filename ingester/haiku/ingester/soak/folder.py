"""A folder that changes by a seed, and what it should hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    #: Makes the content of a file of one kind about a subject.
    Make = Callable[[random.Random, str], bytes]

#: Subfolders; "" is the root.
PLACES = ("", "a", "a/deep", "b", "c d")
_WORDS = ("anchor", "beacon", "cable", "dredge", "ebb", "fender", "gale", "harbour", "islet")


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the folder."""

    #: "create", "change", "move", "move folder" or "delete".
    kind: str
    #: The name it happened to, below the root.
    name: str
    #: The new name, of a move.
    to: str = ""


def prose(rng: random.Random, subject: str) -> str:
    """Some sentences that no other file has."""
    lines = [
        f"{subject} says {rng.randrange(10**9)}: " + " ".join(rng.choices(_WORDS, k=12)) + "."
        for _ in range(rng.randint(1, 4))
    ]
    return "\n\n".join(lines)


def _markdown(rng: random.Random, subject: str) -> bytes:
    return f"# About {subject}\n\n{prose(rng, subject)}\n".encode()


def _text(rng: random.Random, subject: str) -> bytes:
    return f"{prose(rng, subject)}\n".encode()


def _csv(rng: random.Random, subject: str) -> bytes:
    rows = "".join(f"{subject},{rng.choice(_WORDS)},{rng.randrange(10**6)}\n" for _ in range(4))
    return f"name,thing,number\n{rows}".encode()


def _html(rng: random.Random, subject: str) -> bytes:
    body = "".join(f"<p>{part}</p>" for part in prose(rng, subject).split("\n\n"))
    page = (
        f"<html><head><title>{subject}</title></head><body><h1>{subject}</h1>{body}</body></html>"
    )
    return page.encode()


#: Suffix → what makes such a file.
KINDS: Mapping[str, Make] = {"md": _markdown, "txt": _text, "csv": _csv, "html": _html}


class Folder:
    """Changes a folder, one step at a time, and remembers what it holds.

    What a step does depends on the seed of `rng` and on the steps before alone.
    """

    def __init__(
        self,
        root: Path,
        rng: random.Random,
        files: int,
        kinds: Mapping[str, Make] = KINDS,
    ) -> None:
        """Nothing is written yet.

        Args:
            root: where; must exist and be empty.
            rng: where all choices come from.
            files: how many files there are about, once it has grown.
            kinds: suffix → what makes such a file; more likely the earlier.
        """
        self.root = root
        self._rng = rng
        self._files = files
        self._kinds = dict(kinds)
        self._serial = 0
        #: Name below the root → content.
        self.held: dict[str, bytes] = {}

    def step(self) -> Step:
        """Make one change at random."""
        full = len(self.held) / self._files
        if self._rng.random() > full:
            return self.create()
        shares = {self.change: 40, self.move: 25, self.delete: 25, self.move_folder: 2}
        if full < 1.1:
            shares[self.create] = 25
        return self._rng.choices(list(shares), list(shares.values()))[0]()

    def create(self) -> Step:
        """A new file; now and then at a name that was there before."""
        kind = self._kind()
        self._serial += 1
        number = self._rng.randint(1, self._serial)
        while (name := self._join(f"note {number}.{kind}")) in self.held:
            number += 1
        self._write(name, self._kinds[kind](self._rng, f"subject {self._serial}"))
        return Step("create", name)

    def change(self) -> Step:
        """Other content at the same name."""
        name = self._any()
        self._serial += 1
        make = self._kinds[name.rsplit(".", 1)[1]]
        self._write(name, make(self._rng, f"subject {self._serial}"))
        return Step("change", name)

    def move(self) -> Step:
        """The same file under another name, perhaps in another folder."""
        name = self._any()
        self._serial += 1
        to = self._join(f"moved {self._serial}.{name.rsplit('.', 1)[1]}")
        (self.root / to).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(self.root / to)
        self.held[to] = self.held.pop(name)
        return Step("move", name, to)

    def move_folder(self) -> Step:
        """A whole subfolder under another name, and what is below it."""
        name = self._any()
        if "/" not in name:
            return self.change()
        old = name.split("/", 1)[0]
        self._serial += 1
        new = f"place {self._serial}"
        (self.root / old).rename(self.root / new)
        for held in [held for held in self.held if held.startswith(f"{old}/")]:
            self.held[new + held[len(old) :]] = self.held.pop(held)
        return Step("move folder", old, new)

    def delete(self) -> Step:
        """A file less."""
        name = self._any()
        (self.root / name).unlink()
        del self.held[name]
        return Step("delete", name)

    def _kind(self) -> str:
        weights = range(len(self._kinds), 0, -1)
        return self._rng.choices(list(self._kinds), weights)[0]

    def _any(self) -> str:
        return self._rng.choice(list(self.held))

    def _join(self, name: str) -> str:
        place = self._rng.choice(PLACES)
        return f"{place}/{name}" if place else name

    def _write(self, name: str, content: bytes) -> None:
        """In place, as many programs do, or beside it and then renamed, as careful ones do."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._rng.random() < 0.5:
            path.write_bytes(content)
        else:
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(content)
            part.replace(path)
        self.held[name] = content
