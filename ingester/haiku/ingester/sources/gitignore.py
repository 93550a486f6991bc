"""`.gitignore` files of a tree: each rules its folder and what is below, the deeper one first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pathspec

#: The files' name.
FILE_NAME = ".gitignore"


@dataclass(frozen=True, slots=True)
class Level:
    """The `.gitignore` of one folder, and those above it."""

    #: Path of the folder below the root, ending with "/"; "" for the root.
    folder: str
    spec: pathspec.GitIgnoreSpec
    above: Level | None

    def ignores(self, relative: str) -> bool:
        """Whether a path (from the root; folders end with "/") is ignored."""
        level: Level | None = self
        while level is not None:
            verdict = level.spec.check_file(relative[len(level.folder) :]).include
            if verdict is not None:
                return verdict
            level = level.above
        return False


def read(path: str, folder: str, above: Level | None) -> Level | None:
    """The level of a folder, or the one above when it has no readable `.gitignore`.

    Args:
        path: the folder on disk.
        folder: the same below the root, ending with "/" unless it is "".
        above: the level of its parent.
    """
    try:
        data = (Path(path) / FILE_NAME).read_bytes()
    except OSError:
        return above  # none there, or none that can be read: nothing is ignored by it
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return Level(folder, pathspec.GitIgnoreSpec.from_lines(lines), above)
