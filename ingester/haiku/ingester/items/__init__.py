"""What is known of every object that a source knows: queue, sync state and failed list in one.

In: what sources observe, and what became of work. Out: claims to work on, and what people ask.
Rules: one row per (source, uri), level-triggered: an observation that differs raises the row's
`counter`, a claim takes its value, done means equal. A claim is leased; who lost it may not
finish it. Every row is in exactly one `State`. Losing this database loses no document.
"""

from typing import TYPE_CHECKING, Any

from haiku.ingester.items.model import (
    Action,
    Claim,
    Empty,
    Failed,
    Indexed,
    Item,
    JobRecord,
    Known,
    Observation,
    Observed,
    Postponed,
    Priority,
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

if TYPE_CHECKING:
    from haiku.ingester.items.items import Items

__all__ = [
    "Action",
    "Claim",
    "Empty",
    "Failed",
    "Indexed",
    "Item",
    "Items",
    "JobRecord",
    "Known",
    "Observation",
    "Observed",
    "Postponed",
    "Priority",
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


def __getattr__(name: str) -> Any:
    """`Items` loads SQLAlchemy; the words alone do not."""
    if name == "Items":
        from haiku.ingester.items.items import Items

        return Items
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
