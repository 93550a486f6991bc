"""The spool's bound, its order, and its clean beginnings."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haiku.ingester.work import Spool
from haiku.rag.exceptions import SourceTooLarge


@pytest.fixture
async def spool(tmp_path):
    return await Spool.open(tmp_path / "spool", 100)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_is_cleared_at_start(tmp_path):
    folder = tmp_path / "spool"
    (folder / "sub").mkdir(parents=True)
    (folder / "left").write_bytes(b"by a crash")
    await Spool.open(folder, 100)
    assert list(folder.iterdir()) == []


async def test_files_go_with_their_place(spool):
    async with spool.reserve(10) as place:
        place.path.write_bytes(b"x")
    assert not place.path.exists()
    with contextlib.suppress(RuntimeError):
        async with spool.reserve(10) as place:
            place.path.write_bytes(b"x")
            raise RuntimeError
    assert not place.path.exists()
    assert spool.used == 0


async def test_a_full_spool_makes_others_wait(spool):
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(spool.reserve(80))
        waiting = asyncio.create_task(stack.enter_async_context(spool.reserve(50)))
        await settle()
        assert not waiting.done()
        first.shrink(50)
        await waiting
        assert spool.used == 100


async def test_a_large_file_is_not_starved_by_small_ones(spool):
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(spool.reserve(60))
        large = asyncio.create_task(stack.enter_async_context(spool.reserve(90)))
        await settle()
        small = asyncio.create_task(stack.enter_async_context(spool.reserve(10)))
        await settle()
        assert not small.done()
        large.cancel()
        await small


async def test_more_than_everything_is_refused_with_the_setting(spool):
    with pytest.raises(SourceTooLarge, match=r"ingester\.spool\.max_bytes"):
        async with spool.reserve(101):
            pass


@settings(max_examples=40, deadline=None)
@given(
    plans=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 6), st.booleans()),
        max_size=20,
    )
)
def test_whatever_is_reserved_shrunk_and_cancelled_the_bound_holds(tmp_path_factory, plans):
    folder = tmp_path_factory.mktemp("spool")

    async def use(spool, size, kept, turns):
        async with spool.reserve(size) as place:
            place.shrink(kept)
            assert spool.used <= 100
            for _ in range(turns):
                await asyncio.sleep(0)

    async def main():
        spool = Spool(folder, 100)
        tasks = []
        for size, kept, turns, cancelled in plans:
            tasks.append(asyncio.create_task(use(spool, size, kept, turns)))
            for _ in range(turns):
                await asyncio.sleep(0)
            if cancelled:
                tasks[turns % len(tasks)].cancel()
        async with asyncio.timeout(20):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert spool.used == 0
        errors = [t.exception() for t in tasks if not t.cancelled() and t.exception()]
        assert errors == []

    asyncio.run(main())
