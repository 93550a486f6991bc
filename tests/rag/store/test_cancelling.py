"""S3: cancelled at any await, a commit has happened whole or not at all, and nothing goes on."""

import asyncio
from typing import Any

import pytest
from tests import cancelling
from tests.rag.store.making import CONFIG, contents, put

from haiku.rag.store import Store
from haiku.rag.store.changes import Delete, Move, Outcome, UpdateMeta
from haiku.rag.write import GroupCommitter

BEFORE = {"a": "one", "b": "two", "c": "three"}
AFTER = {"a": "one changed", "d": "three", "e": "new"}
#: Seconds given to what is awaited before it is cancelled: none, and enough for it to be under way.
LATER = [0.0, 0.004]


@pytest.fixture
async def filled(store: Store) -> Store:
    await reset(store)
    await store.upkeep()
    return store


async def reset(store: Store) -> None:
    """Back to `BEFORE`, whatever there is."""
    gone = [Delete(uri=uri) for uri in AFTER]
    await store.commit([*gone, *(put(uri, text) for uri, text in BEFORE.items())])


def group() -> list[Any]:
    return [
        put("a", "one changed"),
        Delete(uri="b"),
        Move(uri="c", to_uri="d"),
        put("e", "new"),
        UpdateMeta(uri="a", title="T"),
    ]


@pytest.mark.parametrize("after", LATER)
async def test_a_commit_cancelled_at_every_await(filled: Store, after: float) -> None:
    cut, done = 0, False
    while not done:
        cut += 1
        try:
            await cancelling.run(filled.commit(group()), cut, after=after)
            done = True
        except cancelling.Cancelled:
            found = await contents(filled)
            assert found in (BEFORE, AFTER), cut
            if found == AFTER:
                await reset(filled)
    assert cut > 8
    assert await contents(filled) == AFTER
    async with await Store.open(filled.path, CONFIG, read_only=True) as other:
        assert await contents(other) == AFTER


async def test_a_submitted_change_cancelled_at_every_await(filled: Store) -> None:
    """Who leaves a group withdraws its change or finds it committed; the others are committed."""
    cut, done = 0, False
    while not done:
        cut += 1
        committer = GroupCommitter(filled, window=0.01)
        other = asyncio.create_task(committer.submit(put("other", f"cut {cut}")))
        try:
            await cancelling.run(committer.submit(put("a", f"cut {cut}")), cut, after=0.012)
            done = True
        except cancelling.Cancelled:
            pass
        assert (await other).result == "done"
        await committer.close()
        found = await contents(filled)
        assert found["other"] == f"cut {cut}"
        assert found["a"] in ("one", *(f"cut {n}" for n in range(cut + 1)))
    assert found["a"] == f"cut {cut}"


@pytest.mark.parametrize("after", LATER)
async def test_closing_a_committer_cancelled_at_every_await(filled: Store, after: float) -> None:
    """What was submitted is committed or told to be cancelled, whoever gives up the closing."""
    cut, done = 0, False
    while not done:
        cut += 1
        committer = GroupCommitter(filled, window=5)
        submitted = asyncio.create_task(committer.submit(put("a", f"cut {cut}"), patience=0.01))
        await asyncio.sleep(0)
        try:
            await cancelling.run(committer.close(), cut, after=after)
            done = True
        except cancelling.Cancelled:
            await committer.close()
        (ended,) = await asyncio.gather(submitted, return_exceptions=True)
        committed = isinstance(ended, Outcome) and ended.result == "done"
        assert committed == ((await contents(filled))["a"] == f"cut {cut}")
    assert committed


@pytest.mark.parametrize("after", LATER)
async def test_upkeep_cancelled_at_every_await(filled: Store, after: float) -> None:
    cut, done = 0, False
    while not done:
        cut += 1
        try:
            await cancelling.run(filled.upkeep(), cut, after=after)
            done = True
        except cancelling.Cancelled:
            assert await contents(filled) == BEFORE
    await filled.commit(group())
    assert await contents(filled) == AFTER
