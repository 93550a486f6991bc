"""Context expansion: the passages that hits become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fakes import FakeSnapshot, item, result

from haiku.rag.search import expand_context

if TYPE_CHECKING:
    from haiku.rag.models import SearchResult
    from haiku.rag.records import NewItem

REPORT = [
    item(0, "Report", level=1, page=1),
    item(1, "Opening words of the report.", under=0, page=1),
    item(2, "Costs", level=2, under=0, page=2),
    item(3, "Costs rose in spring. " * 4, under=2, page=2),
    item(4, "page 2 of 9", under=2, page=2, layer="furniture"),
    item(5, "They fell again in autumn. " * 4, under=2, page=3),
    item(6, "| year | cost |", under=2, label="table", page=3),
    item(7, "Outlook", level=2, under=0, page=4),
    item(8, "Nobody knows. " * 10, under=7, page=4),
]


async def expand(
    items: list[NewItem], *results: SearchResult, cap: int = 5000
) -> list[SearchResult]:
    snapshot = FakeSnapshot(documents={"d": items})
    return await expand_context(snapshot, results, max_chars=cap)


async def test_a_hit_becomes_its_section() -> None:
    hit = result("Costs rose", 3, headings=["Report", "Costs"], page_numbers=[2], labels=["text"])
    (found,) = await expand(REPORT, hit, cap=400)
    assert found.content.startswith("## Costs\n\nCosts rose")
    assert found.content.endswith("| year | cost |")
    assert "page 2 of 9" not in found.content
    assert found.headings == ["Report", "Costs"]
    assert found.page_numbers == [2, 3]
    assert found.labels == ["section_header", "text", "table"]
    assert found.doc_item_refs == [f"#/texts/{n}" for n in (2, 3, 5, 6)]
    assert (found.chunk_id, found.score) == (hit.chunk_id, hit.score)


async def test_two_hits_of_one_section_become_one_with_the_better_score() -> None:
    hits = [
        result("Nobody", 8, score=0.9, headings=["Outlook"]),
        result("autumn", 5, score=0.8, headings=["Costs"], page_numbers=[3]),
        result("spring", 3, score=0.7, headings=["Costs", "Spring"], page_numbers=[2]),
    ]
    found = await expand(REPORT, *hits, cap=300)
    assert [x.score for x in found] == [0.9, 0.8]
    assert found[1].chunk_id == hits[1].chunk_id
    assert found[1].headings == ["Costs", "Spring"]
    assert found[1].content.count("Costs rose in spring") == 4


async def test_the_order_of_the_ranking_is_kept_between_documents() -> None:
    snapshot = FakeSnapshot(documents={"d": REPORT, "e": REPORT})
    hits = [
        result("Nobody", 8, score=0.5, document_id="e"),
        result("no refs", score=0.5),
        result("Nobody", 8, score=0.5),
        result("autumn", 5, score=0.4, document_id="e"),
    ]
    found = await expand_context(snapshot, hits, max_chars=250)
    assert [(x.document_id, len(x.doc_item_refs) > 0) for x in found] == [
        ("e", True),
        ("d", False),
        ("d", True),
        ("e", True),
    ]


async def test_a_table_keeps_to_its_section_however_small() -> None:
    items = [*REPORT, item(9, "Annex", level=2, under=0), item(10, "| t |", under=9, label="table")]
    (found,) = await expand(items, result("t", 10))
    assert found.content == "## Annex\n\n| t |"
    (text,) = await expand(items[:-1], result("Annex", 9))
    assert text.content.startswith("# Report")


async def test_a_picture_without_words_gives_its_section() -> None:
    items = [item(0, "Map", level=1), item(1, "", under=0, label="picture"), item(2, "x", under=0)]
    (found,) = await expand(items, result("a map of it", 1))
    assert found.content == "# Map\n\n<!-- picture -->\n\nx"


async def test_a_document_without_headings_grows_to_the_cap() -> None:
    items = [item(n, f"paragraph {n:03}") for n in range(100)]
    (found,) = await expand(items, result("paragraph 050", 50), cap=100)
    assert "paragraph 050" in found.content
    assert 80 < len(found.content) <= 100


@pytest.mark.parametrize("content", ["own", "x" * 9000])
async def test_chunks_without_refs_pass_unchanged(content: str) -> None:
    hit = result(content)
    assert await expand(REPORT, hit) == [hit]


async def test_unknown_refs_pass_unchanged() -> None:
    hit = result("own", 99)
    assert await expand(REPORT, hit) == [hit]


async def test_a_document_that_changed_or_went_is_not_mixed_with_the_new_one() -> None:
    hit = result("own", 3, revision="r1")
    assert await expand_context(
        FakeSnapshot(documents={"d": REPORT}, revision="r2"), [hit], max_chars=5000
    ) == [hit]
    assert await expand_context(FakeSnapshot(), [hit], max_chars=5000) == [hit]
    (same,) = await expand(REPORT, hit)
    assert same.content != "own"


async def test_nothing_to_expand() -> None:
    assert await expand(REPORT) == []


async def test_one_giant_row_is_cut_to_the_cap_around_the_hit() -> None:
    """F52: a sheet that is one 2 MB item."""
    cells = [f"cell-{n:06}" for n in range(180_000)]
    items = [item(0, "Sheet", level=1), item(1, " | ".join(cells), under=0, label="table")]
    content = " | ".join(cells[90_000:90_020])
    (found,) = await expand(items, result(content, 1))
    assert content in found.content
    assert 4900 < len(found.content) <= 5000


async def test_a_hit_told_in_other_words_than_its_giant_item_stays_itself() -> None:
    items = [item(0, "| a | b |\n" * 5000, label="table")]
    (found,) = await expand(items, result("a, row 1 = b. " * 3, 0))
    assert found.content == "a, row 1 = b. " * 3
    (cut,) = await expand(items, result("a, row 1 = b. " * 30, 0), cap=50)
    assert len(cut.content) == 50


async def test_a_hit_longer_than_the_cap_is_cut_to_it() -> None:
    words = " ".join(f"word{n}" for n in range(200))
    (found,) = await expand([item(0, words)], result(words, 0), cap=100)
    assert found.content == words[:100].strip()


async def test_overlapping_hits_that_do_not_fit_together_share_the_text_between() -> None:
    items = [item(n, f"paragraph {n:03}") for n in range(40)]
    first, second = await expand(items, result("a", 0), result("b", 5), cap=75)
    assert first.doc_item_refs == [f"#/texts/{n}" for n in range(5)]
    assert second.doc_item_refs == [f"#/texts/{n}" for n in (5, 6, 7)]
    (joined,) = await expand(items, result("a", 10), result("b", 12), cap=75)
    assert joined.doc_item_refs == [f"#/texts/{n}" for n in range(9, 14)]


async def test_a_hit_inside_what_another_already_shows_is_not_shown_again() -> None:
    words = " ".join(f"word{n}" for n in range(200))
    hits = [result(words, 0, score=0.5), result("word3 word4", 0, score=0.4, chunk_id="c")]
    (found,) = await expand([item(0, words)], *hits, cap=100)
    assert found.score == 0.5


async def test_a_hit_that_cannot_be_found_again_is_not_shown_twice() -> None:
    headings = [item(n, f"w{n}" * 40, label="section_header", level=1) for n in (0, 1)]
    both = "\n".join(heading.text for heading in headings)
    hits = [result(both, 0, 1, score=s, chunk_id=c) for s, c in ((0.5, "a"), (0.4, "b"))]
    (found,) = await expand(headings, *hits, cap=150)
    assert (found.chunk_id, found.content) == ("a", both[:150])


# --- properties -------------------------------------------------------------------------------


@st.composite
def structured(draw: st.DrawFn) -> list[NewItem]:
    """Documents in which every item's text is one word that no other has."""
    items: list[NewItem] = []
    stack: list[tuple[int, int]] = []
    for number in range(draw(st.integers(1, 30))):
        level = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        if level:
            stack = [(n, lv) for n, lv in stack if lv < level]
        more = {
            "under": stack[-1][0] if stack else None,
            "level": level,
            "label": "section_header" if level else draw(st.sampled_from(["text", "table"])),
            "page": draw(st.integers(1, 4)),
        }
        items.append(item(number, f"w{number}" * draw(st.sampled_from([1, 5, 40])), **more))
        if level:
            stack.append((number, level))
    return items


@st.composite
def documents_with_hits(draw: st.DrawFn) -> tuple[list[NewItem], list[SearchResult]]:
    items = draw(structured())
    hits = []
    for rank in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, len(items) - 1))
        last = draw(st.integers(first, min(first + 2, len(items) - 1)))
        text = "\n".join(items[n].text for n in range(first, last + 1))
        hits.append(
            result(text, *range(first, last + 1), score=1 / (rank + 1), chunk_id=f"c{rank}")
        )
    return items, hits


@settings(max_examples=120, deadline=None)
@given(documents_with_hits(), st.sampled_from([20, 60, 150, 600, 5000]))
async def test_every_passage_keeps_the_promises(
    made: tuple[list[NewItem], list[SearchResult]], cap: int
) -> None:
    items, hits = made
    found = await expand(items, *hits, cap=cap)
    by_id = {hit.chunk_id: hit for hit in hits}
    assert 1 <= len(found) <= len(hits)
    assert [x.score for x in found] == sorted((x.score for x in found), reverse=True)
    for passage in found:
        assert len(passage.content) <= cap
        assert passage.score == by_id[passage.chunk_id].score
        assert passage.page_numbers == sorted(set(passage.page_numbers))
    for hit in hits:
        assert any(set(hit.doc_item_refs) <= set(passage.doc_item_refs) for passage in found)
        if len(hit.content) + 20 <= cap and len(hits) == 1:
            for ref in hit.doc_item_refs:
                assert items[int(ref.rsplit("/")[-1])].text in found[0].content


@settings(max_examples=60, deadline=None)
@given(documents_with_hits(), st.sampled_from([150, 300, 700]))
async def test_no_text_is_returned_twice(
    made: tuple[list[NewItem], list[SearchResult]], cap: int
) -> None:
    items, hits = made
    found = await expand(items, *hits, cap=cap)
    words = [line.lstrip("# ") for passage in found for line in passage.content.split("\n\n")]
    assert len(words) == len(set(words))
