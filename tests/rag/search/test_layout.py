"""A document as one running text: spans, sections, growing and finding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_fakes import item

from haiku.rag.search.layout import Layout, Span

PAPER = [
    item(0, "before any heading"),
    item(1, "Paper", level=1),
    item(2, "intro", under=1),
    item(3, "Methods", level=2, under=1),
    item(4, "method one", under=3),
    item(5, "running header", under=3, layer="furniture"),
    item(6, "* a note", under=3, label="footnote"),
    item(7, "method two", under=3),
    item(8, "Results", level=2, under=1),
    item(9, "the result", under=8),
]


def place(layout: Layout, number: int) -> Span:
    at = layout.index[f"#/texts/{number}"]
    return layout.span(at, at)


def section_texts(layout: Layout, number: int) -> list[str]:
    return [layout.text(span) for span in layout.sections(place(layout, number))]


def test_text_of_the_whole_leaves_out_furniture_and_footnotes() -> None:
    layout = Layout(PAPER)
    assert layout.text(layout.whole) == (
        "before any heading\n\n# Paper\n\nintro\n\n## Methods\n\nmethod one\n\nmethod two"
        "\n\n## Results\n\nthe result"
    )
    assert len(layout.whole) == len(layout.text(layout.whole))


def test_list_items_stand_on_lines() -> None:
    layout = Layout(
        [item(0, "a", label="list_item"), item(1, "b", label="list_item"), item(2, "c")]
    )
    assert layout.text(layout.whole) == "a\nb\n\nc"


def test_what_a_hit_stands_on_is_kept_even_without_text() -> None:
    layout = Layout(
        [*PAPER, item(10, "", label="picture", under=8)], keep=["#/texts/6", "#/texts/10"]
    )
    assert "* a note" in layout.text(layout.whole)
    assert layout.text(layout.whole).endswith("the result\n\n<!-- picture -->")


def test_sections_from_the_inside_out() -> None:
    layout = Layout(PAPER)
    methods = "## Methods\n\nmethod one\n\nmethod two"
    found = section_texts(layout, 7)
    assert found[0] == methods
    assert found[1].startswith("# Paper")
    assert found[1].endswith("the result")
    assert found[2] == layout.text(layout.whole)
    assert section_texts(layout, 3) == found
    assert section_texts(layout, 0) == ["before any heading", found[2]]


def test_a_span_over_two_sections_is_enclosed_by_what_holds_both() -> None:
    layout = Layout(PAPER)
    span = place(layout, 7).union(place(layout, 9))
    assert layout.text(next(iter(layout.sections(span)))).startswith("# Paper")


def test_headings_that_are_not_there_or_come_later_are_no_headings() -> None:
    layout = Layout([item(0, "a", under=9), item(1, "b", under=2), item(2, "C", level=1, under=2)])
    assert section_texts(layout, 0)[0] == "a\n\nb"
    assert section_texts(layout, 2)[0] == "# C"


def test_a_section_that_fits_is_returned_whole() -> None:
    layout = Layout(PAPER)
    window = layout.grow(place(layout, 7), 40, bounded=False)
    assert layout.text(window) == "## Methods\n\nmethod one\n\nmethod two"


def test_inside_a_larger_section_it_grows_item_by_item() -> None:
    texts = [f"sentence {n:02}" for n in range(20)]
    layout = Layout(
        [item(0, "H", level=1), *(item(n + 1, t, under=0) for n, t in enumerate(texts))]
    )
    window = layout.grow(place(layout, 11), 70, bounded=False)
    assert layout.text(window).split("\n\n") == texts[8:13]


def test_a_side_that_is_full_leaves_its_room_to_the_other() -> None:
    layout = Layout([item(0, "x" * 500), *(item(n, f"text {n}") for n in range(1, 9))])
    window = layout.grow(place(layout, 1), 60, bounded=False)
    assert layout.text(window).split("\n\n") == [f"text {n}" for n in range(1, 8)]


def test_a_tiny_section_gives_way_to_what_encloses_it() -> None:
    layout = Layout(
        [
            item(0, "Top", level=1),
            item(1, "a" * 300, under=0),
            item(2, "Tiny", level=2, under=0),
            item(3, "one line", under=2),
            item(4, "Next", level=2, under=0),
            item(5, "b" * 300, under=4),
        ]
    )
    window = layout.grow(place(layout, 3), 700, bounded=False)
    assert layout.text(window).startswith("# Top\n\naaa")
    assert layout.text(window).endswith("bbb")
    smaller = layout.grow(place(layout, 3), 400, bounded=False)
    assert layout.text(smaller).startswith("# Top\n\naaa")
    assert layout.text(smaller).endswith("one line")
    assert len(smaller) <= 400


def test_a_bounded_hit_never_leaves_its_section() -> None:
    layout = Layout(
        [
            item(0, "Top", level=1),
            item(1, "a" * 300, under=0),
            item(2, "Tiny", level=2, under=0),
            item(3, "| t |", under=2, label="table"),
        ]
    )
    assert layout.text(layout.grow(place(layout, 3), 5000, bounded=True)) == "## Tiny\n\n| t |"


def test_an_item_larger_than_the_cap_is_cut_around_the_hit() -> None:
    rows = "\n".join(f"| row {n:05} | value |" for n in range(50_000))
    layout = Layout([item(0, "Sheet", level=1), item(1, rows, under=0, label="table")])
    own = place(layout, 1)
    anchor = layout.locate("| row 31234 | value |", own)
    assert anchor is not None
    window = layout.grow(anchor, 5000, bounded=True)
    text = layout.text(window)
    assert 4900 < len(text) <= 5000
    assert "row 31234" in text[2000:3000]
    assert text.startswith("| row")
    assert text.endswith("|")


@pytest.mark.parametrize("at", [0, 1, 500, 998, 999])
def test_room_that_one_side_cannot_use_goes_to_the_other(at: int) -> None:
    words = [f"w{n:03}" for n in range(1000)]
    layout = Layout([item(0, " ".join(words))])
    anchor = layout.locate(words[at], layout.whole)
    assert anchor is not None
    text = layout.text(layout.grow(anchor, 200, bounded=False))
    assert words[at] in text.split()
    assert 190 <= len(text) <= 200


def test_locate_overlooks_white_space_and_finds_the_whole_of_it() -> None:
    words = [f"word{n}" for n in range(100)]
    layout = Layout([item(0, "x " * 50 + "  \n ".join(words) + " y" * 50)])
    span = layout.locate(" ".join(words), layout.whole)
    assert span is not None
    assert layout.text(span).split() == words


def test_locate_finds_the_whole_of_a_text_that_repeats_itself() -> None:
    content = "the same words again and " * 20
    layout = Layout([item(0, f"before {content}after")])
    span = layout.locate(content, layout.whole)
    assert span is not None
    assert layout.text(span) == content.strip()


def test_locate_takes_the_end_that_fits_when_white_space_differs() -> None:
    refrain, verse = [f"r{n}" for n in range(12)], [f"v{n}" for n in range(40)]
    song = [*refrain, *verse, *refrain]
    layout = Layout([item(0, "x " + " \n".join(song) + " y")])
    span = layout.locate(" ".join(song), layout.whole)
    assert span is not None
    assert layout.text(span).split() == song


def test_locate_says_when_it_is_not_there() -> None:
    layout = Layout([item(0, "some text")])
    assert layout.locate("other text", layout.whole) is None
    assert layout.locate("  ", layout.whole) is None


# --- properties -------------------------------------------------------------------------------


@st.composite
def documents(draw: st.DrawFn) -> list:
    """Items with nested headings, furniture, blank texts and now and then a large one."""
    items, stack = [], []
    for number in range(draw(st.integers(1, 25))):
        level = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        text = draw(st.text("ab \n", min_size=bool(level), max_size=30)) * draw(
            st.sampled_from([1, 1, 9])
        )
        stack = [(n, lv) for n, lv in stack if not level or lv < level]
        under = stack[-1][0] if stack else None
        layer = draw(st.sampled_from(["body", "body", "body", "furniture"]))
        label = "section_header" if level else draw(st.sampled_from(["text", "footnote", "table"]))
        items.append(
            item(
                number,
                text,
                under=under,
                level=level,
                layer="body" if level else layer,
                label=label,
            )
        )
        if level:
            stack.append((number, level))
    return items


@given(documents(), st.data())
def test_what_grows_stays_within_the_cap_and_holds_the_hit(
    items: list, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(items))
    layout = Layout(items, keep=[chosen.ref])
    anchor = layout.span(layout.index[chosen.ref], layout.index[chosen.ref])
    cap = data.draw(st.integers(1, 400))
    for bounded in (True, False):
        window = layout.grow(anchor, cap, bounded=bounded)
        assert len(layout.text(window)) == len(window) <= cap
        assert window.contains(anchor) or len(anchor) > cap
        assert anchor.contains(window) or len(anchor) <= cap
        if bounded:
            assert next(iter(layout.sections(anchor))).contains(window)


@given(documents(), st.data())
def test_any_stretch_has_as_much_text_as_it_says(items: list, data: st.DataObject) -> None:
    layout = Layout(items)
    text = layout.text(layout.whole)
    assert len(text) == len(layout.whole)
    if layout.items:
        first = data.draw(st.integers(0, len(layout.items) - 1))
        last = data.draw(st.integers(first, len(layout.items) - 1))
        span = layout.span(first, last)
        assert layout.text(span) == text[span.start : span.end]
        assert list(layout.items_in(span)) == list(range(first, last + 1))
