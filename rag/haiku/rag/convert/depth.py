"""How deep a text nests, told before a parser is asked.

Markdown parsers look at the rest of a line again for every container it opens, which doubles the
work with each level; HTML parsers build and walk a tree by recursion. A few dozen bytes could keep
a worker busy until its deadline.
"""

from __future__ import annotations

import re

#: Quotes and list items that one line of Markdown may open.
MAX_MARKDOWN = 12
#: HTML elements open at one place.
MAX_HTML = 400

_MARKERS = re.compile(r"^[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=>)|$))+", re.M)
_MARKER = re.compile(r">|[-*+]|\d{1,9}[.)]")
_RULE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1)*[ \t]*")
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)[^<>]*?(/?)>")
#: Elements without an end, or whose end is left out by people who write correct pages.
_UNCLOSED = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr", "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody",
    "tfoot", "colgroup", "rb", "rt", "rp",
}  # fmt: skip


def too_deep(text: str, format_: str) -> bool:
    """Whether a Markdown or HTML text nests deeper than a person writes; False for others."""
    if format_ == "md":
        return any(_containers(opening) > MAX_MARKDOWN for opening in _MARKERS.finditer(text))
    return format_ == "html" and _deepest(text) > MAX_HTML


def _containers(opening: re.Match[str]) -> int:
    """Containers that the beginning of a line opens; a rule of spaced stars opens none."""
    whole = opening.string[opening.end() : opening.end() + 1] in ("", "\n")
    return 0 if whole and _RULE.fullmatch(opening[0]) else len(_MARKER.findall(opening[0]))


def _deepest(text: str) -> int:
    depth = deepest = 0
    for closing, name, alone in _TAG.findall(text):
        if alone or name.lower() in _UNCLOSED:
            continue
        depth = max(0, depth - 1) if closing else depth + 1
        deepest = max(deepest, depth)
    return deepest
