"""Costs follow size, pages, and what was seen."""

from pathlib import Path

import pytest

from haiku.ingester.plans.estimate import Estimator, count_pages, suffix


def test_cost_grows_with_size_and_is_never_nothing() -> None:
    estimator = Estimator([], workers=2)
    small, large = (estimator.cost("file:///a.md", size) for size in (100, 1_000_000))
    assert small.chunks == 1
    assert large.chunks > 1000
    assert 0 < small.seconds < large.seconds
    assert estimator.cost("file:///a.md", 0).chunks == 0
    assert estimator.cost("file:///a.md", None).chunks >= 1


def test_what_was_indexed_counts_more_than_a_table() -> None:
    seen = [("file:///1.md", 10_000, 100), ("file:///2.MD", 30_000, 100)]
    assert Estimator(seen, workers=1).cost("file:///3.md", 2_000).chunks == 10
    assert Estimator(seen, workers=1).cost("file:///3.html", 3_000).chunks == 2


def test_pages_decide_for_a_pdf_until_others_are_known() -> None:
    estimator = Estimator([], workers=1)
    assert estimator.cost("file:///a.pdf", 10, pages=20).pages == 20
    assert estimator.cost("file:///a.pdf", 10, pages=20).chunks == 60


@pytest.mark.parametrize(
    ("uri", "expected"), [("file:///a/B.PDF", ".pdf"), ("s3://x/a.b/c?d=e.f", ""), ("", "")]
)
def test_suffix(uri: str, expected: str) -> None:
    assert suffix(uri) == expected


def test_pages_of_a_file_are_counted(tmp_path: Path) -> None:
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    for _ in range(3):
        document.new_page(100, 100)
    document.save(tmp_path / "a.pdf")
    assert count_pages(str(tmp_path / "a.pdf")) == 3
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 no more")
    assert count_pages(str(tmp_path / "b.pdf")) is None
