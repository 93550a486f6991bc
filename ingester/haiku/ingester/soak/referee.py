"""Looks at the database all the time, as any reader may, and says what does not hold."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

from haiku.rag.exceptions import HaikuRAGError
from haiku.rag.store.threads import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haiku.ingester.soak.model import Model
    from haiku.rag.store import Snapshot, Store
    from haiku.rag.store.changes import Row

#: Seconds between looks.
PAUSE = 0.1
#: Documents that one look reads whole.
SAMPLE = 4


class Referee:
    """A reader; what it finds wrong is noted in the model."""

    def __init__(self, store: Store, model: Model, *, patience: float) -> None:
        """Nothing is read yet.

        Args:
            store: open for reading only.
            model: what should be.
            patience: seconds after which a look is too old to be judged, `collect_after` / 2.
        """
        self._store = store
        self._model = model
        self._patience = patience
        self._rng = random.Random()  # which documents are read whole is no part of the script
        #: Looks so far.
        self.looks = 0

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(PAUSE)

    async def look(self) -> None:
        """One look at one commit."""
        began, steady = clock(), set(self._model.steady)
        wrong: list[str] = []
        try:
            snapshot = await self._store.snapshot()
            rows = await snapshot.rows()
            wrong += _doubles(rows)
            wrong += self._missing(rows, steady & self._model.steady)
            for row in self._rng.sample(rows, min(SAMPLE, len(rows))):
                wrong += await torn(snapshot, row)
        except HaikuRAGError as error:
            wrong.append(f"a reader got an error: {error}")
        self.looks += 1
        if clock() - began < self._patience:
            self._model.wrong += wrong

    def _missing(self, rows: Sequence[Row], steady: set[str]) -> list[str]:
        """S4: what was indexed and not touched is there, with a content that it had once."""
        found = {row.uri: row.content_hash for row in rows}
        return [
            *(f"no reader may miss {uri} (S4)" for uri in steady - found.keys()),
            *(
                f"{uri} has a content that it never had"
                for uri, digest in found.items()
                if uri in self._model.contents and digest not in self._model.contents[uri]
            ),
        ]

    async def differences(self) -> list[str]:
        """What the database has otherwise than the model, once everything is done."""
        snapshot = await self._store.snapshot()
        rows = {row.uri: row for row in await snapshot.rows()}
        wanted = self._model.wanted()
        rivals = self._model.rivals
        return [
            *(f"{uri} is missing" for uri in (wanted | rivals).keys() - rows.keys()),
            *(f"{uri} should not be there" for uri in rows.keys() - (wanted | rivals).keys()),
            *(
                f"{uri} has an old content"
                for uri in wanted.keys() & rows.keys()
                if rows[uri].content_hash != wanted[uri]
            ),
            *[
                f"{uri} says {text!r}, not {rivals[uri]!r}"
                for uri in rivals.keys() & rows.keys()
                if (text := await snapshot.content(rows[uri])) != rivals[uri]
            ],
        ]

    async def check_all(self) -> None:
        """S1 and S2 of every document."""
        snapshot = await self._store.snapshot()
        await check(snapshot, self._model)


async def check(snapshot: Snapshot, model: Model) -> dict[str, Row]:
    """S1 and S2 of a whole snapshot, noted in the model; returns its documents by URI."""
    rows = await snapshot.rows()
    model.wrong += _doubles(rows)
    for row in rows:
        model.wrong += await torn(snapshot, row)
    return {row.uri: row for row in rows}


def _doubles(rows: Sequence[Row]) -> list[str]:
    """S2: one row a URI, one live row an id."""
    uris, ids = Counter(row.uri for row in rows), Counter(row.id for row in rows)
    return [f"{name} is there {n} times (S2)" for name, n in (uris | ids).items() if n > 1]


async def torn(snapshot: Snapshot, row: Row) -> list[str]:
    """S1: the revision of a live row has all its rows."""
    await snapshot.content(row)  # raises when it is not there
    chunks, items = await snapshot.chunks(row), await snapshot.items(row)
    found = {"chunks": (len(chunks), row.chunk_count), "elements": (len(items), row.item_count)}
    wrong = [f"{row.uri} has {n} {what}, not {m} (S1)" for what, (n, m) in found.items() if n != m]
    if {chunk.document_id for chunk in chunks} - {row.id}:
        wrong.append(f"{row.uri} has chunks of another document (S1)")
    return wrong
