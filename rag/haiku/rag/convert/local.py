"""One file → one `DoclingDocument`. Runs in worker processes; the first file pays the imports."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docling_core.types.doc.base import Size
from docling_core.types.doc.common.content_layer import ContentLayer
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import CodeLanguageLabel

from haiku.rag.convert import (
    backends,
    charset,
    clean,
    containers,
    depth,
    markup,
    paged,
    plain,
    sniff,
    suffixes,
    titles,
)
from haiku.rag.convert.options import ConvertOptions
from haiku.rag.exceptions import (
    ConvertError,
    DocumentCorrupt,
    DocumentEncrypted,
    SourceUnreadable,
    UnsupportedFormat,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from haiku.rag.convert.sniff import FileType

#: Warnings kept of one conversion.
MAX_WARNINGS = 20
#: Levels of nesting of a document; no person writes more.
MAX_DEPTH = 60
#: Formats that are recognised and need a program that is not here.
_NEEDS_OFFICE = {"rtf": "RTF", "doc": "Word 97", "ppt": "PowerPoint 97", "xls": "Excel 97"}
#: Text formats that are read as plain text, with a warning, when their own parser gives up.
_READABLE = {"md", "asciidoc", "latex", "csv", "html", "vtt", "jats"}
_ARCHIVES = {"docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"}
#: Edges longer than this are not points but EMU (914,400 an inch), as PowerPoint counts.
_LONGEST_PAGE = 20_000.0
_EMU_PER_POINT = 12_700.0


@dataclass(kw_only=True, slots=True)
class Converted:
    """What became of a file."""

    document: DoclingDocument
    #: What the document says of itself, else its first heading, else None.
    title: str | None
    media_type: str
    #: What a reader should know: a guessed charset, pages that failed, a parser that gave up.
    warnings: list[str] = field(default_factory=list)


def convert_file(
    path: str | Path, *, name: str, declared: str | None = None, options: ConvertOptions
) -> Converted:
    """Convert the file at `path`.

    Args:
        path: the bytes.
        name: the name they go by: its suffix is evidence, and messages name it.
        declared: a media type with parameters, e.g. "text/html; charset=iso-8859-1".
        options: how to convert.

    Raises:
        UnsupportedFormat: no converter takes the content.
        DocumentCorrupt: damaged, truncated, or a bomb.
        DocumentEncrypted: a password is needed.
        SourceTooLarge: an archive that unpacks to too much.
        SourceUnreadable: the file cannot be read.
    """
    path = Path(path)
    if options.forced:
        kind = sniff.forced(declared, name=name)
    else:
        kind = sniff.sniff(path, name=name, declared=declared)
    with _noted() as notes:
        try:
            title, document = _convert(path, kind, name, declared, options, notes)
        except OSError as error:
            raise SourceUnreadable(f"{name} cannot be read: {error.strerror or error}") from error
        _named(document, name)
        clean.clean_document(document)
        _to_points(document)
    return Converted(
        document=document,
        title=title or titles.first_heading(document),
        media_type=kind.media_type,
        warnings=notes[:MAX_WARNINGS],
    )


def warm_up() -> None:
    """Import what the commonest formats need, by converting a line of each."""
    for format_, text in (("md", "# a\n\nb\n"), ("html", "<p>a")):
        _by_backend(text.encode(), format_, "warm")


def _convert(
    path: Path,
    kind: FileType,
    name: str,
    declared: str | None,
    options: ConvertOptions,
    notes: list[str],
) -> tuple[str | None, DoclingDocument]:
    if path.stat().st_size == 0:
        return None, DoclingDocument(name=_stem(name))
    if kind.format in _NEEDS_OFFICE:
        raise UnsupportedFormat(
            f"{name} is a {_NEEDS_OFFICE[kind.format]} file, which needs LibreOffice to be read; "
            "install LibreOffice, or save it as docx, pptx or xlsx"
        )
    if kind.format == "pdf":
        return paged.convert_pdf(path, name, options, notes)
    if kind.format == "image":
        return None, paged.convert_image(path, name)
    if kind.format in _ARCHIVES:
        containers.check_archive(path, name, options)
        title = titles.of_container(path, kind.format)
        return title, _by_backend(path.read_bytes(), kind.format, name)
    raw = path.read_bytes()
    if kind.format in ("email", "mhtml", "msg"):
        return None, _by_backend(raw, kind.format, name)
    names_itself = kind.format in ("html", "jats") or raw[:5] == b"<?xml"
    decoded = charset.decode(raw, name=name, declared=declared, markup=names_itself)
    notes.extend(decoded.warnings)
    return _from_text(clean.clean_text(decoded.text), kind.format, name, notes)


def _from_text(
    text: str, format_: str, name: str, notes: list[str]
) -> tuple[str | None, DoclingDocument]:
    """A document from decoded text, and the title it names itself."""
    if not text.strip():
        return None, DoclingDocument(name=_stem(name))
    if format_ == "text":
        return None, plain.text_document(text, _stem(name))
    if format_ == "code":
        language = suffixes.language_of(name) or "XML"
        return None, plain.code_document(text, _stem(name), language)
    title, matter = _explicit_title(text, format_), ""
    if format_ == "md":
        matter, text = titles.front_matter(text)
        title = titles.of_front_matter(matter)
    document = _parse_text(text, format_, name, notes)
    if matter:
        document.add_code(
            text=matter, code_language=CodeLanguageLabel.YAML, content_layer=ContentLayer.FURNITURE
        )
    return title, document


def _explicit_title(text: str, format_: str) -> str | None:
    if format_ == "html":
        return titles.of_html(text)
    return titles.of_latex(text) if format_ == "latex" else None


def _parse_text(text: str, format_: str, name: str, notes: list[str]) -> DoclingDocument:
    if plain.too_wide(text) and format_ in ("md", "asciidoc", "latex"):
        notes.append(f"a line is longer than {plain.MAX_LINE:,} characters: read as plain text")
        return plain.text_document(text, _stem(name))
    if depth.too_deep(text, format_):
        notes.append("it nests deeper than a parser should be asked to follow: read as plain text")
        return plain.text_document(markup.text_of(text) if format_ == "html" else text, _stem(name))
    try:
        # The mark keeps a charset that the page names from being believed again.
        return _by_backend(text.encode("utf-8-sig"), format_, name)
    except DocumentCorrupt as error:
        if format_ not in _READABLE:
            raise
        notes.append(f"read as plain text, because {error}")
        return plain.text_document(markup.text_of(text) if format_ == "html" else text, _stem(name))


def _by_backend(raw: bytes, format_: str, name: str) -> DoclingDocument:
    """What Docling's backend makes of the bytes.

    Raises:
        DocumentCorrupt: it refused them or failed on them.
    """
    from docling.datamodel.base_models import InputFormat
    from docling.datamodel.document import InputDocument, get_input_rejection_cause

    backend = backends.BACKENDS[format_]
    try:
        source = InputDocument(
            path_or_stream=BytesIO(raw),
            format=InputFormat(backend.input_format),
            backend=backends.backend_class(backend),
            backend_options=backends.backend_options(backend),
            filename=f"{_stem(name)}.{format_}",
        )
        if not source.valid:
            raise get_input_rejection_cause(source) or ValueError("not a valid document")
        return _run(source)
    except (ConvertError, ImportError, MemoryError):
        raise
    # Parsers raise anything at all on hostile bytes; whatever it is, these bytes are no document.
    except Exception as error:
        raise _failure(error, format_, name) from error


def _run(source: Any) -> DoclingDocument:
    backend = source._backend
    try:
        document: DoclingDocument = backend.convert()
        if _too_deep(document):
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
        return document
    finally:
        backend.unload()


def _too_deep(document: DoclingDocument) -> bool:
    """Whether serialisers, which recurse, would run out of stack."""
    level = [document.body.children, document.furniture.children]
    for _ in range(MAX_DEPTH):
        level = [ref.resolve(document).children for refs in level for ref in refs]
        if not level:
            return False
    return True


def _failure(error: BaseException, format_: str, name: str) -> ConvertError:
    """The error of our tree for one of a parser's."""
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 4:
        if isinstance(cause, ConvertError):
            return cause
        chain.append(str(cause) or type(cause).__name__)
        cause = cause.__cause__
    said = " ".join(chain).lower()
    if "password" in said or "encrypted" in said:
        return DocumentEncrypted(f"{name} is protected by a password; save a copy without it")
    return DocumentCorrupt(
        f"{name} cannot be read as {format_}: {_short(chain[-1])}; it is damaged or truncated"
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _named(document: DoclingDocument, name: str) -> None:
    """The document's own name, not that of the file its bytes waited in."""
    document.name = _stem(name)
    if document.origin is not None:
        document.origin.filename = clean.clean_text(name.rsplit("/", 1)[-1]) or document.name


def _to_points(document: DoclingDocument) -> None:
    """Bring pages and boxes that a backend gave in EMU to points."""
    emu = {no for no, page in document.pages.items() if page.size.width > _LONGEST_PAGE}
    if not emu:
        return
    for no in emu:
        size = document.pages[no].size
        document.pages[no].size = Size(
            width=size.width / _EMU_PER_POINT, height=size.height / _EMU_PER_POINT
        )
    layers = set(ContentLayer)
    for item, _ in document.iterate_items(traverse_pictures=True, included_content_layers=layers):
        for place in getattr(item, "prov", ()):
            if place.page_no in emu:
                place.bbox = place.bbox.scaled(1 / _EMU_PER_POINT)


def _stem(name: str) -> str:
    base = clean.clean_text(name.rsplit("/", 1)[-1])
    return Path(base).stem or "document"


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect what parsers log or warn about, instead of letting it reach any stream."""
    notes: list[str] = []
    handler = _Notes(notes)
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield notes
    finally:
        root.handlers[:] = before


class _Notes(logging.Handler):
    """Keeps the messages of warnings, once each."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        line = _short(record.getMessage())
        if line not in self._notes and len(self._notes) < MAX_WARNINGS:
            self._notes.append(line)


__all__ = ["ConvertOptions", "Converted", "convert_file", "warm_up"]
