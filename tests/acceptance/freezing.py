"""A writer that stops itself (SIGSTOP) at a named point of a commit, and goes on when it is woken.

    python -m tests.acceptance.freezing PATH COLLECT_AFTER

Reads a JSON object a line: `round` names the documents, `at` is the point, `expect` whether the
rows must be as they are now. Commits `changes(...)`, and prints a JSON object with what became
of it and the points that it passed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from lance.dataset import MergeInsertBuilder

from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store
from haiku.rag.store.changes import ANY, Delete, Move, UpdateMeta
from tests.rag.store.making import put

if TYPE_CHECKING:
    from haiku.rag.store.changes import Change

#: The points of a commit in order: those of `Store.on_step`, and the moment before the merge.
POINTS = [
    "read",
    "check",
    "append documents",
    "append document_items",
    "append chunks",
    "index",
    "read again",
    "check again",
    "merge",
    "execute",
    "merged",
]


class Freezer:
    """Stops the process at a point."""

    def __init__(self) -> None:
        self.at = ""
        self.seen: list[str] = []

    def reach(self, name: str) -> None:
        """Stop if this is the point."""
        point = f"{name} again" if name in self.seen and name in ("read", "check") else name
        fresh = point not in self.seen
        self.seen.append(point)
        if fresh and point == self.at:
            os.kill(os.getpid(), signal.SIGSTOP)

    async def step(self, name: str) -> None:
        self.reach(name)

    def watch_merges(self) -> None:
        """Have `reach("execute")` called where nothing stands between us and the merge."""
        execute = MergeInsertBuilder.execute

        def stop_first(builder: Any, data: Any, **more: Any) -> Any:
            self.reach("execute")
            return execute(builder, data, **more)

        MergeInsertBuilder.execute = stop_first


def changes(name: str, seen: dict[str, str] | None) -> list[Change]:
    """Two new contents, a change of what is known, a move, a deletion and a new document."""

    def expected(uri: str) -> str:
        return ANY if seen is None else seen[f"{name}/{uri}"]

    return [
        put(f"{name}/a", "stale", expected=expected("a")),
        put(f"{name}/b", "stale", expected=expected("b")),
        UpdateMeta(uri=f"{name}/c", title="stale", expected=expected("c")),
        Move(uri=f"{name}/d", to_uri=f"{name}/moved", expected=expected("d")),
        Delete(uri=f"{name}/e", expected=expected("e")),
        put(f"{name}/fresh", "fresh"),
    ]


async def serve(path: str, collect_after: float) -> None:
    """Take rounds until the input ends."""
    freezer = Freezer()
    freezer.watch_merges()
    async with await Store.open(path, StorageConfig(collect_after=collect_after)) as store:
        store.on_step(freezer.step)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            name, rows = command["round"], await (await store.snapshot()).rows()
            seen = {row.uri: row.row_version for row in rows} if command["expect"] else None
            freezer.at, freezer.seen = command["at"], []
            outcomes = await store.commit(changes(name, seen))
            freezer.at = ""
            results = [outcome.result for outcome in outcomes]
            print(json.dumps({"results": results, "seen": freezer.seen}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
