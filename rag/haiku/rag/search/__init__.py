"""The read path: a query becomes hits, and hits become passages with the text around them.

In: a `Snapshot` of the store, a query or hits. Out: `SearchResult`s, best first. Rules: nothing
here writes; a query is plain text and is never parsed; filters are parsed and printed again before
they come near the store; the same snapshot and query give the same results in the same order.
"""

from haiku.rag.search.expand import expand_context
from haiku.rag.search.hybrid import search

__all__ = ["expand_context", "search"]
