"""What became of a claim, written into its row: the right-hand side of the table of states."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import delete, select, update

from haiku.ingester.exceptions import ItemsUnavailable, LeaseLost
from haiku.ingester.items.claiming import FREE, backoff, waiting_state
from haiku.ingester.items.model import (
    Action,
    Claim,
    Empty,
    Failed,
    Indexed,
    Postponed,
    Removed,
    Result,
    Retry,
    Skipped,
    State,
)
from haiku.ingester.items.observing import NO_DOCUMENT, let_go
from haiku.ingester.items.tables import items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from haiku.ingester.config import WorkConfig
    from haiku.ingester.items.database import Database
    from haiku.ingester.items.tables import AnyRow

#: A claim, its result, and who waits for its state.
_Ending: TypeAlias = "tuple[Claim, Result, asyncio.Future[State]]"

_CLEAR: dict[str, Any] = {"code": None, "reason": None, "stage": None}


class Finisher:
    """Ends claims that come in together in one transaction: a group commit ends many at once."""

    def __init__(
        self,
        database: Database,
        config: WorkConfig,
        clock: Callable[[], float],
        news: asyncio.Event,
    ) -> None:
        self._database = database
        self._config = config
        self._clock = clock
        self._news = news
        self._queue: list[_Ending] = []
        self._task: asyncio.Task[None] | None = None

    async def finish(self, claim: Claim, result: Result) -> State:
        """As `Items.finish`. Once called it is carried out, whatever becomes of the caller."""
        done: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self._queue.append((claim, result, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="finish-items")
        return await done

    async def close(self) -> None:
        """Wait until everything that came in is recorded."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            answers = await self._record(batch)
            self._news.set()
            for (_, _, done), answer in zip(batch, answers, strict=True):
                if done.done():
                    continue
                if isinstance(answer, Exception):
                    done.set_exception(answer)
                else:
                    done.set_result(answer)

    async def _record(self, batch: Sequence[_Ending]) -> Sequence[State | Exception]:
        try:
            return await self._database.write(lambda c: self._all(c, batch))
        except ItemsUnavailable as error:
            return [error] * len(batch)

    async def _all(
        self, connection: AsyncConnection, batch: Sequence[_Ending]
    ) -> list[State | Exception]:
        answers: list[State | Exception] = []
        now = self._clock()
        for claim, result, _ in batch:
            try:
                answers.append(
                    await finish(connection, claim, result, config=self._config, now=now)
                )
            except LeaseLost as lost:
                answers.append(lost)
        return answers


async def finish(
    connection: AsyncConnection, claim: Claim, result: Result, *, config: WorkConfig, now: float
) -> State:
    """Record `result` and end the claim.

    A row whose counter was raised meanwhile is work again at once, whatever the result; what the
    result says of the store is kept all the same.

    Raises:
        LeaseLost: the claim is not held any more; nothing was changed.
    """
    row = await _held_row(connection, claim)
    raised = row.counter != claim.counter
    values = _facts(claim, result, now)
    if raised:
        state = waiting_state(row.action)
    else:
        state, outcome = _ending(row, claim, result, config, now)
        values |= outcome
    if state == State.GONE and isinstance(result, Removed) and not raised:
        await connection.execute(delete(items).where(items.c.id == row.id))
    else:
        values |= {"state": state, "changed_at": now, "crashes": 0, **FREE}
        await connection.execute(update(items).where(items.c.id == row.id).values(**values))
    if claim.action == Action.MOVE and not _still_moves(row, state):
        moved = isinstance(result, Indexed | Empty) and result.moved
        await let_go(connection, claim.source_id, claim.uri, moved=moved)
    return state


async def _held_row(connection: AsyncConnection, claim: Claim) -> AnyRow:
    statement = select(items.c.id, items.c.counter, items.c.action, items.c.skip, items.c.attempts)
    mine = (items.c.id == claim.item_id) & (items.c.lease_token == claim.token)
    row = (await connection.execute(statement.where(mine).with_for_update())).one_or_none()
    if row is None:
        raise LeaseLost(
            f"{claim.uri} of source {claim.source_id} was taken over by another instance; "
            "that one finishes it"
        )
    return row


def _still_moves(row: AnyRow, state: State) -> bool:
    return bool(row.action == Action.MOVE and state == State.PENDING)


def _facts(claim: Claim, result: Result, now: float) -> dict[str, Any]:
    """What the result says of the store, true even when the item is work again."""
    match result:
        case Indexed() | Empty():
            return {
                "content_hash": result.content_hash,
                "indexed_mark": result.mark,
                "fingerprint": result.fingerprint,
                "document_id": result.document_id,
                "chunk_count": result.chunk_count if isinstance(result, Indexed) else 0,
                "done_counter": claim.counter,
                "indexed_at": now,
            }
        case Skipped() | Removed():
            return NO_DOCUMENT | {"done_counter": claim.counter}
        case Failed():
            return {"done_counter": claim.counter}
        case Retry() | Postponed():
            return {}


def _ending(
    row: AnyRow, claim: Claim, result: Result, config: WorkConfig, now: float
) -> tuple[State, dict[str, Any]]:
    """The state of a row that nothing was wanted of meanwhile, and what else it then says."""
    match result:
        case Indexed():
            return State.INDEXED, _settled(result)
        case Empty():
            return State.EMPTY, _settled(result) | {"code": "empty", "reason": result.reason}
        case Skipped():
            return State.SKIPPED, _verdict(result) | {"stage": None}
        case Failed():
            return State.FAILED, _verdict(result) | {"stage": result.stage}
        case Removed():
            if row.skip is None:
                return State.GONE, {}
            return State.SKIPPED, {"action": Action.INDEX, "attempts": 0, "stage": None}
        case Retry():
            return _another_attempt(row, claim, result, config, now)
        case Postponed():
            return waiting_state(row.action), _postponed(row, result, now)


def _settled(result: Indexed | Empty) -> dict[str, Any]:
    """The mark the bytes had is what the source last said, unless it has said more since."""
    settled = {"observed_mark": result.mark, "action": Action.INDEX, "attempts": 0, "slow": 0}
    return _CLEAR | settled | _UNMOVED


_UNMOVED: dict[str, Any] = {"moved_from": None, "tried_fingerprint": None}


def _postponed(row: AnyRow, result: Postponed, now: float) -> dict[str, Any]:
    return {
        "attempts": max(0, row.attempts - 1),
        "code": result.code,
        "reason": result.reason,
        "stage": result.stage,
        "next_attempt_at": now + result.after,
    } | ({"slow": 1} if result.slow else {})


def _verdict(result: Skipped | Failed) -> dict[str, Any]:
    return {
        "code": result.code,
        "reason": result.reason,
        "tried_fingerprint": result.fingerprint,
        "action": Action.INDEX,
        "moved_from": None,
        "slow": 0,
    }


def _another_attempt(
    row: AnyRow, claim: Claim, result: Retry, config: WorkConfig, now: float
) -> tuple[State, dict[str, Any]]:
    """Later; or failed after too many. A removal is tried for ever: nothing else ends it."""
    said = {"code": result.code, "reason": result.reason, "stage": result.stage}
    if claim.attempts >= config.max_attempts and claim.action != Action.REMOVE:
        return State.FAILED, said | {
            "done_counter": claim.counter,
            "action": Action.INDEX,
            "moved_from": None,
        }
    due = now + backoff(claim.attempts, config, result.after)
    return waiting_state(row.action), said | {"next_attempt_at": due}
