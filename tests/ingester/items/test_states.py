"""The table of states, row by row."""

import pytest

from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items import (
    Action,
    Empty,
    Failed,
    Items,
    Observation,
    Observed,
    Removed,
    Retry,
    Skipped,
    State,
)

FAILED = Failed(code="corrupt", reason="not a zip", stage="convert", fingerprint="f")
SKIPPED = Skipped(code="unsupported", reason="no converter", fingerprint="f")
RETRY = Retry(code="unavailable", reason="no answer", stage="fetch")


async def test_discovered_is_pending_then_working_then_indexed(drive, success):
    assert await drive.see("a") == Observed(new=1)
    assert await drive.state("a") == State.PENDING
    claim = await drive.one()
    assert (claim.uri, claim.action, claim.mark, claim.attempts) == ("a", Action.INDEX, "1", 1)
    assert await drive.state("a") == State.WORKING
    assert await drive.items.finish(claim, success()) == State.INDEXED
    item = await drive.items.get("docs", "a")
    assert (item.content_hash, item.document_id, item.chunk_count) == ("h1", "d", 2)
    assert item.indexed_at is not None
    assert item.indexed_at.tzinfo is not None
    assert await drive.take() == []


async def test_empty_is_a_state_with_a_reason(drive):  # F35
    await drive.see("scan.pdf")
    result = Empty(
        content_hash="h", mark="1", fingerprint="f", document_id="d", reason="scans need OCR"
    )
    assert await drive.items.finish(await drive.one(), result) == State.EMPTY
    item = await drive.items.get("docs", "scan.pdf")
    assert (item.state, item.reason, item.chunk_count) == (State.EMPTY, "scans need OCR", 0)
    assert await drive.items.counts() == {"docs": {State.EMPTY: 1}}


@pytest.mark.parametrize("result", [FAILED, SKIPPED])
async def test_what_ended_stays_until_its_mark_changes(drive, result):  # F26
    await drive.see("a")
    state = await drive.items.finish(await drive.one(), result)
    for _ in range(3):
        assert await drive.see("a") == Observed(unchanged=1)
        assert await drive.take() == []
    assert await drive.state("a") == state
    assert await drive.see("a", "2") == Observed(changed=1)
    claim = await drive.one()
    assert (claim.mark, claim.attempts) == ("2", 1)


@pytest.mark.parametrize("result", [FAILED, SKIPPED])
async def test_what_another_pipeline_refused_is_tried_again(drive, result):
    await drive.see("a")
    await drive.items.finish(await drive.one(), result)
    assert await drive.items.reprocess("f") == 0
    assert await drive.items.reprocess("another") == 1
    assert await drive.state("a") == State.PENDING


async def test_outdated_documents_are_reprocessed_only_when_asked(drive):
    await drive.index("a")
    assert await drive.items.reprocess("another") == 0
    assert await drive.items.reprocess("another", outdated=True) == 1
    claim = await drive.one()
    assert claim.fingerprint == "f"


async def test_a_change_while_working_is_work_again_at_once(drive, success):  # F61
    await drive.see("a", "1")
    first = await drive.one()
    assert await drive.see("a", "2", live=True) == Observed(changed=1)
    assert await drive.state("a") == State.WORKING
    assert await drive.take() == []  # one pair of hands at a time
    assert await drive.items.finish(first, success("1")) == State.PENDING
    second = await drive.one()
    assert (second.mark, second.content_hash, second.attempts) == ("2", "h1", 1)
    assert await drive.items.finish(second, success("2")) == State.INDEXED


@pytest.mark.parametrize("result", [FAILED, SKIPPED, RETRY])
async def test_a_change_while_working_overrides_whatever_became_of_it(drive, result):
    await drive.see("a", "1")
    first = await drive.one()
    await drive.see("a", "2")
    assert await drive.items.finish(first, result) == State.PENDING
    assert (await drive.one()).mark == "2"


async def test_many_changes_are_one_row_and_one_piece_of_work(drive, success):
    for number in range(300):
        await drive.see("a", str(number), live=True)
    assert await drive.items.finish(await drive.one(), success("299")) == State.INDEXED
    assert await drive.take() == []
    assert await drive.items.counts() == {"docs": {State.INDEXED: 1}}


async def test_the_mark_that_was_read_counts_as_observed(drive, success):
    await drive.see("a", "1")
    await drive.items.finish(await drive.one(), success("2"))  # it changed before it was read
    assert await drive.see("a", "2") == Observed(unchanged=1)


async def test_retry_backs_off_and_fails_after_max_attempts(drive, clock):
    await drive.see("a")
    for attempt in (1, 2):
        claim = await drive.one()
        assert claim.attempts == attempt
        assert await drive.items.finish(claim, RETRY) == State.PENDING
        assert await drive.take() == []  # not due yet
        item = await drive.items.get("docs", "a")
        assert item.next_attempt_at.timestamp() - clock.now == pytest.approx(
            2.0 * 2 ** (attempt - 1), rel=0.3
        )
        clock.now += 10
    assert await drive.items.finish(await drive.one(), RETRY) == State.FAILED
    (item,) = await drive.items.failed()
    assert (item.code, item.reason, item.stage, item.attempts) == (
        "unavailable",
        "no answer",
        "fetch",
        3,
    )


async def test_retry_waits_as_long_as_was_asked(drive, clock):
    await drive.see("a")
    later = Retry(code="embedder_unavailable", reason="429", stage="embed", after=1000.0)
    await drive.items.finish(await drive.one(), later)
    clock.now += 999
    assert await drive.take() == []
    clock.now += 110
    assert len(await drive.take()) == 1


async def test_failed_items_are_retried_one_by_one_or_all(drive):  # F27
    for uri in "abc":
        await drive.see(uri)
    for claim in await drive.take(3):
        await drive.items.finish(claim, FAILED)
    assert {
        i.uri: (i.code, i.stage, i.attempts) for i in await drive.items.failed("docs")
    } == dict.fromkeys("abc", ("corrupt", "convert", 1))
    assert await drive.items.retry("docs", "b") == 1
    assert [claim.uri for claim in await drive.take(5)] == ["b"]
    assert await drive.items.retry() == 2
    assert [claim.uri for claim in await drive.take(5)] == ["a", "c"]
    assert await drive.items.retry("elsewhere") == 0


async def test_what_the_source_does_not_want_is_skipped_without_work(drive):
    await drive.see("big", size=10, skip="too_large")
    assert await drive.take() == []
    item = await drive.items.get("docs", "big")
    assert (item.state, item.code) == (State.SKIPPED, "too_large")
    assert await drive.items.retry("docs", "big") == 0  # the source would say the same again
    await drive.see("big", size=10)  # the limit was raised
    assert len(await drive.take()) == 1


async def test_an_indexed_object_that_is_not_wanted_any_more_is_removed_and_skipped(drive):
    await drive.index("a")
    await drive.see("a", "1", skip="too_large")
    claim = await drive.one()
    assert claim.action == Action.REMOVE
    assert await drive.items.finish(claim, Removed()) == State.SKIPPED
    item = await drive.items.get("docs", "a")
    assert (item.state, item.code, item.document_id) == (State.SKIPPED, "too_large", None)
    assert await drive.see("a", "1", skip="too_large") == Observed(unchanged=1)


async def test_what_starts_over_lets_live_changes_pass(drive):
    await drive.index("once live", live=True)
    assert await drive.items.start_over() == 1
    await drive.see("changed now", live=True)
    assert [claim.uri for claim in await drive.take(2)] == ["changed now", "once live"]


async def test_what_was_seen_is_what_was_observed(drive):
    observed = [
        Observation("a", "m"),
        Observation("b", "m", 3, "1:2"),
        Observation("c", "m", None, None, "link"),
        Observation("d", "m", 9, "1:3", "too_large"),
        Observation("left", "m"),
    ]
    await drive.items.observe("docs", observed, live=False)
    await drive.items.observe("other", [Observation("e", "m")], live=False)
    await drive.items.gone("docs", ["left"], live=True)
    assert await drive.items.seen("docs") == {o.uri: o.seen for o in observed[:4]}
    assert len({o.seen for o in observed[:4]}) == 4


async def test_gone_is_removed_and_forgotten(drive):
    await drive.index("a")
    assert await drive.items.gone("docs", ["a", "unknown"], live=True) == 1
    assert await drive.state("a") == State.GONE
    assert await drive.items.gone("docs", ["a"], live=True) == 0
    assert "a" not in await drive.items.known("docs")
    claim = await drive.one()
    assert claim.action == Action.REMOVE
    assert await drive.items.finish(claim, Removed()) == State.GONE
    assert await drive.state("a") is None


async def test_gone_before_anybody_touched_it_needs_no_work(drive):
    await drive.see("a")
    assert await drive.items.gone("docs", ["a"], live=True) == 1
    assert await drive.state("a") is None
    assert await drive.take() == []


async def test_gone_while_working_is_removed_afterwards(drive, success):
    await drive.see("a")
    claim = await drive.one()
    await drive.items.gone("docs", ["a"], live=True)
    assert await drive.items.finish(claim, success()) == State.GONE
    assert (await drive.one()).action == Action.REMOVE


@pytest.mark.parametrize("mark", ["1", "2"])
async def test_seen_again_while_leaving_is_pending(drive, success, mark):
    await drive.index("a", "1")
    await drive.items.gone("docs", ["a"], live=True)
    await drive.see("a", mark)
    assert (await drive.one()).action == Action.INDEX


async def test_seen_again_while_being_removed_is_indexed_afterwards(drive):
    await drive.index("a", "1")
    await drive.items.gone("docs", ["a"], live=True)
    removing = await drive.one()
    await drive.see("a", "1")
    assert await drive.items.finish(removing, Removed()) == State.PENDING
    claim = await drive.one()
    assert (claim.action, claim.document_id, claim.content_hash) == (Action.INDEX, None, None)


async def test_a_removal_is_tried_for_ever(drive, clock):
    await drive.index("a")
    await drive.items.gone("docs", ["a"], live=True)
    for _ in range(10):
        clock.now += 1000
        assert await drive.items.finish(await drive.one(), RETRY) == State.GONE


async def test_a_claim_is_finished_once(drive, success):
    await drive.see("a")
    claim = await drive.one()
    await drive.items.finish(claim, success())
    with pytest.raises(LeaseLost, match="taken over"):
        await drive.items.finish(claim, FAILED)
    assert await drive.state("a") == State.INDEXED


async def test_of_several_observations_in_a_batch_the_last_counts(items: Items):
    observed = await items.observe(
        "docs", [Observation("a", "1"), Observation("a", "2")], live=False
    )
    assert observed == Observed(new=1)
    assert (await items.known("docs"))["a"].mark == "2"


async def test_one_uri_of_two_sources_is_two_items(items: Items):
    for source in ("one", "two"):
        await items.observe(source, [Observation("a", "1")], live=False)
    assert {claim.source_id for claim in await items.claim(5)} == {"one", "two"}
    await items.gone("one", ["a"], live=False)
    assert set(await items.known("two")) == {"a"}
