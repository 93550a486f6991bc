"""Formats of pages: PDF through a pipeline that is built once a process, and single pictures."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from docling_core.types.doc.base import BoundingBox, CoordOrigin, Size
from docling_core.types.doc.common.reference import ProvenanceItem
from docling_core.types.doc.document import DoclingDocument

from haiku.rag.convert import models, titles
from haiku.rag.exceptions import (
    ConvertError,
    DocumentCorrupt,
    DocumentEncrypted,
    ModelsUnavailable,
)

if TYPE_CHECKING:
    from pathlib import Path

    from haiku.rag.convert.options import ConvertOptions, PdfPipeline

#: Pixels of a picture at most; more is a bomb.
MAX_PIXELS = 200_000_000
#: Points an inch over pixels an inch, when a picture does not say its resolution.
_POINTS_PER_PIXEL = 72 / 96


def convert_pdf(
    path: Path, name: str, options: ConvertOptions, notes: list[str]
) -> tuple[str | None, DoclingDocument]:
    """A PDF by the pipeline of the options, with its title. Pages that failed become notes.

    Raises:
        DocumentEncrypted: it cannot be opened without a password.
        DocumentCorrupt: it cannot be opened, has no pages, or every page failed.
        ModelsUnavailable: Docling's full pipeline cannot be started.
    """
    from docling.datamodel.base_models import ConversionStatus, InputFormat
    from docling.datamodel.document import InputDocument, get_input_rejection_cause

    title = _probe(path, name)
    option, pipeline = _pipeline(options.pdf_pipeline)
    try:
        source = InputDocument(
            path_or_stream=path,
            format=InputFormat.PDF,
            backend=option.backend,
            backend_options=option.backend_options,
            filename=path.name,
        )
        if not source.valid:
            raise get_input_rejection_cause(source) or ValueError("no page can be read")
        result = pipeline.execute(source, raises_on_error=True)
    except (ImportError, MemoryError):
        raise
    # Parsers raise anything at all on hostile bytes; whatever it is, these bytes are no document.
    except Exception as error:
        raise _failure(path, name, error) from error
    if result.status not in (ConversionStatus.SUCCESS, ConversionStatus.PARTIAL_SUCCESS):
        raise _corrupt(name, "; ".join(e.error_message for e in result.errors) or "no page")
    notes.extend(error.error_message for error in result.errors)
    document: DoclingDocument = result.document
    return title, document


def convert_image(path: Path, name: str) -> DoclingDocument:
    """A document of one picture on one page; what it shows is not read.

    Raises:
        DocumentCorrupt: no picture, a truncated one, or one of too many pixels.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise DocumentCorrupt(f"{name} has {width}×{height} pixels: refused as a bomb")
            image.load()
    except UnidentifiedImageError as error:
        raise DocumentCorrupt(f"{name} is no picture, or is damaged or truncated") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DocumentCorrupt(f"{name} cannot be read as a picture: {error}") from error
    size = Size(width=width * _POINTS_PER_PIXEL, height=height * _POINTS_PER_PIXEL)
    box = BoundingBox(l=0, t=0, r=size.width, b=size.height, coord_origin=CoordOrigin.TOPLEFT)
    document = DoclingDocument(name="picture")
    document.add_page(page_no=1, size=size)
    document.add_picture(prov=ProvenanceItem(page_no=1, bbox=box, charspan=(0, 0)))
    return document


@cache
def _pipeline(kind: PdfPipeline) -> tuple[Any, Any]:
    """Docling's format option and the pipeline made from it: one a process and kind."""
    if kind == "native":
        from haiku.rag.convert.pdf import pdf_format_option

        return _built(pdf_format_option())
    lacking = models.lacking()
    if lacking is not None:
        raise ModelsUnavailable(lacking)
    try:
        return _built(_full_format_option())
    except MemoryError:
        raise
    # torch, transformers and Docling raise anything when one of them or a weight is not whole.
    except Exception as error:
        raise ModelsUnavailable(
            f"Docling's full PDF pipeline cannot be started: {' '.join(str(error).split())}; "
            f"install it and its models in {models.folder()} again, or set "
            "processing.pdf_pipeline to native"
        ) from error


def _built(option: Any) -> tuple[Any, Any]:
    return option, option.pipeline_cls(pipeline_options=option.pipeline_options)


def _full_format_option() -> Any:
    from docling.datamodel.pipeline_options import PdfPipelineOptions
    from docling.document_converter import PdfFormatOption

    # With a folder named, Docling downloads nothing.
    return PdfFormatOption(pipeline_options=PdfPipelineOptions(artifacts_path=str(models.folder())))


def _probe(path: Path, name: str) -> str | None:
    """The title in the information dictionary.

    Raises:
        DocumentEncrypted: a password is needed.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise _locked(name) from error
        # Docling's parser reads files that this one does not; it has the last word.
        return None
    try:
        return titles.tidy(document.get_metadata_value("Title"))
    finally:
        document.close()


def _failure(path: Path, name: str, error: BaseException) -> ConvertError:
    """The error of our tree for whatever the pipeline raised, naming the document."""
    cause: BaseException | None = error
    last = error
    while cause is not None:
        if isinstance(cause, DocumentEncrypted):
            return _locked(name)
        if isinstance(cause, ConvertError):
            return type(cause)(str(cause).replace(path.name, name))
        last, cause = cause, cause.__cause__
    return _corrupt(name, last)


def _locked(name: str) -> DocumentEncrypted:
    return DocumentEncrypted(f"{name} is protected by a password; save a copy without it")


def _corrupt(name: str, reason: object) -> DocumentCorrupt:
    line = " ".join(str(reason).split())[:200]
    return DocumentCorrupt(f"{name} cannot be read as PDF: {line}; it is damaged or truncated")
