"""Escaping, snippets, exit codes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haiku.rag import exceptions
from haiku.rag.cli.boundary import exit_code
from haiku.rag.cli.escaping import json_safe, one_line, shown
from haiku.rag.cli.output import SNIPPET, snippet


@given(st.text(st.characters()))
def test_nothing_a_terminal_obeys_comes_through(text: str) -> None:
    for made in (shown(text), one_line(text)):
        assert not any(ord(c) < 32 and c not in "\n\t" for c in made)
        assert not any(0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF for c in made)
    assert "\n" not in one_line(text)


TEXTS = st.text(st.characters(), max_size=20)
VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@settings(max_examples=50)
@given(VALUES)
def test_json_means_the_same_with_escapes(value: object) -> None:
    text = json_safe(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert "\x9b" not in text


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "naïve\tÜber 采购\n\nمی\u200cخواهم [x] {y}"
    assert shown(text) == text


def test_a_snippet_shows_where_the_words_are() -> None:
    text = "nothing here. " * 100 + "The holiday allowance is thirty days. " + "or here. " * 100
    found = snippet(text, "holiday Allowance?")
    assert "The holiday allowance is thirty days." in found
    assert found.startswith("… ")
    assert found.endswith(" …")
    assert len(found) <= SNIPPET + 4


def test_a_snippet_without_the_words_is_the_beginning() -> None:
    found = snippet("word " * 200, "other")
    assert found.startswith("word word")
    assert found.endswith(" …")
    assert snippet("short  text", "x") == "short text"


@given(st.text("ab \n", max_size=900), st.text("ab "))
def test_a_snippet_is_a_part_of_the_text(text: str, query: str) -> None:
    found = snippet(text, query)
    assert found.removeprefix("… ").removesuffix(" …") in " ".join(text.split())
    assert len(found) <= SNIPPET + 4


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (exceptions.HaikuRAGError, 1),
        (exceptions.ReadOnly, 1),
        (exceptions.DocumentCorrupt, 1),
        (exceptions.ConfigError, 2),
        (exceptions.FilterError, 2),
        (exceptions.IdentityMismatch, 2),
        (exceptions.DatabaseNotFound, 3),
        (exceptions.DocumentNotFound, 3),
        (exceptions.DatabaseExists, 4),
        (exceptions.Conflict, 5),
        (exceptions.EmbedderUnavailable, 5),
    ],
)
def test_every_error_has_its_exit_code(kind: type[exceptions.HaikuRAGError], code: int) -> None:
    assert exit_code(kind("x")) == code
