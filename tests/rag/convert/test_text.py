"""Cleaning, splitting and titles of text."""

import pytest
from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import CodeLanguageLabel
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag.convert import clean, markup, plain, suffixes, titles


def test_clean_text_drops_what_no_reader_sees():
    assert clean.clean_text("a\x00b\x1bc\x7f\x9f\ufeff\udc80d") == "abcd"
    assert clean.clean_text("a\r\nb\rc\x0cd\u2028e\x0bf") == "a\nb\nc\nd\ne\nf"
    assert clean.clean_text("tab\tand\nline, soft\xadhyphen, e\u0301, 😀") == (
        "tab\tand\nline, soft\xadhyphen, e\u0301, 😀"
    )


@given(st.text())
def test_clean_text_is_stable_and_encodable(text):
    cleaned = clean.clean_text(text)
    assert clean.clean_text(cleaned) == cleaned
    cleaned.encode("utf-8")


@given(st.text(alphabet="ab. \n,", max_size=300), st.integers(1, 40))
def test_split_long_loses_nothing_and_keeps_the_limit(text, limit):
    pieces = list(plain.split_long(text, limit))
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


@given(st.text(alphabet="ab \n\t", max_size=400))
def test_paragraphs_hold_every_word(text):
    document = plain.text_document(text, "x")
    assert " ".join(i.text for i in document.texts).split() == text.split()


@given(st.text(alphabet="ab \n}", max_size=3000))
def test_code_blocks_hold_every_word(text):
    assert " ".join(plain.code_blocks(text)).split() == text.split()


def test_every_language_is_one_docling_knows():
    known = {label.value for label in CodeLanguageLabel}
    assert set(suffixes.LANGUAGES.values()) | set(suffixes.LANGUAGES_BY_NAME.values()) <= known


@pytest.mark.parametrize(
    "made_up", ["", " ", "x", "Microsoft Word - plan.doc", "Untitled 1", "plan.docx", "Slide 1"]
)
def test_titles_that_programs_make_up_are_none(made_up):
    assert titles.tidy(made_up) is None


def test_titles_are_one_line():
    assert titles.tidy("  A\n  real\x00 title ") == "A real title"
    assert titles.of_html("<svg/><TITLE lang=en>\n R&amp;D\n </TITLE>") == "R&D"
    assert titles.of_html("<p>none") is None
    assert titles.of_latex(r"\title[short]{A {\em fine} \& long~title}") == "A fine & long title"
    assert titles.of_latex(r"\title{open" + "x" * 5000)
    assert titles.of_latex("none") is None


@pytest.mark.parametrize(
    ("text", "matter", "title"),
    [
        ("---\ntitle: An\n---\nbody", "title: An", "An"),
        ("---\ntitle: 2024\n...\nbody", "title: 2024", "2024"),
        ("---\ntitle: [a\n---\nbody", "title: [a", None),
        ("---\n- x: 1\n---\nbody", "- x: 1", None),
    ],
)
def test_front_matter(text, matter, title):
    assert titles.front_matter(text) == (matter, "body")
    assert titles.of_front_matter(matter) == title


@pytest.mark.parametrize(
    "text", ["---\n\nrule\n\n---\n", "title: x\n---\n", "", "--- a\nb: c\n---"]
)
def test_what_is_no_front_matter_stays(text):
    assert titles.front_matter(text) == ("", text)


def test_first_heading_prefers_the_title():
    document = DoclingDocument(name="never this")
    assert titles.first_heading(document) is None
    document.add_heading("Section", level=2)
    assert titles.first_heading(document) == "Section"
    document.add_title("The Title")
    assert titles.first_heading(document) == "The Title"


def test_text_of_a_page_has_no_scripts():
    page = "<p>a &lt; b<script>x<y</script><style>p{}</style><br>c<div>d</div><b>e</b>f"
    assert markup.text_of(page).split() == ["a", "<", "b", "c", "d", "ef"]


@given(st.text(alphabet="<>/abp&;!-\"' =scriptly", max_size=200))
def test_text_of_never_fails(page):
    markup.text_of(page)
