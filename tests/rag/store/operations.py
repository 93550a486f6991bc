"""What a store can be told to do, how it is stopped within, and what that does to the model."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.rag.store.modelled import Doc, World

from haiku.rag.exceptions import StoreError, TagExists
from haiku.rag.store import Store, schema
from haiku.rag.store.changes import Change, Outcome

INJECTED = "injected"
Step = Callable[[str], Awaitable[None]]


class Injected(RuntimeError):
    """What a failing step raises."""


@dataclass(frozen=True)
class Fate:
    """How an operation is stopped, and before which of its steps; it may have fewer."""

    kind: str
    step: int


class Halt:
    """A step hook that stops an operation as its fate wants."""

    def __init__(self, fate: Fate | None) -> None:
        self._fate = fate
        self.steps: list[str] = []
        self.stopped = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, name: str) -> None:
        self.steps.append(name)
        if self._fate is None or len(self.steps) != self._fate.step + 1:
            return
        self.stopped.set()
        if self._fate.kind == "failed":
            raise Injected(f"{INJECTED} before {name}")
        await self.go.wait()


@dataclass
class State:
    """The documents of a moment, to the byte and as the model has them."""

    docs: Mapping[str, Doc]
    exact: Mapping[str, Any]


@dataclass
class Tagged:
    """A tag; with several states where it may have been taken at several moments."""

    states: list[State]
    complete: bool = True


class Machine(Protocol):
    """What operations change: the model, and what is known of the database."""

    world: World
    #: By name.
    tags: dict[str, Tagged]
    #: Restores so far.
    restores: int
    #: What the documents have to be to the byte, when that is known.
    exact: Mapping[str, Any] | None
    #: What the last commit told of live rows.
    told: list[Outcome]

    def now(self) -> State: ...

    def list_tags(self) -> Any: ...


@dataclass(kw_only=True)
class Operation:
    """Something a store does; its methods change the model as the store has to change."""

    #: What there was when it began.
    before: State = field(init=False)
    #: It has reached its commit point though it has not ended.
    landed: bool = field(default=False, init=False)
    #: What wakes up is answered by a world that has gone on.
    woken: bool = field(default=False, init=False)

    def watch(self, store: Store, halt: Step) -> None:
        store.on_step(halt)

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    def ended(self, machine: Machine, result: Any) -> None:
        """It ran to its end."""
        raise NotImplementedError

    def failed(self, machine: Machine, error: Exception, steps: list[str]) -> None:
        """It ended with the error of its last step."""
        self.halted(machine, steps)

    def halted(self, machine: Machine, steps: list[str]) -> None:
        """It stands before the last of these steps, perhaps for ever."""

    def refused(self, machine: Machine, error: Exception) -> None:
        """Woken, it ended with an error."""
        raise error


@dataclass(kw_only=True)
class Commit(Operation):
    """A group of changes: wholly done from its last step on, and not at all before."""

    changes: list[Change]
    whole: bool = False
    results: list[str] = field(default_factory=list, init=False)
    #: What it will say of changes that wrote nothing to the rows it saw when it was frozen.
    idle: list[str] | None = field(default=None, init=False)

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        return store.commit(self.changes, whole=self.whole)

    def halted(self, machine: Machine, steps: list[str]) -> None:
        if steps[-1] == "merged":
            self.apply(machine)
        elif steps[-1] != "read":
            self.idle = machine.world.untouched_by(self.changes, whole=self.whole)

    def apply(self, machine: Machine) -> None:
        self.landed = True
        machine.world.docs, self.results = machine.world.after(self.changes, whole=self.whole)

    def ended(self, machine: Machine, result: list[Outcome]) -> None:
        results = [outcome.result for outcome in result]
        if self.woken and results == self.idle:
            return  # it had looked before it was frozen, and had nothing to write
        landed_before = self.landed
        if not self.landed:
            self.apply(machine)
        assert results == self.results
        if not landed_before:
            machine.told = [o for o in result if o.result == "done" and o.row is not None]


@dataclass(kw_only=True)
class CreateTag(Operation):
    """A tag is there with its first step, and complete with the last."""

    name: str

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        return store.create_tag(self.name)

    def halted(self, machine: Machine, steps: list[str]) -> None:
        if len(steps) > 1:
            complete = len(steps) > len(schema.TABLES)
            machine.tags[self.name] = Tagged([self.before], complete)

    def failed(self, machine: Machine, error: Exception, steps: list[str]) -> None:
        """Nothing is left behind."""

    def ended(self, machine: Machine, result: Any) -> None:
        assert result.complete
        now = [machine.now()] if self.woken else []
        machine.tags[self.name] = Tagged([self.before, *now])

    def refused(self, machine: Machine, error: Exception) -> None:
        if not isinstance(error, TagExists) or self.name not in machine.tags:
            raise error


@dataclass(kw_only=True)
class DeleteTag(Operation):
    """A tag is partial from the second step on."""

    name: str

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        return store.delete_tag(self.name)

    def halted(self, machine: Machine, steps: list[str]) -> None:
        if len(steps) > 1:
            machine.tags[self.name].complete = False

    def ended(self, machine: Machine, result: Any) -> None:
        machine.tags.pop(self.name, None)


@dataclass(kw_only=True)
class Restore(Operation):
    """A tag of what there was, and then one commit."""

    name: str
    target: Tagged
    safety: str | None = field(default=None, init=False)

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        return store.restore_tag(self.name)

    def halted(self, machine: Machine, steps: list[str]) -> None:
        self.adopt_safety(machine, sum(name.startswith("tag ") for name in steps[:-1]))
        if steps[-1] == "merged":
            self.apply(machine)

    def failed(self, machine: Machine, error: Exception, steps: list[str]) -> None:
        if not steps[-1].startswith("tag "):
            self.halted(machine, steps)

    def adopt_safety(self, machine: Machine, made: int) -> None:
        if not made:
            return
        (self.safety,) = {tag.name for tag in machine.list_tags()} - set(machine.tags)
        assert self.safety.startswith("before-restore-")
        machine.tags[self.safety] = Tagged([self.before], made >= len(schema.TABLES))

    def apply(self, machine: Machine) -> None:
        self.landed = True
        (state,) = self.target.states
        machine.world.docs = dict(state.docs)
        machine.exact = state.exact
        machine.restores += 1

    def ended(self, machine: Machine, result: Any) -> None:
        if result.safety_tag is None:  # nothing was to be done, and nothing was
            assert not self.landed
            assert machine.world.docs == self.target.states[0].docs
            return
        now = [machine.now()] if self.woken and not self.landed else []
        machine.tags.pop(self.safety or "", None)
        machine.tags[result.safety_tag] = Tagged([self.before, *now])
        if not self.landed:
            self.apply(machine)
        assert result.restore_epoch <= machine.restores
        assert result.documents == len(self.target.states[0].docs)

    def refused(self, machine: Machine, error: Exception) -> None:
        """Only when what it restores was deleted; it leaves no tag behind."""
        if not isinstance(error, StoreError) or self.name in machine.tags:
            raise error
        machine.tags.pop(self.safety or "", None)


@dataclass(kw_only=True)
class Tidy(Operation):
    """Upkeep of either kind: nobody sees a difference."""

    #: None: what is due.
    history: float | None
    by_hand: bool = True
    full: bool = True

    def watch(self, store: Store, halt: Step) -> None:
        store.on_upkeep_step(halt)

    def begin(self, store: Store) -> Coroutine[Any, Any, Any]:
        return store.vacuum(self.history, full=self.full) if self.by_hand else store.upkeep()

    def ended(self, machine: Machine, result: Any) -> None:
        errors = [error for error in result.errors if INJECTED not in error]
        assert self.woken or not (errors or result.postponed), result

    def failed(self, machine: Machine, error: Exception, steps: list[str]) -> None:
        raise error  # upkeep never fails


@dataclass
class Stopped:
    """An operation that stands at a step, with the store of its process."""

    operation: Operation
    store: Store
    task: asyncio.Task[Any]
    halt: Halt
