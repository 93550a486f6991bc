"""Titles: what the document says of itself, else its first heading; never the file's name."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import yaml

from haiku.rag.convert import clean, containers

if TYPE_CHECKING:
    from pathlib import Path

    from docling_core.types.doc.document import DoclingDocument

#: Characters of a title at most.
MAX_TITLE = 300

_HTML_TITLE = re.compile(r"<title\b[^>]*>(.*?)</title\s*>", re.I | re.S)
_TAG = re.compile(r"<[^<>]*>")
_TEX_TITLE = re.compile(r"\\title\s*(?:\[[^\]]*\])?\s*\{")
_TEX_COMMAND = re.compile(r"\\[A-Za-z@]+\*?\s*|[{}~]|\\\\")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
#: What programs write into a title field when nobody gave a title.
_EMPTY_TITLES = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel)\b.*|untitled.*|unbenannt.*|sans titre.*|"
    r"(?:document|slide|presentation|powerpoint presentation|title|blank page)\s*\d*|"
    r".*\.(?:docx?|pptx?|xlsx?|pdf|indd|qxd|tex|dvi|odt|rtf|html?|txt|cdr|ai|p65|fm))",
    re.I,
)


def tidy(title: str | None) -> str | None:
    """A stated title as one line without control characters; None when a program made it up."""
    line = _line(title or "")
    return None if len(line or "") < 2 or _EMPTY_TITLES.fullmatch(line or "") else line


def _line(text: str) -> str | None:
    return " ".join(clean.clean_text(text).split())[:MAX_TITLE].strip() or None


def first_heading(document: DoclingDocument) -> str | None:
    """The text of the first title item, else of the first section header."""
    heading = None
    for item in document.texts:
        if item.label.value == "title" and item.text.strip():
            return _line(item.text)
        if heading is None and item.label.value == "section_header" and item.text.strip():
            heading = item.text
    return _line(heading or "")


def of_html(text: str) -> str | None:
    """The `<title>` of a page's head."""
    match = _HTML_TITLE.search(text[:200_000])
    return tidy(html.unescape(_TAG.sub(" ", match[1]))) if match else None


def of_latex(text: str) -> str | None:
    r"""The argument of `\title`, without its commands."""
    match = _TEX_TITLE.search(text[:200_000])
    if not match:
        return None
    depth, end = 1, match.end()
    while end < len(text) and depth and end - match.end() < 2_000:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    plain = re.sub(r"\\([&%$#_])", r"\1", text[match.end() : end - 1])
    return tidy(_TEX_COMMAND.sub(" ", plain))


def front_matter(text: str) -> tuple[str, str]:
    """Markdown's YAML front matter and the rest; ("", text) when it has none."""
    match = _FRONT_MATTER.match(text)
    if not match or ":" not in match[1]:
        return "", text
    return match[1], text[match.end() :]


def of_front_matter(matter: str) -> str | None:
    """The `title` key of YAML front matter, when it is a text."""
    try:
        data = yaml.safe_load(matter)
    except yaml.YAMLError:
        return None
    title = data.get("title") if isinstance(data, dict) else None
    return tidy(str(title)) if isinstance(title, str | int | float) else None


def of_container(path: Path, format_: str) -> str | None:
    """The title among an office document's or a book's properties."""
    if format_ in ("docx", "pptx", "xlsx"):
        return _dc_title(containers.read_member(path, "docProps/core.xml"))
    if format_ in ("odt", "ods", "odp"):
        return _dc_title(containers.read_member(path, "meta.xml"))
    if format_ == "epub":
        package = _attribute(containers.read_member(path, "META-INF/container.xml"), "full-path")
        return _dc_title(containers.read_member(path, package)) if package else None
    return None


def _root(xml: bytes | None) -> Any:
    from lxml import etree

    if not xml:
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(xml, parser)
    except etree.XMLSyntaxError:
        return None


def _dc_title(xml: bytes | None) -> str | None:
    root = _root(xml)
    if root is None:
        return None
    found = root.find(".//{http://purl.org/dc/elements/1.1/}title")
    return None if found is None else tidy("".join(found.itertext()))


def _attribute(xml: bytes | None, name: str) -> str | None:
    root = _root(xml)
    if root is None:
        return None
    return next((str(e.get(name)) for e in root.iter() if e.get(name)), None)
