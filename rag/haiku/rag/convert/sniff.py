"""What a file is: by its content, then by its declared type, then by its suffix.

A signature of two or three bytes proves nothing: text may begin with "BM", "ID3" or "PK". So the
question asked first is whether the bytes are text, and a signature counts only with the structure
that belongs to it. Among texts the suffix decides where content cannot (Markdown, CSV, code).
"""

from __future__ import annotations

import codecs
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from haiku.rag.convert import containers, suffixes
from haiku.rag.exceptions import DocumentCorrupt, SourceUnreadable, UnsupportedFormat

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of the beginning and of the end that are looked at.
HEAD = 65_536
TAIL = 4_096
#: Most control characters that text may hold, as a share of its bytes: when it is UTF-8, and when
#: it is some legacy encoding, of which every byte string is one.
MAX_CONTROL, MAX_CONTROL_LEGACY = 0.1, 0.002
#: Media types that say nothing about the content.
_GENERIC = {"application/octet-stream", "binary/octet-stream", "application/x-download", ""}

_CONTROL = bytes(c for c in range(32) if c not in (8, 9, 10, 11, 12, 13, 27)) + b"\x7f"
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Atomic groups: comments without an end must not make the search exponential.
_HTML = re.compile(
    rb"\s*+(?:<\?xml[^>]*\?>\s*+)?(?>(?:<!--(?>.*?-->)\s*+)*)<(?:!doctype\s+html|html|head|body)\b",
    re.I | re.S,
)
_JATS = re.compile(
    rb"<!DOCTYPE\s+article\b[^>]*(?:JATS|NLM//DTD|archivearticle|journalpublish)", re.I
)
_LATEX = re.compile(rb"^\s*\\(?:documentclass|documentstyle)\b", re.M)
_HEADER = re.compile(rb"([A-Za-z][A-Za-z0-9-]*):[ \t]?[^\r\n]*\r?\n(?:[ \t]+[^\r\n]*\r?\n)*")
_MAIL_STRONG = {b"message-id", b"received", b"mime-version", b"return-path", b"delivered-to"}
_MAIL_USUAL = {b"from", b"to", b"subject", b"date"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileType:
    """What a file was recognised as."""

    #: E.g. "application/pdf".
    media_type: str
    #: Short name of the converter's branch: "pdf", "docx", "md", "text", "code", "image", …
    format: str


def sniff(path: Path, *, name: str, declared: str | None = None) -> FileType:
    """What the file at `path` is.

    Args:
        path: the bytes.
        name: the name the content goes by, whose suffix is the last resort.
        declared: the media type somebody gave, e.g. an HTTP header; parameters are ignored.

    Raises:
        UnsupportedFormat: binary content that is no known document.
        DocumentCorrupt: a container whose directory cannot be read, or content that proves
            nothing under a suffix that promises a binary document.
        DocumentEncrypted: a container under a password.
        SourceUnreadable: the file cannot be opened.
    """
    stated = (declared or "").partition(";")[0].strip().lower()
    stated = "" if stated in _GENERIC else stated
    try:
        head, tail = _ends(path)
        found = _by_content(path, head, tail, name, stated)
    except OSError as error:
        raise SourceUnreadable(f"{name} cannot be read: {error.strerror or error}") from error
    broken = suffixes.promises_binary(name) and bool(head)
    if found is not None and not (broken and found.format in ("text", "code")):
        return found
    kind = "plain text" if found else _describe(head)
    if broken:
        raise DocumentCorrupt(
            f"{name} is {kind}, not what its suffix promises; get a whole copy, or rename it"
        )
    raise UnsupportedFormat(
        f"{name} is {kind}, which no converter reads; exclude it, or store it in another format"
    )


def forced(declared: str | None, *, name: str) -> FileType:
    """The text format that the caller knows the content to have.

    Raises:
        UnsupportedFormat: the declared type is no text format.
    """
    stated = (declared or "").partition(";")[0].strip().lower()
    if stated not in suffixes.TEXT_TYPES:
        raise UnsupportedFormat(f"{name} cannot be taken for {stated or 'an unnamed type'}")
    return _type(suffixes.TEXT_TYPES[stated])


def _ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        head = file.read(HEAD)
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TAIL))
        return head, file.read(TAIL)


def _by_content(path: Path, head: bytes, tail: bytes, name: str, stated: str) -> FileType | None:
    if _is_pdf(head, tail, name, stated):
        return _type("pdf")
    if head.startswith(containers.OLE_MAGIC):
        ole = containers.ole_format(path, name)
        return None if ole == "ole" else _type(ole)
    if head.startswith(containers.ZIP_MAGIC):
        packed = containers.zip_format(path, name)
        return None if packed in (None, "xlsb") else _type(str(packed))
    text = as_text(head)
    if text is not None:
        return _text_type(text, name, stated)
    return _image(head)


def as_text(head: bytes) -> bytes | None:
    """The beginning of a text as UTF-8 or a legacy ASCII superset; None when it is no text.

    UTF-16 and UTF-32 are recognised by their mark, UTF-16 also by where its zero bytes stand.
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return _wide(head, encoding)
    encoding16 = utf16_encoding(head)
    if encoding16:
        return _wide(head, encoding16)
    head = head.removeprefix(codecs.BOM_UTF8)
    if _valid_utf8(head):
        return None if _too_controlled(head, MAX_CONTROL) else head
    legacy = b"\0" not in head and not _too_controlled(head, MAX_CONTROL_LEGACY)
    return head if legacy else None


def _wide(head: bytes, encoding: str) -> bytes | None:
    unit = 4 if encoding == "utf-32" else 2
    text = head[: len(head) - len(head) % unit].decode(encoding, "replace")
    return None if _junk(text) else text.removeprefix("\ufeff").encode("utf-8", "replace")


def utf16_encoding(head: bytes) -> str | None:
    """ "utf-16-le" or "utf-16-be" for UTF-16 without a mark: zeros at every other place."""
    if len(head) < 8 or head.count(0) < len(head) // 4:
        return None
    even, odd = head[0::2], head[1::2]
    for encoding, empty, full in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if empty.count(0) > 0.6 * len(empty) and full.count(0) < 0.02 * len(full) + 1:
            text = head[: len(head) - len(head) % 2].decode(encoding, "replace")
            if not _junk(text):
                return encoding
    return None


def _valid_utf8(head: bytes) -> bool:
    """Whether it decodes; a character cut off by the end of what was read counts as whole."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD)
    except UnicodeDecodeError:
        return False
    return True


def _too_controlled(head: bytes, share: float) -> bool:
    count = len(head) - len(head.translate(None, _CONTROL))
    return count > share * len(head) + 2 or count * 2 > len(head)


def _junk(text: str) -> bool:
    bad = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\t\n\r\f\v"))
    return bad > 0.05 * len(text)


def _is_pdf(head: bytes, tail: bytes, name: str, stated: str) -> bool:
    place = head[:1024].find(b"%PDF-")
    if place < 0:
        return False
    structured = re.search(rb"\d+\s+\d+\s+obj\b", head) or b"startxref" in tail
    promised = stated == "application/pdf" or name.lower().endswith(".pdf")
    return bool(structured) or (place == 0 and (promised or as_text(head) is None))


def _text_type(head: bytes, name: str, stated: str) -> FileType:
    """The kind of text: what its first lines prove, else declared, else suffix, else plain."""
    language = suffixes.language_of(name)
    promised = _promised(name, stated)
    proven = _proven_text(head, promised)
    if proven and not (proven in ("html", "latex") and (language or promised == "md")):
        return _type(proven)
    if promised:
        return _type(promised)
    if language or head.lstrip()[:5] == b"<?xml":
        return _type("code")
    return _type("text")


def _promised(name: str, stated: str) -> str | None:
    """The text format declared, else that of the suffix. "text/plain" declares nothing: servers
    say it of every file they do not know."""
    declared = suffixes.TEXT_TYPES.get(stated)
    return suffixes.text_format_of(name) if declared in (None, "text") else declared


def _proven_text(head: bytes, promised: str | None) -> str | None:
    start = head.lstrip()
    if start.startswith(b"{\\rtf"):
        return "rtf"
    if re.match(rb"WEBVTT(?:[ \t\r\n]|$)", start):
        return "vtt"
    if _HTML.match(head):
        return "html"
    if _JATS.search(head[:4096]):
        return "jats"
    mail = _mail(head, promised)
    if mail:
        return mail
    return "latex" if _LATEX.search(head) else None


def _mail(head: bytes, promised: str | None) -> str | None:
    """A message, or a web page saved as one, by the header it begins with."""
    fields: set[bytes] = set()
    at = 0
    while match := _HEADER.match(head, at):
        fields.add(match[1].lower())
        at = match.end()
    saved = b"snapshot-content-location" in fields or b"From: <Saved by" in head[:at]
    if saved or (promised == "mhtml" and b"content-type" in fields):
        return "mhtml"
    strong = fields & _MAIL_STRONG and fields & (_MAIL_USUAL | {b"content-type"})
    ended = at == len(head) or head[at : at + 1] in (b"\n", b"\r")
    return "email" if strong and ended else None


def _image(head: bytes) -> FileType | None:
    """A picture by its signature and the structure behind it."""
    for media_type, check in _IMAGES:
        if check(head):
            return FileType(media_type=media_type, format="image")
    return None


def _is_bmp(head: bytes) -> bool:
    if head[:2] != b"BM" or len(head) < 26:
        return False
    offset, header = struct.unpack_from("<II", head, 10)
    return header in (12, 40, 52, 56, 64, 108, 124) and 26 <= offset < 1 << 20


_IMAGES = (
    ("image/png", lambda h: h.startswith(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", lambda h: h.startswith(b"\xff\xd8\xff")),
    ("image/gif", lambda h: h[:6] in (b"GIF87a", b"GIF89a")),
    ("image/tiff", lambda h: h[:4] in (b"II*\0", b"MM\0*")),
    ("image/webp", lambda h: h[:4] == b"RIFF" and h[8:12] == b"WEBP"),
    ("image/bmp", _is_bmp),
)


def _describe(head: bytes) -> str:
    """What a binary seems to be, for the message.

    A signature of a few zero bytes, or of a container that many programs share, says nothing.
    """
    import puremagic

    if not head.strip(b"\0"):
        return "nothing but zero bytes"
    if head.startswith(containers.OLE_MAGIC):
        return "a damaged or truncated OLE file, or one of an unknown program"
    if head.startswith(containers.ZIP_MAGIC):
        return "a zip archive of no known document format"
    try:
        matches = puremagic.magic_string(head)
    except (puremagic.PureError, ValueError):
        return "binary content of no known type"
    named = next((m for m in matches if m.name and m.confidence >= 0.4), None)
    return f"binary content ({named.name})" if named else "binary content of no known type"


def _type(format_: str) -> FileType:
    return FileType(media_type=suffixes.MEDIA_TYPES[format_], format=format_)
