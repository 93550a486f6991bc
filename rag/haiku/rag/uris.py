"""Paths and URIs: encoded once on the way in, decoded only for display.

A file name is bytes; Python keeps those that are not UTF-8 as surrogate escapes. `path_to_uri`
percent-encodes the bytes themselves, so that `uri_to_path` gives back the very same name.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

#: RFC 3986 pchar and "/", less what shells and people stumble over.
_SAFE = "/-._~!$&'()*+,;=:@"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def path_to_uri(path: str | os.PathLike[str]) -> str:
    """The `file://` URI of a path; a relative path is taken from the working directory.

    Symbolic links are kept as they are: two names are two documents.
    """
    absolute = os.path.abspath(os.fspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
    return "file://" + quote_path(absolute)


def quote_path(path: str) -> str:
    """A path, or a part of one, as it stands in a `file://` URI."""
    return quote_from_bytes(os.fsencode(path), safe=_SAFE)


def uri_to_path(uri: str) -> Path:
    """The path a `file://` URI names.

    Raises:
        ValueError: the URI has another scheme or names another host.
    """
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise ValueError(f"{uri!r} is not a file URI of this machine")
    raw = uri[len(parts.scheme) + 3 + len(parts.netloc) :]
    return Path(os.fsdecode(unquote_to_bytes(raw)))


def is_uri(text: str) -> bool:
    """Whether the text starts with a URI scheme and `//`, so that it is not a path."""
    return _SCHEME.match(text) is not None


def display(uri: str) -> str:
    """A URI for people: file URIs as paths, percent-encoding decoded, control characters shown."""
    text = unquote(uri[len("file://") :] if uri.startswith("file://") else uri)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def suffix(uri: str) -> str:
    """The lower-case suffix of the URI's last path segment, with its dot, or ''."""
    name = unquote(urlsplit(uri).path if is_uri(uri) else uri).rsplit("/", 1)[-1]
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - a URI segment is not a path
