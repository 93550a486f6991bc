"""What a tag may be called."""

import re
from datetime import datetime

from haiku.rag.exceptions import TagNameRefused

#: Characters of a name at most; it becomes a file's name.
LONGEST = 100
#: Lance's rules for names, without letters beyond ASCII: LanceDB fails to list tags that have any.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.))*", re.ASCII)


def check(name: str) -> None:
    """Refuse a name that Lance would, and one that `--as-of` could take for something else.

    Raises:
        TagNameRefused: the message says what a name may be.
    """
    if len(name) > LONGEST or not _NAME.fullmatch(name) or name.endswith((".", ".lock")):
        raise TagNameRefused(
            f"{name!r} cannot be the name of a tag: use letters from a to z, digits, '.', '-' and "
            f"'_', {LONGEST} at most, beginning with a letter, a digit or '_', with no two dots "
            "together and neither '.' nor '.lock' at the end"
        )
    if other := _other_state(name):
        raise TagNameRefused(
            f"{name!r} cannot be the name of a tag: where a state is named, it is read as {other}; "
            f"put a word before it, such as 'state-{name}'"
        )


def _other_state(name: str) -> str | None:
    """What a name says of a state by itself: a version, a time, or nothing."""
    if name.isdigit():
        return "a version"
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return None
    return "a time"
