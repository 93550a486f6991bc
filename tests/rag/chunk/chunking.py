"""Documents for the chunker's tests, made by code."""

from collections.abc import Sequence

from docling_core.types.doc import ContentLayer, DocItemLabel, TableCell, TableData
from docling_core.types.doc.document import DoclingDocument

from haiku.rag.chunk import chunk_document
from haiku.rag.config.models import EmbeddingModelConfig, ProcessingConfig
from haiku.rag.embed import Tokenizer, load_tokenizer
from haiku.rag.records import NewChunk

TOKENIZER = load_tokenizer(EmbeddingModelConfig())


def document(*texts: str, label: DocItemLabel = DocItemLabel.PARAGRAPH) -> DoclingDocument:
    made = DoclingDocument(name="made")
    for text in texts:
        made.add_text(label=label, text=text)
    return made


def table(rows: Sequence[Sequence[str]], *, headers: int = 1) -> TableData:
    cells = [
        TableCell(
            text=text,
            start_row_offset_idx=row,
            end_row_offset_idx=row + 1,
            start_col_offset_idx=column,
            end_col_offset_idx=column + 1,
            column_header=row < headers,
        )
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]
    return TableData(table_cells=cells, num_rows=len(rows), num_cols=len(rows[0]))


def add_furniture(made: DoclingDocument, text: str) -> None:
    made.add_text(label=DocItemLabel.PAGE_HEADER, text=text, content_layer=ContentLayer.FURNITURE)


def chunks_of(
    made: DoclingDocument,
    *,
    tokenizer: Tokenizer = TOKENIZER,
    max_tokens: int = 256,
    **processing: object,
) -> list[NewChunk]:
    """The document's chunks, each checked against the limit."""
    settings = ProcessingConfig.model_validate(processing)
    found = chunk_document(made, processing=settings, tokenizer=tokenizer, max_tokens=max_tokens)
    limit = min(settings.chunk_size, max_tokens)
    for chunk in found:
        assert chunk.token_count == tokenizer.count(chunk.text) <= limit
        assert chunk.text.endswith(chunk.content)
        assert chunk.content.strip()
        assert chunk.doc_item_refs
        assert chunk.labels
    return found


def squeezed(text: str) -> str:
    """Without blanks, and with the characters that chunks replace replaced."""
    replaced = "".join("�" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
    return "".join(replaced.split())
