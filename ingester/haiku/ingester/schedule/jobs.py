"""The jobs themselves."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Protocol

from haiku.ingester.exceptions import RunFailed
from haiku.rag.exceptions import TagNotFound

if TYPE_CHECKING:
    from haiku.ingester.timetable import Slot
    from haiku.rag.store import Store
    from haiku.rag.store.info import VacuumReport

log = logging.getLogger(__name__)


class Job(Protocol):
    """Something that is done at set times."""

    #: A short word, in logs, metrics and the items database.
    name: str

    async def run(self, slot: Slot) -> str:
        """Do it; what was done, for people. Running a slot twice does no harm.

        Raises:
            Exception: it failed. Cancelled, it ends as soon as it can.
        """
        ...


class Vacuum:
    """Takes away what nobody needs any more."""

    name = "vacuum"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, slot: Slot) -> str:
        """See `Store.vacuum`; cancelled, it stops before the next step.

        Raises:
            RunFailed: something failed, or was left because memory or disk are short.
        """
        report = await self._store.vacuum()
        if report.postponed:
            log.info("vacuum: other processes were at %s", ", ".join(report.postponed))
        if left := [*report.errors, *report.skipped]:
            raise RunFailed("; ".join(left))
        return _summary(report)


def _summary(report: VacuumReport) -> str:
    return (
        f"{report.collected_revisions} revisions collected, {report.removed_versions} versions "
        f"and {report.removed_bytes} bytes removed"
    )


class Tags:
    """Names the state of the moment, and keeps the newest of its names.

    Args:
        store: the database.
        pattern: a name with `{slot}` in it.
        keep: how many tags with such a name are kept.
    """

    name = "tag"

    def __init__(self, store: Store, pattern: str, keep: int) -> None:
        self._store = store
        self._keep = keep
        self._before, self._after = pattern.split("{slot}")
        before, after = re.escape(self._before), re.escape(self._after)
        self._own = re.compile(rf"{before}(\d{{8}}T\d{{4}}){after}", re.ASCII)

    async def run(self, slot: Slot) -> str:
        """Make the slot's tag, unless it is there, then delete those beyond `keep`.

        Raises:
            StoreError: it could not be made, or one could not be deleted.
        """
        name = f"{self._before}{slot.nominal:%Y%m%dT%H%M}{self._after}"
        await self._make(name)
        deleted = await self._thin(name)
        return f"tag {name}" + (f"; deleted {', '.join(deleted)}" if deleted else "")

    async def _make(self, name: str) -> None:
        there = {tag.name: tag for tag in await self._store.list_tags()}
        if name in there:
            if there[name].complete:
                return
            await self._store.delete_tag(name)  # a run that was cut short
        await self._store.create_tag(name)

    async def _thin(self, newest: str) -> list[str]:
        """Delete what is beyond `keep`, but never what has just been made."""
        slots = {
            tag.name: found[1]
            for tag in await self._store.list_tags()
            if (found := self._own.fullmatch(tag.name))
        }
        names = sorted(slots, key=lambda name: slots[name])[: -self._keep]
        return [name for name in names if name != newest and await self._delete(name)]

    async def _delete(self, name: str) -> bool:
        try:
            await self._store.delete_tag(name)
        except TagNotFound:  # somebody was faster
            return False
        return True
