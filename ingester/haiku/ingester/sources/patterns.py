"""Which names of a tree are wanted: gitignore patterns, fast enough to ask of every file.

`pathspec` decides; asking it costs some 13 µs a name, so a test that can only say "surely not" is
put before it: nearly all patterns are a plain name, or begin or end with plain characters, and
Python compares those in well under a microsecond.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from haiku.rag.ignore import DEFAULT_IGNORE, ignore_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"[*?\[\]\\!#/]")
#: Plain characters, then anything but a slash.
_PREFIXED = re.compile(r"([^*?\[\]\\!/]+)[^/]*")
_GROUP_NAME = re.compile(r"\(\?P<\w+>")

#: An include list that wants everything.
EVERYTHING = ("**",)


class Matcher:
    """One list of patterns. A name matches when the last pattern that fits it is not negated."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._spec = ignore_spec(lines)
        self._names: set[str] = set()
        suffixes: list[str] = []
        prefixes: list[str] = []
        others: list[str] = []
        for pattern in self._spec.patterns:
            if pattern.include:
                self._sort(pattern, suffixes, prefixes, others)
        self._suffixes, self._prefixes = tuple(suffixes), tuple(prefixes)
        self._others = re.compile("|".join(others), re.DOTALL) if others else None

    def _sort(
        self, pattern: object, suffixes: list[str], prefixes: list[str], others: list[str]
    ) -> None:
        """Put a pattern where it is compared fastest."""
        line = str(getattr(pattern, "pattern", "")).rstrip().removesuffix("/")
        if not _SPECIAL.search(line):
            self._names.add(line)
        elif line[:1] == "*" and not _SPECIAL.search(line[1:]):
            suffixes.append(line[1:])
        elif prefixed := _PREFIXED.fullmatch(line):
            prefixes.append(prefixed[1])
        else:
            regex = getattr(pattern, "regex", None)
            others.append(f"(?:{_GROUP_NAME.sub('(?:', regex.pattern)})" if regex else "")

    def matches(self, relative: str, name: str) -> bool:
        """Whether a name matches by itself; the folders above it have been asked before.

        Args:
            relative: POSIX path below the root; ends with "/" for a folder.
            name: its last part, without "/".
        """
        return (
            name.endswith(self._suffixes)
            or name in self._names
            or name.startswith(self._prefixes)
            or (self._others is not None and self._others.search(relative) is not None)
        ) and self._spec.match_file(relative)

    def matches_within(self, relative: str) -> bool:
        """Whether a file's path matches, by itself or by a folder it is in."""
        return self._spec.match_file(relative)


class Patterns:
    """What a source wants of its tree, without looking at `.gitignore` files."""

    def __init__(
        self,
        *,
        include: Sequence[str] = EVERYTHING,
        ignore: Sequence[str] = (),
        default_ignore: bool = True,
    ) -> None:
        self._ignore = Matcher([*(DEFAULT_IGNORE if default_ignore else ()), *ignore])
        self._include = None if tuple(include) == EVERYTHING else Matcher(include)

    def enters(self, relative: str, name: str) -> bool:
        """Whether a folder is walked; `relative` ends with "/". One that is not hides all below."""
        return not self._ignore.matches(relative, name)

    def wants(self, relative: str, name: str) -> bool:
        """Whether a file in a folder that is walked is a document."""
        if self._ignore.matches(relative, name):
            return False
        return self._include is None or self._include.matches_within(relative)
