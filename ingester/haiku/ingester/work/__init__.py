"""From a claim to a commit: fetch → convert → embed → commit → finish.

In: claims of `haiku.ingester.items`, bytes of `haiku.ingester.sources`. Out: changes in the store,
and what became of each claim. Rules: `concurrency` items are under way at once and no more bytes
than the spool allows; what was fetched existed at one moment; equal bytes and an equal pipeline
change nothing but the mark; a fault of the content ends the item, a fault of the surroundings
repeats it and pauses the rest while it lasts; who lost a lease does not commit; an item is
acknowledged after its commit, so that a crash in between repeats work that finds its own result.
"""

from typing import TYPE_CHECKING, Any

from haiku.ingester.work.observer import Observer, Silent

if TYPE_CHECKING:
    from haiku.ingester.work.pipeline import Pipeline
    from haiku.ingester.work.spool import Spool
    from haiku.ingester.work.worker import Worker

_HOMES = {"Pipeline": "pipeline", "Spool": "spool", "Worker": "worker"}

__all__ = ["Observer", "Pipeline", "Silent", "Spool", "Worker"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
