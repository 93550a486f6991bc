"""The filter language: what it accepts, what it refuses, and what its SQL selects."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haiku.rag.exceptions import FilterError
from haiku.rag.search.filters import like_pattern, parse_filter
from haiku.rag.search.filters.parser import MAX_DEPTH
from haiku.rag.search.filters.tree import COLUMNS, TIME_COLUMNS, _file_pattern
from haiku.rag.store.sql import literal as quote
from haiku.rag.uris import path_to_uri

TEXT_COLUMNS = ("id", "uri", "title", "metadata")
JANUARY = datetime(2025, 1, 1, tzinfo=UTC)
JUNE = datetime(2025, 6, 1, 12, 30, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": "a1", "uri": "file:///docs/Report.pdf", "title": "Annual Report"},
    {"id": "b2", "uri": "file:///docs/100%25.md", "title": None},
    {"id": "c3", "uri": "https://example.org/O'Brien.md", "title": "O'Brien"},
    {"id": "d4", "uri": "file:///x/re_port.md", "title": "a\\b"},
    {"id": "e5", "uri": "urn:uuid:5", "title": "a''b"},
]
for at, row in enumerate(ROWS):
    row["metadata"] = f'{{"n": {at}}}'
    row["created_at"] = JANUARY
    row["updated_at"] = JUNE if at % 2 else JANUARY
SCHEMA = pa.schema(
    [(name, pa.string()) for name in TEXT_COLUMNS]
    + [(name, pa.timestamp("us", "UTC")) for name in TIME_COLUMNS]
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path = tmp_path_factory.mktemp("filters") / "rows.lance"
    return lance.write_dataset(pa.Table.from_pylist(ROWS, SCHEMA), path)


def select(table: lance.LanceDataset, text: str) -> list[str]:
    found = table.to_table(columns=["id"], filter=parse_filter(text).sql)
    return sorted(found["id"].to_pylist())


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id = 'a1'", "a1"),
        ("'a1' = id", "a1"),
        ("ID<>'a1' and id != 'b2'", "c3 d4 e5"),
        ("id > 'b2' AND id <= 'd4'", "c3 d4"),
        ("uri = 'https://example.org/O''Brien.md'", "c3"),
        ("title = 'a\\b'", "d4"),
        ("title = 'a''''b'", "e5"),
        ("uri LIKE 'file://%'", "a1 b2 d4"),
        ("uri LIKE '%re_port%'", "d4"),
        ("LOWER(uri) LIKE '%re_ort%'", "a1"),
        ("LOWER(uri) LIKE LOWER('%REPORT%')", "a1"),
        (r"uri LIKE '%re\_port%'", "d4"),
        (r"uri LIKE '%100\%25%'", "b2"),
        ("uri NOT LIKE 'file%'", "c3 e5"),
        ("upper(title) = 'ANNUAL REPORT'", "a1"),
        ("title IS NULL", "b2"),
        ("title NOT IN ('x') OR title NOT IN ('y')", "a1 c3 d4 e5"),
        ("NOT (title IN ('x') AND NOT title != 'y')", "a1 c3 d4 e5"),
        ("title IS NOT NULL AND id IN ('a1','b2', 'c3')", "a1 c3"),
        ("id NOT IN ('a1')", "b2 c3 d4 e5"),
        ("title != 'O''Brien'", "a1 d4 e5"),
        ("NOT title = 'O''Brien'", "a1 d4 e5"),
        ("NOT NOT id = 'a1'", "a1"),
        ("NOT id < 'c3'", "c3 d4 e5"),
        ("NOT id <= 'c3'", "d4 e5"),
        ("NOT id > 'c3'", "a1 b2 c3"),
        ("NOT id >= 'c3'", "a1 b2"),
        ("id = 'a1' OR id = 'b2' AND title IS NOT NULL", "a1"),
        ("(id = 'a1' OR id = 'b2') AND title IS NULL", "b2"),
        ("NOT (id = 'a1' OR NOT title IS NULL)", "b2"),
        ("updated_at > '2025-01-01'", "b2 d4"),
        ("updated_at >= '2025-06-01T14:30:00+02:00'", "b2 d4"),
        ("updated_at < '2025-06-01T12:30:00Z'", "a1 c3 e5"),
        ("'2025-06-01T12:30:00.000001' > updated_at AND updated_at != created_at", "b2 d4"),
        ("updated_at IN ('2025-06-01 12:30', '2024-01-01')", "b2 d4"),
        ("updated_at IS NULL", ""),
        ("uri = '/docs/Report.pdf'", "a1"),
        ("'/docs/100%.md' = uri", "b2"),
        ("uri != '/docs/100%.md'", "a1 c3 d4 e5"),
        ("NOT (uri = '/docs/100%.md' OR id = 'e5')", "a1 c3 d4"),
        ("uri IN ('/docs/100%.md', 'urn:uuid:5', '/x/./re_port.md')", "b2 d4 e5"),
        ("uri NOT IN ('/docs/100%.md', 'urn:uuid:5')", "a1 c3 d4"),
        ("uri LIKE '/docs/%' AND id > 'a1'", "b2"),
        ("uri NOT LIKE '/docs/%'", "c3 d4 e5"),
        (r"uri LIKE '/docs/100\%.md'", "b2"),
        (r"uri LIKE '/docs/100\%25.md'", ""),
        ("uri LIKE '/x/re_port._d'", "d4"),
        (r"uri LIKE '/x/r\e\_port.md'", "d4"),
        ("title = '/docs/Report.pdf'", ""),
        ("metadata LIKE '%\"n\": 3%'", "d4"),
        ("metadata\n LIKE\t'%\"n\": 3%'", "d4"),
    ],
)
def test_selects(table: lance.LanceDataset, text: str, ids: str) -> None:
    assert select(table, text) == ids.split()
    assert select(table, str(parse_filter(text))) == ids.split()


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", "at its end", "empty"),
        ("   ", "at its end", "empty"),
        ("title = 'x' garbage", "position 13", "unknown"),
        ("content = 'x'", "position 1 ", "id, uri, title, created_at, updated_at, metadata"),
        ('title = "x"', "position 9 ", "single quotes"),
        ("title = 'x", "position 9 ", "not closed"),
        ("id = 1", "position 6 ", "numbers"),
        ("1=1", "position 1 ", "numbers"),
        ("'1'='1'", "position 1 ", "column"),
        ("uri = 'x' OR '1'='1'", "position 14 ", "column"),
        ("LOWER('x') = UPPER('x')", "position 1 ", "column"),
        ("id = 'x'; DROP TABLE x", "position 9 ", "not part"),
        ("id = 'x' -- comment", "position 10 ", "not part"),
        ("id = 'x' /* c */", "position 10 ", "not part"),
        ("id IN (SELECT id FROM x)", "position 8 ", "unknown"),
        ("id IN ()", "position 8 ", "quoted string"),
        ("id IN 'x'", "position 7 ", "parentheses"),
        ("LENGTH(id) = 'x'", "position 1 ", "unknown"),
        ("LOWER(created_at) = 'x'", "position 7 ", "not a time"),
        ("created_at LIKE '2025%'", "position 1 ", "not LIKE"),
        ("created_at > 'yesterday'", "position 14 ", "ISO"),
        ("created_at > title", "position 14 ", "ISO"),
        ("title LIKE uri", "position 12 ", "pattern"),
        ("title IS 'x'", "position 10 ", "NULL"),
        ("title NOT 'x'", "position 11 ", "LIKE or IN"),
        ("title", "at its end", "comparison"),
        ("(title = 'x'", "at its end", "closing"),
        ("title = 'x')", "position 12 ", "AND, OR or the end"),
        ("NOT", "at its end", "column"),
        ("id = 'x' AND", "at its end", "column"),
        ("id = NULL", "position 6 ", "column"),
        ("id BETWEEN 'a' AND 'b'", "position 4 ", "unknown"),
        ("id || 'x' = 'y'", "position 4 ", "not part"),
        ("title = '\ud800'", "position 9 ", "surrogate"),
        ("(" * 200 + "id='x'" + ")" * 200, "position 18 ", "inside each other"),
        ("NOT " * 5000 + "id='x'", "position 69 ", "inside each other"),
        ("LOWER(" * 99 + "id" + ")" * 99 + "='x'", "position 103 ", "inside each other"),
    ],
)
def test_refuses(text: str, position: str, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert position in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("depth", "before"),
    [
        (MAX_DEPTH, "(id = 'a1' AND "),
        (MAX_DEPTH // 2, "NOT (id != 'a1' OR "),
        (MAX_DEPTH // 4, "NOT (id != 'a1' OR NOT (uri = 'x' AND "),
    ],
)
def test_the_deepest_accepted_filter_runs(
    table: lance.LanceDataset, depth: int, before: str
) -> None:
    text = before * depth + "id NOT IN ('b2')" + ")" * before.count("(") * depth
    inside = parse_filter(text).sql
    table.to_table(columns=["id"], filter=f"((({inside}) AND id > '') AND uri > '')")
    with pytest.raises(FilterError, match="inside each other"):
        parse_filter(before + text + ")" * before.count("("))


def test_a_time_without_an_offset_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/Lima")
    time.tzset()
    try:
        sql = parse_filter("created_at = '2025-03-01T12:00'").sql
    finally:
        monkeypatch.undo()
        time.tzset()
    assert sql == "created_at = timestamp '2025-03-01T12:00:00.000000+00:00'"


def test_long_filters_run_and_longer_ones_are_refused(table: lance.LanceDataset) -> None:
    ids = ", ".join(f"'{at:036}'" for at in range(10_000))
    assert select(table, f"id IN ({ids}) OR id = 'a1'") == ["a1"]
    either = " OR ".join(f"uri LIKE '%{at}x%'" for at in range(2_000))
    assert select(table, either) == []
    with pytest.raises(FilterError, match="make it shorter"):
        parse_filter("id = '" + "x" * 600_000 + "'")


#: Ways into a query that people have tried (F45).
INJECTIONS = [
    "x' OR 1=1 --",
    "x' OR 'a'='a",
    "'; DELETE FROM document_meta; --",
    "x\\' OR title IS NULL --",
    "x') OR (title LIKE '%",
    "%' OR '%' LIKE '%",
    "x\x00' OR 1=1",
    "\u2019 OR 1=1 --",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_quoted_value_stays_a_value(table: lance.LanceDataset, text: str) -> None:
    assert select(table, f"uri = {quote(text)}") == []
    assert select(table, f"uri LIKE {quote('%' + like_pattern(text) + '%')}") == []
    with pytest.raises(FilterError):
        parse_filter(f"uri = '{text}'  IS")


@pytest.mark.parametrize("row", ROWS)
def test_quoting_and_patterns_find_the_very_text(
    table: lance.LanceDataset, row: dict[str, Any]
) -> None:
    assert select(table, f"uri = {quote(row['uri'])}") == [row["id"]]
    assert select(table, f"uri LIKE {quote(like_pattern(row['uri']))}") == [row["id"]]


PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12).map(
    lambda text: f"/{text}"
)


@settings(max_examples=100, deadline=None)
@given(PATHS)
@example("/a b/100%_\\.md")
def test_a_path_finds_the_uri_it_is_stored_under(path: str) -> None:
    rows = pa.table({"uri": [path_to_uri(path), path, "file:///another"]})
    for test in (f"= {quote(path)}", f"IN ({quote(path)})"):
        assert quote(path_to_uri(path)) in parse_filter(f"uri {test}").sql
    pattern = _file_pattern(like_pattern(path))
    found = pc.match_like(rows["uri"], pattern).to_pylist()
    assert found[:1] == [os.path.normpath(path) == path]
    assert not found[2]


# --- properties -------------------------------------------------------------------------------

VALUES = st.one_of(
    st.sampled_from([value for row in ROWS for value in (row["uri"], row["title"]) if value]),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.text("%_\\'aB", max_size=5),
)
TEXTS = st.sampled_from(TEXT_COLUMNS)
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])

#: A filter's text, and the same as a function of a row: True, False or None (unknown).
Pair = tuple[str, Any]


def _known(test: Any) -> Any:
    def apply(row: dict[str, Any], column: str) -> bool | None:
        return None if row[column] is None else bool(test(row[column]))

    return apply


def _compare(column: str, sign: str, value: str) -> Pair:
    tests = {
        "=": lambda a: a == value,
        "!=": lambda a: a != value,
        "<": lambda a: a.encode() < value.encode(),
        "<=": lambda a: a.encode() <= value.encode(),
        ">": lambda a: a.encode() > value.encode(),
        ">=": lambda a: a.encode() >= value.encode(),
    }
    test = _known(tests[sign])
    return f"{column} {sign} {quote(value)}", lambda row: test(row, column)


def _contains(column: str, value: str) -> Pair:
    test = _known(lambda a: value in a)
    return f"{column} LIKE {quote('%' + like_pattern(value) + '%')}", lambda row: test(row, column)


def _among(column: str, values: list[str]) -> Pair:
    test = _known(lambda a: a in values)
    return f"{column} IN ({', '.join(map(quote, values))})", lambda row: test(row, column)


def _negation(pair: Pair) -> Pair:
    def apply(row: dict[str, Any]) -> bool | None:
        value = pair[1](row)
        return None if value is None else not value

    return f"NOT ({pair[0]})", apply


def _both(a: Pair, b: Pair) -> Pair:
    def apply(row: dict[str, Any]) -> bool | None:
        values = (a[1](row), b[1](row))
        return False if False in values else None if None in values else True

    return f"({a[0]}) AND ({b[0]})", apply


def _either(a: Pair, b: Pair) -> Pair:
    def apply(row: dict[str, Any]) -> bool | None:
        values = (a[1](row), b[1](row))
        return True if True in values else None if None in values else False

    return f"({a[0]}) OR ({b[0]})", apply


CONDITIONS = st.one_of(
    st.builds(_compare, TEXTS, SIGNS, VALUES),
    st.builds(_contains, TEXTS, VALUES),
    st.builds(_among, TEXTS, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(lambda c: (f"{c} IS NULL", lambda row: row[c] is None), TEXTS),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds(_negation, inner),
        st.builds(_both, inner, inner),
        st.builds(_either, inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILTERS)
def test_selects_what_the_expression_means(table: lance.LanceDataset, pair: Pair) -> None:
    text, model = pair
    assert select(table, text) == sorted(row["id"] for row in ROWS if model(row) is True)


@settings(max_examples=100, deadline=None)
@given(FILTERS)
def test_printing_and_parsing_again_gives_the_same(pair: Pair) -> None:
    parsed = parse_filter(pair[0])
    assert parse_filter(str(parsed)) == parsed
    assert str(parse_filter(str(parsed))) == str(parsed)


WORDS = (*COLUMNS, "AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "LOWER", "UPPER")
PIECES = (*WORDS, "(", ")", ",", "=", "<>", "'x'", "''", "'2025-01-01'", '"', "--", ";", "1")
SOUP = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from([*WORDS, *INJECTIONS, '"', "--", ";", "1"]), max_size=12).map(
        " ".join
    ),
)


@settings(max_examples=400, deadline=None)
@given(SOUP)
@example("\x00")
@example("title = 'a' AND")
def test_no_text_raises_anything_but_filter_error(text: str) -> None:
    try:
        parsed = parse_filter(text)
    except FilterError:
        return
    outside = re.sub(r"'(?:[^']|'')*'", "''", parsed.sql)
    assert set(re.findall(r"\w+", outside)) <= {*WORDS, "lower", "upper", "timestamp"}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(SOUP)
def test_whatever_is_accepted_runs(table: lance.LanceDataset, text: str) -> None:
    try:
        parse_filter(text)
    except FilterError:
        return
    select(table, text)
