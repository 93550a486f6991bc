"""Deletions are dangerous: when too much of a source is absent at once, they wait for a person.

Absent are the items that a complete listing does not have, or that left one after another in the
last `WINDOW` seconds. More than `delete_guard` of all that is known, and at least
`delete_guard_min`: deletions are suspended, in the items database, so that a restart changes
nothing. A missing root suspends them as well. They happen again when a person confirms them, or by
themselves when a later complete listing misses fewer than `delete_guard_min` items and not all:
what had vanished is back.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from haiku.ingester.items.model import Suspension
    from haiku.ingester.sync.model import Ledger, Policy

logger = logging.getLogger(__name__)

#: Seconds during which deletions that were noticed one by one are counted together.
WINDOW = 300.0


class Guard:
    """Decides whether absent items of one source may be removed."""

    def __init__(self, source_id: str, ledger: Ledger, policy: Policy) -> None:
        self._source_id = source_id
        self._ledger = ledger
        self._share = policy.delete_guard
        self._minimum = max(1, policy.delete_guard_min)
        #: (when, how many) of removals that were allowed as they happened.
        self._recent: deque[tuple[float, int]] = deque()
        #: Why deletions are suspended, as far as this process knows; None: they are not.
        self.suspension: Suspension | None = None

    async def load(self) -> None:
        """Read from the items database whether deletions are suspended."""
        record = (await self._ledger.sources()).get(self._source_id)
        self.suspension = record.suspension if record else None

    async def allows_swept(
        self, absent: int, known: int, *, complete: bool = True, confirmed: bool = False
    ) -> bool:
        """Whether what a listing does not have may be removed.

        Args:
            absent: items that it does not have and that have not moved.
            known: all items, the absent ones included.
            complete: every part of the source could be read.
            confirmed: a person has agreed.
        """
        await self.load()
        is_back = complete and (not absent or absent < min(self._minimum, known))
        if confirmed or is_back:
            await self._resume()
        if confirmed or not absent:
            return True
        return self.suspension is None and not await self._trips(absent, known)

    async def allows_live(self, absent: int, known: int, now: float) -> bool:
        """Whether items that were noticed leaving may be removed.

        Args:
            absent: items that are leaving now.
            known: all items, those included.
            now: seconds of any clock that only goes forward.
        """
        await self.load()
        while self._recent and self._recent[0][0] < now - WINDOW:
            self._recent.popleft()
        before = sum(count for _, count in self._recent)
        if self.suspension is not None or await self._trips(absent + before, known + before):
            return False
        self._recent.append((now, absent))
        return True

    async def root_missing(self, reason: str) -> None:
        """The root is away; when it comes back empty, that must not delete everything."""
        await self.load()
        known = await self._ledger.count_known(self._source_id)
        if self.suspension is None and known:
            await self._suspend(known, reason)

    async def _trips(self, absent: int, known: int) -> bool:
        if absent < self._minimum or absent <= self._share * known:
            return False
        reason = (
            f"{absent:,} of {known:,} known items are not in the source any more; if that is "
            f"right, run `haiku-ingester source confirm-deletes {self._source_id}`"
        )
        await self._suspend(absent, reason)
        return True

    async def _suspend(self, count: int, reason: str) -> None:
        await self._ledger.suspend_deletes(self._source_id, count=count, reason=reason)
        await self.load()
        logger.warning("deletions are suspended: %s", reason, extra={"source": self._source_id})

    async def _resume(self) -> None:
        self._recent.clear()
        if self.suspension is not None:
            await self._ledger.clear_suspension(self._source_id)
            self.suspension = None
            logger.info("deletions are no longer suspended", extra={"source": self._source_id})
