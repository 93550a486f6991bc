"""Context expansion: a hit becomes the passage it stands in.

The rules are those of the design: the whole section where it fits; in a larger one outward item
by item; from one too small outward into what encloses it. Footnotes and furniture are passed
over. A picture or a table gives its section and never more. Passages of one document that overlap
become one when its hits fit into the cap together, and are parted between the hits when not. No
passage is longer than the cap. Chunks that refer to no item stay as they are.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from haiku.rag.search.layout import Layout, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from haiku.rag.models import SearchResult
    from haiku.rag.records import NewItem
    from haiku.rag.store import Snapshot

#: Labels whose section is never left.
_BOUNDED = frozenset({"table", "picture", "chart"})


async def expand_context(
    snapshot: Snapshot, results: Sequence[SearchResult], *, max_chars: int
) -> list[SearchResult]:
    """The results with the text around them, in the order of the best hit of each.

    Args:
        snapshot: where the documents' items are read.
        results: hits. Those of a document that has changed or gone since stay as they are.
        max_chars: characters of a passage at most.
    """
    documents = list(dict.fromkeys(result.document_id for result in results if _refers(result)))
    items = await asyncio.gather(*(_items(snapshot, document, results) for document in documents))
    by_document = dict(zip(documents, items, strict=True))
    expanded: list[tuple[int, SearchResult]] = []
    for document_id, found in by_document.items():
        ranked = [(r, x) for r, x in enumerate(results) if x.document_id == document_id]
        expanded += expand_document(found, ranked, cap=max_chars)
    expanded += [(r, x) for r, x in enumerate(results) if x.document_id not in by_document]
    return [result for _, result in sorted(expanded, key=lambda pair: pair[0])]


def _refers(result: SearchResult) -> bool:
    return bool(result.doc_item_refs)


async def _items(
    snapshot: Snapshot, document_id: str, results: Sequence[SearchResult]
) -> list[NewItem]:
    """The items the hits of a document refer to; none when it is no longer that revision."""
    row = await snapshot.get(document_id)
    seen = {x.revision for x in results if x.document_id == document_id and x.revision}
    if row is None or not seen <= {row.revision}:
        return []
    return await snapshot.items(row)


@dataclass(frozen=True, slots=True)
class _Passage:
    """A stretch of a document around one hit or several."""

    #: Where the hits stand.
    anchor: Span
    #: What is returned; it holds the anchor, or as much of it as the cap allows.
    window: Span
    #: Place in the ranking, from 0, and hit.
    hits: tuple[tuple[int, SearchResult], ...]


def expand_document(
    items: Sequence[NewItem], hits: Sequence[tuple[int, SearchResult]], *, cap: int
) -> list[tuple[int, SearchResult]]:
    """The hits of one document, expanded and merged.

    Args:
        items: the document's items in reading order.
        hits: place in the ranking, from 0, and hit.
        cap: characters of a passage at most.
    """
    refs = {ref for _, result in hits for ref in result.doc_item_refs}
    layout = Layout(items, keep=refs)
    done: list[tuple[int, SearchResult]] = []
    passages: list[_Passage] = []
    seen: set[tuple[str, ...]] = set()
    for rank, result in hits:
        # Two chunks of one text, where a document repeats itself: the better one stands for both.
        if (key := (result.content, *result.doc_item_refs)) in seen:
            continue
        seen.add(key)
        places = [layout.index[ref] for ref in result.doc_item_refs if ref in layout.index]
        if not places:
            done.append((rank, result))
            continue
        own = layout.span(min(places), max(places))
        anchor = own if len(own) <= cap else layout.locate(result.content, own)
        if anchor is None:
            done.append((rank, _shortened(result, cap)))
            continue
        bounded = bool(_BOUNDED.intersection(layout.items[place].label for place in places))
        window = layout.grow(anchor, cap, bounded=bounded)
        passages.append(_Passage(anchor, window, ((rank, result),)))
    return done + [_merged(layout, passage) for passage in _settle(layout, passages, cap)]


def _shortened(result: SearchResult, cap: int) -> SearchResult:
    """A hit that cannot be found again in an item too large to return: its own text."""
    if len(result.content) <= cap:
        return result
    return result.model_copy(update={"content": result.content[:cap]})


def _settle(layout: Layout, passages: Iterable[_Passage], cap: int) -> list[_Passage]:
    """The passages in reading order, joined where they overlap, so that none repeats another."""
    done: list[_Passage] = []
    for passage in sorted(passages, key=lambda p: p.anchor):
        while done and done[-1].window.overlaps(passage.window):
            joined = _join(layout, done[-1], passage, cap)
            if joined is None:
                done[-1], passage = _part(done[-1], passage)
                break
            done.pop()
            passage = joined
        done.append(passage)
    return done


def _join(layout: Layout, first: _Passage, second: _Passage, cap: int) -> _Passage | None:
    """One passage around the hits of both, or None when those do not fit into the cap together."""
    anchor, window = first.anchor.union(second.anchor), first.window.union(second.window)
    one_holds_both = window in (first.window, second.window)
    if len(anchor) > cap and not one_holds_both:
        return None
    if len(window) > cap:
        window = layout.grow(anchor, cap, bounded=True)
    return _Passage(anchor, window, first.hits + second.hits)


def _part(first: _Passage, second: _Passage) -> tuple[_Passage, _Passage]:
    """The two without what they share: it goes to the first, up to where the second's hit is."""
    border = min(first.window.end, max(second.anchor.start, first.anchor.end))
    return (
        replace(first, window=Span(first.window.start, border)),
        replace(second, window=Span(max(second.window.start, border), second.window.end)),
    )


def _merged(layout: Layout, passage: _Passage) -> tuple[int, SearchResult]:
    """The passage as a result: the best hit, with the text and the particulars of all of it."""
    hits = sorted(passage.hits, key=lambda hit: (-hit[1].score, hit[0]))
    best = hits[0][1]
    items = [layout.items[at] for at in layout.items_in(passage.window)]
    pages = {page for _, hit in hits for page in hit.page_numbers}
    pages |= {box.page for item in items for box in item.boxes}
    refs = [item.ref for item in items] + [ref for _, hit in hits for ref in hit.doc_item_refs]
    update = {
        "content": layout.text(passage.window).strip(),
        "headings": list(dict.fromkeys(name for _, hit in hits for name in hit.headings)),
        "labels": list(dict.fromkeys(item.label for item in items)),
        "page_numbers": sorted(pages),
        "doc_item_refs": list(dict.fromkeys(refs)),
    }
    return min(rank for rank, _ in hits), best.model_copy(update=update)
