"""Documents to chunks: what is embedded, searched and quoted.

In: a `DoclingDocument`, the `processing` section, the embedder's tokenizer and limit. Out:
`NewChunk`s in reading order. Rules:

- the text that is embedded (headings and content) never counts more tokens than the limit,
  special tokens included; headings that are too long are shortened there, from the outside, and
  nowhere else;
- nothing of the body is lost but blanks where a text is cut; furniture is not chunked;
- the cost grows with the size of the document, whatever its lines, tables and words are like;
- it runs in a worker process and needs no network.

`chunk_document` imports Docling, this package alone does not.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

    from haiku.rag.config.models import ProcessingConfig
    from haiku.rag.embed.protocol import Tokenizer
    from haiku.rag.records import NewChunk

__all__ = ["chunk_document", "chunker_version"]

#: Raised whenever the same document would give other chunks.
VERSION = 1


def chunk_document(
    document: DoclingDocument,
    *,
    processing: ProcessingConfig,
    tokenizer: Tokenizer,
    max_tokens: int,
) -> list[NewChunk]:
    """The document's chunks, in reading order; none when it has no text.

    Args:
        document: what a converter made.
        processing: `chunk_size`, `chunker_type` and `table_format` are used.
        tokenizer: counts as the embedder does, special tokens included.
        max_tokens: the embedder's limit; the lower of it and `chunk_size` holds.
    """
    from haiku.rag.chunk.blocks import blocks
    from haiku.rag.chunk.pack import Packer

    limit = min(processing.chunk_size, max_tokens)
    packer = Packer(tokenizer, limit, join=processing.chunker_type == "hybrid")
    return list(packer.chunks(blocks(document, processing.table_format)))


def chunker_version(processing: ProcessingConfig) -> str:
    """What, of this package and its settings, decides how a document is chunked.

    Part of the pipeline fingerprint; imports nothing.
    """
    return (
        f"chunk {VERSION}, docling-core {metadata.version('docling-core')}, "
        f"{processing.chunker_type}, {processing.chunk_size}, {processing.table_format}"
    )
