"""The docling pipeline: reads the pages one by one and assembles the document."""

import time
from pathlib import Path
from typing import Any

from docling.datamodel.base_models import (
    ConversionStatus,
    DoclingComponentType,
    ErrorItem,
    FailureCategory,
)
from docling.datamodel.base_models import Page as DoclingPage
from docling.pipeline.base_pipeline import get_expected_page_nos
from docling.pipeline.native_pdf_pipeline import NativePdfPipeline
from docling_core.types.doc.base import Size
from docling_core.types.doc.common.origin import DocumentOrigin
from docling_core.types.doc.document import DoclingDocument

from haiku.rag import exceptions
from haiku.rag.convert.pdf import assemble
from haiku.rag.convert.pdf.backend import PdfBackend
from haiku.rag.convert.pdf.page import Page


class PdfPipeline(NativePdfPipeline):  # type: ignore[misc]
    """Docling's native pipeline with structure: no model, no rendering, no image bytes."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the pipeline; what this project raises inside comes out as it is, not wrapped."""
        try:
            return super().execute(*args, **kwargs)
        except RuntimeError as error:
            if isinstance(error.__cause__, exceptions.HaikuRAGError):
                raise error.__cause__ from None
            raise

    def _build_document(self, conv_res: Any) -> Any:
        """Read the pages; a damaged one is recorded and leaves the others standing."""
        backend: PdfBackend = conv_res.input._backend
        numbers = get_expected_page_nos(conv_res)
        self._pages: list[Page] = []
        limit = self.pipeline_options.document_timeout
        started = time.monotonic()
        for number, page in backend.read_pages(numbers):
            if isinstance(page, Page):
                self._pages.append(page)
                width, height = page.frame.width, page.frame.height
                size = Size(width=width, height=height)
                conv_res.pages.append(DoclingPage(page_no=number, size=size))
            else:
                _record(conv_res, f"page {number}: {page}", number)
            conv_res._progress.page_completed(
                number, total_pages=len(numbers), success=isinstance(page, Page)
            )
            if limit is not None and time.monotonic() - started > limit:
                _record(conv_res, f"stopped after {limit:.0f} s at page {number}", number)
                break
        conv_res._progress.fail_unfinished_pages(numbers, total_pages=len(numbers))
        if not self._pages:
            raise exceptions.DocumentCorrupt(f"no page of {conv_res.input.file.name} can be read")
        return conv_res

    def _assemble_document(self, conv_res: Any) -> Any:
        """Turn the pages into a document and let go of them."""
        name = conv_res.input.file.name
        origin = DocumentOrigin(
            mimetype="application/pdf", filename=name, binary_hash=conv_res.input.document_hash
        )
        doc = DoclingDocument(name=Path(name).stem, origin=origin)
        pages, self._pages = self._pages, []
        backend: PdfBackend = conv_res.input._backend
        assemble.fill(doc, pages, backend.outline())
        if backend.damaged:
            if not (doc.texts or doc.tables or doc.pictures):
                raise exceptions.DocumentCorrupt(f"{name} is damaged: nothing in it can be read")
            _record(conv_res, "the file is damaged; what could be read is kept", None)
        conv_res.document = doc
        return conv_res

    @classmethod
    def is_backend_supported(cls, backend: Any) -> bool:
        """Only this package's own backend gives what the pipeline reads."""
        return isinstance(backend, PdfBackend)


def _record(conv_res: Any, message: str, page: int | None) -> None:
    conv_res.errors.append(
        ErrorItem(
            component_type=DoclingComponentType.DOCUMENT_BACKEND,
            module_name=PdfPipeline.__name__,
            error_message=message,
            category=FailureCategory.BACKEND_FAILURE,
            page_no=page,
        )
    )
    conv_res.status = ConversionStatus.PARTIAL_SUCCESS
