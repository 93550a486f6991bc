"""PDF → DoclingDocument without models, from what the PDF itself holds.

In go the words, vector lines and image boxes that docling-parse decodes, one page at a time; out
comes a document with reading order, paragraphs, headings with levels, lists, tables, captions,
footnotes, code, and running headers and footers apart, with page and box on every item.

The way through: `backend` opens the file, `reading` reduces each page (`segments`, `rules`,
`fonts`) to `page.Page`, `assemble` then looks at the whole: `furniture` is taken out, `layout`
puts each page in order (`tables`, `columns`, `paragraphs`), `headings` and `roles` say what each
block is.

Rules: no text of the text layer is lost, whatever the structure; boxes are in one frame, the page
as shown (crop box and rotation applied), until they leave as docling's, with the origin at the
bottom left; units are points (1/72 inch). Only `backend`, `pipeline` and `assemble` import docling.
"""

from typing import Any


def pdf_format_option(*, password: str | None = None, timeout: float | None = None) -> Any:
    """The option for `DocumentConverter(format_options={InputFormat.PDF: ...})`.

    Converting raises `DocumentEncrypted` or `DocumentCorrupt` for a file that cannot be opened; a
    document with some damaged pages comes back as a partial success. `timeout` is in seconds.
    """
    from docling.datamodel.backend_options import PdfBackendOptions
    from docling.datamodel.pipeline_options import NativePdfPipelineOptions
    from docling.document_converter import FormatOption
    from pydantic import SecretStr

    from haiku.rag.convert.pdf.backend import PdfBackend
    from haiku.rag.convert.pdf.pipeline import PdfPipeline

    return FormatOption(
        pipeline_cls=PdfPipeline,
        backend=PdfBackend,
        pipeline_options=NativePdfPipelineOptions(
            document_timeout=timeout, generate_page_images=False, generate_picture_images=False
        ),
        backend_options=PdfBackendOptions(password=SecretStr(password) if password else None),
    )
