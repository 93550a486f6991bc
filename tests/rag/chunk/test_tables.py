"""Tables as narrative and as Markdown."""

import pytest
from docling_core.types.doc import DocItemLabel, TableCell, TableData
from docling_core.types.doc.document import DoclingDocument
from tests.rag.chunk.chunking import chunks_of, squeezed, table

ROWS = [["Name", "Born", "Field"], ["Ada", "1815", "Mathematics"], ["Marie", "", "Physics"]]


def made(rows, caption=None, footnote=None, headers=1):
    document = DoclingDocument(name="made")
    text = document.add_text(label=DocItemLabel.CAPTION, text=caption) if caption else None
    item = document.add_table(data=table(rows, headers=headers), caption=text)
    if footnote:
        note = document.add_text(label=DocItemLabel.FOOTNOTE, text=footnote)
        item.footnotes.append(note.get_ref())
    return document


def test_a_row_says_what_it_is():
    (chunk,) = chunks_of(made(ROWS))
    assert chunk.content.split("\n") == [
        "Name; Born; Field",
        "Name: Ada; Born: 1815; Field: Mathematics",
        "Name: Marie; Field: Physics",
    ]
    assert chunk.labels == ("table",)


def test_markdown():
    (chunk,) = chunks_of(made([["a|b", "c"], ["1\n2", "3"]]), table_format="markdown")
    assert chunk.content == "| a\\|b | c |\n| --- | --- |\n| 1 2 | 3 |"


@pytest.mark.parametrize("table_format", ["narrative", "markdown"])
def test_caption_and_footnote_are_kept(table_format):
    (chunk,) = chunks_of(made(ROWS, "Three people", "Dates vary."), table_format=table_format)
    assert chunk.content.startswith("Three people")
    assert chunk.content.endswith("Dates vary.")
    assert chunk.labels == ("caption", "table", "footnote")


def test_without_header_only_values():
    (chunk,) = chunks_of(made([["Ada", "1815"], ["Marie", "1867"]], headers=0))
    assert chunk.content == "Ada; 1815\nMarie; 1867"


def test_header_alone():
    (chunk,) = chunks_of(made([["Name", "Born"]]))
    assert chunk.content == "Name; Born"


def test_spanning_cells_appear_once_and_name_their_columns():
    def cell(text, row, column, columns=1, header=False):
        return TableCell(
            text=text,
            start_row_offset_idx=row,
            end_row_offset_idx=row + 1,
            start_col_offset_idx=column,
            end_col_offset_idx=column + columns,
            col_span=columns,
            column_header=header,
        )

    cells = [
        cell("Sales", 0, 0, 2, header=True),
        cell("2023", 1, 0, header=True),
        cell("2024", 1, 1, header=True),
        cell("10", 2, 0),
        cell("12", 2, 1),
        cell("both", 3, 0, 2),
    ]
    document = DoclingDocument(name="made")
    document.add_table(data=TableData(table_cells=cells, num_rows=4, num_cols=2))
    (chunk,) = chunks_of(document)
    assert chunk.content.split("\n") == [
        "Sales",
        "2023; 2024",
        "Sales 2023: 10; Sales 2024: 12",
        "Sales 2023: both",
    ]
    (chunk,) = chunks_of(document, table_format="markdown")
    assert chunk.content.startswith("| Sales 2023 | Sales 2024 |\n")


def wide(columns=30, rows=30, words=6, header_words=12):
    header = [" ".join(f"h{c}w{w}" for w in range(header_words)) for c in range(columns)]
    body = [
        [" ".join(f"r{r}c{c}w{w}" for w in range(words)) for c in range(columns)]
        for r in range(rows)
    ]
    return [header, *body]


@pytest.mark.parametrize("table_format", ["narrative", "markdown"])
@pytest.mark.parametrize("chunker_type", ["hybrid", "hierarchical"])
@pytest.mark.parametrize("chunk_size", [40, 256])
# F37
def test_wide_table_with_long_headers_keeps_to_the_limit_and_loses_nothing(
    table_format, chunker_type, chunk_size
):
    rows = wide()
    document = DoclingDocument(name="made")
    document.add_heading("A heading over the table")
    document.add_table(data=table(rows))
    found = chunks_of(
        document, chunk_size=chunk_size, table_format=table_format, chunker_type=chunker_type
    )
    everything = " ".join(chunk.content for chunk in found)
    place = 0
    for row in rows:
        for word in " ".join(row).split():
            place = everything.find(word, place)
            assert place >= 0, word
    assert len(squeezed(everything)) < 4 * sum(len(squeezed(c)) for row in rows for c in row)


def test_a_long_row_goes_on_under_its_first_value():
    header = ["Name", *(f"Column{c}" for c in range(60))]
    row = ["Ada Lovelace", *(f"value{c}" for c in range(60))]
    for chunk in chunks_of(made([header, row]))[1:]:
        assert "Ada Lovelace" in chunk.content


def test_a_markdown_header_is_repeated_over_every_piece():
    rows = [["Name", "Number"], *([f"name{i}", str(i)] for i in range(300))]
    found = chunks_of(made(rows), table_format="markdown")
    assert len(found) > 3
    for chunk in found:
        assert chunk.content.startswith("| Name | Number |\n| --- | --- |\n| name")


def test_a_header_longer_than_half_the_chunk_is_not_repeated():
    rows = [["word " * 200, "Number"], *([f"name{i}", str(i)] for i in range(50))]
    found = chunks_of(made(rows), table_format="markdown")
    assert sum("Number" in chunk.content for chunk in found) == 1
