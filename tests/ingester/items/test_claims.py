"""Who gets what, in which order, for how long."""

import asyncio
from collections import Counter

import pytest

from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items import Items, Observation, Postponed, Priority, State


async def fill(
    items: Items, source: str, count: int, *, live: bool = False, start: int = 0
) -> None:
    kind = "live" if live else "old"
    batch = [Observation(f"{source}/{kind}-{n}", "1") for n in range(start, start + count)]
    await items.observe(source, batch, live=live)


async def test_live_changes_go_first(items: Items):
    await fill(items, "a", 20)
    await fill(items, "b", 3, live=True)
    claims = await items.claim(5)
    assert [claim.priority for claim in claims[:3]] == [Priority.LIVE] * 3
    assert {claim.source_id for claim in claims[3:]} == {"a"}


async def test_live_stays_ahead_when_a_sweep_sees_it_too(items: Items):
    await fill(items, "a", 5)
    await items.observe("a", [Observation("x", "1")], live=True)
    await items.observe("a", [Observation("x", "2")], live=False)
    assert (await items.claim(1))[0].uri == "x"


async def test_a_stream_of_live_changes_does_not_stop_a_backfill(items: Items):
    await fill(items, "a", 10)
    await fill(items, "a", 100, live=True)
    claims = [claim for _ in range(40) for claim in await items.claim(1)]
    kinds = Counter(claim.priority for claim in claims)
    assert kinds[Priority.BACKFILL] == 5
    assert kinds[Priority.LIVE] == 35


async def test_sources_share_the_workers(items: Items):
    await fill(items, "big", 100)
    await fill(items, "small", 5)
    claims = await items.claim(8)
    assert Counter(claim.source_id for claim in claims) == {"big": 4, "small": 4}


async def test_a_slow_source_does_not_gather_all_workers(items: Items, success):
    await fill(items, "slow", 50)
    await fill(items, "fast", 50)
    under_way = await items.claim(4)
    for _ in range(20):  # what is of the fast source ends at once, the slow never
        fast = [claim for claim in under_way if claim.source_id == "fast"]
        for claim in fast:
            await items.finish(claim, success())
            under_way.remove(claim)
        under_way += await items.claim(len(fast))
    assert Counter(claim.source_id for claim in under_way) == {"slow": 2, "fast": 2}


async def test_sources_that_are_not_asked_for_are_left_alone(items: Items):
    await fill(items, "a", 2)
    await fill(items, "removed", 2)
    assert {c.source_id for c in await items.claim(9, ["a"])} == {"a"}


async def test_the_longest_waiting_goes_first(items: Items):
    for number in range(5):
        await items.observe("a", [Observation(f"{9 - number}", "1")], live=False)
    assert [claim.uri for claim in await items.claim(5)] == ["9", "8", "7", "6", "5"]


async def test_no_item_is_claimed_twice_by_many(open_items):
    instances = [await open_items(f"i{n}") for n in range(3)]
    await fill(instances[0], "a", 60)
    taken = await asyncio.gather(*(i.claim(3) for i in instances for _ in range(10)))
    uris = [claim.uri for claims in taken for claim in claims]
    assert len(uris) == len(set(uris)) == 60


async def test_a_lapsed_lease_is_taken_and_the_loser_may_not_commit(open_items, clock, success):
    one, two = await open_items("one"), await open_items("two")
    await fill(one, "a", 1)
    (lost,) = await one.claim(1)
    assert await two.claim(1) == []
    clock.now += 59
    assert await one.still_held([lost]) == [True]  # and renewed
    clock.now += 59
    assert await two.claim(1) == []
    clock.now += 2
    (won,) = await two.claim(1)
    assert (won.uri, won.attempts) == (lost.uri, 2)
    assert await one.still_held([lost]) == [False]
    with pytest.raises(LeaseLost):
        await one.finish(lost, success())
    assert await one.release([lost]) == 0
    assert await two.finish(won, success()) == State.INDEXED


async def test_a_lapsed_lease_that_nobody_took_is_still_held(items: Items, clock):
    await fill(items, "a", 1)
    claims = await items.claim(1)
    clock.now += 1000
    assert await items.still_held(claims) == [True]


async def test_own_claims_are_taken_back_at_once_others_when_they_lapse(open_items, clock):
    one, two = await open_items("one"), await open_items("two")  # F67
    await fill(one, "a", 4)
    await one.claim(2)
    await two.claim(2)
    restarted = await open_items("one")
    assert await restarted.reclaim() == 2
    assert len(await restarted.claim(9)) == 2
    clock.now += 61
    assert await restarted.reclaim() == 4


async def test_released_claims_are_as_if_never_made(items: Items):
    await fill(items, "a", 2)
    for _ in range(10):  # more often than max_attempts
        claims = await items.claim(2)
        assert [claim.attempts for claim in claims] == [1, 1]
        assert await items.release(claims) == 2


async def die(open_items) -> Items:
    """A new process of the same instance, after the last one was killed."""
    items = await open_items("one")
    await items.reclaim()
    return items


async def test_what_kills_its_process_max_attempts_times_is_failed(items: Items, open_items):
    await fill(items, "a", 1)
    for attempt in (1, 2, 3):
        (claim,) = await items.claim(1)
        assert claim.attempts == attempt
        items = await die(open_items)
    assert await items.claim(1) == []
    (failed,) = await items.failed()
    assert (failed.code, failed.attempts) == ("crash", 3)
    assert "3 times" in failed.reason


async def test_a_change_clears_a_suspect(items: Items, open_items):
    await fill(items, "a", 1)
    for _ in range(2):
        await items.claim(1)
        items = await die(open_items)
    await items.observe("a", [Observation("a/old-0", "2")], live=True)
    await items.claim(1)
    items = await die(open_items)
    assert await items.failed() == []


async def test_suspects_are_worked_on_one_at_a_time(open_items, success):
    items = await open_items("one", max_attempts=5)
    await fill(items, "a", 3)
    for _ in range(2):
        assert len(await items.claim(9)) == 3
        items = await open_items("one", max_attempts=5)
        await items.reclaim()
    await fill(items, "b", 4)
    claims = await items.claim(9)
    assert Counter(claim.source_id for claim in claims) == {"a": 1, "b": 4}
    suspect = next(claim for claim in claims if claim.source_id == "a")
    assert await items.claim(9) == []
    await items.finish(suspect, success())
    assert [claim.source_id for claim in await items.claim(9)] == ["a"]


async def test_slow_items_wait_for_their_lane_and_hold_nobody_back(items: Items, success):
    await fill(items, "a", 40)
    for claim in await items.claim(40):
        assert (
            await items.finish(
                claim, Postponed(code="slow", reason="took long", stage="convert", slow=True)
            )
            == State.PENDING
        )
    await fill(items, "b", 1)
    claims = await items.claim(9, slow=2)
    assert Counter(claim.source_id for claim in claims) == {"a": 2, "b": 1}
    assert [claim.slow for claim in claims if claim.source_id == "a"] == [True, True]
    await fill(items, "b", 2, start=1)
    assert {claim.source_id for claim in await items.claim(9, slow=2)} == {"b"}
    slow = next(claim for claim in claims if claim.slow)
    assert slow.attempts == 1  # what was cut short for others was no attempt
    await items.finish(slow, success())
    (claim,) = await items.claim(9, slow=2)
    assert claim.slow


async def test_who_was_slow_once_and_done_is_as_any_other(items: Items, success):
    await fill(items, "a", 1)
    (claim,) = await items.claim(1)
    await items.finish(
        claim, Postponed(code="slow", reason="took long", stage="convert", slow=True)
    )
    assert (await items.get("a", "a/old-0")).code == "slow"
    (claim,) = await items.claim(1)
    await items.finish(claim, success())
    assert (await items.get("a", "a/old-0")).code is None
    await items.observe("a", [Observation("a/old-0", "2")], live=True)
    (claim,) = await items.claim(1, slow=0)
    assert not claim.slow


async def test_waiting_ends_when_there_is_news(items: Items):
    waiting = asyncio.create_task(items.wait(30))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await fill(items, "a", 1)
    await asyncio.wait_for(waiting, 5)


async def test_news_between_claim_and_wait_is_not_missed(items: Items):
    assert await items.claim(1) == []
    await fill(items, "a", 1)
    await asyncio.wait_for(items.wait(30), 5)


async def test_waiting_ends_when_an_attempt_is_due(items: Items, clock):
    from haiku.ingester.items import Retry

    await fill(items, "a", 1)
    (claim,) = await items.claim(1)
    soon = Retry(code="x", reason="", stage="fetch")
    await items.finish(claim, soon)
    await items.claim(1)
    due = (await items.get("a", "a/old-0")).next_attempt_at.timestamp()
    clock.now = due - 0.1
    await asyncio.wait_for(items.wait(30), 5)


@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_a_cancelled_claim_leaves_nothing_claimed(items: Items, steps: int):
    await fill(items, "a", 3)
    task = asyncio.create_task(items.claim(3))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    left = 0 if isinstance(result, list) else 3
    assert (await items.counts())["a"].get(State.PENDING, 0) == left
    assert {c.attempts for c in await items.claim(3)} <= {1}


@pytest.mark.parametrize("steps", range(0, 20, 2))
async def test_a_cancelled_finish_is_carried_out(items: Items, success, steps: int):
    await fill(items, "a", 1)
    (claim,) = await items.claim(1)
    task = asyncio.create_task(items.finish(claim, success()))
    await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await items.close()
    assert await items.still_held([claim]) == [False]


async def test_waiting_ends_when_another_process_writes(items: Items, open_items):
    other = await open_items("two")
    assert await items.claim(1) == []
    waiting = asyncio.create_task(items.wait(0.02))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await fill(other, "a", 1)
    await asyncio.wait_for(waiting, 5)
    assert len(await items.claim(1)) == 1


async def test_waiting_ends_when_another_instances_lease_lapses(items: Items, open_items, clock):
    other = await open_items("two")
    await fill(items, "a", 1)
    assert len(await other.claim(1)) == 1
    assert await items.claim(1) == []
    clock.now += 59.9
    await asyncio.wait_for(items.wait(30), 5)
    clock.now += 0.2
    assert len(await items.claim(1)) == 1
