"""S3 in the pipeline: cancelled at any await, an item's old content stays, and work repeats."""

import pytest
from tests import cancelling

from haiku.ingester.items import State
from haiku.ingester.work.observer import Silent
from haiku.ingester.work.stages import Progress

#: Seconds given to what is awaited before it is cancelled: none, and enough for it to be under way.
LATER = [0.0, 0.004]


async def claim_one(bench):
    (claim,) = await bench.items.claim(1)
    return claim


async def walk(bench, prepare, look, after):
    """Cancel at the first await, the second and so on; `look` says what must hold meanwhile."""
    cut = 0
    while True:
        cut += 1
        await prepare(cut)
        claim = await claim_one(bench)
        running = bench.pipeline.run(claim, Progress(Silent()))
        try:
            result = await cancelling.run(running, cut, after=after)
        except cancelling.Cancelled:
            assert bench.pipeline.spool.used == 0, cut
            assert bench.spooled() == [], cut
            await look(cut)
            await bench.items.release([claim])
            await bench.drain()
        else:
            await bench.items.finish(claim, result)
            return cut
        assert await bench.items.outstanding() == 0


@pytest.mark.parametrize("after", LATER)
async def test_indexing_cancelled_at_every_await(bench, after):
    await bench.write("mem:/a", "cut 0")
    await bench.drain()

    async def prepare(cut):
        await bench.write("mem:/a", f"cut {cut}")

    async def look(cut):
        assert await bench.text("mem:/a") in (f"cut {cut - 1}", f"cut {cut}")

    cuts = await walk(bench, prepare, look, after)
    assert cuts >= 7
    assert await bench.text("mem:/a") == f"cut {cuts}"
    assert await bench.state("mem:/a") == State.INDEXED


@pytest.mark.parametrize("after", LATER)
async def test_removing_cancelled_at_every_await(bench, after):
    async def prepare(cut):
        await bench.write("mem:/a", f"cut {cut}")
        await bench.drain()
        del bench.source.content["mem:/a"]
        await bench.items.gone("docs", ["mem:/a"], live=True)

    async def look(cut):
        assert await bench.text("mem:/a") in (f"cut {cut}", None)

    await walk(bench, prepare, look, after)
    assert await bench.text("mem:/a") is None
    assert await bench.state("mem:/a") is None


@pytest.mark.parametrize("after", LATER)
async def test_moving_cancelled_at_every_await(bench, after):
    """To and fro; the document is under one of both names, and keeps its id."""
    await bench.write("mem:/0", "wanders")
    await bench.drain()
    first = (await bench.row("mem:/0")).id

    async def prepare(cut):
        old, new = f"mem:/{cut - 1}", f"mem:/{cut}"
        bench.source.content[new] = bench.source.content.pop(old)
        assert await bench.items.moved("docs", old, bench.source.observation(new))

    async def look(cut):
        rows = [await bench.row(f"mem:/{n}") for n in (cut - 1, cut)]
        assert [row.id for row in rows if row is not None] == [first]

    converted = len(bench.converter.converted)
    cuts = await walk(bench, prepare, look, after)
    assert (await bench.row(f"mem:/{cuts}")).id == first
    assert len(bench.converter.converted) == converted
