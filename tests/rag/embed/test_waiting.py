"""Whose turn it is: everything once, in order, within limits, and nobody for ever."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.rag.embed.waiting import Call, Size, Waiting, size_of


@pytest.fixture(scope="module", autouse=True)
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def call(loop, counts):
    texts = [str(n) for n in range(len(counts))]
    return Call(texts, counts, [2 * count for count in counts], loop.create_future())


COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(
    st.lists(COUNTS, max_size=8),
    st.builds(Size, st.integers(1, 7), st.integers(1, 30), st.integers(1, 60)),
)
def test_everything_is_taken_once_in_order_within_the_limits(loop, counts, limit):
    waiting = Waiting()
    calls = [call(loop, c) for c in counts]
    for one in calls:
        waiting.add(one)
    places = {one: [] for one in calls}
    left = sum(map(len, counts))
    while len(waiting):
        taken = waiting.take(limit)
        size = size_of(taken)
        assert taken
        assert len(taken) == 1 or not size.exceeds(limit)
        for text in taken:
            places[text.call].append(text.place)
        left -= len(taken)
        assert len(waiting) == left
    assert waiting.size == Size()
    assert not waiting.calls()
    assert all(places[one] == list(range(len(one.texts))) for one in calls)


@given(st.lists(COUNTS, min_size=1, max_size=8), st.integers(1, 7), st.data())
def test_the_oldest_and_the_shortest_have_half_each(loop, counts, room, data):
    waiting = Waiting()
    for count in counts:
        waiting.add(call(loop, count))
    for _ in range(data.draw(st.integers(0, 5))):
        waiting.take(Size(room, 1000, 1000))
    if not len(waiting):
        return
    calls = waiting.calls()
    oldest, shortest = calls[0], min(calls, key=lambda one: one.left)
    before = oldest.left, shortest.left
    taken = len(waiting.take(Size(room, 1000, 1000)))
    for one, had in zip((oldest, shortest), before, strict=True):
        assert had - one.left >= min(had, taken // 2)


def test_requests_of_one_text_go_to_both_by_turns(loop):
    waiting = Waiting()
    huge, small = call(loop, [1] * 10), call(loop, [1] * 3)
    waiting.add(huge)
    waiting.add(small)
    turns = [waiting.take(Size(1, 9, 9))[0].call for _ in range(6)]
    assert turns == [small, huge] * 3


def test_what_leaves_is_counted_out(loop):
    waiting = Waiting()
    one, other = call(loop, [1, 2, 3]), call(loop, [4, 5])
    waiting.add(one)
    waiting.add(other)
    waiting.take(Size(2, 100, 100))
    waiting.discard([one, one])
    assert waiting.size == other.size()
    waiting.discard([other])
    assert waiting.size == Size()


def test_a_large_text_goes_alone(loop):
    waiting = Waiting()
    waiting.add(call(loop, [100, 1, 1]))
    assert [len(waiting.take(Size(9, 10, 1000))) for _ in range(2)] == [1, 2]
