"""Group commit: when a group closes, who is told what, and what cancelling does."""

import asyncio

import pytest

from haiku.rag.exceptions import StoreBusy
from haiku.rag.store.changes import Delete, Outcome
from haiku.rag.write.group import GroupCommitter


class RecordingStore:
    """Stands where the store stands; remembers each group."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.error: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.asked: list[list[bool]] = []

    async def commit(self, changes, *, still_mine=None):
        self.groups.append([change.uri for change in changes])
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        mine = list(await still_mine()) if still_mine else [True] * len(changes)
        self.asked.append(mine)
        return [Outcome(result="done" if m else "dropped", row=None) for m in mine]


def delete(uri: str) -> Delete:
    return Delete(uri=uri)


@pytest.fixture
def store():
    return RecordingStore()


async def submit_all(committer, uris, size=0):
    return await asyncio.gather(*(committer.submit(delete(u), size=size) for u in uris))


async def test_what_comes_within_the_window_shares_a_commit(store):
    committer = GroupCommitter(store, window=0.2)
    outcomes = await submit_all(committer, "abc")
    assert [o.result for o in outcomes] == ["done"] * 3
    assert store.groups == [["a", "b", "c"]]
    assert (committer.stats.commits, committer.stats.changes) == (1, 3)
    await committer.close()


async def test_count_closes_a_group(store):
    committer = GroupCommitter(store, window=5.0, max_documents=2)
    await submit_all(committer, "abcd")
    assert store.groups == [["a", "b"], ["c", "d"]]
    await committer.close()


async def test_bytes_close_a_group_and_one_too_large_goes_alone(store):
    committer = GroupCommitter(store, window=0.05, max_bytes=100)
    await asyncio.gather(
        committer.submit(delete("a"), size=60),
        committer.submit(delete("b"), size=60),
        committer.submit(delete("big"), size=500),
        committer.submit(delete("c"), size=10),
    )
    assert store.groups == [["a"], ["b"], ["big"], ["c"]]
    await committer.close()


async def test_an_error_reaches_every_caller_and_the_next_group_goes_on(store):
    committer = GroupCommitter(store, window=0.05)
    store.error = StoreBusy("busy")
    results = await asyncio.gather(
        *(committer.submit(delete(u)) for u in "ab"), return_exceptions=True
    )
    assert [type(r) for r in results] == [StoreBusy, StoreBusy]
    store.error = None
    assert (await committer.submit(delete("c"))).result == "done"
    await committer.close()


async def test_a_change_that_cannot_be_written_fails_alone(store):
    commit = store.commit

    async def refuse(changes, **more):
        if any(change.uri == "b" for change in changes):
            raise ValueError("a vector holds NaN")
        return await commit(changes, **more)

    store.commit = refuse
    committer = GroupCommitter(store, window=0.2)
    tasks = [asyncio.create_task(committer.submit(delete(uri))) for uri in "abc"]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], ValueError)
    assert [results[0].result, results[2].result] == ["done", "done"]
    assert store.groups == [["a"], ["c"]]
    await committer.close()


async def test_lost_claims_are_dropped(store):
    async def still_mine(claims):
        return [claim != "lost" for claim in claims]

    committer = GroupCommitter(store, window=0.05, still_mine=still_mine)
    kept, lost = await asyncio.gather(
        committer.submit(delete("a"), claim="held"), committer.submit(delete("b"), claim="lost")
    )
    assert (kept.result, lost.result) == ("done", "dropped")
    await committer.close()


async def test_cancelling_before_the_group_closes_withdraws_the_change(store):
    committer = GroupCommitter(store, window=0.1)
    leaving = asyncio.create_task(committer.submit(delete("leaving")))
    staying = asyncio.create_task(committer.submit(delete("staying")))
    await asyncio.sleep(0.01)
    leaving.cancel()
    assert (await staying).result == "done"
    assert store.groups == [["staying"]]
    await committer.close()


async def test_close_commits_what_was_submitted_and_refuses_more(store):
    committer = GroupCommitter(store, window=0.05)
    store.hold.clear()
    waiting = [asyncio.create_task(committer.submit(delete(u))) for u in "ab"]
    await asyncio.sleep(0)
    closing = asyncio.create_task(committer.close())
    await asyncio.sleep(0.1)
    assert not closing.done()
    store.hold.set()
    await closing
    assert [(await task).result for task in waiting] == ["done", "done"]
    with pytest.raises(StoreBusy, match="closed"):
        await committer.submit(delete("late"))


async def test_changes_gather_while_a_commit_is_under_way(store):
    committer = GroupCommitter(store, window=0.0)
    store.hold.clear()
    first = asyncio.create_task(committer.submit(delete("a")))
    while not store.groups:
        await asyncio.sleep(0)
    rest = [asyncio.create_task(committer.submit(delete(u))) for u in "bcd"]
    await asyncio.sleep(0.01)
    store.hold.set()
    await asyncio.gather(first, *rest)
    assert store.groups == [["a"], ["b", "c", "d"]]
    await committer.close()


async def test_one_in_a_hurry_takes_the_patient_along(store):
    committer = GroupCommitter(store, window=0.02)
    patient = asyncio.create_task(committer.submit(delete("patient"), patience=60.0))
    await asyncio.sleep(0.1)
    assert store.groups == []
    await committer.submit(delete("hurried"))
    assert (await patient).result == "done"
    assert store.groups == [["patient", "hurried"]]
    await committer.close()
