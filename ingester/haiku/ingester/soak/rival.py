"""Another writer on the same database: documents of its own, known to the letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.ingester.soak.embedder import vector
from haiku.ingester.soak.faults import STEPS, CommitFaults
from haiku.rag import ids
from haiku.rag.records import NewChunk, NewItem
from haiku.rag.store.changes import ANY, Delete, Move, NewRevision, Put

if TYPE_CHECKING:
    import random

    from haiku.ingester.soak.model import Model
    from haiku.ingester.soak.script import Action
    from haiku.rag.store import Store
    from haiku.rag.store.changes import Change

#: Documents it has at most.
NAMES = 12


def uri(number: int) -> str:
    """One of its documents."""
    return f"soak://rival/{number}"


def put(at: str, text: str, expected: str = ANY) -> Put:
    """A document with two chunks that say what it says."""
    import numpy as np

    texts = [f"{text} first", f"{text} second"]
    revision = NewRevision(
        revision=ids.new_id(),
        content=text,
        docling=None,
        chunks=[NewChunk(content=part, text=part) for part in texts],
        vectors=np.stack([vector(part) for part in texts]),
        items=[NewItem(ref="#/texts/0", label="paragraph", text=text)],
    )
    return Put(uri=at, revision=revision, expected=expected, content_type="text/plain")


class Rival:
    """Writes beside the daemon, through two stores of its own."""

    def __init__(self, store: Store, other: Store, model: Model, rng: random.Random) -> None:
        self._store = store
        self._other = other
        self._model = model
        self._rng = rng
        self._faults = CommitFaults()
        self._serial = 0
        store.on_step(self._faults.step)

    async def commit(self) -> None:
        """One group: some documents are made or changed, one is moved, one goes."""
        one, two, three, four = self._rng.sample(range(NAMES), 4)
        changes: list[Change] = [
            put(uri(one), self._text()),
            put(uri(two), self._text()),
            Move(uri=uri(two), to_uri=uri(three)),
            Delete(uri=uri(four)),
        ]
        docs = dict(self._model.rivals)
        docs[uri(one)], docs[uri(two)] = (c.revision.content for c in changes[:2])  # type: ignore[union-attr]
        if moves := uri(three) not in docs:
            docs[uri(three)] = docs.pop(uri(two))
        deletes = docs.pop(uri(four), None) is not None
        outcomes = await self._store.commit(changes)
        results = [outcome.result for outcome in outcomes]
        wanted = ["done", "done", "done" if moves else "conflict", "done" if deletes else "absent"]
        if results != wanted:
            self._model.blame(f"a commit of the rival gave {results}, not {wanted}")
        self._model.rivals = docs

    async def stale(self, action: Action) -> None:
        """A commit held at a step while its document is changed: it must lose (S9)."""
        at, step = uri(action.pick(NAMES)), STEPS[action.pick(NAMES * len(STEPS)) % len(STEPS)]
        newer, late = self._text(), self._text()
        await self._store.commit([put(at, self._text())])
        seen = await self._store.row(at)
        self._faults.act_at(step, lambda: self._overtake(at, newer))
        (outcome,) = await self._store.commit(
            [put(at, late, seen.row_version if seen else "nothing is there")]
        )
        if outcome.result != ("done" if step == "merged" else "conflict"):
            self._model.blame(f"a commit that was overtaken at {step} ended as {outcome.result}")
        self._model.rivals[at] = newer

    async def _overtake(self, at: str, text: str) -> None:
        await self._other.commit([put(at, text)])

    def _text(self) -> str:
        self._serial += 1
        return f"the rival's text {self._serial}"
