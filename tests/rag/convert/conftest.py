"""Small real files of every format, made by the libraries people make them with."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rag.convert import outlook

from haiku.rag.convert import ConvertOptions


def _docx() -> bytes:
    from docx import Document

    document = Document()
    document.core_properties.title = "Annual Plan"
    document.add_heading("Goals", 1)
    document.add_paragraph("Plant forty oak trees.")
    table = document.add_table(2, 2)
    for at, text in enumerate(("tree", "count", "oak", "40")):
        table.cell(at // 2, at % 2).text = text
    document.add_heading("Budget", 2)
    document.add_paragraph("Two hundred euros.")
    return _saved(document.save)


def _pptx() -> bytes:
    from pptx import Presentation

    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Oak Review"
    slide.placeholders[1].text = "Forty trees stand."
    return _saved(deck.save)


def _xlsx() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    book.properties.title = "Tree Ledger"
    for row in (["tree", "count"], ["oak", 40], ["ash", 2.5]):
        book.active.append(row)
    return _saved(book.save)


def _odf(kind: str) -> bytes:
    from odfdo import Document, DrawPage, Element, Frame, Header, Paragraph, Table

    document = Document({"odt": "text", "ods": "spreadsheet", "odp": "presentation"}[kind])
    document.body.clear()
    document.meta.title = "Open Trees"
    if kind == "odt":
        parts: list[Element] = [Header(1, "Open Heading"), Paragraph("Forty oak trees.")]
    elif kind == "ods":
        table = Table("Trees")
        table.set_values([["tree", "count"], ["oak", 40]])
        parts = [table]
    else:
        page = DrawPage("page1", name="One")
        page.append(
            Frame.text_frame("Forty oak trees.", size=("7cm", "5cm"), position=("1cm", "1cm"))
        )
        parts = [page]
    for part in parts:
        document.body.append(part)
    return _saved(document.save)


def _epub() -> bytes:
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:'
            'container"><rootfiles><rootfile full-path="O/p.opf"/></rootfiles></container>',
            "O/p.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc='
            '"http://purl.org/dc/elements/1.1/"><metadata><dc:title>Book of Oaks</dc:title>'
            '</metadata><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
            '</manifest><spine><itemref idref="a"/></spine></package>',
            "O/a.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>Chapter</h1>'
            "<p>Forty oak trees.</p></body></html>",
        }
    )


def _pdf(**options: str) -> bytes:
    from reportlab.pdfgen import canvas

    buffer = io.BytesIO()
    page = canvas.Canvas(buffer, **options)
    page.setTitle("Oak Report")
    page.drawString(72, 700, "Forty oak trees stand here.")
    page.save()
    return buffer.getvalue()


def _png() -> bytes:
    from PIL import Image

    return _saved(lambda buffer: Image.new("RGB", (96, 48), "green").save(buffer, "PNG"))


def zipped(members: dict[str, str | bytes]) -> bytes:
    """A zip archive of the members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


_TEXTS = {
    "md": "# Oaks\n\nForty *oak* trees.\n\n## Care\n\n- water\n- light\n\n"
    "|tree|count|\n|-|-|\n|oak|40|\n",
    "html": "<html><head><title>Oak Page</title></head><body><p>Before it all.</p><h1>Oaks</h1>"
    "<p>Forty oak trees.</p></body></html>",
    "adoc": "= Oak Manual\n\n== Care\n\nForty oak trees.\n\n* water\n* light\n",
    "csv": "tree,count\noak,40\nash,2\n",
    "txt": "Forty oak trees.\n\nThey stand.\n",
    "vtt": "WEBVTT\n\n00:00.000 --> 00:02.000\nForty oak trees.\n",
    "tex": "\\documentclass{article}\n\\title{Oak \\textbf{Paper}}\n\\begin{document}\n"
    "\\maketitle\n"
    "\\section{Care}\nForty oak trees.\n\\end{document}\n",
    "eml": "From: Ann <ann@example.org>\nTo: bob@example.org\nSubject: Oak news\n"
    "Date: Mon, 1 Jan 2024 10:00:00 +0000\nMessage-ID: <1@example.org>\nMIME-Version: 1.0\n"
    "Content-Type: text/plain; charset=utf-8\n\nForty oak trees.\n",
    "mhtml": "From: <Saved by Browser>\nSubject: Oak\nMIME-Version: 1.0\n"
    'Content-Type: multipart/related; type="text/html"; boundary="b"\n\n--b\n'
    "Content-Type: text/html; charset=utf-8\nContent-Location: https://example.org/\n\n"
    "<html><body><h1>Oaks</h1><p>Forty oak trees.</p></body></html>\n--b--\n",
    "nxml": '<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal '
    'Archiving and Interchange DTD v1.2 20190208//EN" "JATS-archivearticle1.dtd"><article>'
    "<front><article-meta><title-group><article-title>Oak Study</article-title></title-group>"
    "</article-meta></front><body><sec><title>Care</title><p>Forty oak trees.</p></sec></body>"
    "</article>",
    "py": "import os\n\n\ndef oak() -> int:\n    # Forty oak trees.\n    return 40\n",
}


@pytest.fixture(scope="session")
def samples() -> dict[str, bytes]:
    """Suffix → a good file of that format. All but the picture say "Forty" or "oak"."""
    made = {suffix: text.encode() for suffix, text in _TEXTS.items()}
    made |= {kind: _odf(kind) for kind in ("odt", "ods", "odp")}
    made |= {"docx": _docx(), "pptx": _pptx(), "xlsx": _xlsx(), "epub": _epub()}
    made["msg"] = outlook.message("Oak news", "Forty oak trees.\r\n\r\nThey stand.")
    return made | {"pdf": _pdf(), "png": _png()}


@pytest.fixture(scope="session")
def locked_pdf() -> bytes:
    """A PDF that opens with a password only."""
    return _pdf(encrypt="secret")


@pytest.fixture(scope="session")
def make_zip() -> Callable[[dict[str, str | bytes]], bytes]:
    return zipped


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[bytes], Path]:
    """Bytes under a name that says nothing, as a spool stores them."""

    def store(content: bytes) -> Path:
        path = tmp_path / "spooled"
        path.write_bytes(content)
        return path

    return store


@pytest.fixture
def convert(stored):
    """Convert bytes that go by a name."""
    from haiku.rag.convert import local

    def run(content: bytes, name: str, declared: str | None = None, **options) -> local.Converted:
        return local.convert_file(
            stored(content), name=name, declared=declared, options=ConvertOptions(**options)
        )

    return run
