"""The fast test for wanted names against pathspec itself."""

from __future__ import annotations

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.ingester.sources.patterns import Matcher, Patterns
from haiku.rag.ignore import DEFAULT_IGNORE

#: pathspec takes a line's end after a name for nothing, which git does not.
_NAME = st.text(alphabet="abXY.~$#-_ \né", min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..") and not name.endswith("\n")
)
_PATTERN = st.one_of(
    st.sampled_from(DEFAULT_IGNORE),
    st.text(alphabet="abXY.~$#*?[]!/\\- é", max_size=8),
    _NAME.map(lambda name: f"*{name}"),
    _NAME.map(lambda name: f"{name}*"),
    _NAME.map(lambda name: f"!{name}"),
    _NAME.map(lambda name: f"{name}/"),
    st.tuples(_NAME, _NAME).map("/".join),
    st.tuples(_NAME, _NAME).map("/**/".join),
)


def _spec(lines: list[str]) -> pathspec.GitIgnoreSpec | None:
    try:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return None  # not a pattern; refused for us as well


@given(lines=st.lists(_PATTERN, max_size=5), folders=st.lists(_NAME, max_size=2), name=_NAME)
def test_fast_matcher_says_what_pathspec_says(
    lines: list[str], folders: list[str], name: str
) -> None:
    spec = _spec(lines)
    if spec is None:
        return
    matcher = Matcher(lines)
    path = ""
    for folder in folders:  # a name is only asked when no folder above it matches
        path += folder + "/"
        assert matcher.matches(path, folder) == spec.match_file(path)
        if spec.match_file(path):
            return
    assert matcher.matches(path + name, name) == spec.match_file(path + name)


@pytest.mark.parametrize("pattern", ["X", "*X", "X/"])
def test_a_line_end_after_a_name_makes_another_name(pattern: str) -> None:
    assert not Matcher([pattern]).matches("X\n", "X\n")


@pytest.mark.parametrize(
    "name",
    ["x.pdf.part", "a.tmp", "a.filepart", "a.crdownload", "~$letter.docx", ".~lock.a.odt#", ".#a"],
)
def test_leftovers_of_programs_are_ignored(name: str) -> None:
    """F03"""
    assert not Patterns().wants(name, name)
    assert not Patterns().wants(f"below/{name}", name)
    assert Patterns(default_ignore=False).wants(name, name)
    assert Patterns(ignore=[f"!{name}"]).wants(name, name)


@pytest.mark.parametrize("name", [".git", "node_modules", "x.lancedb"])
def test_folders_of_programs_are_not_entered(name: str) -> None:
    assert not Patterns().enters(f"{name}/", name)
    assert Patterns().wants(name, name)  # a file of that name is a file


def test_include_is_about_files_and_ignore_wins() -> None:
    patterns = Patterns(include=["*.md", "docs/"], ignore=["draft*"])
    assert patterns.wants("a/b.md", "b.md")
    assert not patterns.wants("a/b.txt", "b.txt")
    assert patterns.wants("docs/b.txt", "b.txt")
    assert not patterns.wants("draft.md", "draft.md")
    assert patterns.enters("a/", "a")
