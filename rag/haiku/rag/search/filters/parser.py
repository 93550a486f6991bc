"""Text → `Filter`: a tokeniser and a recursive-descent parser for the language of this package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from haiku.rag.exceptions import FilterError
from haiku.rag.search.filters import tree

#: Characters of a filter: room for a list of some ten thousand ids.
MAX_LENGTH = 500_000
#: Parentheses, NOTs and functions inside each other. The store's engine gives up at 50 steps, of
#: which each takes two, and puts some around the filter itself.
MAX_DEPTH = 16

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>'(?:[^']|'')*')
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><=|>=|<>|!=|=|<|>)
      | (?P<mark>[(),])""",
    re.VERBOSE,
)
_KEYWORDS = frozenset({"AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL"})
_TERM = f"a column ({', '.join(tree.COLUMNS)}), LOWER(…), UPPER(…) or a quoted string"
_TEST = "a comparison (= != < <= > >=), LIKE, IN or IS NULL"


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of the text. Words that are keywords, functions or columns are in their own case."""

    #: "string", "sign", "mark", "keyword", "function", "column" or "end".
    kind: str
    value: str
    #: Offset of its first character.
    at: int


def parse_filter(text: str) -> tree.Filter:
    """The filter that the text describes.

    Raises:
        FilterError: anything outside the language; the message has the position, from 1.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(
            f"the filter has {len(text):,} characters, more than {MAX_LENGTH:,}; make it shorter"
        )
    return tree.Filter(_Parser(text).parse())


def _error(text: str, at: int, problem: str) -> FilterError:
    near = text[at : at + 20]
    where = f"at position {at + 1} (near {near!r})" if near else "at its end"
    return FilterError(f"the filter is wrong {where}: {problem}")


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(text, at, _why_not(text, at))
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(_token(text, kind, match[0], at))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _token(text: str, kind: str, raw: str, at: int) -> _Token:
    if kind == "string":
        value = raw[1:-1].replace("''", "'")
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise _error(
                text, at, "the string holds half of a surrogate pair, which no text matches"
            )
        return _Token(kind, value, at)
    if kind != "word":
        return _Token(kind, raw, at)
    if raw.upper() in _KEYWORDS:
        return _Token("keyword", raw.upper(), at)
    if raw.upper() in tree.FUNCTIONS:
        return _Token("function", raw.upper(), at)
    if raw.lower() in tree.COLUMNS:
        return _Token("column", raw.lower(), at)
    raise _error(text, at, f"{raw!r} is unknown; allowed are {_TERM}, AND, OR, NOT")


def _why_not(text: str, at: int) -> str:
    char = text[at]
    if char == "'":
        return "the string is not closed; a quote inside a string is written twice"
    if char == '"':
        return "strings take single quotes, and columns none"
    if char.isdigit():
        return "numbers are not part of the language; values are single-quoted strings"
    return f"{char!r} is not part of the language"


class _Parser:
    """One pass over the tokens; each method reads one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def parse(self) -> tree.Part:
        """The whole text as one expression."""
        if self._peek.kind == "end":
            raise self._error("it is empty; expected a condition such as title LIKE '%report%'")
        part = self._either()
        if self._peek.kind != "end":
            raise self._error("expected AND, OR or the end")
        return part

    # --- tokens -------------------------------------------------------------------------------

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, kind: str, *values: str) -> _Token | None:
        """The next token if it is of the kind (and one of the values), else None."""
        token = self._peek
        if token.kind != kind or (values and token.value not in values):
            return None
        self._next += 1
        return token

    def _expect(self, kind: str, value: str, expected: str) -> None:
        if self._take(kind, value) is None:
            raise self._error(f"expected {expected}")

    def _error(self, problem: str, at: int | None = None) -> FilterError:
        return _error(self._text, self._peek.at if at is None else at, problem)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(
                f"more than {MAX_DEPTH} parentheses, NOTs or functions inside each other"
            )

    # --- the grammar --------------------------------------------------------------------------

    def _either(self) -> tree.Part:
        parts = [self._both()]
        while self._take("keyword", "OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else tree.Joined("OR", tuple(parts))

    def _both(self) -> tree.Part:
        parts = [self._negation()]
        while self._take("keyword", "AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else tree.Joined("AND", tuple(parts))

    def _negation(self) -> tree.Part:
        if self._take("keyword", "NOT") is None:
            return self._group()
        self._enter()
        part = self._negation()
        self._depth -= 1
        return part.negated

    def _group(self) -> tree.Part:
        if self._take("mark", "(") is None:
            return self._condition()
        self._enter()
        part = self._either()
        self._expect("mark", ")", "AND, OR or a closing parenthesis")
        self._depth -= 1
        return part

    def _condition(self) -> tree.Part:
        start = self._peek.at
        left = self._term()
        sign = self._take("sign")
        if sign is not None:
            return self._comparison(start, left, sign)
        if not _has_column(left):
            raise self._error("a condition starts with a column, not with a fixed value", start)
        if self._take("keyword", "IS"):
            opposite = self._take("keyword", "NOT") is not None
            self._expect("keyword", "NULL", "NULL or NOT NULL after IS")
            return tree.IsNull(left, opposite)
        opposite = self._take("keyword", "NOT") is not None
        if self._take("keyword", "LIKE"):
            return self._like(start, left, opposite)
        if self._take("keyword", "IN"):
            return tree.In(left, self._values(left), opposite)
        raise self._error("expected LIKE or IN after NOT" if opposite else f"expected {_TEST}")

    def _comparison(self, start: int, left: tree.Term, sign: _Token) -> tree.Compare:
        at = self._peek.at
        right = self._term()
        if not (_has_column(left) or _has_column(right)):
            raise self._error("a comparison names a column on at least one side", start)
        left, right = self._as(right.kind, left, start), self._as(left.kind, right, at)
        return tree.Compare(left, "!=" if sign.value == "<>" else sign.value, right)

    def _like(self, start: int, left: tree.Term, opposite: bool) -> tree.Like:
        if left.kind == "time":
            raise self._error("times take = != < <= > >=, IN or IS NULL, not LIKE", start)
        at = self._peek.at
        pattern = self._term()
        if _has_column(pattern):
            raise self._error("LIKE takes a quoted pattern", at)
        return tree.Like(left, pattern, opposite)

    def _values(self, left: tree.Term) -> tuple[tree.Term, ...]:
        self._expect("mark", "(", "a list in parentheses after IN, as in id IN ('a', 'b')")
        values = [self._value(left)]
        while self._take("mark", ","):
            values.append(self._value(left))
        self._expect("mark", ")", "a comma or a closing parenthesis in the list")
        return tuple(values)

    def _value(self, left: tree.Term) -> tree.Term:
        token = self._take("string")
        if token is None:
            raise self._error("expected a quoted string in the list")
        return self._as(left.kind, tree.Text(token.value), token.at)

    def _term(self) -> tree.Term:
        if (column := self._take("column")) is not None:
            return tree.Column(column.value)
        if (string := self._take("string")) is not None:
            return tree.Text(string.value)
        if (function := self._take("function")) is not None:
            return self._call(function)
        raise self._error(f"expected {_TERM}")

    def _call(self, function: _Token) -> tree.Call:
        self._expect("mark", "(", f"a parenthesis after {function.value}")
        self._enter()
        at = self._peek.at
        argument = self._term()
        if argument.kind == "time":
            raise self._error(f"{function.value} takes text, not a time", at)
        self._expect("mark", ")", "a closing parenthesis")
        self._depth -= 1
        return tree.Call(function.value, argument)

    def _as(self, kind: tree.Kind, term: tree.Term, at: int) -> tree.Term:
        """The term as something that compares with that kind; a string becomes a time."""
        if term.kind == kind or (term.kind == "time" and kind == "text"):
            return term
        if not isinstance(term, tree.Text):
            raise self._error("a time compares with a quoted ISO time or another time", at)
        try:
            moment = datetime.fromisoformat(term.value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return tree.Moment(moment.astimezone(UTC))
        except (ValueError, OverflowError):
            problem = "expected an ISO 8601 time such as '2025-03-01T12:00:00Z'"
            raise self._error(problem, at) from None


def _has_column(term: tree.Term) -> bool:
    while isinstance(term, tree.Call):
        term = term.argument
    return isinstance(term, tree.Column)
