"""Boxes lie where the ink is, on pages as they are shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
from PIL import ImageChops


def ink(path: Path) -> tuple[float, float, float, float]:
    """Outline of everything drawn on the first page, in points from its top left."""
    image = pypdfium2.PdfDocument(path)[0].render(scale=2).to_pil().convert("L")
    left, top, right, bottom = ImageChops.invert(image).getbbox()
    return left / 2, top / 2, right / 2, bottom / 2


@pytest.mark.parametrize("name", ["cropped", "rotated", "hyphens", "fake_bold"])
def test_boxes_cover_the_ink(
    name: str, pdf: Callable[[str], Path], convert: Callable[[Path], Any]
) -> None:
    path = pdf(name)
    doc = convert(path)
    page = doc.pages[1]
    boxes = [prov.bbox.to_top_left_origin(page.size.height) for i in doc.texts for prov in i.prov]
    left, top = min(box.l for box in boxes), min(box.t for box in boxes)
    right, bottom = max(box.r for box in boxes), max(box.b for box in boxes)
    x0, y0, x1, y1 = ink(path)
    common = max(0, min(right, x1) - max(left, x0)) * max(0, min(bottom, y1) - max(top, y0))
    whole = (right - left) * (bottom - top) + (x1 - x0) * (y1 - y0) - common
    assert common / whole > (0.6 if name == "fake_bold" else 0.8)
    shown = pypdfium2.PdfDocument(path)[0].get_size()
    assert (page.size.width, page.size.height) == pytest.approx(shown, abs=0.5)
