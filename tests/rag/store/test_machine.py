"""A state machine (hypothesis) drives a real database beside a model in memory.

Two processes' stores create, change, move, delete, tag, restore and vacuum in any order.
Any of it may be stopped before any of its named steps: by an error, by a kill, or frozen and woken
later, when others have gone on. After each rule a reader that has just come sees what the model
says, and every state that a tag or a kept version names is as it was.

The suite runs the same few examples each time. A long search at random, until it fails or has
tried N examples:

    HAIKU_MACHINE=N python -m pytest tests/rag/store/test_machine.py -n 0 -o timeout=0

A failure prints the steps that lead to it, and the line that replays them.
"""

import asyncio
import math
import os
import tempfile
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.rag.store.aging import Clock
from tests.rag.store.making import IDENTITY, put
from tests.rag.store.modelled import Doc, Seen, World, check_rows, docs_of, see
from tests.rag.store.operations import (
    Commit,
    CreateTag,
    DeleteTag,
    Fate,
    Halt,
    Injected,
    Operation,
    Restore,
    State,
    Stopped,
    Tagged,
    Tidy,
)

from haiku.rag.config.models import StorageConfig
from haiku.rag.exceptions import StateNotKept, TagUnusable
from haiku.rag.store import Store, commit, marks, reading, schema, upkeep
from haiku.rag.store.changes import (
    ABSENT,
    ANY,
    NO_ROW,
    Change,
    Delete,
    Move,
    Outcome,
    Put,
    UpdateMeta,
)
from haiku.rag.store.tables import open_table

#: Examples of a long run; 0: the suite's.
EXAMPLES = int(os.environ.get("HAIKU_MACHINE", "0"))
WORDS = ("alpha", "bravo", "cedar", "delta")
#: Operations that are frozen at once; of more the oldest is as good as killed.
FROZEN = 3


class Quiet(Store):
    """A store whose upkeep runs when it is told to and not beside commits."""

    def _schedule_upkeep(self) -> None: ...


@dataclass
class Past:
    """A version that a reader has seen."""

    state: State
    #: By the collector's clock; None while it is the newest.
    superseded: float | None = None
    #: It may be gone.
    expendable: bool = False


# --- the machine --------------------------------------------------------------------------------

_URIS = st.sampled_from("abcd")
_EXPECTED = st.sampled_from([ANY] * 12 + [ABSENT, NO_ROW, "current", "remembered", "remembered"])
_SOURCES = st.dictionaries(st.sampled_from("st"), st.sampled_from("12"), max_size=2)
_TITLES = st.sampled_from([None, "T", "U"])
_METADATA = st.sampled_from([{}, {"n": 1}, {"n": 2}])
_HASHES = st.sampled_from([None, "h1", "h2"])
_TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
_PUTS = st.builds(
    put,
    _URIS,
    _TEXTS,
    chunks=st.integers(0, 2),
    expected=_EXPECTED,
    id=st.sampled_from([None] * 5 + ["known 0", "known 1"]),
    title=_TITLES,
    metadata=_METADATA,
    sources=_SOURCES,
    content_hash=_HASHES,
)
_UPDATES = st.builds(
    UpdateMeta,
    uri=_URIS,
    expected=_EXPECTED,
    title=_TITLES,
    metadata=st.none() | _METADATA,
    sources=_SOURCES,
    content_hash=_HASHES,
)
_MOVES = st.builds(
    Move, uri=_URIS, to_uri=_URIS, expected=_EXPECTED, title=_TITLES, sources=_SOURCES
)
_DELETES = st.builds(
    Delete, uri=_URIS, expected=_EXPECTED, source=st.sampled_from([None, None, "s"])
)
_CHANGES = st.one_of(_PUTS, _PUTS, _PUTS, _UPDATES, _MOVES, _DELETES)
_GROUPS = st.lists(_CHANGES, min_size=2, max_size=5)
_RARELY = st.sampled_from([False, False, False, True])
_WHICH = st.integers(0, 9)
_KINDS = st.sampled_from(["failed", "killed", "frozen", "frozen"])
_FATES = st.none() | st.none() | st.builds(Fate, _KINDS, st.integers(0, 17))
_PROCESSES = st.integers(0, 1)
#: Parts of `collect_after` that pass before upkeep.
_WAITS = st.sampled_from([0.0, 0.2, 1.0, 1.0])


def pick(some: Mapping[str, Any], which: int) -> str:
    """One of the keys."""
    return list(some)[which % len(some)]


class Machine(RuleBasedStateMachine):
    """The database, its processes, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "db"
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.patches = [
            mock.patch.object(marks, "here", self.clock.here),
            mock.patch.object(upkeep, "clock", self.time),
        ]
        for patch in self.patches:
            patch.start()
        self.stores: list[Store] = []
        self.frozen: list[Stopped] = []
        self.dead: list[Stopped] = []
        self.world = World()
        self.tags: dict[str, Tagged] = {}
        self.past: dict[int, Past] = {}
        #: A version.
        self.oldest_tag = math.inf
        self.restores = 0
        #: What the documents have to be to the byte, when that is known.
        self.exact: Mapping[str, Any] | None = None
        #: Outcomes of the last commit.
        self.told: list[Outcome] = []
        #: `World.versions` of some moment.
        self.remembered: dict[str, str] = {}
        #: Every id there has been, and every row by its version.
        self.ids: list[str] = []
        self.rows: dict[str, Mapping[str, Any]] = {}
        self.checks = self.names = 0
        #: Since the last check anything, tags, versions may have changed.
        self.stirred = self.retagged = self.tidied = True
        self.tags_a_check = 2

    @initialize(
        history=st.sampled_from([0.0, 86_400.0]),
        keep=st.sampled_from(["since_oldest_tag", "tagged"]),
        keep_deleted=st.sampled_from([7.0, 0.0]),
        eager=st.booleans(),
        first=st.lists(_TEXTS, min_size=1, max_size=3) | st.just([]),
    )
    def create(
        self, history: float, keep: str, keep_deleted: float, eager: bool, first: list[str]
    ) -> None:
        """A database with a few documents, open in two processes."""
        self.config = StorageConfig(
            history=history,
            vacuum_keep=keep,
            keep_deleted=keep_deleted,
            compact_every=2 if eager else 50,
            max_unindexed_rows=4 if eager else 5000,
        )
        self.run(self.opened(Quiet.create(self.path, IDENTITY, self.config)))
        self.stores = [self.open(), self.open()]
        self.check()
        if first:
            puts: list[Change] = [put(uri, text) for uri, text in zip("abc", first, strict=False)]
            self.perform(0, Commit(changes=puts), None)
            self.check()
            self.perform(1, CreateTag(name="first"), None)

    async def opened(self, opening: Coroutine[Any, Any, Store]) -> None:
        await (await opening).close()

    def open(self) -> Store:
        return self.run(Quiet.open(self.path, self.config))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def time(self) -> float:
        return self.clock.now

    def now(self) -> State:
        """The documents as the last check saw them."""
        return next(past.state for past in self.past.values() if past.superseded is None)

    def list_tags(self) -> Any:
        return self.run(self.stores[0].list_tags())

    # --- rules

    @rule(process=_PROCESSES, change=_PUTS, fate=_FATES)
    def write(self, process: int, change: Put, fate: Fate | None) -> None:
        """Create a document, or give it other content or the same again."""
        self.perform(process, Commit(changes=[self.resolved(change)]), fate)

    @precondition(lambda self: self.world.docs)
    @rule(process=_PROCESSES, which=_WHICH, change=_UPDATES | _MOVES | _DELETES, fate=_FATES)
    def change(self, process: int, which: int, change: Change, fate: Fate | None) -> None:
        """Describe, move or delete a document that there is."""
        change = replace(change, uri=pick(self.world.docs, which))
        self.perform(process, Commit(changes=[self.resolved(change)]), fate)

    @rule(process=_PROCESSES, changes=_GROUPS, whole=st.booleans(), fate=_FATES)
    def group(self, process: int, changes: list[Change], whole: bool, fate: Fate | None) -> None:
        """Several changes in one commit, of the same documents as well."""
        resolved = [self.resolved(change) for change in changes]
        self.perform(process, Commit(changes=resolved, whole=whole), fate)

    @rule(process=_PROCESSES, changes=_GROUPS)
    def group_undisturbed(self, process: int, changes: list[Change]) -> None:
        """As most groups are."""
        self.group(process, changes, False, None)

    @rule()
    def plan(self) -> None:
        """A writer looks at the rows now, and writes some time later."""
        self.remembered = dict(self.world.versions)

    def resolved(self, change: Change) -> Change:
        """A change with row versions and ids that there are or were."""
        wanted = {
            "current": self.world.versions.get(change.uri, NO_ROW),
            "remembered": self.remembered.get(change.uri, NO_ROW),
        }
        change = replace(change, expected=wanted.get(change.expected, change.expected))
        if isinstance(change, Put) and change.id is not None:
            place = int(change.id.split()[1])
            return replace(change, id=self.ids[-1 - place] if place < len(self.ids) else None)
        return change

    @precondition(lambda self: len(self.tags) < 4)
    @rule(process=_PROCESSES, fate=_FATES)
    def create_tag(self, process: int, fate: Fate | None) -> None:
        free = (f"t{n}" for n in range(9) if f"t{n}" not in self.tags)
        self.names += 1
        # A name that something frozen has to do with is not used again.
        name = f"n{self.names}" if self.frozen else next(free)
        self.perform(process, CreateTag(name=name), fate)

    @precondition(lambda self: self.tags)
    @rule(process=_PROCESSES, which=_WHICH, fate=_FATES)
    def delete_tag(self, process: int, which: int, fate: Fate | None) -> None:
        self.perform(process, DeleteTag(name=pick(self.tags, which)), fate)

    @precondition(lambda self: 0 < len(self.tags) < 5)
    @rule(process=_PROCESSES, which=_WHICH, fate=_FATES)
    def restore(self, process: int, which: int, fate: Fate | None) -> None:
        name = pick(self.tags, which)
        if not self.tags[name].complete:
            with pytest.raises(TagUnusable):
                self.run(self.stores[process].restore_tag(name))
            return
        self.check_tag(name)  # it is known exactly from here on
        self.perform(process, Restore(name=name, target=self.tags[name]), fate)

    @precondition(lambda self: 0 < len(self.tags) < 5)
    @rule(process=_PROCESSES, which=_WHICH, changes=_GROUPS)
    def change_and_restore(self, process: int, which: int, changes: list[Change]) -> None:
        """So that there is something to restore."""
        self.group(process, changes, False, None)
        self.check()
        self.restore(1 - process, which, None)

    @rule(
        process=_PROCESSES,
        wait=_WAITS,
        history=st.sampled_from([0.0, 0.0, None]),
        full=st.booleans(),
        fate=_FATES,
    )
    def vacuum(
        self, process: int, wait: float, history: float | None, full: bool, fate: Fate | None
    ) -> None:
        self.pass_time(wait)
        self.perform(process, Tidy(history=history, full=full), fate)

    @rule(process=_PROCESSES, wait=_WAITS, fate=_FATES)
    def upkeep(self, process: int, wait: float, fate: Fate | None) -> None:
        """What a store does by itself after commits."""
        self.pass_time(wait)
        self.perform(process, Tidy(history=None, by_hand=False), fate)

    def pass_time(self, wait: float) -> None:
        self.clock.now += wait * self.config.collect_after

    @precondition(lambda self: self.frozen)
    @rule(which=st.integers(0, FROZEN - 1))
    def wake(self, which: int) -> None:
        """A process that was frozen goes on, and meets what others have done."""
        stopped = self.frozen.pop(which % len(self.frozen))
        self.stir(stopped.operation)
        stopped.operation.woken = True
        stopped.halt.go.set()
        try:
            result = self.run(self.outcome(stopped.task))
        except Exception as error:
            stopped.operation.refused(self, error)
        else:
            stopped.operation.ended(self, result)
        self.run(stopped.store.close())

    @precondition(lambda self: len(self.frozen) < FROZEN)
    @rule(changes=_GROUPS, step=st.sampled_from([1, 2, 5, 8, 8]), others=_GROUPS, tidy=_RARELY)
    def overtake(self, changes: list[Change], step: int, others: list[Change], tidy: bool) -> None:
        """A writer is frozen; others write, perhaps a collector takes its rows; it wakes."""
        frozen = len(self.frozen)
        self.group(0, changes, False, Fate("frozen", step))
        self.check()
        self.group(1, others, False, None)
        self.check()
        if tidy:
            self.settle()
        if len(self.frozen) > frozen:
            self.wake(frozen)

    @precondition(lambda self: self.past)
    @rule(which=st.integers(0, 30))
    def read_the_past(self, which: int) -> None:
        """A version that is kept reads as it was; one that may be gone is whole or refused."""
        version = sorted(self.past, reverse=True)[which % len(self.past)]
        past = self.past[version]
        try:
            seen = self.run(see(self.path, self.config, version, WORDS[which % len(WORDS)]))
        except StateNotKept:
            assert past.expendable, version
        else:
            assert seen.exact == past.state.exact

    def check_history(self) -> None:
        """Commits are listed in order, with what they left."""
        entries = self.run(self.stores[0].history(1000))
        assert [e.version for e in entries] == sorted({e.version for e in entries}, reverse=True)
        assert all(one.at >= other.at for one, other in pairwise(entries))
        for version, past in self.past.items():
            upto = [entry for entry in entries if entry.version <= version]
            if not past.expendable:
                assert upto[0].documents == len(past.state.docs)
        named = {name for entry in entries for name in entry.tags}
        complete = {name for name, tag in self.tags.items() if tag.complete}
        assert complete <= named, entries

    def settle(self) -> None:
        """After full upkeep nothing is left of what is dead."""
        for _ in range(2):
            self.pass_time(1.0)
            self.perform(0, Tidy(history=0.0), None)
            self.check()
        live = {row["revision"] for row in self.rows_now if row["state"] == "live"}
        for table in schema.APPENDED:
            there = open_table(self.stores[0].place, table).to_table(columns=["revision"])
            assert set(there["revision"].to_pylist()) <= live, table
        meta = open_table(self.stores[0].place, schema.META)
        assert not reading.head(meta).condemned
        assert not reading.replaced_revisions(meta)

    # --- how operations are run and stopped

    def perform(self, process: int, operation: Operation, fate: Fate | None) -> None:
        """Run an operation until it ends, or is stopped; the model follows."""
        store, halt = self.stores[process], Halt(fate)
        operation.before = self.now()
        self.stir(operation)
        operation.watch(store, halt)
        task = self.loop.create_task(operation.begin(store))
        self.run(self.ended_or_stopped(task, halt))
        operation.watch(store, commit.no_step)
        if task.done():
            self.conclude(operation, task, halt)
            return
        operation.halted(self, halt.steps)
        assert fate is not None
        stopped = Stopped(operation, store, task, halt)
        (self.frozen if fate.kind == "frozen" else self.dead).append(stopped)
        if len(self.frozen) > FROZEN:
            self.dead.append(self.frozen.pop(0))
        self.stores[process] = self.open()

    async def ended_or_stopped(self, task: asyncio.Task[Any], halt: Halt) -> None:
        stopped = asyncio.create_task(halt.stopped.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if halt.stopped.is_set() and halt._fate is not None and halt._fate.kind == "failed":
            await asyncio.wait({task})
        stopped.cancel()

    async def outcome(self, task: asyncio.Task[Any]) -> Any:
        return await task

    def conclude(self, operation: Operation, task: asyncio.Task[Any], halt: Halt) -> None:
        error = task.exception()
        if error is None:
            operation.ended(self, task.result())
        elif isinstance(error, Injected):
            operation.failed(self, error, halt.steps)
        else:
            raise error

    def stir(self, operation: Operation) -> None:
        """Note what an operation may change, before it goes on."""
        self.stirred = True
        if not isinstance(operation, Commit):
            self.retagged = True
        if not isinstance(operation, Tidy):
            return
        self.tidied = True
        history = self.config.history if operation.history is None else operation.history
        for version, past in self.past.items():
            old = past.superseded is not None
            old = old and self.clock.now - past.superseded >= self.config.collect_after
            spared = self.config.vacuum_keep == "since_oldest_tag" and version >= self.oldest_tag
            if history == 0 and old and not spared:
                past.expendable = True

    # --- what has to hold

    @invariant()
    def check(self) -> None:
        """A reader that has just come sees what the model has."""
        if not self.stores or not self.stirred:
            return
        self.checks += 1
        self.stirred = False
        seen = self.run(see(self.path, self.config, None, WORDS[self.checks % len(WORDS)]))
        self.rows_now = seen.rows
        check_rows(seen.rows)
        found = docs_of(seen.exact)
        self.adopt(found)
        assert found == self.world.docs
        if self.exact is not None:
            assert seen.exact == self.exact
            self.exact = None
        self.check_versions(seen)
        self.check_told(seen)
        self.remember(seen, found)
        self.check_tags()

    def adopt(self, found: Mapping[str, Doc]) -> None:
        """Take over what the store made: new ids, and times of creation."""
        for uri, doc in self.world.docs.items():
            there = found.get(uri)
            if there is None:
                continue
            if doc.id is None:
                assert there.id not in self.ids
                doc = replace(doc, id=there.id)
            if doc.born is None:
                doc = replace(doc, born=there.born)
            self.world.docs[uri] = doc
            if there.id not in self.ids:
                self.ids.append(str(there.id))

    def check_versions(self, seen: Seen) -> None:
        """A row version names one row, and never another."""
        for row in seen.rows:
            told = {n: v for n, v in row.items() if n not in ("replaced", "replaced_count")}
            told.pop("committed_at")
            assert self.rows.setdefault(row["row_version"], told) == told
        self.world.versions = seen.versions

    def check_told(self, seen: Seen) -> None:
        """The last commit told what it wrote."""
        for outcome in self.told:
            row = outcome.row
            assert row is not None
            (there,) = (r for r in seen.rows if r["uri"] == row.uri)
            assert (there["state"], there["row_version"]) == ("live", row.row_version)
            assert (there["id"], there["revision"]) == (row.id, row.revision)
        self.told = []

    def remember(self, seen: Seen, found: Mapping[str, Doc]) -> None:
        for version, past in self.past.items():
            if past.superseded is None and version != seen.version:
                past.superseded = self.clock.now
        if seen.version in self.past:
            assert self.past[seen.version].state.exact == seen.exact
        else:
            self.past[seen.version] = Past(State(found, seen.exact))

    def check_tags(self) -> None:
        """Tags are those there should be; they read as they were, which upkeep endangers."""
        if self.retagged:
            listed = self.list_tags()
            complete = {tag.name: tag.complete for tag in listed}
            assert complete == {name: tag.complete for name, tag in self.tags.items()}
            tagged = [tag.versions[schema.META] for tag in listed if tag.complete]
            self.oldest_tag = min(tagged, default=math.inf)
            assert self.run(self.stores[0].restore_epoch()) == self.restores
        names = [name for name, tag in self.tags.items() if tag.complete]
        first = self.checks % max(1, len(names))
        some = self.tags_a_check if self.tidied else int(self.retagged)
        for name in (names[first:] + names[:first])[:some]:
            self.check_tag(name)
        self.retagged = self.tidied = False

    def check_tag(self, name: str) -> None:
        tag = self.tags[name]
        seen = self.run(see(self.path, self.config, name))
        tag.states = [state for state in tag.states if state.exact == seen.exact][:1]
        assert tag.states, f"{name} is not what it was"

    def teardown(self) -> None:
        """Look at everything once more, and end what stands still."""
        try:
            if self.stores and self.past:
                self.check_history()
                self.settle()
                self.tidied = self.stirred = True
                self.tags_a_check = len(self.tags)
                self.check()
        finally:
            for patch in self.patches:
                patch.stop()
            self.run(self.end())
            self.loop.close()
            self.folder.cleanup()

    async def end(self) -> None:
        stopped = [*self.frozen, *self.dead]
        for one in stopped:
            one.task.cancel()
        await asyncio.gather(*(one.task for one in stopped), return_exceptions=True)
        for store in (*self.stores, *(one.store for one in stopped)):
            await store.close()


TestMachine = Machine.TestCase
TestMachine.settings = hypothesis.settings(
    max_examples=EXAMPLES or 7,
    stateful_step_count=50 if EXAMPLES else 15,
    derandomize=not EXAMPLES,
    # Shrinking takes minutes: the suite shows the steps as they were found.
    phases=[Phase.generate, *([Phase.shrink] if EXAMPLES else [])],
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
