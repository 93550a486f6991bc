"""Moves: the old row is held until the move is over, and nothing is lost when it cannot be."""

import pytest

from haiku.ingester.items import Action, Failed, Observation, Removed, Retry, State


async def move(drive, uri: str, to: str, mark: str = "2") -> bool:
    return await drive.items.moved("docs", uri, Observation(to, mark, 1, "1:7"))


async def test_a_move_is_one_claim_and_leaves_one_row(drive, success):
    await drive.index("old")
    assert await move(drive, "old", "new")
    claim = await drive.one()
    assert (claim.uri, claim.action, claim.moved_from) == ("new", Action.MOVE, "old")
    assert await drive.take() == []  # the old row is held
    state = await drive.items.finish(claim, success("2", moved=True, unchanged=True))
    assert state == State.INDEXED
    assert await drive.state("old") is None
    assert await drive.take() == []
    assert set(await drive.items.known("docs")) == {"new"}


async def test_a_move_that_became_an_indexing_removes_the_old_document(drive, success):
    await drive.index("old")
    await move(drive, "old", "new")
    await drive.items.finish(await drive.one(), success("2"))
    claim = await drive.one()
    assert (claim.uri, claim.action) == ("old", Action.REMOVE)
    assert await drive.items.finish(claim, Removed()) == State.GONE


async def test_the_old_row_waits_through_retries_and_restarts(drive, clock, open_items):
    await drive.index("old")
    await move(drive, "old", "new")
    await drive.items.finish(await drive.one(), Retry(code="busy", reason="", stage="commit"))
    assert await drive.take() == []
    clock.now += 100
    await drive.one()
    again = await open_items("one")
    assert await again.reclaim() == 1
    (claim,) = await again.claim(5)
    assert (claim.uri, claim.action) == ("new", Action.MOVE)


async def test_a_failed_move_lets_the_old_document_go(drive):
    await drive.index("old")
    await move(drive, "old", "new")
    await drive.items.finish(await drive.one(), Failed(code="corrupt", reason="", stage="convert"))
    assert (await drive.one()).uri == "old"


async def test_the_old_name_taken_anew_waits_for_the_move(drive, success):
    await drive.index("old")
    await move(drive, "old", "new")
    await drive.see("old", "3", live=True)
    moving = await drive.one()
    assert moving.uri == "new"
    assert await drive.take() == []  # indexing "old" now would write over what is to be moved
    await drive.items.finish(moving, success("2", moved=True))
    claim = await drive.one()
    assert (claim.uri, claim.action, claim.document_id) == ("old", Action.INDEX, None)


@pytest.mark.parametrize("working", [False, True])
async def test_a_change_at_the_new_name_indexes_it_and_removes_the_old(drive, success, working):
    await drive.index("old")
    await move(drive, "old", "new")
    moving = await drive.one() if working else None
    await drive.see("new", "3", live=True)
    if moving:
        await drive.items.finish(moving, success("2"))
    assert {(c.uri, c.action) for c in await drive.take(5)} == {
        ("new", Action.INDEX),
        ("old", Action.REMOVE),
    }


@pytest.mark.parametrize("how", ["release", "die"])
async def test_a_move_that_changed_and_was_given_back_lets_the_old_go(drive, open_items, how):
    await drive.index("old")
    await move(drive, "old", "new")
    moving = await drive.one()
    await drive.see("new", "3", live=True)
    if how == "release":
        await drive.items.release([moving])
    else:
        await (await open_items("one")).reclaim()
    assert {(c.uri, c.action) for c in await drive.take(5)} == {
        ("new", Action.INDEX),
        ("old", Action.REMOVE),
    }


async def test_gone_before_the_move_began_is_a_removal_of_the_old(drive):
    await drive.index("old")
    await move(drive, "old", "new")
    await drive.items.gone("docs", ["new"], live=True)
    assert [(c.uri, c.action) for c in await drive.take(5)] == [("old", Action.REMOVE)]


async def test_moved_twice_before_it_began_is_one_move(drive, success):
    await drive.index("a")
    assert await move(drive, "a", "b")
    assert await move(drive, "b", "c", "3")
    claim = await drive.one()
    assert (claim.uri, claim.moved_from) == ("c", "a")
    await drive.items.finish(claim, success("3", moved=True))
    assert await drive.items.counts() == {"docs": {State.INDEXED: 1}}


async def test_moved_back_before_it_began(drive):
    await drive.index("a")
    await move(drive, "a", "b")
    await move(drive, "b", "a", "3")
    assert [(c.uri, c.action) for c in await drive.take(5)] == [("a", Action.INDEX)]
    assert set(await drive.items.known("docs")) == {"a"}


@pytest.mark.parametrize("case", ["not indexed", "changing", "unknown", "taken", "unwanted"])
async def test_what_cannot_be_moved_is_an_addition_and_a_removal(drive, case):
    if case == "not indexed":
        await drive.see("old")
    elif case != "unknown":
        await drive.index("old")
    if case == "changing":
        await drive.see("old", "1b")
    if case == "taken":
        await drive.index("new", "0")
    to = Observation("new", "2", skip="too_large" if case == "unwanted" else None)
    assert not await drive.items.moved("docs", "old", to)
    assert set(await drive.items.known("docs")) == {"new"}
    actions = {c.uri: c.action for c in await drive.take(5)}
    assert actions.get("old") in (None, Action.REMOVE)
    assert actions.get("new", Action.INDEX) == Action.INDEX


async def test_a_move_onto_itself_is_an_observation(drive):
    await drive.index("a")
    assert not await move(drive, "a", "a", "1")
    assert await drive.state("a") == State.INDEXED
