"""Every layout: the structure that a reader sees, and no text lost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

Convert = Callable[[Path], Any]
Pdf = Callable[[str], Path]

READABLE = (
    *(
        "headings",
        "centred_title",
        "same_size",
        "columns",
        "run_on",
        "ruled",
        "spans",
        "borderless",
        "booktabs",
    ),
    *("running", "lists", "footnotes", "slides", "form", "rotated", "sideways", "cropped", "cjk"),
    *("hyphens", "code", "bookmarks", "fake_bold", "letter_page"),
)


def shape(doc: Any) -> list[tuple[str, str]]:
    """Label and text of every item in the body, in reading order."""
    return [
        (str(item.label), getattr(item, "text", ""))
        for item, _ in doc.iterate_items()
        if str(item.label) != "unspecified"
    ]


def labels(doc: Any) -> list[str]:
    return [label for label, _ in shape(doc)]


def text_layer(path: Path) -> str:
    """The text as PDFium sees it: another parser than the one under test."""
    document = pypdfium2.PdfDocument(path)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


def all_text(doc: Any) -> str:
    cells = [cell.text for table in doc.tables for cell in table.data.table_cells]
    return " ".join([item.orig for item in doc.texts] + cells)


def letters(words: str) -> Counter[str]:
    return Counter(character for character in words.casefold() if character.isalnum())


@pytest.mark.parametrize("name", READABLE)
def test_nothing_is_lost_and_nothing_doubled(name: str, pdf: Pdf, convert: Convert) -> None:
    want, got = letters(text_layer(pdf(name))), letters(all_text(convert(pdf(name))))
    if name == "fake_bold":
        want = letters("Printed twice to look bold")
    found = sum((want & got).values())
    assert found >= 0.99 * sum(want.values())
    if name != "form":  # PDFium leaves the values of fields out
        assert sum((got - want).values()) <= 0.01 * sum(want.values())


@pytest.mark.parametrize("name", READABLE)
def test_words_stay_whole(name: str, pdf: Pdf, convert: Convert) -> None:
    words = set(all_text(convert(pdf(name))).split())
    layer = text_layer(pdf(name)).replace("\ufffe", "-")
    missing = {word for line in layer.splitlines() for word in line.split()[:-1]} - words
    missing = {word for word in missing if len(word) > 1 and word.isalpha() and word.isascii()}
    assert not missing


@pytest.mark.parametrize("name", READABLE)
def test_every_item_has_a_page_and_a_box_inside_it(name: str, pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf(name))
    for item in (*doc.texts, *doc.tables, *doc.pictures):
        assert item.prov
        for prov in item.prov:
            size, box = doc.pages[prov.page_no].size, prov.bbox
            assert str(box.coord_origin.value) == "BOTTOMLEFT"
            assert -1 <= box.l < box.r <= size.width + 1
            assert -1 <= box.b < box.t <= size.height + 1


def test_headings_have_the_levels_of_their_numbers(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("headings"))
    found = [(item.level, item.text) for item in doc.texts if str(item.label) == "section_header"]
    assert found == [
        (1, "1 Chapter about part 1"),
        (2, "1.1 Section of detail"),
        (2, "1.2 Section of detail"),
        (1, "2 Chapter about part 2"),
        (2, "2.1 Section of detail"),
        (2, "2.2 Section of detail"),
    ]
    assert shape(doc)[0] == ("title", "The Harbour Handbook")
    assert labels(doc).count("text") == 10


def test_weight_alone_makes_a_heading(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("same_size"))
    assert labels(doc) == ["section_header", "text"] * 3
    assert {item.level for item in doc.texts if str(item.label) == "section_header"} == {1}


def test_columns_are_read_one_after_the_other(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("columns"))
    starts = [" ".join(words.split()[:3]) for label, words in shape(doc) if label == "text"]
    assert starts == ["Upper part 1", "Upper part 2", "Lower part 3", "Lower part 4"]
    assert labels(doc)[0] == "title"
    assert labels(doc).index("picture") == 3 or labels(doc).index("picture") == 4
    assert doc.pictures[0].caption_text(doc).startswith("Figure 1:")
    assert doc.pictures[0].image is None


def test_a_sentence_runs_on_over_columns_and_pages(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("run_on"))
    assert len(doc.texts) == 1
    item = doc.texts[0]
    assert [prov.page_no for prov in item.prov] == [1, 1, 2]
    start, end = item.prov[2].charspan
    assert end == len(item.text)
    assert text_layer(pdf("run_on")).split()[-1] in item.text[start:end]


@pytest.mark.parametrize("name", ["ruled", "borderless", "booktabs"])
def test_tables_have_their_cells_and_header(name: str, pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf(name))
    (table,) = doc.tables
    grid = [[cell.text for cell in row] for row in table.data.grid]
    assert grid[0] == ["Berth", "Ship", "Length", "Draught"]
    assert grid[1] == ["A1", "Morning Star", "112.5", "6.1"]
    assert len(grid) == (3 if name == "booktabs" else 4)
    assert all(cell.column_header for cell in table.data.grid[0])
    assert not any(cell.column_header for cell in table.data.grid[1])
    assert [label for label in labels(doc) if label != "caption"] == ["text", "table", "text"]


def test_a_caption_belongs_to_its_table(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("ruled"))
    assert doc.tables[0].caption_text(doc) == "Table 1. Ships at their berths."


def test_merged_cells_and_rules_between_close_texts(pdf: Pdf, convert: Convert) -> None:
    (table,) = convert(pdf("spans")).tables
    assert [[cell.text for cell in row] for row in table.data.grid] == [
        ["Place", "Depth", "Depth"],
        ["Pier", "lowest tide ever", "highest"],
        ["Basin", "4", "9"],
    ]
    assert {cell.text: cell.col_span for cell in table.data.table_cells}["Depth"] == 2


def test_running_headers_are_furniture(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("running"))
    furniture = [item for item in doc.texts if item.content_layer.value == "furniture"]
    assert [str(item.label) for item in furniture] == ["page_header", "page_footer"] * 4
    assert furniture[2].text == "Harbour authority - annual report Section 2"
    assert furniture[3].text == "Page 2 of 4"
    assert not any("annual report" in words for _, words in shape(doc))
    assert labels(doc) == ["text"] * 36


def test_lists_nest_by_indent(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("lists"))
    items = [(item, level) for item, level in doc.iterate_items() if str(item.label) == "list_item"]
    depth = {item.text: level for item, level in items}
    assert (
        depth["a heavy one"] == depth["a light one"] > depth["Two anchors:"] == depth["Lamp oil."]
    )
    assert [item.marker for item, _ in items if item.enumerated] == ["1.", "2.", "3."]
    assert items[0][0].text.endswith("to the deck at low water.")
    assert items[2][0].parent.resolve(doc).parent.resolve(doc).text == "Two anchors:"


def test_small_notes_at_the_foot_are_footnotes(pdf: Pdf, convert: Convert) -> None:
    found = [words for label, words in shape(convert(pdf("footnotes"))) if label == "footnote"]
    assert found == ["1 Counted in the first week.", "2 Not yet printed."]


def test_slides_have_headings_and_lists(pdf: Pdf, convert: Convert) -> None:
    assert labels(convert(pdf("slides"))) == ["section_header", *["list_item"] * 3] * 3


def test_the_values_of_a_form_follow_their_labels(pdf: Pdf, convert: Convert) -> None:
    words = [words for _, words in shape(convert(pdf("form")))]
    assert words == ["Name: Ada Quay", "Port: Northhaven"]


@pytest.mark.parametrize("name", ["rotated", "sideways", "cropped"])
def test_turned_and_cropped_pages_read_as_one_paragraph(
    name: str, pdf: Pdf, convert: Convert
) -> None:
    found = shape(convert(pdf(name)))
    assert found[0][1].endswith("before evening comes.")
    assert len(found) == (2 if name == "sideways" else 1)


def test_chinese_lines_join_without_spaces(pdf: Pdf, convert: Convert) -> None:
    (words,) = [words for _, words in shape(convert(pdf("cjk")))]
    assert "船员们看见以后就知道方向。" in words
    assert " " not in words


def test_hyphens_at_line_ends(pdf: Pdf, convert: Convert) -> None:
    (words,) = [words for _, words in shape(convert(pdf("hyphens")))]
    assert "good navigation and" in words
    assert "reading of barometers." in words
    assert "a well-known danger" in words
    assert "19-95" in words.replace(" ", "")


def test_code_keeps_its_lines(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("code"))
    assert labels(doc) == ["text", "code", "text"]
    assert (
        shape(doc)[1][1] == "def dock(ship):\n    if ship.late:\n        return None\n    return 1"
    )


def test_the_outline_names_headings(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("bookmarks"))
    found = [(item.text, item.level) for item in doc.texts if str(item.label) == "section_header"]
    assert found == [("Arrival", 1), ("Papers", 2), ("Departure", 1)]


def test_a_letter_keeps_its_addresses_apart(pdf: Pdf, convert: Convert) -> None:
    found = shape(convert(pdf("letter_page")))
    assert [words for _, words in found[:3]] == [
        "Ada Quay Pier 4",
        "Port Office Basin Road 9",
        "Dear friends,",
    ]
    assert not any(words == "- 1 -" for _, words in found)


def test_a_scan_is_a_picture_without_text(pdf: Pdf, convert: Convert) -> None:
    doc = convert(pdf("scanned"))
    assert labels(doc) == ["picture"]
    assert not doc.texts


def test_a_heading_below_a_centred_title_is_its_own(pdf: Pdf, convert: Convert) -> None:
    texts = [text for label, text in shape(convert(pdf("centred_title"))) if label != "text"]
    assert texts == [
        "Ranges of the Arctic Terns of the Island",
        "1 Introduction",
        "A Second Title that is Rather Long and goes on in a second line",
    ]
