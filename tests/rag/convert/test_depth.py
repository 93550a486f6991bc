"""Texts that nest so deep that a parser would not come back are told by a look."""

import pytest

from haiku.rag.convert.depth import too_deep
from haiku.rag.convert.local import ConvertOptions, convert_file


@pytest.mark.parametrize(
    ("text", "format_", "deep"),
    [
        ("> " * 300 + "x", "md", True),
        (">" * 40 + " x", "md", True),
        ("text\n\n" + "- " * 100 + "x", "md", True),
        ("1. > " * 20 + "x", "md", True),
        ("> > > a quote in quotes", "md", False),
        ("* * * * * * * * * * * * * * * * *", "md", False),
        ("- - - - - - - - - - - - - - - - -\n", "md", False),
        ("---\n***\n\n- a\n  - b\n", "md", False),
        ("a > b > c" * 100, "md", False),
        ("<div>" * 20_000, "html", True),
        ("<div><br><p><img>" * 300 + "</div>" * 300, "html", False),
        ("<div></div>" * 5_000, "html", False),
        ("<ul>" + "<li>x" * 5_000 + "</ul>", "html", False),
        ("> " * 300, "text", False),
    ],
)
def test_depth(text, format_, deep):
    assert too_deep(text, format_) is deep


@pytest.mark.parametrize(
    ("name", "text"), [("a.md", "> " * 300 + "lost?"), ("a.html", "<div>" * 20_000 + "lost?")]
)
def test_a_deep_text_is_read_plainly_and_at_once(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    converted = convert_file(path, name=name, options=ConvertOptions())
    assert any("plain text" in warning for warning in converted.warnings)
    assert "lost?" in " ".join(item.text for item in converted.document.texts)
