"""The providers behind a server, against real ones."""

import asyncio
import json
import re
import time

import numpy as np
import pytest
from werkzeug import Response

from haiku.rag.config.models import EmbeddingBatchConfig, EmbeddingsConfig
from haiku.rag.embed import EmbedQueue, create_embedder, load_tokenizer
from haiku.rag.embed.http import retry_after
from haiku.rag.embed.ollama import address
from haiku.rag.exceptions import EmbedderRefused, EmbedderUnavailable, RequestRefused

KEY = "sk-secret-4711"


def row(text: str, dim: int = 3) -> list[float]:
    return [float(re.match(r"\d*", text)[0] or 1) + 1.0, *[1.0] * (dim - 1)]


def openai_answer(texts, dim=3):
    items = [{"index": i, "embedding": row(text, dim)} for i, text in enumerate(texts)]
    return {"object": "list", "data": items[::-1]}


def ollama_answer(texts, dim=3):
    return {"embeddings": [row(text, dim) for text in texts]}


ANSWERS = {"openai": ("/embeddings", openai_answer), "ollama": ("/api/embed", ollama_answer)}


@pytest.fixture(params=ANSWERS)
def provider(request):
    return request.param


@pytest.fixture
def path(provider):
    return ANSWERS[provider][0]


@pytest.fixture
async def embedder(provider, httpserver):
    made = make(provider, httpserver)
    yield made
    await made.close()


def make(provider, httpserver, *, timeout=10.0, **model):
    return create_embedder(
        EmbeddingsConfig(
            model={
                "provider": provider,
                "name": "some-model",
                "vector_dim": 3,
                "base_url": httpserver.url_for("").rstrip("/"),
                "api_key": KEY,
                **model,
            },
            timeout=timeout,
        )
    )


def serve(httpserver, provider, handle=None, dim=3):
    path, answer = ANSWERS[provider]

    def respond(request):
        body = json.loads(request.data)
        if handle and (reply := handle(body["input"])) is not None:
            return reply
        return Response(json.dumps(answer(body["input"], dim)), mimetype="application/json")

    httpserver.expect_request(path, method="POST").respond_with_handler(respond)


def expected(texts):
    rows = np.array([row(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def test_unit_vectors_in_the_order_of_the_texts(provider, httpserver, embedder, path):
    serve(httpserver, provider)
    texts = ["3 a", "1 b", "2 \ud800"]
    vectors = await embedder.embed_documents(texts)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, expected(texts))
    assert np.allclose(await embedder.embed_query("5"), expected(["5"])[0])
    request, _ = httpserver.log[0]
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert json.loads(request.data)["model"] == "some-model"


async def test_another_dimension_names_both_and_the_key(provider, httpserver, embedder):
    serve(httpserver, provider, dim=5)
    with pytest.raises(EmbedderRefused, match=r"length 5.*embeddings\.model\.vector_dim is 3"):
        await embedder.embed_documents(["1"])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_worth_trying_again(provider, httpserver, embedder, path, status):
    httpserver.expect_request(path).respond_with_data(
        "later", status=status, headers={"Retry-After": "7"}
    )
    with pytest.raises(EmbedderUnavailable, match=f"{status}: later") as caught:
        await embedder.embed_documents(["1"])
    assert caught.value.retry_after == 7


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (401, "bad key", "api_key"),
        (403, "no", "api_key"),
        (404, "no model", "name"),
        (302, "moved", "302"),
    ],
)
async def test_not_worth_trying_again(provider, httpserver, embedder, path, status, said, hint):
    httpserver.expect_request(path).respond_with_data(
        f"{said} for {KEY}", status=status, headers={"Location": "http://other.invalid/"}
    )
    with pytest.raises(EmbedderRefused, match=said) as caught:
        await embedder.embed_documents(["1"])
    assert not isinstance(caught.value, RequestRefused)
    assert hint in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said", "too_large"),
    [
        (413, "", True),
        (400, "maximum context length is 8192 tokens", True),
        (422, "batch size 100 > maximum allowed batch size 64", True),
        (400, "'$.input' is invalid", False),
    ],
)
async def test_smaller_requests_may_pass(
    provider, httpserver, embedder, path, status, said, too_large
):
    httpserver.expect_request(path).respond_with_data(said, status=status)
    with pytest.raises(RequestRefused) as caught:
        await embedder.embed_documents(["1"])
    assert caught.value.too_large is too_large


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "[]",
        "{}",
        '{"data": [], "embeddings": []}',
        '{"data": [{"embedding": [0, 0, 0]}], "embeddings": [[0, 0, 0]]}',
        '{"data": [{"embedding": [NaN, 1, 1]}], "embeddings": [[NaN, 1, 1]]}',
        '{"data": [{"embedding": [1e999, 1, 1]}], "embeddings": [[1e999, 1, 1]]}',
        '{"data": [{"embedding": "text"}], "embeddings": ["text"]}',
        '{"data": [{"embedding": [[1], 2, 3]}], "embeddings": [[[1], 2, 3]]}',
        '{"data": [{"index": 1, "embedding": [1, 1, 1]}], "embeddings": {}}',
        '{"data": [null], "embeddings": [null]}',
    ],
)
async def test_answers_nobody_can_use(provider, httpserver, embedder, path, body):
    httpserver.expect_request(path).respond_with_data(body)
    with pytest.raises(EmbedderRefused):
        await embedder.embed_documents(["1"])


async def test_an_answer_that_never_ends_is_not_read_to_the_end(
    provider, httpserver, embedder, path
):
    httpserver.expect_request(path).respond_with_data(" " * 3_000_000)
    with pytest.raises(EmbedderRefused, match="more than"):
        await embedder.embed_documents(["1"])


async def test_a_slow_server(provider, httpserver, path):
    def slow(texts):
        time.sleep(0.6)

    serve(httpserver, provider, slow)
    embedder = make(provider, httpserver, timeout=0.1)
    with pytest.raises(EmbedderUnavailable, match="did not answer"):
        await embedder.embed_documents(["1"])
    await embedder.close()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
async def test_a_connection_that_breaks(provider, sent):
    async def drop(reader, writer):
        await reader.read(10)
        writer.write(sent)
        writer.close()

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = {"provider": provider, "vector_dim": 3, "base_url": f"http://127.0.0.1:{port}"}
    embedder = create_embedder(EmbeddingsConfig(model=model))
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_documents(["1"])
    server.close()
    await server.wait_closed()
    with pytest.raises(EmbedderUnavailable, match="running"):
        await embedder.embed_documents(["1"])
    await embedder.close()


# --- with the queue ---


def queue_for(embedder, **batch):
    return EmbedQueue(
        embedder,
        EmbeddingBatchConfig(**batch),
        load_tokenizer(EmbeddingsConfig().model),
        backoff=0.01,
    )


async def test_a_server_that_takes_64_texts_of_100_kilobytes(provider, httpserver, embedder):
    """F38: within the configured limits every request passes, and there are no more than needed."""
    refused = []

    def handle(texts):
        if len(texts) > 64 or sum(map(len, texts)) > 100_000:
            refused.append(len(texts))
            return Response("too large", status=413)
        return None

    serve(httpserver, provider, handle)
    texts = [f"{i} " + "x" * (i % 40) * 100 for i in range(300)]
    queue = queue_for(embedder, max_items=64, max_bytes=100_000)
    groups = [texts[i : i + 10] for i in range(0, 300, 10)]
    answers = await asyncio.gather(*(queue.embed(group) for group in groups))
    assert np.allclose(np.concatenate(answers), expected(texts))
    assert refused == []
    assert queue.stats.requests <= -(-sum(map(len, texts)) // 100_000) + 1


async def test_the_same_server_with_limits_unknown(provider, httpserver, embedder):
    def handle(texts):
        too_large = len(texts) > 64 or sum(map(len, texts)) > 100_000
        return Response("too large", status=413) if too_large else None

    serve(httpserver, provider, handle)
    texts = [f"{i} " + "x" * 2_000 for i in range(300)]
    queue = queue_for(embedder, max_items=1000, max_bytes=10_000_000)
    assert np.allclose(await queue.embed(texts), expected(texts))
    assert queue.stats.splits >= 1
    before = queue.stats.splits
    assert np.allclose(await queue.embed(texts), expected(texts))
    assert queue.stats.splits == before


async def test_429_and_500_then_well(provider, httpserver, embedder):
    replies = [
        Response("slow down", status=429, headers={"Retry-After": "0.3"}),
        Response("oops", status=500),
    ]
    times = []

    def handle(texts):
        times.append(time.monotonic())
        return replies.pop(0) if replies else None

    serve(httpserver, provider, handle)
    queue = queue_for(embedder)
    assert np.allclose(await queue.embed(["1", "2"]), expected(["1", "2"]))
    assert queue.stats.retries == 2
    assert times[1] - times[0] >= 0.29


# --- small things ---


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", 0.0),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after(header, seconds):
    assert retry_after(header) == seconds


def test_retry_after_as_a_date_ahead():
    ahead = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    assert 90 < retry_after(ahead) <= 100


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":9000", "http://127.0.0.1:9000"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("https://box/ollama", "https://box/ollama"),
    ],
)
def test_ollama_host(host, url):
    assert address(host) == url
