"""The five tables: names, columns, indexes, versions."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

#: Version of the layout below. A change of it comes with a step in `migrations`.
SCHEMA_VERSION: Final = 1
#: Lowest schema version a program must know to read, and to write, what this program writes.
MIN_READER: Final = 1
MIN_WRITER: Final = 1

META: Final = "document_meta"
DOCUMENTS: Final = "documents"
CHUNKS: Final = "chunks"
ITEMS: Final = "document_items"
SETTINGS: Final = "settings"

#: The tables that are only appended to.
APPENDED: Final = (DOCUMENTS, ITEMS, CHUNKS)
#: The tables of a snapshot, the one with the commit point first.
READ: Final = (META, *APPENDED)
TABLES: Final = (*READ, SETTINGS)

#: `uri` of the head row; no document has an empty URI.
HEAD: Final = ""

#: Columns with a BTree, by table.
SCALAR_INDEXES: Final = {
    META: ("uri", "id", "revision", "replaced_count"),
    DOCUMENTS: ("revision",),
    CHUNKS: ("revision", "text_hash", "id"),
    ITEMS: ("revision",),
}
#: The full-text index: table and column.
FULL_TEXT: Final = (CHUNKS, "text")
#: English stems, accents folded, every word kept; no positions: phrases are not searched.
FULL_TEXT_OPTIONS: Final = {
    "base_tokenizer": "simple",
    "language": "English",
    "stem": True,
    "ascii_folding": True,
    "lower_case": True,
    "remove_stop_words": False,
    "with_position": False,
    "max_token_length": 80,
}

_TIME = pa.timestamp("us", tz="UTC")
_TEXTS = pa.list_(pa.string())


def meta() -> pa.Schema:
    """`document_meta`: one row a URI, and the head row."""
    return pa.schema(
        [
            pa.field("uri", pa.string(), nullable=False),
            ("id", pa.string()),
            # Empty when the state is not "live".
            ("revision", pa.string()),
            # "live", "deleted" or "head".
            pa.field("state", pa.string(), nullable=False),
            pa.field("row_version", pa.string(), nullable=False),
            ("title", pa.string()),
            # A JSON object; of the head row: the marks of rebuilds.
            ("metadata", pa.string()),
            ("content_type", pa.string()),
            ("content_hash", pa.string()),
            ("fingerprint", pa.string()),
            # A JSON object: source id → mark.
            ("sources", pa.string()),
            ("chunk_count", pa.int32()),
            ("item_count", pa.int32()),
            ("created_at", _TIME),
            ("updated_at", _TIME),
            ("committed_at", _TIME),
            # The versions of the other tables in which the revision's rows were appended.
            ("documents_version", pa.int64()),
            ("items_version", pa.int64()),
            ("chunks_version", pa.int64()),
            # Revisions this row has replaced that are not collected yet, and how many they are.
            ("replaced", _TEXTS),
            ("replaced_count", pa.int32()),
            # Of the head row: revisions being collected, and the number of restores so far.
            ("condemned", _TEXTS),
            ("restore_epoch", pa.int64()),
        ]
    )


def documents() -> pa.Schema:
    """`documents`: the large bytes of a revision, one row each."""
    return pa.schema(
        [
            ("document_id", pa.string()),
            ("revision", pa.string()),
            ("content", pa.large_string()),
            # DoclingDocument as JSON, compressed with zstandard.
            ("docling", pa.large_binary()),
        ]
    )


def chunks(dim: int) -> pa.Schema:
    """`chunks`: the retrieval units of a revision, with vectors of length `dim`."""
    return pa.schema(
        [
            ("id", pa.string()),
            ("document_id", pa.string()),
            ("revision", pa.string()),
            ("order", pa.int32()),
            ("content", pa.string()),
            ("text", pa.string()),
            ("text_hash", pa.string()),
            ("vector", pa.list_(pa.float32(), dim)),
            ("headings", _TEXTS),
            ("labels", _TEXTS),
            ("page_numbers", pa.list_(pa.int32())),
            ("doc_item_refs", _TEXTS),
            ("token_count", pa.int32()),
            ("metadata", pa.string()),
        ]
    )


def items() -> pa.Schema:
    """`document_items`: the Docling elements of a revision in reading order."""
    box = pa.struct(
        [
            ("page", pa.int32()),
            ("left", pa.float64()),
            ("top", pa.float64()),
            ("right", pa.float64()),
            ("bottom", pa.float64()),
        ]
    )
    return pa.schema(
        [
            ("document_id", pa.string()),
            ("revision", pa.string()),
            ("order", pa.int32()),
            ("ref", pa.string()),
            ("label", pa.string()),
            ("layer", pa.string()),
            ("level", pa.int32()),
            ("text", pa.string()),
            ("heading_ref", pa.string()),
            ("boxes", pa.list_(box)),
        ]
    )


def settings() -> pa.Schema:
    """`settings`: what the database is, by key."""
    return pa.schema([pa.field("key", pa.string(), nullable=False), ("value", pa.string())])
