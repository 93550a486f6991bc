"""A database as it should be: a model in memory, and what a fresh reader sees of the real one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.rag.store.making import dump, text_hits, unit, vector_hits

from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Snapshot, Store
from haiku.rag.store.changes import ABSENT, ANY, NO_ROW, Change, Move, Put, UpdateMeta

#: Stands in a group for the version of a row that the group itself has written.
_OF_THE_GROUP = "?"


@dataclass(frozen=True, kw_only=True)
class Doc:
    """A live document."""

    #: None until a reader has seen what the store has made.
    id: str | None = None
    born: datetime | None = None
    text: str
    chunks: int
    title: str | None
    metadata: Mapping[str, Any]
    sources: Mapping[str, str]
    content_hash: str | None


@dataclass(kw_only=True)
class World:
    """What a database holds."""

    docs: dict[str, Doc] = field(default_factory=dict)
    #: URI → `row_version` of its row in any state, as the last reader saw it.
    versions: dict[str, str] = field(default_factory=dict)

    def after(self, changes: Sequence[Change], *, whole: bool) -> tuple[dict[str, Doc], list[str]]:
        """The documents after a group, and what becomes of each of its changes."""
        work, results = self._applied(changes, whole)
        return work.docs, results

    def untouched_by(self, changes: Sequence[Change], *, whole: bool) -> list[str] | None:
        """What becomes of changes that write nothing at all; None when they write."""
        work, results = self._applied(changes, whole)
        return results if work.versions == self.versions else None

    def _applied(self, changes: Sequence[Change], whole: bool) -> tuple["World", list[str]]:
        work = World(docs=dict(self.docs), versions=dict(self.versions))
        results = [work._apply(change) for change in changes]
        if whole and set(results) - {"done"}:
            return self, ["dropped" if result == "done" else result for result in results]
        return work, results

    def _apply(self, change: Change) -> str:
        here = self.docs.get(change.uri)
        if here is None and not isinstance(change, Put):
            return "absent"
        if not self._holds(change):
            return "conflict"
        if isinstance(change, Put):
            return self._put(change, here)
        assert here is not None
        if isinstance(change, UpdateMeta):
            title = here.title if change.title is None else change.title
            metadata = here.metadata if change.metadata is None else change.metadata
            self._set(
                change.uri,
                replace(
                    here,
                    title=title,
                    metadata=metadata,
                    content_hash=change.content_hash or here.content_hash,
                    sources={**here.sources, **change.sources},
                ),
            )
            return "done"
        if isinstance(change, Move):
            return self._move(change, here)
        if change.source is None or list(here.sources) == [change.source]:
            self._set(change.uri, None)
        elif change.source in here.sources:
            rest = {name: mark for name, mark in here.sources.items() if name != change.source}
            self._set(change.uri, replace(here, sources=rest))
        return "done"

    def _put(self, change: Put, here: Doc | None) -> str:
        taken = {doc.id for doc in self.docs.values()}
        if here is None and change.id is not None and change.id in taken:
            return "conflict"
        self.docs[change.uri] = Doc(
            id=here.id if here else change.id,
            born=here.born if here else None,
            text=change.revision.content,
            chunks=len(change.revision.chunks),
            title=change.title,
            metadata=change.metadata,
            sources={**(here.sources if here else {}), **change.sources},
            content_hash=change.content_hash,
        )
        self.versions[change.uri] = _OF_THE_GROUP
        return "done"

    def _move(self, change: Move, here: Doc) -> str:
        if change.to_uri == change.uri:
            return "done"
        if change.to_uri in self.docs:
            return "conflict"
        title = here.title if change.title is None else change.title
        moved = replace(here, title=title, sources={**here.sources, **change.sources})
        self._set(change.uri, None)
        self._set(change.to_uri, moved)
        return "done"

    def _set(self, uri: str, doc: Doc | None) -> None:
        if self.docs.get(uri) == doc:
            return
        self.versions[uri] = _OF_THE_GROUP
        if doc is None:
            del self.docs[uri]
        else:
            self.docs[uri] = doc

    def _holds(self, change: Change) -> bool:
        there = self.versions.get(change.uri)
        if change.expected == ABSENT:
            return change.uri not in self.docs
        if change.expected == NO_ROW:
            return there is None
        return change.expected in (ANY, there)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Everything a reader sees of one state."""

    version: int
    #: See `making.dump`.
    exact: dict[str, Any]
    #: All rows of `document_meta` but the head row.
    rows: Sequence[Mapping[str, Any]]

    @property
    def versions(self) -> dict[str, str]:
        """`World.versions`."""
        return {row["uri"]: row["row_version"] for row in self.rows}


async def see(
    path: str | Path, config: StorageConfig, as_of: Any = None, word: str | None = None
) -> Seen:
    """Open a database as a process does that has just come, look at everything, and search."""
    async with await Store.open(path, config, read_only=True, as_of=as_of) as store:
        snapshot = await store.snapshot()
        rows = snapshot._view.meta.to_table(filter="state != 'head'").to_pylist()
        seen = Seen(version=snapshot.version, exact=await dump(snapshot), rows=rows)
        if word is not None:
            await _search(snapshot, word, docs_of(seen.exact))
        return seen


def docs_of(exact: Mapping[str, Any]) -> dict[str, Doc]:
    """The documents that a reader saw; S1: each with all its rows, which say the same text."""
    found = {}
    for uri, parts in exact.items():
        row, (document,), chunks, items = (
            parts["row"],
            parts["documents"],
            parts["chunks"],
            parts["document_items"],
        )
        text = document["content"]
        assert (row["chunk_count"], row["item_count"]) == (len(chunks), len(items)), uri
        assert [chunk["order"] for chunk in chunks] == list(range(len(chunks)))
        for chunk in chunks:
            assert chunk["text"] == chunk["content"] == f"{text} part{chunk['order']}"
            assert chunk["vector"] == unit(chunk["text"]).tolist()
            assert chunk["headings"] == [text]
        assert document["docling"] in (text.encode(), None)
        assert {item["text"] for item in items} == {text}
        assert {part["document_id"] for part in (document, *chunks, *items)} == {row["id"]}
        found[uri] = Doc(
            id=row["id"],
            born=row["created_at"],
            text=text,
            chunks=len(chunks),
            title=row["title"],
            metadata=row["metadata"],
            sources=row["sources"],
            content_hash=row["content_hash"],
        )
    return found


def check_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """S2: one row a URI, one live row an id."""
    uris = Counter(row["uri"] for row in rows)
    assert set(uris.values()) <= {1}, uris
    live = Counter(row["id"] for row in rows if row["state"] == "live")
    assert set(live.values()) <= {1}, live


async def _search(snapshot: Snapshot, word: str, docs: Mapping[str, Doc]) -> None:
    """Both legs find what is live and nothing else, with many dead rows around."""
    everything = {(uri, n): doc.text for uri, doc in docs.items() for n in range(doc.chunks)}
    wanted = {key for key, text in everything.items() if word in text.split()}
    hits = await text_hits(snapshot, word, len(wanted) or 1)
    assert sorted((hit.row.uri, hit.chunk.order) for hit in hits) == sorted(wanted), word
    nearest = await vector_hits(snapshot, unit(f"{word} part0"), 100)
    assert sorted((h.row.uri, h.chunk.order) for h in nearest) == sorted(everything)
    same = sum(text == word and number == 0 for (_, number), text in everything.items())
    assert all(hit.score > 0.999 for hit in nearest[:same])
    assert all(hit.row.id == docs[hit.row.uri].id for hit in (*hits, *nearest))
