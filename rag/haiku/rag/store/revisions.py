"""The rows of a revision in the three appended tables, as Arrow and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from haiku.rag import ids
from haiku.rag.exceptions import IdentityMismatch
from haiku.rag.records import Box, NewItem
from haiku.rag.store import schema, sql
from haiku.rag.store.info import StoredChunk
from haiku.rag.store.records import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from haiku.rag.records import EmbeddingIdentity, NewChunk
    from haiku.rag.store.changes import NewRevision

#: The columns of a `StoredChunk` without its vector.
CHUNK_COLUMNS = tuple(f for f in schema.chunks(1).names if f not in ("vector", "text_hash"))


class Rows:
    """Rows of several revisions being gathered, one Arrow table a Lance table."""

    def __init__(self, identity: EmbeddingIdentity) -> None:
        self._identity = identity
        self._columns: dict[str, dict[str, list[Any]]] = {
            schema.DOCUMENTS: {name: [] for name in schema.documents().names},
            schema.ITEMS: {name: [] for name in schema.items().names},
            schema.CHUNKS: {n: [] for n in schema.chunks(1).names if n != "vector"},
        }
        self._vectors: list[NDArray[np.float32]] = []

    def add(self, document_id: str, name: str, revision: NewRevision) -> None:
        """Add the rows of a revision under the name `name`."""
        key = {"document_id": document_id, "revision": name}
        self._put(
            schema.DOCUMENTS, content=sql.clean(revision.content), docling=revision.docling, **key
        )
        for order, item in enumerate(revision.items):
            self._put(schema.ITEMS, order=order, **_item_columns(item), **key)
        for order, chunk in enumerate(revision.chunks):
            self._put(schema.CHUNKS, order=order, **self._chunk_columns(chunk), **key)
        self._vectors.append(revision.vectors.reshape(len(revision.chunks), self._identity.dim))

    def tables(self) -> dict[str, pa.Table]:
        """The gathered rows by table name."""
        dim = self._identity.dim
        flat = np.concatenate([v.ravel() for v in self._vectors] or [np.empty(0, np.float32)])
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dim)
        chunks = {**self._columns[schema.CHUNKS], "vector": vectors}
        return {
            schema.DOCUMENTS: pa.table(self._columns[schema.DOCUMENTS], schema.documents()),
            schema.ITEMS: pa.table(self._columns[schema.ITEMS], schema.items()),
            schema.CHUNKS: pa.table(chunks, schema.chunks(dim)),
        }

    def _put(self, table: str, **values: Any) -> None:
        for name, column in self._columns[table].items():
            column.append(values[name])

    def _chunk_columns(self, chunk: NewChunk) -> dict[str, Any]:
        return {
            "id": ids.new_id(),
            "content": sql.clean(chunk.content),
            "text": sql.clean(chunk.text),
            "text_hash": self._identity.text_hash(chunk.text),
            "headings": _cleaned(chunk.headings),
            "labels": _cleaned(chunk.labels),
            "page_numbers": list(chunk.page_numbers),
            "doc_item_refs": _cleaned(chunk.doc_item_refs),
            "token_count": chunk.token_count,
            "metadata": dump_json(chunk.metadata),
        }


def check_vectors(uri: str, revision: NewRevision, identity: EmbeddingIdentity) -> None:
    """Refuse vectors that do not belong to the chunks or the database.

    Raises:
        IdentityMismatch: the vectors have another length than the database's.
        ValueError: not one finite vector a chunk.
    """
    vectors = revision.vectors
    if not len(revision.chunks) and not vectors.size:
        return
    if vectors.ndim != 2 or len(vectors) != len(revision.chunks):
        raise ValueError(
            f"{uri}: {len(revision.chunks)} chunks need as many vectors, not {vectors.shape}"
        )
    if vectors.shape[1] != identity.dim:
        raise IdentityMismatch(
            f"{uri}: vectors of length {vectors.shape[1]} do not fit a database of {identity}; "
            "embed with that model"
        )
    if not np.isfinite(vectors).all():
        raise ValueError(f"{uri}: a vector holds NaN or infinity; embed the document again")


def _cleaned(texts: Iterable[str]) -> list[str]:
    return [sql.clean(text) for text in texts]


def _item_columns(item: NewItem) -> dict[str, Any]:
    return {
        "ref": sql.clean(item.ref),
        "label": item.label,
        "layer": item.layer,
        "level": item.level,
        "text": sql.clean(item.text),
        "heading_ref": item.heading_ref and sql.clean(item.heading_ref),
        "boxes": [
            {"page": b.page, "left": b.left, "top": b.top, "right": b.right, "bottom": b.bottom}
            for b in item.boxes
        ],
    }


def load_item(data: Mapping[str, Any]) -> NewItem:
    """An element of the columns of `document_items`."""
    values = {k: data[k] for k in ("ref", "label", "layer", "level", "text", "heading_ref")}
    return NewItem(**values, boxes=tuple(Box(**box) for box in data["boxes"] or ()))


def load_chunk(data: Mapping[str, Any]) -> StoredChunk:
    """A chunk of `CHUNK_COLUMNS`, and its vector where that was read."""
    vector = data.get("vector")
    return StoredChunk(
        **{name: data[name] for name in CHUNK_COLUMNS if name != "metadata"},
        metadata=json.loads(data["metadata"] or "{}"),
        vector=None if vector is None else np.asarray(vector, np.float32),
    )


def load_chunks(table: pa.Table) -> Sequence[StoredChunk]:
    """All chunks of a table of `CHUNK_COLUMNS`, with or without `vector`."""
    return [load_chunk(data) for data in table.to_pylist()]
