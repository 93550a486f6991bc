"""Gathers the texts of many callers into requests that a server takes.

In: texts of concurrent callers. Out: their vectors, or the error that concerns them. Rules:

- a request keeps to three limits (texts, tokens, bytes), and few requests are under way at once;
- an idle queue sends at once; a busy one waits for a full request, or for `batch.wait`;
- a refused request is halved until it passes or one text is left, which fails for its caller only;
- a server that asks to wait is left alone by every request for that long;
- a caller that leaves takes its waiting texts along and disturbs nobody;
- callers with few texts and those with many share every request (see `waiting`).
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from haiku.rag.embed.waiting import Call, Size, Waiting, size_of
from haiku.rag.exceptions import EmbedderRefused, EmbedderUnavailable, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from haiku.rag.config.models import EmbeddingBatchConfig
    from haiku.rag.embed.protocol import Embedder, Tokenizer
    from haiku.rag.embed.waiting import Text

#: Seconds before the first retry, at most; doubled for each one after it.
BACKOFF = 0.5
#: Seconds between retries at most.
BACKOFF_MAX = 30.0
#: Seconds a server may ask to wait before the callers are told instead.
PATIENCE = 120.0
#: Tokens of a request that is kept brief, at least: fewer texts have too few of like length.
FEWEST_TOKENS = 4096


@dataclass(slots=True)
class QueueStats:
    """What the queue has done since it was made."""

    #: Requests sent, retries and halves included.
    requests: int = 0
    #: Texts whose vectors came back.
    texts: int = 0
    #: Tokens of those texts.
    tokens: int = 0
    #: Requests sent again after the embedder was unavailable.
    retries: int = 0
    #: Requests halved after a refusal.
    splits: int = 0


class EmbedQueue:
    """Turns the texts of many callers into vectors with few, bounded requests.

    Belongs to one event loop. It does not close the embedder it was given.

        queue = EmbedQueue(embedder, config.embeddings.batch, tokenizer)
        vectors = await queue.embed(["first text", "second text"])
    """

    def __init__(
        self,
        embedder: Embedder,
        batch: EmbeddingBatchConfig,
        tokenizer: Tokenizer,
        *,
        max_attempts: int = 5,
        backoff: float = BACKOFF,
        patience: float = PATIENCE,
        brief: float | None = None,
    ) -> None:
        """Nothing runs until the first call.

        Args:
            embedder: what makes the vectors.
            batch: limits of a request, requests at once, seconds to wait for more texts.
            tokenizer: counts the texts whose tokens the caller does not give.
            max_attempts: tries of one request before its callers fail.
            backoff: seconds before the first retry at most (full jitter).
            patience: seconds a server may ask to wait; more than that fails the callers at once,
                with `retry_after` in the error.
            brief: seconds of the embedder's work in one request, about, at most; for one that
                computes here, at any speed, and whose next request waits for the one before.
        """
        self.stats = QueueStats()
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._patience = patience
        self._wait = batch.wait
        self._concurrency = batch.concurrency
        self._limits = Size(batch.max_items, batch.max_tokens, batch.max_bytes)
        self._brief = brief
        #: Tokens a second of all requests under way together; None: not measured yet.
        self._speed: float | None = None
        self._waiting = Waiting()
        self._under_way: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        #: Loop time before which nothing is sent, because the server asked for it.
        self._resume_at = 0.0
        self._closed = False

    async def embed(
        self, texts: Sequence[str], *, tokens: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors of the texts, shape (len(texts), dim).

        Args:
            texts: what to embed.
            tokens: the count of each text where it is known, as `NewChunk.token_count` is.

        Raises:
            EmbedderUnavailable: still no answer after `max_attempts`, or the queue is closed.
            EmbedderRefused: the embedder does not take the texts, or not this configuration.
            ValueError: not one token count a text.
        """
        import numpy as np

        if not texts:
            return np.empty((0, self._embedder.identity.dim), np.float32)
        if tokens is None:
            tokens = await asyncio.to_thread(lambda: [self._tokenizer.count(t) for t in texts])
        self._check_open()
        if len(tokens) != len(texts):
            raise ValueError(f"{len(tokens)} token counts were given for {len(texts)} texts")
        call = Call(
            texts, tokens, [_bytes(t) for t in texts], asyncio.get_running_loop().create_future()
        )
        self._waiting.add(call)
        self._schedule()
        try:
            await call.done
        finally:
            self._waiting.discard([call])
        return np.stack([row for row in call.rows if row is not None])

    async def close(self) -> None:
        """Stop what is under way; its callers get `EmbedderUnavailable`."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        closing = EmbedderUnavailable("the embedding queue was closed")
        for call in self._waiting.calls():
            call.fail(closing)
            self._waiting.discard([call])
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _check_open(self) -> None:
        if self._closed:
            raise EmbedderUnavailable("the embedding queue was closed")

    # --- forming requests ---

    def _schedule(self) -> None:
        """See to it that waiting texts are sent: now when idle, a little later when busy."""
        if self._timer is not None or not self._waiting or self._closed:
            return
        loop = asyncio.get_running_loop()
        if self._under_way:
            self._start_full()
            if self._waiting:
                self._timer = loop.call_later(self._wait, self._start_all)
        else:
            # One turn of the loop lets callers that arrive together share a request.
            self._timer = loop.call_soon(self._start_all)

    def _start_full(self) -> None:
        while self._free() and self._waiting.size.reaches(self._room()):
            self._start()

    def _start_all(self) -> None:
        self._timer = None
        while self._free() and self._waiting:
            self._start()

    def _free(self) -> bool:
        return len(self._under_way) < self._concurrency

    def _room(self) -> Size:
        """What the next request may hold."""
        limits = self._limits
        if self._brief is None or self._speed is None:
            return limits
        tokens = max(FEWEST_TOKENS, round(self._speed * self._brief))
        return Size(limits.texts, min(limits.tokens, tokens), limits.bytes)

    def _start(self) -> None:
        texts = self._waiting.take(self._room())
        task = asyncio.get_running_loop().create_task(self._run(texts))
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._timer is None and not self._closed:
            self._start_full() if self._under_way else self._start_all()
            self._schedule()

    # --- sending one request ---

    async def _run(self, texts: list[Text]) -> None:
        """Send the texts and hand every caller its rows or its error."""
        try:
            await self._send(texts)
        except asyncio.CancelledError:
            _fail(texts, EmbedderUnavailable("the embedding queue was closed"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers concerned get it
            self._waiting.discard(_fail(texts, error))

    async def _send(self, texts: list[Text]) -> None:
        texts = [text for text in texts if not text.call.done.done()]
        if not texts:
            return
        started = asyncio.get_running_loop().time()
        try:
            rows = await self._request([text.text for text in texts])
        except RequestRefused as error:
            if len(texts) == 1:
                raise
            self._learn(error, texts)
            middle = len(texts) // 2
            for half in (texts[:middle], texts[middle:]):
                await self._run(half)
            return
        if len(rows) != len(texts):
            raise EmbedderRefused(f"{len(rows)} vectors came back for {len(texts)} texts")
        tokens = size_of(texts).tokens
        self.stats.texts += len(texts)
        self.stats.tokens += tokens
        self._measure(tokens, asyncio.get_running_loop().time() - started)
        for text, row in zip(texts, rows, strict=True):
            text.call.fill(text.place, row)

    def _measure(self, tokens: int, seconds: float) -> None:
        speed = tokens * len(self._under_way) / max(seconds, 1e-6)
        self._speed = speed if self._speed is None else (self._speed + speed) / 2

    def _learn(self, error: RequestRefused, texts: list[Text]) -> None:
        self.stats.splits += 1
        if error.too_large:
            self._limits = self._limits.halved(size_of(texts))

    async def _request(self, texts: list[str]) -> NDArray[np.float32]:
        """The rows of one request, tried again while the embedder is unavailable."""
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            await self._hold()
            self.stats.requests += 1
            attempt += 1
            try:
                return await self._embedder.embed_documents(texts)
            except EmbedderUnavailable as error:
                asked = error.retry_after or 0.0
                if attempt >= self._max_attempts or asked > self._patience:
                    raise
                self._resume_at = max(self._resume_at, loop.time() + asked)
                self.stats.retries += 1
            await asyncio.sleep(self._jitter(attempt))

    async def _hold(self) -> None:
        """Wait until the server that asked for it may be called again."""
        loop = asyncio.get_running_loop()
        while (wait := self._resume_at - loop.time()) > 0:  # noqa: ASYNC110 - it may be moved on
            await asyncio.sleep(wait)

    def _jitter(self, attempt: int) -> float:
        """Full jitter: anything up to an exponentially growing bound, so that herds disperse."""
        return random.uniform(0, min(BACKOFF_MAX, self._backoff * 2 ** (attempt - 1)))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _fail(texts: Iterable[Text], error: BaseException) -> list[Call]:
    calls = [text.call for text in texts]
    for call in calls:
        call.fail(error)
    return calls
