"""Names that are never documents, as gitignore patterns: the daemon and `add-src` share them."""

from collections.abc import Iterable

import pathspec

#: Names that are never documents: partial downloads, editors' and systems' leftovers (F03).
DEFAULT_IGNORE = (
    "*.part",
    "*.partial",
    "*.filepart",
    "*.crdownload",
    "*.download",
    "*.tmp",
    "*.temp",
    "*.swp",
    "*.swx",
    "*~",
    "~$*",
    ".~lock.*#",
    ".#*",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    ".git/",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "node_modules/",
    ".venv/",
    "*.lancedb/",
)


def ignore_spec(patterns: Iterable[str] = DEFAULT_IGNORE) -> pathspec.GitIgnoreSpec:
    """A matcher for relative POSIX paths; folders are asked with a trailing slash."""
    return pathspec.GitIgnoreSpec.from_lines(patterns)
