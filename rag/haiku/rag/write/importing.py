"""Documents and chunks that were made elsewhere."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from haiku.rag import ids
from haiku.rag.exceptions import EmbedderRefused
from haiku.rag.models import Chunk
from haiku.rag.records import NewChunk
from haiku.rag.store.changes import Put, Row
from haiku.rag.write.prepared import Prepared
from haiku.rag.write.session import taken

if TYPE_CHECKING:
    from typing import Any, Protocol

    import numpy as np
    from docling_core.types.doc.document import DoclingDocument
    from numpy.typing import NDArray

    from haiku.rag.write.session import TextFormat, WriteSession

    class ImportItem(Protocol):
        """What `HaikuRAG.import_documents` takes."""

        @property
        def document(self) -> DoclingDocument: ...
        @property
        def chunks(self) -> Sequence[Chunk] | None: ...
        @property
        def uri(self) -> str | None: ...
        @property
        def title(self) -> str | None: ...
        @property
        def metadata(self) -> dict[str, Any] | None: ...


async def import_all(
    session: "WriteSession", items: "Sequence[ImportItem]"
) -> list[tuple[Row, str]]:
    """Store ready-made documents in one commit; returns rows and contents in order.

    Raises:
        DocumentExists: a URI is taken, in the database or twice in `items`; nothing is stored.
    """
    await _refuse_taken(session, [item.uri for item in items if item.uri])
    puts = await asyncio.gather(*(_put(session, item) for item in items))
    outcomes = await session.store.commit(puts, whole=True)
    rows = []
    for put, outcome in zip(puts, outcomes, strict=True):
        if outcome.result == "conflict":
            raise taken(put.uri)
        if outcome.row is not None:
            rows.append((outcome.row, put.revision.content))
    return rows


async def replace_chunks(
    session: "WriteSession",
    row: Row,
    content: str | None,
    chunks: Sequence[Chunk] | None,
    text_format: "TextFormat",
) -> "tuple[Prepared, NDArray[np.float32] | None]":
    """What a document becomes with new text, new chunks, or both."""
    if content is not None:
        prepared = await session.prepare_text(content, text_format)
    else:
        snapshot = await session.store.snapshot()
        prepared = Prepared(
            title=row.title,
            content_type=row.content_type,
            content=await snapshot.content(row),
            docling=await snapshot.docling(row),
            items=tuple(await snapshot.items(row)),
            chunks=(),
        )
    return await _with_chunks(session, prepared, chunks)


def own_chunk(chunk: Chunk) -> NewChunk:
    """A chunk of the caller's as the store takes it: embedded with its headings before it."""
    return NewChunk(
        content=chunk.content,
        text="\n".join([*chunk.headings, chunk.content]),
        headings=tuple(chunk.headings),
        labels=tuple(chunk.labels),
        page_numbers=tuple(chunk.page_numbers),
        doc_item_refs=tuple(chunk.doc_item_refs),
        metadata=chunk.metadata,
    )


async def _put(session: "WriteSession", item: "ImportItem") -> Put:
    from haiku.rag.convert.serialize import pack

    packed = await asyncio.to_thread(pack, item.document)
    prepared = await session.writer.prepare_packed(packed, title=item.title)
    prepared, vectors = await _with_chunks(session, prepared, item.chunks)
    document_id = ids.new_id()
    return await session.change(
        item.uri or f"urn:uuid:{document_id}",
        prepared,
        document_id=document_id,
        metadata=item.metadata,
        vectors=vectors,
    )


async def _with_chunks(
    session: "WriteSession", prepared: Prepared, chunks: Sequence[Chunk] | None
) -> "tuple[Prepared, NDArray[np.float32] | None]":
    """The document with chunks of the caller's and their vectors; as it is when there are none."""
    if chunks is None:
        return prepared, None
    own = tuple(own_chunk(chunk) for chunk in chunks)
    return dataclasses.replace(prepared, chunks=own), await _vectors(session, chunks, own)


async def _vectors(
    session: "WriteSession", given: Sequence[Chunk], own: Sequence[NewChunk]
) -> "NDArray[np.float32]":
    """The given embeddings, and new ones for the chunks without."""
    import numpy as np

    dim = session.store.identity.dim
    result = np.empty((len(own), dim), dtype=np.float32)
    without = [place for place, chunk in enumerate(given) if chunk.embedding is None]
    for place, chunk in enumerate(given):
        if chunk.embedding is not None:
            if len(chunk.embedding) != dim:
                raise EmbedderRefused(
                    f"the embedding of chunk {place} has {len(chunk.embedding)} numbers; "
                    f"this database holds vectors of {dim}"
                )
            result[place] = chunk.embedding
    if without:
        result[without] = await session.writer.vectors([own[place] for place in without])
    return result


async def _refuse_taken(session: "WriteSession", uris: Sequence[str]) -> None:
    doubled = {uri for uri in uris if uris.count(uri) > 1}
    stored = doubled or set(await (await session.store.snapshot()).by_uris(list(uris)))
    if stored:
        raise taken(sorted(stored)[0])
