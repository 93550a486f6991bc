"""Docling's models for its full PDF pipeline: where they are, and what is lacking.

They are weights that a model hub serves. Nothing is ever downloaded while documents are converted:
a person fetches them once with Docling's own command, and what is not there is said at the start.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

#: What `docling-tools models download` calls a model → a file of it below the models' folder.
NEEDED = {
    "layout": "docling-project--docling-layout-heron/preprocessor_config.json",
    "tableformer": (
        "docling-project--docling-models/model_artifacts/tableformer/accurate/tm_config.json"
    ),
    "rapidocr": "RapidOcr",
}


def installed() -> bool:
    """Whether the extra `models` is."""
    return version("docling") is not None


def folder() -> Path:
    """Where Docling's models are: DOCLING_ARTIFACTS_PATH, else where its command puts them."""
    named = os.environ.get("DOCLING_ARTIFACTS_PATH")
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("DOCLING_CACHE_DIR") or "~/.cache/docling"
    return Path(cache).expanduser() / "models"


def lacking() -> str | None:
    """What keeps Docling's full pipeline from running and what to do, or None."""
    if not installed():
        return (
            "Docling's full pipeline is not installed: pip install 'haiku-rag-core[models]', "
            "then fetch its models, or set processing.pdf_pipeline to native"
        )
    place = folder()
    missing = [name for name, file in NEEDED.items() if not (place / file).exists()]
    if not missing:
        return None
    return (
        f"Docling's models {', '.join(missing)} are not in {place}: fetch them once with "
        f"`docling-tools models download {' '.join(missing)} -o {place}`, name their folder in "
        "DOCLING_ARTIFACTS_PATH, or set processing.pdf_pipeline to native"
    )


def version(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
