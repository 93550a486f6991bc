"""Text from documents made safe to show: some characters a terminal obeys instead of showing."""

import re

#: Control characters but tab and line feed, halves of surrogate pairs, line separators, and the
#: marks that reorder text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def shown(text: str) -> str:
    """The text with what a terminal would obey written as an escape; lines stay lines."""
    return _UNSAFE.sub(lambda match: repr(match.group())[1:-1], text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line."""
    return shown(" ".join(text.split()))


def json_safe(text: str) -> str:
    """JSON text with the same characters as JSON escapes; its meaning does not change."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
