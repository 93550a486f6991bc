"""From a source's section of the configuration to the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.ingester.sources.fs import FolderSource

if TYPE_CHECKING:
    from haiku.ingester.config import FilesystemSource
    from haiku.ingester.sources.protocol import Source


def open_source(config: FilesystemSource, *, max_file_size: int) -> Source:
    """The source that a section describes. Nothing is read yet; `check` says whether it is there.

    Args:
        config: the section.
        max_file_size: bytes, when the section sets no limit of its own.
    """
    return FolderSource(config, max_file_size=max_file_size)
