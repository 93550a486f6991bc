"""What is known of every object that a source knows: queue, sync state and failed list in one.

In: what sources observe, and what became of work. Out: claims to work on, and what people ask.
Rules: one row per (source, uri), level-triggered: an observation that differs raises the row's
`counter`, a claim takes its value, done means equal. A claim is leased; who lost it may not
finish it. Every row is in exactly one `State`. Losing this database loses no document.
"""

from haiku.ingester.items.model import (
    Action,
    Claim,
    Empty,
    Failed,
    Indexed,
    Item,
    Known,
    Observation,
    Observed,
    Priority,
    Rebuilt,
    Removed,
    Request,
    RequestKind,
    Result,
    Retry,
    Skipped,
    SourceRecord,
    State,
    Suspension,
)

__all__ = [
    "Action",
    "Claim",
    "Empty",
    "Failed",
    "Indexed",
    "Item",
    "Known",
    "Observation",
    "Observed",
    "Priority",
    "Rebuilt",
    "Removed",
    "Request",
    "RequestKind",
    "Result",
    "Retry",
    "Skipped",
    "SourceRecord",
    "State",
    "Suspension",
]
