"""A process of its own that writes to, or reads from, a database others write to as well.

    python -m tests.rag.store.racing write PATH NAME ROUNDS
    python -m tests.rag.store.racing read PATH

Says "ready", begins when a line comes in, and prints one JSON object with what it did and saw. A
reader ends when its input does.
"""

import asyncio
import json
import random
import sys
from collections import Counter

from tests.rag.store.making import CONFIG, check, put, text_hits

from haiku.rag.store import Store
from haiku.rag.store.changes import ABSENT, Change, Delete, Move, UpdateMeta

#: URIs that all processes fight for, and the one they count on together.
SHARED = [f"shared/{n}" for n in range(5)]
COUNTER = "counter"
#: A pair that is moved to and fro together: readers must see both on one side.
PAIR = ("left", "right")


async def begin() -> None:
    """Wait for the start, so that nobody's start-up is part of the race."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def write(path: str, name: str, rounds: int) -> dict[str, object]:
    """Own documents, shared ones, moves and increments."""
    rng = random.Random(name)
    counts: Counter[str] = Counter()
    own: dict[str, str] = {}
    increments = creations = 0
    async with await Store.open(path, CONFIG) as store:
        await begin()
        for number in range(rounds):
            text = f"{name} {number}"
            snapshot = await store.snapshot()
            counter = await snapshot.get_by_uri(COUNTER)
            assert counter is not None
            there = await snapshot.get_by_uri(f"{PAIR[0]}/a")
            old, new = PAIR if there else PAIR[::-1]
            mine = f"{name}/{rng.randrange(6)}"
            group: list[Change] = [
                put(mine, text),
                put(f"once/{rng.randrange(40)}", text, expected=ABSENT),
                UpdateMeta(
                    uri=COUNTER,
                    metadata={"n": counter.metadata["n"] + 1},
                    expected=counter.row_version,
                ),
                Move(uri=f"{old}/a", to_uri=f"{new}/a"),
                Move(uri=f"{old}/b", to_uri=f"{new}/b"),
                rng.choice([put, lambda uri, _: Delete(uri=uri)])(rng.choice(SHARED), text),
            ]
            outcomes = await store.commit(group)
            own[mine] = text
            creations += outcomes[1].result == "done"
            increments += outcomes[2].result == "done"
            counts.update(outcome.result for outcome in outcomes)
        stats = store.stats
    return {
        "own": own,
        "creations": creations,
        "increments": increments,
        "counts": counts,
        "lost_races": stats.lost_races,
        "upkeep_errors": stats.last_upkeep_error,
    }


async def read(path: str) -> dict[str, object]:
    """Look again and again; every look is checked whole."""
    looks, halves, last = 0, 0, -1
    async with await Store.open(path, CONFIG, read_only=True) as store:
        await begin()
        over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not over.done():
            snapshot = await store.snapshot()
            found = await check(snapshot)
            sides = {uri.split("/")[0] for uri in found if uri.split("/")[0] in PAIR}
            pair = [uri for uri in found if uri.split("/")[0] in PAIR]
            halves += len(sides) != 1 or len(pair) != 2
            counter = await snapshot.get_by_uri(COUNTER)
            assert counter is not None
            assert counter.metadata["n"] >= last, "a reader went back in time"
            last = counter.metadata["n"]
            for hit in await text_hits(snapshot, "writer0 writer1", 20):
                assert found[hit.row.uri] == hit.chunk.text.rsplit(" ", 1)[0]
            looks += 1
            await asyncio.sleep(0.05)
    return {"looks": looks, "halves": halves}


def main() -> None:
    """Run as the first argument says."""
    role, path, *rest = sys.argv[1:]
    if role == "write":
        result = asyncio.run(write(path, rest[0], int(rest[1])))
    else:
        result = asyncio.run(read(path))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
