"""F46: a process that was forked too late gets a clear error and never hangs."""

import asyncio
import multiprocessing
import os
import subprocess
import sys

import pytest

from haiku.rag.config.models import StorageConfig
from haiku.rag.exceptions import StoreError
from haiku.rag.store import Store

#: Seconds a child may take before it counts as hanging.
PATIENCE = 60


def look(store: Store, answers) -> None:
    """What a child gets of the store that it has inherited, and of one that it opens."""

    async def inherited() -> int:
        return await (await store.snapshot()).count()

    async def opened() -> int:
        async with await Store.open(store.path, StorageConfig(), read_only=True) as own:
            return await (await own.snapshot()).count()

    for ask in (inherited, opened):
        try:
            answers.put(asyncio.run(ask()))
        except StoreError as error:
            answers.put(str(error))


def answers_of(store: Store, count: int) -> list[object]:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=look, args=(store, answers))
    child.start()
    try:
        return [answers.get(timeout=PATIENCE) for _ in range(count)]
    finally:
        child.kill()
        child.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
async def test_a_forked_process_is_refused_at_once(store):  # F46
    assert await (await store.snapshot()).count() == 0
    found = await asyncio.to_thread(answers_of, store, 2)
    assert all("forked" in str(answer) and "spawn" in str(answer) for answer in found)


CHILD_FIRST = """
import asyncio, os, sys
from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store

async def look():
    async with await Store.open(sys.argv[1], StorageConfig(), read_only=True) as store:
        return await (await store.snapshot()).count()

child = os.fork()
if child == 0:
    print(asyncio.run(look()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(asyncio.run(look()))
"""


def test_who_forks_before_the_first_database_is_free(store):  # F46
    done = subprocess.run(
        [sys.executable, "-c", CHILD_FIRST, store.path],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.split() == ["0", "0"], done.stderr
