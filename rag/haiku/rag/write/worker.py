"""What runs inside a conversion worker: convert, chunk, serialise.

Everything that comes back is plain data, so the parent process never imports Docling.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from haiku.rag.config.models import AppConfig, EmbeddingModelConfig
from haiku.rag.write.prepared import Prepared

if TYPE_CHECKING:
    from docling_core.types.doc.document import DoclingDocument

    from haiku.rag.embed.protocol import Tokenizer
    from haiku.rag.records import NewChunk


def prepare_file(
    path: str, name: str, declared: str | None, config: AppConfig, forced: bool = False
) -> Prepared:
    """Convert and chunk the file at `path`.

    Args:
        path: local file.
        name: the document's own file name, for its type by suffix.
        declared: media type that a server or a caller declared.
        config: the configuration.
        forced: take `declared` for certain, without looking at the bytes.

    Raises:
        ConvertError: any of its tree.
    """
    from haiku.rag.convert.local import ConvertOptions, convert_file

    converted = convert_file(
        Path(path),
        name=name,
        declared=declared,
        options=ConvertOptions.from_config(config.processing, forced=forced),
    )
    return _prepared(
        converted.document,
        config,
        title=converted.title,
        content_type=converted.media_type,
        warnings=tuple(converted.warnings),
    )


def prepare_packed(packed: bytes, config: AppConfig, title: str | None) -> Prepared:
    """Chunk a document that was converted elsewhere and packed; without a title it gets its own."""
    from haiku.rag.convert.serialize import unpack
    from haiku.rag.convert.titles import first_heading

    document = unpack(packed)
    return _prepared(document, config, title=title or first_heading(document))


def convert_only(
    path: str, name: str, declared: str | None, config: AppConfig, forced: bool = False
) -> bytes:
    """Convert the file at `path`, and pack the document."""
    from haiku.rag.convert.local import ConvertOptions, convert_file
    from haiku.rag.convert.serialize import pack

    options = ConvertOptions.from_config(config.processing, forced=forced)
    return pack(convert_file(Path(path), name=name, declared=declared, options=options).document)


def chunk_packed(packed: bytes, config: AppConfig) -> "list[NewChunk]":
    """The chunks of a packed document."""
    from haiku.rag.convert.serialize import unpack

    return _chunk(unpack(packed), config)


def warm_up(config: AppConfig) -> None:
    """Import what the first document would otherwise wait for."""
    from haiku.rag.convert import local

    local.warm_up()
    _tokenizer(config.embeddings.model)


def _prepared(
    document: "DoclingDocument",
    config: AppConfig,
    *,
    title: str | None,
    content_type: str | None = None,
    warnings: tuple[str, ...] = (),
) -> Prepared:
    from haiku.rag.convert.serialize import pack, to_items, to_markdown

    return Prepared(
        title=title,
        content_type=content_type,
        content=to_markdown(document),
        docling=pack(document),
        items=tuple(to_items(document)),
        chunks=tuple(_chunk(document, config)),
        warnings=warnings,
    )


def _chunk(document: "DoclingDocument", config: AppConfig) -> "list[NewChunk]":
    from haiku.rag.chunk import chunk_document
    from haiku.rag.embed import max_tokens

    return chunk_document(
        document,
        processing=config.processing,
        tokenizer=_tokenizer(config.embeddings.model),
        max_tokens=max_tokens(config.embeddings.model),
    )


@lru_cache(maxsize=1)
def _tokenizer(model: EmbeddingModelConfig) -> "Tokenizer":
    """One tokenizer a worker; loading it costs more than a small document."""
    from haiku.rag.embed import load_tokenizer

    return load_tokenizer(model)
