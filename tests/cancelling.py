"""Cancels a coroutine at its n-th suspension, so that a test can walk over every await."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class Cancelled(Exception):
    """The coroutine was cancelled where it was to be, and ended."""


async def run(work: Coroutine[Any, Any, T], at: int, *, after: float = 0.0) -> T:
    """The result of `work` when it has fewer than `at` suspensions.

    Args:
        work: what to run, in a task of its own.
        at: which suspension is cancelled, from 1: where the task itself waits, however deep.
        after: seconds that it is given there first, so that what it waits for has begun.

    Raises:
        Cancelled: it had more, was cancelled at that one, and ended by it.
    """
    task = asyncio.create_task(_drive(work, at, after))
    try:
        return await task
    except asyncio.CancelledError:
        raise Cancelled from None


async def _drive(work: Coroutine[Any, Any, T], at: int, after: float) -> T:
    return await _walk(work, at, after)


@types.coroutine
def _walk(work: Coroutine[Any, Any, T], at: int, after: float) -> Generator[Any, Any, T]:
    inner = work.__await__()
    step, number = lambda: inner.send(None), 0
    while True:
        try:
            waited_for = step()
        except StopIteration as ended:
            result: T = ended.value
            return result
        number += 1
        task = asyncio.current_task()
        assert task is not None
        if number == at and not after:
            task.cancel()
        elif number == at:
            asyncio.get_running_loop().call_later(after, task.cancel)
        try:
            value = yield waited_for
        except BaseException as error:
            step = lambda error=error: inner.throw(error)  # noqa: E731
        else:
            step = lambda value=value: inner.send(value)  # noqa: E731
