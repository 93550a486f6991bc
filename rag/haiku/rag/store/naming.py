"""What a database is called in messages: what the user called it, also since it was rebuilt."""

from __future__ import annotations

from pathlib import Path

#: Beginnings of the names of a rebuild's folders: of the new tables, and of what was before.
NEW, OLD = "rebuilt-", "before-"


def name_of(place: str) -> str:
    """The database whose tables are in the folder `place`: itself, or the one above it."""
    root, _, last = place.rpartition("/")
    return root if root and last.startswith(NEW) else place


def kept_before(place: str) -> str:
    """The end of a message that misses a state: where those of before a rebuild are, or ''."""
    root, _, last = place.rpartition("/")
    before = f"{root}/{OLD}{last.removeprefix(NEW)}"
    if not last.startswith(NEW) or not Path(before).is_dir():
        return ""
    return (
        f". {root} was rebuilt: the tags and states of before it stayed with what was before, a "
        f"database of its own, {before}"
    )
