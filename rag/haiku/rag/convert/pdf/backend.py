"""The PDF opened for reading: docling-parse for content, PDFium for what it does not tell."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from docling.backend.pdf_backend import PdfDocumentBackend, PdfPageBackend
from docling.datamodel.backend_options import PdfBackendOptions
from docling.utils.locks import pypdfium2_lock
from docling_parse import pdf_parsers

from haiku.rag import exceptions
from haiku.rag.convert.pdf import fonts, reading
from haiku.rag.convert.pdf.headings import Bookmark
from haiku.rag.convert.pdf.page import Page

_KEY = "document"


class PdfBackend(PdfDocumentBackend):  # type: ignore[misc]
    """A PDF whose pages are read one at a time, in order, without rendering.

    Raises `DocumentEncrypted` when a password is needed and `DocumentCorrupt` when the bytes are
    not a readable PDF, both on opening.
    """

    def __init__(
        self, in_doc: Any, path_or_stream: BytesIO | Path, options: PdfBackendOptions | None = None
    ) -> None:
        super().__init__(in_doc, path_or_stream, options or PdfBackendOptions())
        self._name = in_doc.file.name
        secret = self.options.password
        self._password = secret.get_secret_value() if secret else None
        self._parser = pdf_parsers.pdf_parser(level="fatal")
        self._pdfium: Any | None = None
        #: PDFium refuses the file, docling-parse could repair it; known once pages are read.
        self.damaged = False
        if not self._load():
            self._refuse()
        self._count: int = self._parser.number_of_pages(_KEY)

    def _load(self) -> bool:
        if isinstance(self.path_or_stream, BytesIO):
            self.path_or_stream.seek(0)
            return bool(
                self._parser.load_document_from_bytesio(
                    key=_KEY,
                    bytes_io=self.path_or_stream,
                    password=self._password,
                    keep_qpdf_warnings=False,
                )
            )
        return bool(
            self._parser.load_document(
                key=_KEY,
                filename=str(self.path_or_stream).encode(),
                password=self._password,
                keep_qpdf_warnings=False,
            )
        )

    def _refuse(self) -> None:
        """Say why the document did not load."""
        import pypdfium2.raw as pdfium

        code = self._open_pdfium()
        self._close_pdfium()
        if code == pdfium.FPDF_ERR_PASSWORD:
            raise exceptions.DocumentEncrypted(
                f"{self._name} is protected by a password; remove the protection and add it again"
            )
        raise exceptions.DocumentCorrupt(
            f"{self._name} is not a readable PDF (damaged, cut off, or another type of file)"
        )

    def _open_pdfium(self) -> int | None:
        """Open the document in PDFium as well; returns PDFium's error code if it cannot."""
        import pypdfium2

        with pypdfium2_lock:
            try:
                self._pdfium = pypdfium2.PdfDocument(self.path_or_stream, password=self._password)
            except pypdfium2.PdfiumError as error:
                return int(error.err_code or 0)
        return None

    def _close_pdfium(self) -> None:
        if self._pdfium is not None:
            with pypdfium2_lock:
                self._pdfium.close()
            self._pdfium = None

    def is_valid(self) -> bool:
        """Whether the document is open and has pages."""
        return self._parser is not None and self._count > 0

    def page_count(self) -> int:
        """Number of pages."""
        return self._count

    def load_page(self, page_no: int) -> PdfPageBackend:
        """Not offered: pages are read with `read_pages`."""
        raise NotImplementedError("pages of this backend are read with read_pages()")

    def read_pages(self, numbers: list[int]) -> Iterator[tuple[int, Page | Exception]]:
        """The pages of these numbers (from 1), each decoded, reduced and released in turn.

        A page that cannot be decoded is given as the error, and the others go on.
        """
        self.damaged = self._open_pdfium() is not None
        table = fonts.FontTable(self._pdfium)
        config = _config()
        for number in numbers:
            try:
                decoder = self._parser.get_page_decoder(key=_KEY, page=number - 1, config=config)
                if decoder is None:
                    raise exceptions.DocumentCorrupt(f"page {number} of {self._name} is damaged")
                with pypdfium2_lock:
                    page: Page | Exception = reading.read(number, decoder, table)
            except (RuntimeError, ValueError, exceptions.DocumentCorrupt) as error:
                page = error
            finally:
                self._parser.unload_document_page(_KEY, number - 1)
            yield number, page
        self._close_pdfium()

    def outline(self) -> list[Bookmark]:
        """The PDF's bookmarks in document order; empty without any."""
        annotations = self._parser.get_annotations(_KEY) or {}
        found: list[Bookmark] = []
        _flatten(annotations.get("table_of_contents") or [], 0, found)
        return found

    def unload(self) -> None:
        """Release the document."""
        self._close_pdfium()
        if self._parser is not None:
            self._parser.unload_document(_KEY)
            self._parser = None
        super().unload()


def _config() -> Any:
    """What to decode: words, shapes and the places of images; no pixels, no lines of its own."""
    config = pdf_parsers.DecodePageConfig()
    config.page_boundary = "crop_box"
    config.keep_char_cells = True
    config.create_word_cells = True
    config.create_line_cells = False
    config.keep_shapes = True
    config.keep_bitmaps = True
    config.extract_bitmap_pixels = False
    return config


def _flatten(entries: list[dict[str, Any]], depth: int, found: list[Bookmark]) -> None:
    for entry in entries:
        title = (entry.get("title") or "").strip()
        page = (entry.get("destination") or {}).get("page_no")
        if title:
            found.append(Bookmark(title, depth, page))
        _flatten(entry.get("children") or [], depth + 1, found)
