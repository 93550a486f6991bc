"""Work that a cancellation must not leave half done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def finish(work: Awaitable[T]) -> T:
    """The result of `work`. Cancelled, it is waited for: nothing goes on behind the caller."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # what it ended with is not told any more
        raise
