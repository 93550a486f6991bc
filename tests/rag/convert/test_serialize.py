"""Items in reading order under their headings, and documents packed and unpacked."""

import pytest
from docling_core.types.doc import (
    BoundingBox,
    CoordOrigin,
    DocItemLabel,
    ImageRef,
    ProvenanceItem,
    Size,
    TableCell,
    TableData,
)
from docling_core.types.doc.common.content_layer import ContentLayer
from docling_core.types.doc.document import DoclingDocument
from PIL import Image

from haiku.rag.convert import serialize
from haiku.rag.exceptions import DocumentCorrupt
from haiku.rag.records import Box


@pytest.fixture
def document() -> DoclingDocument:
    made = DoclingDocument(name="d")
    made.add_page(page_no=1, size=Size(width=600, height=800))
    made.add_text(DocItemLabel.PAGE_HEADER, "running head", content_layer=ContentLayer.FURNITURE)
    made.add_text(DocItemLabel.TEXT, "before")
    made.add_title("Title")
    made.add_heading("One", level=1)
    made.add_text(
        DocItemLabel.TEXT,
        "under one",
        prov=ProvenanceItem(
            page_no=1,
            bbox=BoundingBox(l=10, t=790, r=110, b=770, coord_origin=CoordOrigin.BOTTOMLEFT),
            charspan=(0, 9),
        ),
    )
    made.add_heading("Deep", level=3)
    group = made.add_list_group()
    made.add_list_item("in deep", parent=group)
    made.add_heading("Two", level=1)
    cells = [
        TableCell(text=text, start_row_offset_idx=row, end_row_offset_idx=row + 1,
                  start_col_offset_idx=col, end_col_offset_idx=col + 1)
        for row, line in enumerate((("a|b", "n"), ("x\ny", "1"))) for col, text in enumerate(line)
    ]  # fmt: skip
    caption = made.add_text(DocItemLabel.CAPTION, "Table 1. Counts")
    made.add_table(TableData(num_rows=2, num_cols=2, table_cells=cells), caption=caption)
    return made


def test_items_stand_under_their_headings(document):
    items = serialize.to_items(document)
    by_ref = {item.ref: item for item in items}
    under = [
        (i.label, i.level, i.text, by_ref[i.heading_ref].text if i.heading_ref else None)
        for i in items
    ]
    table = "Table 1. Counts\n\n| a\\|b | n |\n|---|---|\n| x y | 1 |"
    assert under[:9] == [
        ("text", 0, "before", None),
        ("title", 1, "Title", None),
        ("section_header", 2, "One", "Title"),
        ("text", 0, "under one", "One"),
        ("section_header", 4, "Deep", "One"),
        ("list_item", 0, "in deep", "Deep"),
        ("section_header", 2, "Two", "Title"),
        ("caption", 0, "Table 1. Counts", "Two"),
        ("table", 0, table, "Two"),
    ]
    assert [(i.layer, i.text, i.heading_ref) for i in items[9:]] == [
        ("furniture", "running head", None)
    ]


def test_section_headers_are_level_one_without_a_title():
    made = DoclingDocument(name="d")
    made.add_heading("One", level=1)
    assert serialize.to_items(made)[0].level == 1


def test_boxes_are_points_from_the_top_left(document):
    item = next(i for i in serialize.to_items(document) if i.text == "under one")
    assert item.boxes == (Box(page=1, left=10, top=10, right=110, bottom=30),)


def test_a_slide_is_measured_in_points(samples, convert):
    document = convert(samples["pptx"], "a.pptx").document
    assert (document.pages[1].size.width, document.pages[1].size.height) == (720, 540)
    boxes = [box for item in serialize.to_items(document) for box in item.boxes]
    assert boxes
    assert all(0 <= b.left < b.right <= 720 and 0 <= b.top < b.bottom <= 540 for b in boxes)


def test_every_box_is_on_its_page(samples, convert):
    document = convert(samples["pdf"], "a.pdf").document
    (item,) = serialize.to_items(document)
    (box,) = item.boxes
    assert (box.page, round(box.left)) == (1, 72)
    # reportlab's baseline is 700 points above the bottom of an A4 page of 842.
    assert box.top < 842 - 700 < box.bottom + 1


@pytest.mark.parametrize("suffix", ["md", "docx", "pptx", "xlsx", "pdf", "html", "nxml", "py"])
def test_packing_gives_the_document_back(samples, convert, suffix):
    document = convert(samples[suffix], f"a.{suffix}").document
    again = serialize.unpack(serialize.pack(document))
    assert again == document
    assert serialize.to_items(again) == serialize.to_items(document)
    assert serialize.to_markdown(again) == serialize.to_markdown(document)


def test_packing_leaves_large_pictures_out_and_the_document_alone(document):
    small = ImageRef.from_pil(Image.new("RGB", (8, 8)), dpi=72)
    large = ImageRef.from_pil(Image.effect_noise((300, 300), 90), dpi=72)
    document.pages[1].image = large
    document.add_picture(image=small)
    document.add_picture(image=large)
    packed = serialize.pack(document)
    assert len(packed) < 10_000
    again = serialize.unpack(packed)
    assert [picture.image is None for picture in again.pictures] == [False, True]
    assert again.pages[1].image is None
    assert document.pictures[1].image is large
    assert document.pages[1].image is large


@pytest.mark.parametrize(
    "packed", [b"", b"not zstandard", serialize.pack(DoclingDocument(name="x"))[:-9]]
)
def test_what_was_not_packed_is_refused(packed):
    with pytest.raises(DocumentCorrupt, match="convert its source again"):
        serialize.unpack(packed)


def test_markdown_is_not_escaped_for_html():
    made = DoclingDocument(name="d")
    made.add_text(DocItemLabel.TEXT, "a_b < c & d")
    assert serialize.to_markdown(made) == "a_b < c & d"
