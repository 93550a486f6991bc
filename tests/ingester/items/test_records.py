"""Sources' own records, requests, and lists for people."""

import pytest

from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items import Items, Observation, Request, RequestKind, State


async def test_a_suspension_keeps_its_beginning_until_it_is_cleared(items: Items, clock):
    assert await items.suspension("docs") is None
    await items.suspend_deletes("docs", count=30, reason="root is empty")
    first = await items.suspension("docs")
    clock.now += 100
    await items.suspend_deletes("docs", count=31, reason="root is empty")
    second = await items.suspension("docs")
    assert first is not None
    assert second is not None
    assert (second.count, second.since, second.reason) == (31, first.since, "root is empty")
    await items.clear_suspension("docs")
    assert await items.suspension("docs") is None


async def test_one_instance_has_a_source_until_its_lease_lapses(open_items, clock):
    one, two = await open_items("one"), await open_items("two")
    assert await one.take_source("docs")
    assert not await two.take_source("docs")
    clock.now += 50
    assert await one.take_source("docs")  # renewed
    clock.now += 50
    assert not await two.take_source("docs")
    assert (await two.sources())["docs"].owner == "one"
    clock.now += 61
    assert (await two.sources())["docs"].owner is None
    assert await two.take_source("docs")
    assert not await one.take_source("docs")
    await one.release_source("docs")  # not its own any more
    assert not await one.take_source("docs")
    await two.release_source("docs")
    assert await one.take_source("docs")


async def test_a_complete_sweep_is_remembered(items: Items, clock):
    await items.swept("docs")
    last = (await items.sources())["docs"].last_sweep
    assert last is not None
    assert abs(last.timestamp() - clock.now) < 1


async def test_requests_are_handed_out_once_to_whoever_has_the_source(open_items):
    command, daemon = await open_items("command"), await open_items("daemon")
    for _ in range(2):
        await command.request("docs", RequestKind.REFRESH)
    await command.request("docs", RequestKind.CONFIRM_DELETES)
    await command.request("elsewhere", RequestKind.REFRESH)
    assert await daemon.take_requests(["docs"]) == [
        Request(source_id="docs", kind=RequestKind.REFRESH),
        Request(source_id="docs", kind=RequestKind.CONFIRM_DELETES),
    ]
    assert await daemon.take_requests(["docs"]) == []


async def test_items_are_listed_by_source_state_and_page(items: Items):
    for source in ("b", "a"):
        await items.observe(source, [Observation(f"u{n}", "1") for n in range(3)], live=False)
    await items.claim(1, ["a"])
    listed = await items.list()
    assert [(i.source_id, i.uri) for i in listed] == [(s, f"u{n}") for s in "ab" for n in range(3)]
    assert [i.uri for i in await items.list("a", State.WORKING)] == ["u0"]
    assert [(i.source_id, i.uri) for i in await items.list(limit=2, offset=2)] == [
        ("a", "u2"),
        ("b", "u0"),
    ]
    assert await items.counts() == {
        "a": {State.WORKING: 1, State.PENDING: 2},
        "b": {State.PENDING: 3},
    }
    assert await items.outstanding() == 6


async def test_how_long_the_longest_has_waited(items: Items, clock):
    await items.observe("a", [Observation("u", "1")], live=False)
    began = clock.now
    clock.now += 500
    await items.observe("a", [Observation("v", "1")], live=False)
    assert abs((await items.waiting_since())["a"] - began) < 1


async def test_who_lost_a_source_is_not_believed_any_more(open_items, clock):
    """A daemon that was frozen does not take in what it saw of a source before (S9)."""
    one, two = await open_items("one"), await open_items("two")
    assert await one.take_source("docs")
    await one.observe("docs", [Observation("a", "1")], live=True)
    clock.now += 61
    await one.observe("docs", [Observation("a", "2")], live=True)  # nobody else has it yet
    assert await two.take_source("docs")
    await two.observe("docs", [Observation("a", "3"), Observation("b", "1")], live=True)
    for late in (
        one.observe("docs", [Observation("c", "1")], live=True),
        one.gone("docs", ["a"], live=True),
        one.moved("docs", "b", Observation("d", "1")),
    ):
        with pytest.raises(LeaseLost, match="docs was taken over"):
            await late
    assert {known.uri: known.mark for known in (await two.known("docs")).values()} == {
        "a": "3",
        "b": "1",
    }
    await one.observe("other", [Observation("x", "1")], live=True)
    await two.release_source("docs")
    await one.gone("docs", ["a"], live=True)
