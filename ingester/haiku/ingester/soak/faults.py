"""Makes commits fail, hang or be overtaken at a step; see `Store.on_step`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from haiku.rag.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: The steps of a commit, by the names that `Store.on_step` gives.
STEPS = (
    "read",
    "check",
    "append documents",
    "append document_items",
    "append chunks",
    "index",
    "merge",
    "merged",
)
#: Seconds that a stalled commit hangs.
STALL = 0.5


class CommitFaults:
    """A step hook that acts once at each step it was armed for."""

    def __init__(self) -> None:
        self._armed: dict[str, Callable[[], Awaitable[None]]] = {}
        #: Faults that happened.
        self.happened = 0

    def fail_at(self, step: str) -> None:
        """Have the next commit that comes to a step fail there."""

        async def fail() -> None:
            raise StoreError(f"a simulated fault of the storage before {step}")

        self._armed[step] = fail

    def stall_at(self, step: str) -> None:
        """Have the next commit that comes to a step hang there for a while."""

        async def stall() -> None:
            await asyncio.sleep(STALL)

        self._armed[step] = stall

    def act_at(self, step: str, action: Callable[[], Awaitable[None]]) -> None:
        """Have something done when the next commit comes to a step."""
        self._armed[step] = action

    def clear(self) -> None:
        """Nothing more is to happen."""
        self._armed.clear()

    async def step(self, name: str) -> None:
        """The hook."""
        action = self._armed.pop(name, None)
        if action is not None:
            self.happened += 1
            await action()
