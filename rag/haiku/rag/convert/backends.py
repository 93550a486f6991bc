"""Docling's backends, one a format, imported when the first file of that format comes.

Docling's `DocumentConverter` imports every backend at once and guesses the format again; going to
the backend directly starts a worker in half the time and lets no error hide in a status.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docling.backend.abstract_backend import DeclarativeDocumentBackend


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """Where a format's backend is and what it is told."""

    #: Docling's name of the format, a value of `InputFormat`.
    input_format: str
    module: str
    name: str
    #: Class of its options in `docling.datamodel.backend_options`, or "" for the defaults.
    options: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


#: Format → backend. HTML keeps what stands before the first heading: dropping it loses content.
BACKENDS = {
    "docx": Backend(input_format="docx", module="msword_backend", name="MsWordDocumentBackend"),
    "pptx": Backend(
        input_format="pptx", module="mspowerpoint_backend", name="MsPowerpointDocumentBackend"
    ),
    "xlsx": Backend(input_format="xlsx", module="msexcel_backend", name="MsExcelDocumentBackend"),
    "odt": Backend(input_format="odt", module="opendocument_backend", name="OdtDocumentBackend"),
    "ods": Backend(input_format="ods", module="opendocument_backend", name="OdsDocumentBackend"),
    "odp": Backend(input_format="odp", module="opendocument_backend", name="OdpDocumentBackend"),
    "epub": Backend(input_format="epub", module="epub_backend", name="EpubDocumentBackend"),
    "md": Backend(input_format="md", module="md_backend", name="MarkdownDocumentBackend"),
    "asciidoc": Backend(input_format="asciidoc", module="asciidoc_backend", name="AsciiDocBackend"),
    "csv": Backend(input_format="csv", module="csv_backend", name="CsvDocumentBackend"),
    "latex": Backend(input_format="latex", module="latex_backend", name="LatexDocumentBackend"),
    "vtt": Backend(input_format="vtt", module="webvtt_backend", name="WebVTTDocumentBackend"),
    "jats": Backend(input_format="xml_jats", module="xml.jats_backend", name="JatsDocumentBackend"),
    "email": Backend(
        input_format="email",
        module="email_backend",
        name="EmailDocumentBackend",
        options="EmailBackendOptions",
        settings={"list_attachments": True},
    ),
    "html": Backend(
        input_format="html",
        module="html_backend",
        name="HTMLDocumentBackend",
        options="HTMLBackendOptions",
        settings={"infer_furniture": False},
    ),
    "mhtml": Backend(
        input_format="mhtml",
        module="html_backend",
        name="HTMLDocumentBackend",
        options="HTMLBackendOptions",
        settings={"infer_furniture": False},
    ),
}
BACKENDS["msg"] = BACKENDS["email"]


def backend_class(backend: Backend) -> type[DeclarativeDocumentBackend]:
    """The backend's class, imported now if it was not before."""
    module = importlib.import_module(f"docling.backend.{backend.module}")
    found: type[DeclarativeDocumentBackend] = getattr(module, backend.name)
    return found


def backend_options(backend: Backend) -> Any:
    """The backend's options, or None for its defaults. Nothing is ever fetched by default."""
    if not backend.options:
        return None
    module = importlib.import_module("docling.datamodel.backend_options")
    return getattr(module, backend.options)(**backend.settings)
