"""Characters and words: cleaning, joining across line ends, and what the start of a line says."""

import re
import unicodedata
from collections.abc import Container

_LIGATURES = {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}
#: Symbol and Wingdings bullets that text layers keep in the private use area.
_PRIVATE_BULLETS = (0xF06C, 0xF06E, 0xF075, 0xF076, 0xF0A7, 0xF0A8, 0xF0B7, 0xF0D8, 0xF0E0, 0xF0FC)

_CLEAN: dict[int, str | None] = {
    **dict.fromkeys([*range(0x00, 0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]),
    **dict.fromkeys(range(0xE000, 0xF900)),
    **dict.fromkeys(range(0xD800, 0xE000)),
    0x09: " ",
    0x0A: " ",
    0xA0: " ",
    0x200B: None,
    0xFEFF: None,
    0xFFFD: None,
    0xFFFE: None,
    0xFFFF: None,
    **_LIGATURES,
    **dict.fromkeys(_PRIVATE_BULLETS, "•"),
}
#: What docling-parse writes for a glyph without a known character.
_GLYPH = re.compile(r"GLYPH<[^>]*>|\(cid:\d+\)")
_LEADERS = re.compile(r"(?:\s*[.·…_]){5,}\s*")

HYPHENS = "-\u00ad\u2010"
_TERMINAL = tuple(".!?:;。！？：；…")
_CLOSING = "\"'”’)]»」』）"

BULLET = re.compile(r"[•‣◦▪▫●○■□◆◇►▶➢➤✓✔❖⁃∙·*–—-](?=\s|$)")
_BARE_BULLET = re.compile(r"[•‣◦▪▫●○■□◆◇►▶➢➤✓✔❖⁃∙]")
ENUMERATOR = re.compile(
    r"(?:\((?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})\)|(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)])(?=\s|$)"
)
NUMBERING = re.compile(r"(?:(\d{1,3}(?:\.\d{1,3}){0,4})\.?|([A-Z](?:\.\d{1,3}){1,4})\.?)\s+(?=\S)")
CHAPTER = re.compile(r"(?:chapter|part|appendix|kapitel|teil|anhang|chapitre|annexe)\s+\w+\b", re.I)
CAPTION = re.compile(
    r"(?:figure|fig\.|table|tab\.|chart|listing|exhibit|abbildung|abb\.|tabelle|figura|tabla|"
    r"tableau|图|圖|表|図)\s*(?:\d|[A-Z]\.?\d|[IVX]+\b)",
    re.I,
)
NOTE = re.compile(r"(?:\[?\d{1,3}[\].)]?|[*†‡§¶]{1,3}|[a-z]\))\s*(?=\S)")


def clean(text: str) -> str:
    """The text without control characters, unknown glyphs and presentation ligatures.

    Letters of every script stay as they are; compatibility forms other than Latin ligatures are
    not folded, so that nothing changes its meaning.
    """
    if text.isascii() and text.isprintable() and "GLYPH<" not in text and "(cid:" not in text:
        return text.strip()
    return _GLYPH.sub("", text).translate(_CLEAN).strip()


def wide(character: str) -> bool:
    """Whether the character is of a script written without spaces between words."""
    return character >= "\u1100" and (
        unicodedata.east_asian_width(character) in "WF" and not "\uac00" <= character <= "\ud7a3"
    )


def ends_sentence(text: str) -> bool:
    """Whether the text ends where a sentence may end."""
    return text.rstrip(_CLOSING).endswith(_TERMINAL)


def continues(before: str, after: str) -> bool:
    """Whether a sentence plainly runs on from one piece of text into the next."""
    if not before or not after or ends_sentence(before):
        return False
    first = after.lstrip("(\"'“‘«")[:1]
    if before[-1] in HYPHENS:
        return first.isalpha()
    return first.islower() or (wide(before[-1]) and bool(first) and wide(first))


def join(before: str, after: str, words: Container[str]) -> str:
    """Two pieces of a paragraph as one text.

    A hyphen at the line's end goes when the joined word is better known than its halves:
    `words` holds the lower-case words of the whole document. In doubt between two words that both
    occur by themselves the hyphen stays ("well-known").
    """
    if not before or not after:
        return before + after
    if before[-1] in HYPHENS and len(before) > 1 and before[-2].isalpha():
        return _join_hyphen(before, after, words)
    if wide(before[-1]) and wide(after[0]):
        return before + after
    return f"{before} {after}"


def _join_hyphen(before: str, after: str, words: Container[str]) -> str:
    if not after[0].isalpha():
        return f"{before} {after}" if before[-1] == "-" else before + after
    if before[-1] == "\u00ad":
        return before[:-1] + after
    if not after[0].islower():
        return before + after
    head = re.findall(r"[^\W\d_]+(?=.$)", before)[-1].lower()
    tail = re.match(r"[^\W\d_]+", after)
    rest = tail.group().lower() if tail else ""
    compound = re.search(r"\w-\w*-$", before) is not None
    if head + rest in words:
        return before[:-1] + after
    if f"{head}-{rest}" in words or compound or (head in words and rest in words):
        return before + after
    return before[:-1] + after


def vocabulary(text: str) -> list[str]:
    """The lower-case words of one line, without a last one that is broken off."""
    words = [word.strip(".,;:!?()[]\"'“”‘’").lower() for word in text.split()]
    if text[-1:] in HYPHENS:
        words.pop()
    return [word for word in words if len(word) > 1]


def without_leaders(text: str) -> str:
    """Rows of dots that lead the eye to a page number, shortened."""
    return _LEADERS.sub(" … ", text) if "..." in text or ". . ." in text or "…" in text else text


def has_leaders(text: str) -> bool:
    """Whether the line leads to a page number, as in a table of contents."""
    return bool(re.search(r" … [\divxlc]+$", without_leaders(text)))


def marker(text: str) -> str | None:
    """The bullet or number that a list item starts with, or None."""
    match = BULLET.match(text) or _BARE_BULLET.match(text) or ENUMERATOR.match(text)
    return match.group() if match else None


def is_plain_bullet(text: str) -> bool:
    """Whether a line starts with a bullet that nothing else begins with (no dash or star)."""
    return _BARE_BULLET.match(text) is not None


def plain_title(words: str) -> str:
    """A heading without its number, spaces and punctuation, for comparison."""
    words = NUMBERING.sub("", words, count=1)
    return re.sub(r"[\W_]+", "", words).casefold()


def is_bullet(mark: str) -> bool:
    """Whether a marker is a bullet rather than a number or letter."""
    return not any(character.isalnum() for character in mark)


def masked(text: str) -> str:
    """The text with its numbers masked: equal for "Page 3 of 9" and "Page 4 of 9"."""
    return re.sub(r"\d+", "#", text.casefold()).strip()
