"""The one place where values become SQL, and where text is made storable.

Lance filters are DataFusion SQL: a string literal stands in single quotes and a quote inside is
doubled; nothing else is special, so `%`, backslashes, NUL and line breaks are safe in a literal.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

#: Values in one IN list; longer lists are split.
IN_LIMIT = 500

_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD; UTF-8, and so Arrow, cannot hold them."""
    return text if text.isascii() else _SURROGATES.sub("�", text)


def clean_uri(uri: str) -> str:
    """The URI with lone surrogates percent-encoded, so that different names stay different.

    A surrogate escape (what `os.fsdecode` makes of a byte that is not UTF-8) becomes that byte.

    Raises:
        ValueError: the URI is empty.
    """
    if not uri:
        raise ValueError("a document needs a URI; this one is empty")
    return uri if uri.isascii() else _SURROGATES.sub(_percent, uri)


def _percent(match: re.Match[str]) -> str:
    code = match.group()
    escaped = "\udc80" <= code <= "\udcff"
    raw = code.encode("utf-8", "surrogateescape" if escaped else "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


def literal(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + clean(text).replace("'", "''") + "'"


def equals(column: str, value: str) -> str:
    """`column = 'value'`."""
    return f"{column} = {literal(value)}"


def within(column: str, values: Iterable[str]) -> str:
    """`column IN ('a', 'b')`; never true for no values."""
    listed = ", ".join(literal(value) for value in values)
    return f"{column} IN ({listed})" if listed else "false"


def without(column: str, values: Iterable[str]) -> str | None:
    """`column NOT IN ('a', 'b')`, or None for no values: nothing to exclude."""
    listed = ", ".join(literal(value) for value in values)
    return f"{column} NOT IN ({listed})" if listed else None


def both(*conditions: str | None) -> str | None:
    """The conditions that are not None joined by AND, each in parentheses."""
    given = [f"({condition})" for condition in conditions if condition]
    return " AND ".join(given) or None


def parts(values: Sequence[str], size: int = IN_LIMIT) -> Iterator[Sequence[str]]:
    """The values in lists of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
