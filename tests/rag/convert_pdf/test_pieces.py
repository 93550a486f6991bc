"""The small parts: words joined, boxes turned, furniture told apart, rules made into grids."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag.convert.pdf import furniture, geometry, rules, tables, text
from haiku.rag.convert.pdf.page import Page, Segment

numbers = st.floats(0, 800, allow_nan=False)


@given(
    st.integers(0, 3),
    st.tuples(numbers, numbers),
    st.tuples(numbers, numbers, numbers, numbers),
)
def test_a_turned_box_turns_back(turns: int, size: tuple[float, float], four: tuple) -> None:
    frame = geometry.Frame(*size, turns=turns)
    box = geometry.Box(min(four[::2]), min(four[1::2]), max(four[::2]), max(four[1::2]))
    assert frame.leave(frame.enter(box)) == pytest.approx(box)
    assert frame.enter(box).width == pytest.approx(box.height if turns % 2 else box.width)


@given(st.text(max_size=60))
def test_cleaning_keeps_every_letter_of_every_script(words: str) -> None:
    ligatures = {chr(code) for code in range(0xFB00, 0xFB07)}
    letters = [c for c in words if c.isalpha() and c not in ligatures]
    assert [c for c in text.clean(words) if c.isalpha()] == letters or ligatures & set(words)
    assert not any(ord(c) < 32 or ord(c) == 0 for c in text.clean(words))


def test_cleaning_mends_what_text_layers_hold() -> None:
    assert text.clean("e\ufb03cient") == "efficient"
    assert text.clean("a\x00b\x07 ") == "ab"
    assert text.clean("\uf0b7") == "•"
    assert text.clean("GLYPH<c=3,font=/F1>x") == "x"
    assert text.clean("می\u200cخواهم") == "می\u200cخواهم"


@given(
    st.text(string.ascii_letters + " .,-é港", max_size=30),
    st.text(string.ascii_letters + " .,-é港", max_size=30),
)
def test_joining_loses_no_letter(before: str, after: str) -> None:
    joined = text.join(before, after, set())
    assert joined.replace(" ", "").replace("-", "") == (before + after).replace(" ", "").replace(
        "-", ""
    )


@pytest.mark.parametrize(
    ("before", "after", "words", "want"),
    [
        ("navi-", "gation", {"navigation"}, "navigation"),
        ("barome-", "ters", set(), "barometers"),
        ("a well-", "known man", {"well", "known"}, "a well-known man"),
        ("state-of-the-", "art", set(), "state-of-the-art"),
        ("Anglo-", "Saxon", set(), "Anglo-Saxon"),
        ("from 1990-", "95", set(), "from 1990- 95"),
        ("soft\u00ad", "Hyphen", set(), "softHyphen"),
        ("港口", "灯塔", set(), "港口灯塔"),
    ],
)
def test_hyphens(before: str, after: str, words: set[str], want: str) -> None:
    assert text.join(before, after, words) == want


def segment(words: str, left: float, top: float, size: float = 10.0) -> Segment:
    box = geometry.Box(left, top, left + 5 * len(words), top + size)
    return Segment(words, box, size, len(words), 0, 0, 0)


def page(number: int, *segments: Segment) -> Page:
    body = [segment(f"line {row} of the text", 72, 200 + 12 * row) for row in range(30)]
    return Page(number, geometry.Frame(600, 800), [*segments, *body])


def taken(*pages: Page) -> list[list[str]]:
    found = furniture.split(list(pages))
    return [[one.text for one in found.get(p.number, [])] for p in pages]


def test_one_page_keeps_its_header_but_not_its_number() -> None:
    assert taken(page(1, segment("Report", 72, 30), segment("Page 1 of 1", 280, 780))) == [
        ["Page 1 of 1"]
    ]


def test_roman_and_shifted_page_numbers_count_with_the_pages() -> None:
    pages = [page(n, segment(word, 300, 780)) for n, word in enumerate(("iv", "v", "vi"), 1)]
    assert taken(*pages) == [["iv"], ["v"], ["vi"]]


def test_a_figure_at_the_foot_that_does_not_count_stays() -> None:
    pages = [page(n, segment(word, 300, 640)) for n, word in enumerate(("17", "4", "930"), 1)]
    assert taken(*pages) == [[], [], []]


def test_headers_that_alternate_are_furniture() -> None:
    names = ("The author", "The title") * 3
    assert taken(*[page(n, segment(w, 72, 30)) for n, w in enumerate(names, 1)]) == [
        [name] for name in names
    ]


def test_large_titles_at_the_same_place_stay() -> None:
    pages = [page(n, segment(f"Slide {n}", 72, 30, size=30)) for n in range(1, 5)]
    assert taken(*pages) == [[], [], [], []]


def test_broken_lines_still_make_a_grid() -> None:
    paths = [[(x, 100.0), (x, 119.0)] for x in (10.0, 110.0, 210.0)]
    paths += [[(x, 120.5), (x, 140.0)] for x in (10.0, 110.0, 210.0)]
    paths += [[(10.0, y), (210.0, y)] for y in (100.0, 120.0, 140.0)]
    (grid,) = rules.find(paths, (600, 800)).grids
    assert grid.cells == [(0, 0, 1, 1), (0, 1, 1, 2), (1, 0, 2, 1), (1, 1, 2, 2)]


def test_a_box_around_text_is_no_table() -> None:
    box = [(10.0, 100.0), (210.0, 100.0), (210.0, 140.0), (10.0, 140.0), (10.0, 100.0)]
    assert rules.find([box], (600, 800)).grids == []


def test_a_drawing_of_many_lines_is_left_alone() -> None:
    paths = [[(float(x), 0.0), (float(x), 700.0)] for x in range(0, 500, 1)]
    paths += [[(0.0, float(y)), (500.0, float(y))] for y in range(0, 700, 1)]
    assert rules.find(paths, (600, 800)).grids == []


def test_ragged_prose_in_columns_is_no_table() -> None:
    words = ["the ship came in late that day", "and nobody stood on the quay to", "take the rope"]
    lines = [segment(words[row % 3], x, 100 + 12 * row) for row in range(12) for x in (60, 320)]
    assert tables.aligned(lines) == []
