"""The parts of a filter, and how each is written: for people, and as SQL for the store.

There is no part for NOT: `negated` turns every part into its opposite (by De Morgan's laws, which
hold for unknown values as well), so that a NOT never stands before more than one condition. What
is unknown because of a NULL can then count as false anywhere without changing what is selected.

An absolute path that `uri` is compared with stands for its `file://` URI too, which people are
shown as that path. That is said in the SQL only: `str` gives what was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeGuard

from haiku.rag import uris
from haiku.rag.store import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("id", "uri", "title", "created_at", "updated_at", "metadata")
#: Columns that hold a time; the others hold text.
TIME_COLUMNS = ("created_at", "updated_at")
FUNCTIONS = ("LOWER", "UPPER")
#: Each sign and its opposite.
OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

#: What a value is compared as.
Kind = Literal["text", "time"]


def like_pattern(text: str) -> str:
    r"""The text as it stands inside a LIKE pattern: `\`, `%` and `_` lose their meaning."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text


#: A wildcard of a LIKE pattern, or a character that lost its meaning, or text between them.
_PATTERN_PARTS = re.compile(r"([%_])|\\(.)|([^%_\\]+|\\$)", re.DOTALL)


def _file_pattern(path: str) -> str:
    """The LIKE pattern for the `file://` URIs of the paths that a pattern matches."""
    parts = _PATTERN_PARTS.findall(path)
    return "file://" + "".join(
        wild or like_pattern(uris.quote_path(escaped or text)) for wild, escaped, text in parts
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a document."""

    name: str

    @property
    def kind(self) -> Kind:
        """Whether the column is compared as text or as a time."""
        return "time" if self.name in TIME_COLUMNS else "text"

    def __str__(self) -> str:
        return self.name

    @property
    def sql(self) -> str:
        """The column's name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted string."""

    value: str
    kind: Kind = "text"

    def __str__(self) -> str:
        return sql.literal(self.value)

    @property
    def sql(self) -> str:
        """The string, quoted."""
        return sql.literal(self.value)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in UTC."""

    value: datetime
    kind: Kind = "time"

    def __str__(self) -> str:
        return sql.literal(self._iso)

    @property
    def sql(self) -> str:
        """A timestamp literal; the store's engine does not compare times with plain strings."""
        return f"timestamp {sql.literal(self._iso)}"

    @property
    def _iso(self) -> str:
        return self.value.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Call:
    """LOWER or UPPER of a text."""

    function: str
    argument: Term
    kind: Kind = "text"

    def __str__(self) -> str:
        return f"{self.function}({self.argument})"

    @property
    def sql(self) -> str:
        """The call, its name in the engine's own lower case."""
        return f"{self.function.lower()}({self.argument.sql})"


Term = Column | Text | Moment | Call


@dataclass(frozen=True, slots=True)
class Compare:
    """Two terms and the sign between them."""

    left: Term
    sign: str
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    @property
    def sql(self) -> str:
        """The comparison; with a path it is a look whether it is among its two forms."""
        for one, other in ((self.left, self.right), (self.right, self.left)):
            if self.sign in ("=", "!=") and _is_path(other, one):
                return In(one, (other,), opposite=self.sign == "!=").sql
        return f"{self.left.sql} {self.sign} {self.right.sql}"

    @property
    def negated(self) -> Compare:
        """The comparison with the opposite sign."""
        return replace(self, sign=OPPOSITES[self.sign])


@dataclass(frozen=True, slots=True)
class Like:
    """A text against a pattern."""

    term: Term
    pattern: Term
    opposite: bool = False

    def __str__(self) -> str:
        return f"{self.term} {_word(self.opposite)}LIKE {self.pattern}"

    @property
    def sql(self) -> str:
        """The match; a path's with either form."""
        like = f"{self.term.sql} {_word(self.opposite)}LIKE "
        if not _is_path(self.pattern, self.term):
            return f"{like}{self.pattern.sql}"
        either = sql.literal(_file_pattern(self.pattern.value))
        return f"({like}{self.pattern.sql} {'AND' if self.opposite else 'OR'} {like}{either})"

    @property
    def negated(self) -> Like:
        """The opposite test."""
        return replace(self, opposite=not self.opposite)


@dataclass(frozen=True, slots=True)
class In:
    """A term against a list of values."""

    term: Term
    values: tuple[Term, ...]
    opposite: bool = False

    def __str__(self) -> str:
        return f"{self.term} {_word(self.opposite)}IN ({', '.join(map(str, self.values))})"

    @property
    def sql(self) -> str:
        """The membership. The store's engine takes some combinations of NOT IN for always true,
        even where the value is NULL; hence the guard.
        """
        values = ", ".join(form for value in self.values for form in self._forms(value))
        if self.opposite:
            return f"({self.term.sql} IS NOT NULL AND {self.term.sql} NOT IN ({values}))"
        return f"{self.term.sql} IN ({values})"

    def _forms(self, value: Term) -> Iterator[str]:
        yield value.sql
        if _is_path(value, self.term):
            yield sql.literal(uris.path_to_uri(value.value))

    @property
    def negated(self) -> In:
        """The opposite test."""
        return replace(self, opposite=not self.opposite)


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a term has a value."""

    term: Term
    opposite: bool = False

    def __str__(self) -> str:
        return f"{self.term} IS {_word(self.opposite)}NULL"

    @property
    def sql(self) -> str:
        """The test."""
        return f"{self.term.sql} IS {_word(self.opposite)}NULL"

    @property
    def negated(self) -> IsNull:
        """The opposite test."""
        return replace(self, opposite=not self.opposite)


@dataclass(frozen=True, slots=True)
class Joined:
    """Two or more parts with AND or OR between them."""

    word: Literal["AND", "OR"]
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(_enclose(part, str(part)) for part in self.parts)

    @property
    def sql(self) -> str:
        """The parts; a part that is itself joined stands in parentheses."""
        return f" {self.word} ".join(_enclose(part, part.sql) for part in self.parts)

    @property
    def negated(self) -> Joined:
        """The opposites of the parts, joined by the other word."""
        parts = tuple(part.negated for part in self.parts)
        return Joined("OR" if self.word == "AND" else "AND", parts)


Part = Compare | Like | In | IsNull | Joined


def _is_path(value: Term, term: Term) -> TypeGuard[Text]:
    """Whether a value that `uri` is compared with is an absolute path."""
    return term == Column("uri") and isinstance(value, Text) and value.value.startswith("/")


def _enclose(part: Part, written: str) -> str:
    return f"({written})" if isinstance(part, Joined) else written


def _word(opposite: bool) -> str:
    return "NOT " if opposite else ""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was checked. `str()` gives it back in its own language."""

    root: Part

    def __str__(self) -> str:
        return str(self.root)

    @property
    def sql(self) -> str:
        """The filter as a SQL expression over the store's `document_meta` columns."""
        return self.root.sql
