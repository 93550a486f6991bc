"""How files are converted, as plain data that is cheap to import and to pickle."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from haiku.rag.convert import models
from haiku.rag.exceptions import ConfigError

if TYPE_CHECKING:
    from haiku.rag.config.models import ProcessingConfig

_log = logging.getLogger(__name__)

#: Raised whenever our own part of a conversion gives other text, items or titles than before.
REVISION = 2

#: Bytes below which an archive is never called a bomb, however well it packs.
RATIO_FLOOR = 64_000_000

#: Distributions whose versions decide what a conversion gives.
_PARSERS = ("docling-slim", "docling-core", "docling-parse")

PdfPipeline = Literal["native", "docling"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertOptions:
    """What a conversion may be told. Made from the configuration by `from_config`."""

    #: Our own pipeline, or Docling's full one with its models.
    pdf_pipeline: PdfPipeline = "native"
    #: The declared type is certain: the content is not looked at.
    forced: bool = False
    #: Bytes that an archive's members may have together when unpacked.
    max_unpacked: int = 2_000_000_000
    #: Unpacked size over packed size; above it, and `RATIO_FLOOR`, an archive is a bomb.
    max_ratio: float = 200.0
    #: Members of an archive.
    max_members: int = 20_000

    @classmethod
    def from_config(cls, config: ProcessingConfig, *, forced: bool = False) -> ConvertOptions:
        """The options that `processing` asks for.

        `pdf_pipeline: docling` is taken at its word: models that went since the start are no
        matter before a PDF comes, and then `ModelsUnavailable`.
        """
        asked = config.pdf_pipeline
        return cls(
            forced=forced,
            pdf_pipeline=choose_pdf_pipeline(config) if asked == "auto" else asked,
            max_unpacked=max(4 * config.max_file_size, RATIO_FLOOR),
        )


def choose_pdf_pipeline(config: ProcessingConfig) -> PdfPipeline:
    """The PDF pipeline that runs under this configuration.

    Raises:
        ConfigError: `docling` is asked for, and its extra or its models are not there.
    """
    if config.pdf_pipeline == "native":
        return "native"
    lacking = models.lacking()
    if lacking is None:
        return "docling"
    if config.pdf_pipeline == "docling":
        raise ConfigError(f"processing.pdf_pipeline is docling, but {lacking}")
    return "native"


def settle(config: ProcessingConfig) -> ProcessingConfig:
    """The configuration with the PDF pipeline that runs in the place of `auto`.

    Decided once, so that workers and the fingerprint agree whatever happens to the models later.
    That models lack though their extra is installed is said in the log.

    Raises:
        ConfigError: as `choose_pdf_pipeline`.
    """
    chosen = choose_pdf_pipeline(config)
    if config.pdf_pipeline == "auto" and chosen == "native" and models.installed():
        _log.warning("PDF files are read by the native pipeline: %s", models.lacking())
    return config.model_copy(update={"pdf_pipeline": chosen})


def pipeline_version(config: ProcessingConfig) -> str:
    """What converts under this configuration, for the pipeline fingerprint.

    Two equal strings give equal documents for equal bytes. Nothing heavy is imported.

    Raises:
        ConfigError: as `choose_pdf_pipeline`.
    """
    pdf = choose_pdf_pipeline(config)
    names = (*_PARSERS, "docling-ibm-models") if pdf == "docling" else _PARSERS
    versions = ",".join(f"{name}={models.version(name) or '-'}" for name in names)
    return f"convert={REVISION};pdf={pdf};{versions}"
