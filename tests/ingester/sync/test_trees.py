"""Prefixes, against the obvious way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from haiku.ingester.sync.trees import Trees

_URI = st.text(alphabet="ab/\uffff", max_size=6)


@given(st.lists(_URI), _URI)
def test_contains(prefixes: list[str], uri: str) -> None:
    assert (uri in Trees(prefixes)) == uri.startswith(tuple(prefixes))


@given(st.lists(_URI))
def test_tops_are_in_none_of_the_others(prefixes: list[str]) -> None:
    tops = Trees(prefixes).tops
    assert all(prefix.startswith(tuple(tops)) for prefix in prefixes)
    assert not any(a != b and a.startswith(b) for a in tops for b in tops)
