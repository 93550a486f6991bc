"""What becomes of one item, on a real store."""

import pytest

from haiku.ingester.items import Observation, Postponed, State
from haiku.ingester.work.pipeline import SLOW_AFTER
from haiku.ingester.work.stages import Progress
from haiku.rag.exceptions import (
    ConversionDeferred,
    DocumentCorrupt,
    EmbedderRefused,
    EmbedderUnavailable,
    RequestRefused,
    SourceChanged,
    SourceUnavailable,
    UnsupportedFormat,
)
from haiku.rag.store.changes import Delete, UpdateMeta


async def test_a_new_object_becomes_a_document(bench):
    await bench.write("mem:/a.txt", "one\ntwo")
    await bench.drain()
    row, item = await bench.row("mem:/a.txt"), await bench.items.get("docs", "mem:/a.txt")
    assert await bench.text("mem:/a.txt") == "one\ntwo"
    assert (row.chunk_count, row.sources) == (2, {"docs": "mark-1"})
    assert row.fingerprint == bench.writer.fingerprint
    assert (item.state, item.document_id, item.content_hash, item.chunk_count) == (
        State.INDEXED,
        row.id,
        row.content_hash,
        2,
    )
    assert bench.seen.outcomes == {("indexed", ""): 1}
    assert bench.seen.stages == {"fetch": 1, "convert": 1, "embed": 1, "commit": 1}
    assert bench.spooled() == []


async def test_an_update_is_a_new_revision_of_the_same_document(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    before = await bench.row("mem:/a")
    await bench.write("mem:/a", "one\ntwo")
    await bench.drain()
    after = await bench.row("mem:/a")
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert after.revision != before.revision
    assert bench.embedding.embedded == ["one", "two"]  # the known text kept its vector


async def test_equal_bytes_change_nothing_but_the_mark(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    before = await bench.row("mem:/a")
    await bench.write("mem:/a", "one")
    await bench.drain()
    after = await bench.row("mem:/a")
    assert bench.converter.converted == ["one"]
    assert (after.revision, after.sources) == (before.revision, {"docs": "mark-2"})
    assert await bench.state("mem:/a") == State.INDEXED


async def test_another_fingerprint_converts_equal_bytes_again(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    bench.writer.fingerprint = "tomorrow"
    await bench.items.reprocess("tomorrow", outdated=True)
    await bench.drain()
    assert bench.converter.converted == ["one", "one"]
    assert (await bench.row("mem:/a")).fingerprint == "tomorrow"


async def test_a_document_without_text_is_empty_and_listed(bench):  # F35
    await bench.write("mem:/a.txt", "")
    await bench.drain()
    item = await bench.items.get("docs", "mem:/a.txt")
    assert (item.state, item.reason) == (State.EMPTY, "the file is empty")
    assert (await bench.row("mem:/a.txt")).chunk_count == 0
    await bench.write("mem:/a.txt", "")  # touched
    await bench.drain()
    assert await bench.state("mem:/a.txt") == State.EMPTY
    assert bench.converter.converted == [""]


async def test_unsupported_is_skipped_and_leaves_no_document(bench):
    await bench.write("mem:/a", "text")
    await bench.drain()
    bench.converter.errors["zip"] = UnsupportedFormat("no converter takes application/zip")
    await bench.write("mem:/a", "zip")
    await bench.drain()
    item = await bench.items.get("docs", "mem:/a")
    assert (item.state, item.code, item.document_id) == (State.SKIPPED, "unsupported", None)
    assert await bench.row("mem:/a") is None


async def test_what_failed_keeps_what_was_there(bench):  # F30
    await bench.write("mem:/a", "good")
    await bench.drain()
    bench.converter.errors["bad"] = DocumentCorrupt("not a zip file")
    await bench.write("mem:/a", "bad")
    await bench.drain()
    (item,) = await bench.items.failed()
    assert (item.code, item.stage, item.reason) == ("corrupt", "convert", "not a zip file")
    assert await bench.text("mem:/a") == "good"
    await bench.write("mem:/a", "good")  # put back
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED


async def test_a_slow_conversion_is_put_off_and_then_has_its_full_time(bench):
    bench.converter.errors["long"] = ConversionDeferred("others waited")
    await bench.write("mem:/a", "long")
    (claim,) = await bench.items.claim(1)
    result = await bench.pipeline.run(claim, Progress(bench.seen))
    assert result == Postponed(code="slow", reason="others waited", stage="convert", slow=True)
    assert await bench.items.finish(claim, result) == State.PENDING
    assert bench.converter.patience == [SLOW_AFTER]
    bench.converter.errors.clear()
    await bench.drain()
    assert bench.converter.patience == [SLOW_AFTER, None]
    assert await bench.text("mem:/a") == "long"


async def test_an_embedder_that_is_down_is_tried_again(bench):
    bench.embedding.errors = [EmbedderUnavailable("503"), EmbedderUnavailable("503")]
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED
    assert bench.seen.outcomes == {("postponed", "embedder_unavailable"): 2, ("indexed", ""): 1}


async def test_refused_credentials_wait_for_better_ones(bench):
    """Wrong for every document, so that failing them all would help nobody."""
    bench.embedding.errors = [EmbedderRefused("401") for _ in range(5)]
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED
    assert await bench.items.failed() == []


async def test_a_refused_text_fails_its_document(bench):
    bench.embedding.errors = [RequestRefused("400")]
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert [item.code for item in await bench.items.failed()] == ["request_refused"]


@pytest.mark.parametrize("error", [SourceChanged("torn"), SourceUnavailable("no answer"), OSError])
async def test_a_read_that_went_wrong_is_repeated(bench, error):
    bench.source.errors["mem:/a"] = [error]
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED
    assert bench.source.fetched["mem:/a"] == 2
    assert bench.spooled() == []


async def test_what_vanished_waits_for_its_source_to_say_so(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    await bench.write("mem:/a", "two")
    del bench.source.content["mem:/a"]
    (claim,) = await bench.items.claim(1)
    from haiku.ingester.work.stages import Progress

    result = await bench.pipeline.run(claim, Progress(bench.seen))
    assert (type(result).__name__, result.code) == ("Retry", "vanished")
    assert await bench.text("mem:/a") == "one"  # an unmounted disk must delete nothing
    await bench.items.gone("docs", ["mem:/a"], live=True)
    await bench.items.finish(claim, result)
    await bench.drain()
    assert await bench.row("mem:/a") is None
    assert await bench.state("mem:/a") is None


async def test_what_is_there_and_cannot_be_read_is_failed(bench):
    bench.source.denied.add("mem:/a")
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert [(i.code, i.stage) for i in await bench.items.failed()] == [("unreadable", "fetch")]
    assert bench.source.fetched["mem:/a"] == 1


async def test_a_file_that_grew_since_it_was_seen_is_fetched_within_the_real_limit(bench):
    small = bench.source.write("mem:/a", "x")
    bench.source.content["mem:/a"] = (b"y" * 3_000_000, small.mark)
    await bench.items.observe("docs", [small], live=True)
    await bench.drain()
    assert await bench.state("mem:/a") == State.INDEXED
    assert bench.source.fetched["mem:/a"] == 2


async def test_over_the_limit_is_skipped(bench):
    await bench.write("mem:/a", b"y" * 10_000_001)
    await bench.drain()
    item = await bench.items.get("docs", "mem:/a")
    assert (item.state, item.code) == (State.SKIPPED, "too_large")
    assert bench.converter.converted == []
    assert bench.spooled() == []


async def test_a_move_keeps_the_document_and_converts_nothing(bench):  # F10
    await bench.write("mem:/old", "one")
    await bench.drain()
    before = await bench.row("mem:/old")
    del bench.source.content["mem:/old"]
    assert await bench.items.moved("docs", "mem:/old", bench.source.write("mem:/new", "one"))
    await bench.drain()
    after = await bench.row("mem:/new")
    assert (after.id, after.revision, after.sources) == (
        before.id,
        before.revision,
        {"docs": "mark-2"},
    )
    assert await bench.row("mem:/old") is None
    assert (len(bench.converter.converted), len(bench.embedding.embedded)) == (1, 1)
    assert await bench.state("mem:/old") is None


@pytest.mark.parametrize("obstacle", ["old is not ours", "old is not there", "new is taken"])
async def test_a_move_that_cannot_be_made_is_indexed_and_the_old_removed(bench, obstacle):
    await bench.write("mem:/old", "one")
    await bench.write("mem:/other", "other")
    await bench.drain()
    if obstacle == "old is not ours":
        await bench.store.commit([UpdateMeta(uri="mem:/old", sources={"another": "m"})])
        await bench.store.commit([Delete(uri="mem:/old", source="docs")])
    elif obstacle == "old is not there":
        await bench.store.commit([Delete(uri="mem:/old")])
    to = "mem:/new"
    if obstacle == "new is taken":  # by somebody the items database knows nothing of
        from haiku.rag.store.changes import Move

        await bench.store.commit([Move(uri="mem:/other", to_uri=to)])
    await bench.items.moved("docs", "mem:/old", bench.source.write(to, "one"))
    await bench.drain()
    assert await bench.text(to) == "one"
    left = await bench.row("mem:/old")
    assert (left is not None) == (obstacle == "old is not ours")


async def test_a_removed_object_leaves_only_its_own_claim_on_the_document(bench):
    await bench.write("mem:/a", "one")
    await bench.write("mem:/b", "two")
    await bench.drain()
    await bench.store.commit([UpdateMeta(uri="mem:/b", sources={"another": "m"})])
    await bench.items.gone("docs", ["mem:/a", "mem:/b"], live=True)
    await bench.drain()
    assert await bench.row("mem:/a") is None
    assert (await bench.row("mem:/b")).sources == {"another": "m"}
    assert await bench.items.counts() == {}


async def test_removing_what_is_not_there_is_done(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    await bench.store.commit([Delete(uri="mem:/a")])
    await bench.items.gone("docs", ["mem:/a"], live=True)
    await bench.drain()
    assert await bench.items.counts() == {}


async def test_a_document_that_somebody_else_removed_is_made_again(bench):
    await bench.write("mem:/a", "one")
    await bench.drain()
    await bench.store.commit([Delete(uri="mem:/a")])
    await bench.write("mem:/a", "one")
    await bench.drain()
    assert await bench.text("mem:/a") == "one"


async def test_rebuilt_items_make_no_work(bench):
    await bench.write("mem:/a", "one")
    await bench.write("mem:/b", "")
    await bench.drain()
    rows = [await bench.row("mem:/a"), await bench.row("mem:/b")]
    (bench.folder / "items.db").rename(bench.folder / "lost.db")
    await bench.items.close()
    await bench.open()
    assert await bench.items.rebuild(rows) == 2
    assert await bench.items.rebuild(rows) == 0
    assert await bench.items.counts() == {"docs": {State.INDEXED: 1, State.EMPTY: 1}}
    mark = bench.source.content["mem:/a"][1]
    seen = Observation("mem:/a", mark, 3, "1:7")
    assert (await bench.items.observe("docs", [seen], live=False)).unchanged == 1
    assert (await bench.items.known("docs"))["mem:/a"].identity == "1:7"
    await bench.items.gone("docs", ["mem:/b"], live=False)
    await bench.drain()
    assert await bench.row("mem:/b") is None
    assert len(bench.converter.converted) == 2
