"""The queue: few requests, errors for whom they concern, patience with servers."""

import asyncio
import time

import numpy as np
import pytest

from haiku.rag.config.models import EmbeddingBatchConfig
from haiku.rag.embed import EmbedQueue
from haiku.rag.exceptions import (
    ConfigError,
    EmbedderRefused,
    EmbedderUnavailable,
    RequestRefused,
)
from haiku.rag.records import EmbeddingIdentity


class Words:
    """Counts words."""

    additive = True

    def count(self, text):
        return len(text.split())

    def ends(self, text):
        return [len(text)]


class Scripted:
    """An embedder whose vector of "7 …" is 7; `answer` may raise or wait before that."""

    identity = EmbeddingIdentity(provider="scripted", name="n", dim=2)
    max_tokens = 100

    def __init__(self, answer=None):
        self.requests: list[list[str]] = []
        self.answer = answer
        self.under_way = self.most_under_way = 0

    async def embed_documents(self, texts):
        self.requests.append(list(texts))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.answer:
                await self.answer(texts)
            return np.array([[float(text.split()[0]), 1] for text in texts], np.float32)
        finally:
            self.under_way -= 1

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]

    async def close(self):
        pass


def make(answer=None, *, max_attempts=5, patience=120.0, brief=None, **batch):
    embedder = Scripted(answer)
    settings = EmbeddingBatchConfig(**{"wait": 0.005, **batch})
    queue = EmbedQueue(
        embedder,
        settings,
        Words(),
        max_attempts=max_attempts,
        backoff=0.002,
        patience=patience,
        brief=brief,
    )
    return embedder, queue


def numbers(vectors):
    return [int(row[0]) for row in vectors]


async def test_each_caller_gets_its_own_in_order():
    embedder, queue = make(max_items=7)
    callers = [[str(10 * c + i) for i in range(c)] for c in range(12)]
    answers = await asyncio.gather(*(queue.embed(texts) for texts in callers))
    for texts, answer in zip(callers, answers, strict=True):
        assert numbers(answer) == [int(text) for text in texts]
        assert answer.shape == (len(texts), 2)
    assert queue.stats.texts == sum(map(len, callers)) == queue.stats.tokens
    assert queue.stats.requests == len(embedder.requests) == -(-66 // 7)


async def test_callers_that_arrive_together_share_a_request():
    embedder, queue = make()
    await asyncio.gather(*(queue.embed([str(i)], tokens=[1]) for i in range(50)))
    assert [len(request) for request in embedder.requests] == [50]


async def test_one_caller_does_not_wait_for_others():
    _, queue = make(wait=30)
    async with asyncio.timeout(5):
        await queue.embed(["1"])
        await queue.embed(["2", "3"])


async def test_a_busy_queue_gathers():
    gate = asyncio.Event()

    async def answer(texts):
        await gate.wait()

    embedder, queue = make(answer, concurrency=1, max_items=10)
    first = asyncio.create_task(queue.embed(["0"], tokens=[1]))
    await asyncio.sleep(0.01)
    others = [asyncio.create_task(queue.embed([str(i)], tokens=[1])) for i in range(1, 21)]
    await asyncio.sleep(0.03)
    assert len(embedder.requests) == 1
    gate.set()
    await asyncio.gather(first, *others)
    assert [len(request) for request in embedder.requests] == [1, 10, 10]


@pytest.mark.parametrize(
    ("limits", "texts", "sizes"),
    [
        ({"max_items": 3}, ["1"] * 8, [3, 3, 2]),
        ({"max_tokens": 6}, ["1 a b"] * 5, [2, 2, 1]),
        ({"max_bytes": 9}, ["1 é"] * 5, [2, 2, 1]),
        ({"max_bytes": 4}, ["1", "1 too long", "1"], [1, 1, 1]),
    ],
)
async def test_every_limit_holds(limits, texts, sizes):
    embedder, queue = make(**limits)
    await queue.embed(texts)
    assert sorted(map(len, embedder.requests), reverse=True) == sizes


async def test_given_token_counts_are_used():
    embedder, queue = make(max_tokens=10)
    await queue.embed(["1", "2", "3"], tokens=[9, 9, 9])
    assert len(embedder.requests) == 3
    with pytest.raises(ValueError, match="1 token counts were given for 2 texts"):
        await queue.embed(["1", "2"], tokens=[1])


async def test_few_at_once():
    async def answer(texts):
        await asyncio.sleep(0.002)

    embedder, queue = make(answer, concurrency=3, max_items=1)
    await queue.embed([str(i) for i in range(30)])
    assert embedder.most_under_way == 3


async def test_nothing():
    embedder, queue = make()
    assert (await queue.embed([])).shape == (0, 2)
    assert embedder.requests == []


async def test_a_small_document_does_not_wait_for_a_huge_one():
    async def answer(texts):
        await asyncio.sleep(0.001)

    embedder, queue = make(answer, concurrency=2, max_items=8)
    huge = asyncio.create_task(queue.embed(["0"] * 4000, tokens=[1] * 4000))
    for number in range(1, 20):
        await asyncio.sleep(0.002)
        before = len(embedder.requests)
        await queue.embed([str(number)] * 4, tokens=[1] * 4)
        # The next request to be formed has all four; two may have been formed and not sent yet.
        (place,) = (i for i, texts in enumerate(embedder.requests) if str(number) in texts)
        assert place - before <= 2
    assert not huge.done()
    huge.cancel()


async def test_a_huge_document_advances_with_every_request_however_many_small_ones_come():
    embedder, queue = make(concurrency=1, max_items=8)
    huge = asyncio.create_task(queue.embed(["0"] * 40, tokens=[1] * 40))
    await asyncio.sleep(0)
    small = [asyncio.create_task(queue.embed(["1"] * 3, tokens=[1] * 3)) for _ in range(100)]
    await huge
    assert len(embedder.requests) <= 10
    assert sum(task.done() for task in small) <= 14
    await asyncio.gather(*small)


@pytest.mark.parametrize(("brief", "full"), [(None, True), (30.0, True), (0.001, False)])
async def test_a_request_is_kept_brief_where_that_is_asked_for(brief, full):
    """Texts of 200 tokens, 64 in a request: so few in one as take so long, but never too few."""

    async def answer(texts):
        await asyncio.sleep(0.0005 * len(texts))

    embedder, queue = make(answer, concurrency=1, brief=brief)
    await queue.embed(["0"] * 400, tokens=[200] * 400)
    first, *others = map(len, embedder.requests)
    assert first == 64
    assert set(others[:-1]) == ({64} if full else {4096 // 200})


# --- trouble ---


async def test_a_request_that_is_too_large_is_halved_and_the_limit_learned():
    async def answer(texts):
        if len(texts) > 10:
            raise RequestRefused("413", too_large=True)

    embedder, queue = make(answer, concurrency=1)
    assert numbers(await queue.embed([str(i) for i in range(64)])) == list(range(64))
    before = len(embedder.requests)
    await queue.embed([str(i) for i in range(64)])
    assert all(len(request) <= 10 for request in embedder.requests[before:])
    assert queue.stats.splits >= 3


async def test_one_refused_text_fails_its_caller_only():
    async def answer(texts):
        if "13 bad" in texts:
            raise RequestRefused("400: cannot read it")

    embedder, queue = make(answer)
    callers = [queue.embed([str(i), str(i)]) for i in range(13)]
    results = await asyncio.gather(*callers, queue.embed(["12", "13 bad"]), return_exceptions=True)
    assert isinstance(results.pop(), RequestRefused)
    assert [numbers(r) for r in results] == [[i, i] for i in range(13)]
    # Not a matter of size: the next request is as large as before.
    embedder.requests.clear()
    await queue.embed(["1"] * 27)
    assert len(embedder.requests) == 1


async def test_unavailable_is_tried_again():
    left = 3

    async def answer(texts):
        nonlocal left
        left -= 1
        if left >= 0:
            raise EmbedderUnavailable("503")

    _, queue = make(answer)
    assert numbers(await queue.embed(["1"])) == [1]
    assert (queue.stats.requests, queue.stats.retries) == (4, 3)


async def test_not_for_ever():
    async def answer(texts):
        raise EmbedderUnavailable("503", retry_after=None)

    _, queue = make(answer, max_attempts=3)
    with pytest.raises(EmbedderUnavailable, match="503"):
        await queue.embed(["1"])
    assert queue.stats.requests == 3


async def test_refused_is_not_tried_again():
    async def answer(texts):
        raise EmbedderRefused("401")

    _, queue = make(answer, max_items=1, concurrency=1)
    with pytest.raises(EmbedderRefused):
        await queue.embed(["1", "2", "3"])
    # What was still waiting for the failed caller is not sent.
    assert queue.stats.requests == 1


async def test_a_server_that_asks_to_wait_is_left_alone_by_all():
    asked = []

    async def answer(texts):
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise EmbedderUnavailable("429", retry_after=0.2)

    _, queue = make(answer, max_items=1, concurrency=2)
    first = asyncio.create_task(queue.embed(["1"]))
    await asyncio.sleep(0.05)
    await asyncio.gather(first, queue.embed(["2"]), queue.embed(["3"]))
    assert min(asked[1:]) - asked[0] >= 0.19


async def test_who_asks_for_more_than_our_patience_is_passed_on():
    async def answer(texts):
        raise EmbedderUnavailable("429", retry_after=3600)

    _, queue = make(answer, patience=1)
    with pytest.raises(EmbedderUnavailable) as caught:
        await queue.embed(["1"])
    assert caught.value.retry_after == 3600
    assert queue.stats.requests == 1


async def test_an_error_nobody_foresaw_reaches_its_callers_and_ends_nothing():
    async def answer(texts):
        if texts == ["1"]:
            raise ZeroDivisionError

    _, queue = make(answer)
    with pytest.raises(ZeroDivisionError):
        await queue.embed(["1"])
    assert numbers(await queue.embed(["2"])) == [2]


async def test_too_few_vectors_are_refused():
    embedder, queue = make()

    async def short(texts):
        return np.ones((1, 2), np.float32)

    embedder.embed_documents = short
    with pytest.raises(EmbedderRefused, match="1 vectors came back for 2 texts"):
        await queue.embed(["1", "2"])


async def test_a_caller_that_leaves_takes_its_waiting_texts_along():
    gate = asyncio.Event()

    async def answer(texts):
        await gate.wait()

    embedder, queue = make(answer, concurrency=1, max_items=2)
    leaving = asyncio.create_task(queue.embed(["1"] * 5, tokens=[1] * 5))
    staying = asyncio.create_task(queue.embed(["2"] * 4, tokens=[1] * 4))
    await asyncio.sleep(0.02)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gate.set()
    assert numbers(await staying) == [2] * 4
    # Each of the two had half of the first request.
    assert [sorted(request) for request in embedder.requests] == [["1", "2"], ["2", "2"], ["2"]]
    assert numbers(await queue.embed(["3"])) == [3]


async def test_closing_ends_everybody():
    async def answer(texts):
        await asyncio.sleep(60)

    _, queue = make(answer, concurrency=1, max_items=1)
    callers = [asyncio.create_task(queue.embed([str(i)])) for i in range(3)]
    await asyncio.sleep(0.02)
    await queue.close()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(r, EmbedderUnavailable) for r in results), results
    with pytest.raises(EmbedderUnavailable):
        await queue.embed(["1"])
    await queue.close()


async def test_config_errors_pass_through():
    async def answer(texts):
        raise ConfigError("no such thing")

    _, queue = make(answer)
    with pytest.raises(ConfigError):
        await queue.embed(["1"])
