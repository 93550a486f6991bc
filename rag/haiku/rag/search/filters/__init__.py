r"""The filter language: boolean expressions over the columns of a document.

In: text that a person or a model wrote. Out: a `Filter`, whose `sql` the store may use as it is.
Rules: the text is parsed and printed again, never pasted into a query; what is not listed here is
refused with a `FilterError` that names the position and what is allowed there.

    columns      id  uri  title  created_at  updated_at  metadata (the JSON text)
    comparisons  =  !=  <>  <  <=  >  >=
    tests        [NOT] LIKE '…'   [NOT] IN ('…', '…')   IS [NOT] NULL
    together     AND  OR  NOT  ( )
    functions    LOWER(…)  UPPER(…)  over text
    values       'single-quoted', a quote inside doubled: 'O''Brien'

In a LIKE pattern `%` stands for any characters, `_` for one, and `\` makes the next one ordinary.
`created_at` and `updated_at` compare with ISO 8601 times; one without an offset is UTC. Columns,
keywords and functions may be written in any case. A comparison with a NULL title is never true.

Files are stored under `file://` URIs and shown as paths. An absolute path that `uri` is compared
with by =, !=, IN or LIKE stands for its URI as well: `uri = '/docs/a b.md'` finds the document
`file:///docs/a%20b.md`, and so does `uri LIKE '/docs/%'`.
"""

from haiku.rag.search.filters.parser import parse_filter
from haiku.rag.search.filters.tree import Filter, like_pattern

__all__ = ["Filter", "like_pattern", "parse_filter"]
