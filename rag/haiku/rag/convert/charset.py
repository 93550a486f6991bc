"""Bytes → text, never mojibake in silence.

The order is that of the WHATWG encoding standard: a byte order mark, the declared charset, a
charset the content names itself, then detection. Every text that is not what it was declared to
be, or had to be guessed, comes with a warning.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from haiku.rag.convert import sniff
from haiku.rag.exceptions import DocumentCorrupt

#: Bytes that detection looks at.
SAMPLE = 200_000
#: Labels that people write for what is really its superset (WHATWG encoding standard, §4.2).
_SUPERSETS = {
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "iso-8859-9": "cp1254",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
}
#: What is guessed among: the legacy encodings that files are found in.
_GUESSED = (
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256",
    "cp932", "euc_jp", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.I)
#: `<meta charset=x>`, `<meta … content="…charset=x">`, `<?xml … encoding="x"?>`, `# coding: x`.
_IN_CONTENT = re.compile(
    rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)"
    rb"|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]+)"
    rb"|^(?:[^\n]*\n)?[^\n]{0,80}?coding[:=][ \t]*([A-Za-z0-9_.:-]+)",
    re.I,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Text and how it was read."""

    text: str
    #: Python codec name.
    encoding: str
    #: What a reader should know: a wrong declaration, a guess, bytes that were replaced.
    warnings: tuple[str, ...] = ()


def decode(raw: bytes, *, name: str, declared: str | None = None, markup: bool = False) -> Decoded:
    """The text of `raw`, line ends as "\\n".

    Args:
        raw: the whole content.
        name: for messages.
        declared: a media type that may carry `charset=`.
        markup: look for a charset that the content names itself.

    Raises:
        DocumentCorrupt: no encoding fits.
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return _read(raw[len(mark) :], encoding, ())
    warnings: list[str] = []
    for label, origin in _candidates(raw, declared, markup):
        text = _try(raw, label)
        if text is not None:
            return _result(text, label, tuple(warnings))
        warnings.append(f"{origin} charset {label!r} does not fit the bytes")
    wide = sniff.utf16_encoding(raw[: sniff.HEAD])
    if wide:
        return _read(raw, wide, tuple(warnings))
    text = _try(raw, "utf-8")
    if text is not None:
        return _result(text, "utf-8", tuple(warnings))
    return _detect(raw, name, warnings)


def _candidates(raw: bytes, declared: str | None, markup: bool) -> list[tuple[str, str]]:
    found = []
    match = _DECLARED.search(declared or "")
    if match:
        found.append((match[1].lower(), "the declared"))
    inside = _IN_CONTENT.search(raw[:4096]) if markup else None
    if inside:
        label = next(group for group in inside.groups() if group).decode("ascii").lower()
        # UTF-16 named in bytes that could be read as ASCII cannot be true (WHATWG HTML, 13.2.3.2).
        found.append(("utf-8" if label.startswith("utf-16") else label, "the document's own"))
    return found


def _try(raw: bytes, label: str) -> str | None:
    try:
        return raw.decode(_SUPERSETS.get(label, label))
    except (UnicodeDecodeError, LookupError):
        return None


def _detect(raw: bytes, name: str, warnings: list[str]) -> Decoded:
    damaged = raw.decode("utf-8", "replace")
    if _mostly_utf8(raw, damaged):
        count = damaged.count("\ufffd")
        warnings.append(f"{count} damaged UTF-8 sequences were replaced by U+FFFD")
        return _result(damaged, "utf-8", tuple(warnings))
    guess = _guess(raw)
    if guess is None:
        raise DocumentCorrupt(
            f"the text encoding of {name} cannot be determined; store it as UTF-8, "
            "or declare a charset"
        )
    warnings.append(f"no charset was declared; read as {guess} by its bytes")
    return _read(raw, guess, tuple(warnings))


def _guess(raw: bytes) -> str | None:
    """The encoding the bytes look like. Western European wins where several Latin ones fit."""
    from charset_normalizer import from_bytes

    matches = from_bytes(raw[:SAMPLE], cp_isolation=list(_GUESSED), preemptive_behaviour=False)
    best = matches.best()
    if best is None:
        return "cp1252" if _try(raw, "cp1252") is not None else None
    latin = best.encoding in ("cp1250", "cp1254")
    western = latin and any("cp1252" in match.could_be_from_charset for match in matches)
    return "cp1252" if western else best.encoding


def _mostly_utf8(raw: bytes, damaged: str) -> bool:
    """Damage in UTF-8, as opposed to another encoding: most other characters are well formed."""
    well_formed = sum(1 for c in damaged if c >= "\x80" and c != "\ufffd")
    return well_formed > 3 * damaged.count("\ufffd") and len(raw) > 0


def _read(raw: bytes, encoding: str, warnings: tuple[str, ...]) -> Decoded:
    text = raw.decode(encoding, "replace")
    lost = text.count("\ufffd")
    if lost:
        warnings = (*warnings, f"{lost} characters that are not {encoding} became U+FFFD")
    return _result(text, encoding, warnings)


def _result(text: str, encoding: str, warnings: tuple[str, ...]) -> Decoded:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Decoded(text=text, encoding=_SUPERSETS.get(encoding, encoding), warnings=warnings)
