"""The promises of the chunker: within the limit, nothing lost, linear, quotable."""

import subprocess
import sys

import pytest
from docling_core.types.doc import BoundingBox, DocItemLabel, ProvenanceItem, Size
from docling_core.types.doc.document import DoclingDocument
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rag.chunk.chunking import TOKENIZER, add_furniture, chunks_of, document, squeezed, table

from haiku.rag.chunk import chunker_version
from haiku.rag.config.models import ProcessingConfig
from haiku.rag.embed.tokenizers import CautiousTokenizer

CAUTIOUS = CautiousTokenizer()

# --- what a chunk says ---


def test_content_headings_text_and_places():
    made = DoclingDocument(name="made")
    made.add_page(page_no=1, size=Size(width=100, height=100))
    made.add_page(page_no=2, size=Size(width=100, height=100))
    made.add_title("Handbook")
    made.add_heading("Leave", level=1)

    def on(page):
        return ProvenanceItem(page_no=page, bbox=BoundingBox(l=0, t=0, r=1, b=1), charspan=(0, 1))

    made.add_text(label=DocItemLabel.PARAGRAPH, text="Thirty days a year.", prov=on(1))
    made.add_text(label=DocItemLabel.TEXT, text="Ask in time.", prov=on(2))
    (chunk,) = chunks_of(made)
    assert chunk.content == "Thirty days a year.\n\nAsk in time."
    assert chunk.text == "Handbook\nLeave\n" + chunk.content
    assert chunk.headings == ("Handbook", "Leave")
    assert chunk.labels == ("paragraph", "text")
    assert chunk.page_numbers == (1, 2)
    assert chunk.doc_item_refs == ("#/texts/2", "#/texts/3")


def test_neighbours_are_joined_under_the_same_headings_only():
    made = DoclingDocument(name="made")
    made.add_heading("One", level=1)
    made.add_text(label=DocItemLabel.PARAGRAPH, text="first")
    made.add_text(label=DocItemLabel.PARAGRAPH, text="second")
    made.add_heading("Two", level=1)
    made.add_text(label=DocItemLabel.PARAGRAPH, text="third")
    assert [c.content for c in chunks_of(made)] == ["first\n\nsecond", "third"]
    hierarchical = chunks_of(made, chunker_type="hierarchical")
    assert [c.content for c in hierarchical] == ["first", "second", "third"]


def test_headings_without_content_are_found_as_well():
    made = DoclingDocument(name="made")
    made.add_heading("Part", level=1)
    made.add_heading("Empty section", level=2)
    made.add_heading("Another", level=2)
    (chunk,) = chunks_of(made)
    assert chunk.content == "Empty section\n\nAnother"
    assert chunk.headings == ("Part",)
    assert chunk.labels == ("section_header",)


def test_furniture_is_not_chunked():
    made = document("body")
    add_furniture(made, "running header")
    assert [c.content for c in chunks_of(made)] == ["body"]


def test_nothing_to_say_no_chunks():
    assert chunks_of(document()) == []
    assert chunks_of(document("  \n ", "\t")) == []


def test_text_reads_as_a_person_would_quote_it():
    made = DoclingDocument(name="made")
    group = made.add_list_group()
    made.add_list_item(text="a_b <c> *d*", parent=group)
    made.add_list_item(text="second", enumerated=True, marker="2.", parent=group)
    made.add_code(text="if x:\n    return 1")
    made.add_formula(text="E = mc^2")
    (chunk,) = chunks_of(made)
    assert chunk.content == ("- a_b <c> *d*\n2. second\n\nif x:\n    return 1\n\nE = mc^2")


def test_caption_and_footnote_of_a_picture():
    made = DoclingDocument(name="made")
    caption = made.add_text(label=DocItemLabel.CAPTION, text="A map.")
    picture = made.add_picture(caption=caption)
    note = made.add_text(label=DocItemLabel.FOOTNOTE, text="Not to scale.")
    picture.footnotes.append(note.get_ref())
    (chunk,) = chunks_of(made)
    assert chunk.content == "A map.\n\nNot to scale."


def test_text_inside_a_picture_is_kept():
    made = DoclingDocument(name="made")
    picture = made.add_picture()
    made.add_text(label=DocItemLabel.TEXT, text="label in a chart", parent=picture)
    assert "label in a chart" in chunks_of(made)[0].content


def test_pieces_of_a_list_name_their_own_items():
    made = DoclingDocument(name="made")
    group = made.add_list_group()
    for i in range(100):
        made.add_list_item(text=f"item number {i} of the long list", parent=group)
    found = chunks_of(made, chunk_size=64)
    assert len(found) > 5
    for chunk in found:
        numbers = [line.split()[3] for line in chunk.content.split("\n")]
        assert list(chunk.doc_item_refs) == [f"#/texts/{number}" for number in numbers]


def test_items_behind_a_very_long_one_are_named_as_well():
    made = DoclingDocument(name="made")
    group = made.add_list_group()
    for text in ("long " * 3000, "second", "third"):
        made.add_list_item(text=text, parent=group)
    found = chunks_of(made)
    assert found[0].doc_item_refs == ("#/texts/0",)
    assert found[-1].doc_item_refs == ("#/texts/0", "#/texts/1", "#/texts/2")


def test_same_chunks_as_docling_where_nothing_is_long():
    from docling_core.transforms.chunker.hybrid_chunker import HybridChunker
    from docling_core.transforms.chunker.tokenizer.base import BaseTokenizer

    class Adapter(BaseTokenizer):
        def count_tokens(self, text: str) -> int:
            return TOKENIZER.count(text)

        def get_max_tokens(self) -> int:
            return 64

        def get_tokenizer(self):
            return TOKENIZER.count

    made = DoclingDocument(name="made")
    made.add_title("The whole")
    for i in range(60):
        if i % 7 == 0:
            made.add_heading(f"Section {i}", level=1 + i % 3)
        made.add_text(label=DocItemLabel.PARAGRAPH, text=f"Sentence {i} of it. " * (1 + i % 4))
    theirs = [c.text.split() for c in HybridChunker(tokenizer=Adapter()).chunk(made)]
    ours = [c.content.split() for c in chunks_of(made, chunk_size=64)]
    assert ours == theirs


# --- the limit ---


def test_long_headings_are_shortened_in_the_text_from_the_outside():
    made = DoclingDocument(name="made")
    made.add_heading("outer " * 100, level=1)
    made.add_heading("inner", level=2)
    made.add_text(label=DocItemLabel.PARAGRAPH, text="content")
    (chunk,) = chunks_of(made, chunk_size=64)
    assert chunk.text == "inner\ncontent"
    assert chunk.headings == (("outer " * 100), "inner")


def test_a_heading_longer_than_the_limit():
    made = DoclingDocument(name="made")
    made.add_heading("heading " * 500, level=1)
    made.add_text(label=DocItemLabel.PARAGRAPH, text="content " * 100)
    found = chunks_of(made, chunk_size=64)
    assert found[0].text.startswith("heading heading")
    assert "…\ncontent" in found[0].text
    assert all(c.headings == ("heading " * 500,) for c in found)


@pytest.mark.parametrize("tokenizer", [TOKENIZER, CAUTIOUS], ids=["own", "cautious"])
@pytest.mark.parametrize(
    "text",
    [
        "word " * 20_000,
        "x" * 100_000,
        "aZ9+" * 20_000,
        "采购订单自动审批流程" * 3_000,
        "😀👩‍👩‍👧" * 3_000,
        "éộ" * 8_000,
        " " * 100_000 + "end",
        "one\n" * 10_000,
        "\x01\x02\u200b\ufeff" * 5_000,
    ],
    ids=["words", "letter", "base64", "cjk", "emoji", "marks", "blanks", "lines", "controls"],
)
def test_one_long_text_of_any_kind(text, tokenizer):
    found = chunks_of(document(text), tokenizer=tokenizer)
    assert squeezed("".join(c.content for c in found)) == squeezed(text)
    assert max(len(c.content) for c in found) <= 16 * 256


def test_the_lower_of_both_limits_holds():
    made = document("word " * 500)
    assert max(c.token_count for c in chunks_of(made, chunk_size=512, max_tokens=100)) == 100
    assert max(c.token_count for c in chunks_of(made, chunk_size=50, max_tokens=100)) == 50


# --- any document ---

WORDS = st.text(
    alphabet=st.one_of(
        st.sampled_from("abcE .\n;|#*_<>&-–é́👩‍🏽采\0"), st.characters(exclude_categories=())
    ),
    min_size=1,
    max_size=80,
)
TEXTS = st.one_of(WORDS, st.builds(lambda t, n: (t + " ") * n, WORDS, st.integers(1, 40)))
CELLS = st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=4)
PARTS = st.one_of(
    st.tuples(st.just("heading"), TEXTS, st.integers(1, 4)),
    st.tuples(st.just("text"), TEXTS, st.none()),
    st.tuples(st.just("code"), TEXTS, st.none()),
    st.tuples(st.just("list"), st.lists(TEXTS, min_size=1, max_size=4), st.none()),
    st.tuples(st.just("picture"), TEXTS, st.none()),
    st.tuples(st.just("table"), CELLS, st.integers(0, 2)),
    st.tuples(st.just("furniture"), TEXTS, st.none()),
)


def build(parts) -> tuple[DoclingDocument, list[str], list[str]]:
    """The document, its headings, and the texts of its body in order."""
    made = DoclingDocument(name="made")
    headings: list[str] = []
    body: list[str] = []
    for kind, content, level in parts:
        if kind == "heading":
            made.add_heading(content, level=level)
            headings.append(content)
        elif kind == "text":
            made.add_text(label=DocItemLabel.PARAGRAPH, text=content)
            body.append(content)
        elif kind == "code":
            made.add_code(text=content)
            body.append(content)
        elif kind == "list":
            group = made.add_list_group()
            for text in content:
                made.add_list_item(text=text, parent=group)
            body += content
        elif kind == "picture":
            made.add_picture(caption=made.add_text(label=DocItemLabel.CAPTION, text=content))
            body.append(content)
        elif kind == "furniture":
            add_furniture(made, content)
        else:
            made.add_table(data=table(content, headers=min(level, len(content))))
    return made, headings, body


@given(
    parts=st.lists(PARTS, max_size=8),
    chunk_size=st.sampled_from([16, 24, 64, 256]),
    chunker_type=st.sampled_from(["hybrid", "hierarchical"]),
    table_format=st.sampled_from(["narrative", "markdown"]),
    tokenizer=st.sampled_from([TOKENIZER, CAUTIOUS]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_document(parts, chunk_size, chunker_type, table_format, tokenizer):
    made, headings, body = build(parts)
    found = chunks_of(
        made,
        tokenizer=tokenizer,
        chunk_size=chunk_size,
        chunker_type=chunker_type,
        table_format=table_format,
    )
    everything = squeezed("".join(chunk.content for chunk in found))
    place = 0
    for text in body:
        place = everything.find(squeezed(text), place)
        assert place >= 0, text
        place += len(squeezed(text))
    over = {squeezed(heading) for chunk in found for heading in chunk.headings}
    for heading in headings:
        assert squeezed(heading) in over or squeezed(heading) in everything


# --- around it ---


def test_the_version_names_what_decides():
    one = chunker_version(ProcessingConfig())
    assert "docling-core 2." in one
    assert one == chunker_version(ProcessingConfig(workers=3))
    for change in (
        {"chunk_size": 100},
        {"chunker_type": "hierarchical"},
        {"table_format": "markdown"},
    ):
        assert chunker_version(ProcessingConfig.model_validate(change)) != one


def test_the_version_needs_no_docling():
    code = (
        "import sys, haiku.rag.chunk as c; from haiku.rag.config.models import ProcessingConfig;"
        "c.chunker_version(ProcessingConfig()); print('docling_core' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
