"""Reading the database as it was: at a tag, a version of `document_meta`, or a time.

`document_meta` says what was live; of the other tables the oldest kept versions are taken that are
not before those in which the live rows' revisions were appended. Rows may have been collected and
versions cleaned up since, so everything is counted before it is used. Blocking.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from haiku.rag.exceptions import StateNotKept, TagNotFound
from haiku.rag.store import checking, indexes, reading, schema, sql, tags
from haiku.rag.store.naming import kept_before, name_of
from haiku.rag.store.tables import open_table, versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haiku.rag.store.states import AsOf, Tag

#: The column of a live row that names the version its rows of a table were appended in.
_APPENDED_IN = {
    schema.DOCUMENTS: "documents_version",
    schema.ITEMS: "items_version",
    schema.CHUNKS: "chunks_version",
}


#: Versions of `chunks` in which a full-text index is looked for.
NEAR = 10


def at(database: str, as_of: AsOf) -> dict[str, Any]:
    """All five tables as they were, by name.

    Args:
        database: where it is.
        as_of: see `states.AsOf`; a time means the last commit that is not after it.

    Raises:
        TagNotFound: a text is neither a tag's name nor a version nor a time.
        TagUnusable: the tag is partial.
        StateNotKept: the message says what is kept.
        ValueError: a time without a zone.
    """
    tag, version, moment = _parse(database, as_of)
    try:
        if tag is not None:
            datasets = {
                table: open_table(database, table).checkout_version(number)
                for table, number in tag.versions.items()
            }
        else:
            meta = open_table(database, schema.META)
            datasets = _around(database, _meta_at(database, meta, version, moment))
        whole = checking.complete(datasets)
    except (OSError, ValueError) as error:
        raise _not_kept(database, f"the data of {as_of} any more") from error
    if not whole:
        raise _not_kept(database, f"all documents of {as_of} any more")
    return datasets


def _parse(database: str, as_of: AsOf) -> tuple[Tag | None, int | None, datetime | None]:
    """What is meant: a tag, a version or a time."""
    if isinstance(as_of, datetime):
        if as_of.tzinfo is None:
            raise ValueError(f"{as_of} has no time zone; give one, such as UTC")
        return None, None, as_of
    if isinstance(as_of, int):
        return None, as_of, None
    with suppress(TagNotFound):
        return tags.usable(database, as_of), None, None
    if as_of.isascii() and as_of.isdigit():
        return None, int(as_of), None
    try:
        moment = datetime.fromisoformat(as_of)
    except ValueError:
        raise TagNotFound(
            f"{as_of!r} is no tag of {name_of(database)}, no version number and no time such as "
            "2026-01-31T18:00Z; see `haiku-rag tag list` and `haiku-rag history`"
            f"{kept_before(database)}"
        ) from None
    return None, None, moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _meta_at(database: str, meta: Any, version: int | None, moment: datetime | None) -> Any:
    """`document_meta` at a version, or as the last commit not after a moment left it."""
    kept = versions(meta)
    if version is not None:
        if version not in kept:
            raise _not_kept(database, f"version {version} of document_meta")
        return meta.checkout_version(version)
    assert moment is not None
    first, last = 0, len(kept)
    while first < last:  # the first version after the moment
        middle = (first + last) // 2
        if committed_at(meta.checkout_version(kept[middle])) <= moment:
            first = middle + 1
        else:
            last = middle
    if not first:
        raise _not_kept(database, f"the state of {moment.isoformat()}")
    return meta.checkout_version(kept[first - 1])


def committed_at(meta: Any) -> datetime:
    """When the commit was made that left `document_meta` like this."""
    table = meta.to_table(columns=["committed_at"], filter=sql.equals("uri", schema.HEAD))
    moment: datetime = table["committed_at"][0].as_py()
    return moment.astimezone(UTC)


def _around(database: str, meta: Any) -> dict[str, Any]:
    """The other tables at the oldest kept versions in which the live rows' revisions can be."""
    needed = meta.to_table(columns=list(_APPENDED_IN.values()), filter=reading.LIVE)
    # Settings change when the layout does, which no state survives but by a tag.
    found = {schema.META: meta, schema.SETTINGS: open_table(database, schema.SETTINGS)}
    for table, column in _APPENDED_IN.items():
        dataset = open_table(database, table)
        least = pc.max(needed[column]).as_py() or 0
        after = [version for version in versions(dataset) if version >= least]
        found[table] = _searchable(dataset, table, after)
    return found


def _searchable(dataset: Any, table: str, after: Sequence[int]) -> Any:
    """The oldest of some versions; of `chunks` the first of them with a full-text index.

    The index is made right after a table's first append, and a search without it would not fold
    case or find stems.
    """
    oldest = dataset.checkout_version(after[0])
    if table != schema.FULL_TEXT[0]:
        return oldest
    for version in after[:NEAR]:
        opened = dataset.checkout_version(version)
        if schema.FULL_TEXT[1] not in indexes.missing(opened, table):
            return opened
    return oldest


def _not_kept(database: str, what: str) -> StateNotKept:
    meta = open_table(database, schema.META)
    kept = versions(meta)
    oldest = committed_at(meta.checkout_version(kept[0]))
    names = [tag.name for tag in tags.read_all(database) if tag.complete]
    tagged = f"; the tags {', '.join(names)}" if names else ""
    return StateNotKept(
        f"{name_of(database)} does not keep {what}. Kept: versions {spans(kept)} of document_meta, "
        f"from {oldest:%Y-%m-%d %H:%M:%S} UTC on{tagged}; see `haiku-rag history`"
        f"{kept_before(database)}"
    )


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers for people, runs shortened: "1, 5-9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
