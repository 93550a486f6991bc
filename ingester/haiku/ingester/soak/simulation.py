"""The simulation: does what the script says, and comes to a verdict."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from haiku.ingester.config import DaemonConfig, FilesystemSource, IngesterConfig
from haiku.ingester.service.places import find_places
from haiku.ingester.soak.embedder import DIM, FAULTS, SoakEmbedder
from haiku.ingester.soak.faults import STEPS, CommitFaults
from haiku.ingester.soak.folder import Folder
from haiku.ingester.soak.host import SOURCE, Host
from haiku.ingester.soak.model import Model
from haiku.ingester.soak.referee import Referee, check
from haiku.ingester.soak.rival import Rival
from haiku.ingester.soak.script import Kind, Script
from haiku.rag.config import AppConfig
from haiku.rag.exceptions import StoreBusy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from haiku.ingester.soak.script import Action
    from haiku.rag.store import Store

#: Seconds within which everything must be done once nothing changes any more.
PATIENCE = 180.0
#: Seconds; short, so that much is collected, and long enough for a busy machine.
COLLECT_AFTER = 10.0
#: Tags that are kept at most.
TAGS = 4


@dataclass
class Report:
    """What a simulation came to."""

    seed: int
    files: int
    #: Where everything was.
    folder: str
    #: Seconds it took.
    seconds: float = 0.0
    #: Actions by kind, and changes of the folder by kind.
    actions: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    #: Faults that met a commit.
    commit_faults: int = 0
    #: Looks of the reader, and the longest time until everything was done, in seconds.
    looks: int = 0
    longest_settle: float = 0.0
    #: Documents in the end.
    documents: int = 0
    #: What did not hold; empty: the promises were kept.
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """The verdict."""
        return not self.wrong

    def plain(self) -> dict[str, Any]:
        """For programs."""
        told = asdict(self, dict_factory=dict) | {"holds": self.holds}
        return told | {"actions": dict(self.actions), "changes": dict(self.changes)}


class Simulation:
    """One run. Made by `opened`."""

    def __init__(
        self, report: Report, model: Model, host: Host, store: Store, referee: Referee, rival: Rival
    ) -> None:
        self.report = report
        self.model = model
        self._host = host
        #: Of another process, as it were: for the rival, tags and vacuum.
        self._store = store
        self._referee = referee
        self._rival = rival
        self._do: dict[Kind, Callable[[Action], Awaitable[None]]] = {
            Kind.CHANGE: self._change,
            Kind.REST: self._rest,
            Kind.SETTLE: self._settle,
            Kind.RESTART: self._restart,
            Kind.CANCEL: self._cancel,
            Kind.FORGET: self._forget,
            Kind.KILL_WORKER: self._kill_worker,
            Kind.EMBEDDER: self._embedder,
            Kind.COMMIT_ERROR: self._commit_error,
            Kind.COMMIT_STALL: self._commit_stall,
            Kind.RIVAL: self._rival_commit,
            Kind.STALE: rival.stale,
            Kind.TIME: self._pass_time,
            Kind.VACUUM: self._vacuum,
            Kind.TAG: self._tag,
            Kind.READ_TAG: self._read_tag,
            Kind.RESTORE: self._restore,
            Kind.DELETE_TAG: self._delete_tag,
        }

    async def run(
        self, script: Script, seconds: float, tell: Callable[[Simulation], None]
    ) -> Report:
        """Follow the script for so long, settle, and report.

        Stops early when something does not hold. `tell` is called after every action.
        """
        began = time.monotonic()
        self._host.start()
        watching = asyncio.create_task(self._referee.watch())
        try:
            while time.monotonic() - began < seconds and self.report.holds:
                await self.act(script.next())
                self._note(began)
                tell(self)
            if self.report.holds:
                await self._settle()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._host.stop()
        self._note(began)
        self.report.documents = len(self.model.folder.held) + len(self.model.rivals)
        return self.report

    async def act(self, action: Action) -> None:
        """Do one thing; an error that comes out of it is noted."""
        self.report.actions[action.kind] += 1
        try:
            await self._do[action.kind](action)
        except Exception as error:
            logging.getLogger(__name__).exception("%s", action)
            self.model.blame(f"{action.kind}: {type(error).__name__}: {error}")

    def _note(self, began: float) -> None:
        self.report.seconds = round(time.monotonic() - began, 1)
        self.report.looks = self._referee.looks
        self.report.commit_faults = self._host.faults.happened
        self.report.wrong = self.model.wrong

    # --- what the script asks for

    async def _change(self, action: Action) -> None:
        for _ in range(1 + action.pick(6)):
            self.report.changes[self.model.change().kind] += 1
        await asyncio.sleep(0)

    async def _rest(self, action: Action) -> None:
        """Now and then somebody looks after the daemon meanwhile."""
        await asyncio.sleep(action.choice * 1.5)
        if action.pick(3) == 1:
            await self._host.help_up()

    async def _settle(self, action: Action | None = None) -> None:
        """Nothing goes wrong any more: soon everything must be as the model says."""
        self._host.faults.clear()
        self._host.embedder.faults.clear()
        began = time.monotonic()
        while left := await self._left():
            if time.monotonic() - began > PATIENCE:
                self.model.wrong += [f"not done after {PATIENCE:.0f} s: {what}" for what in left]
                return
            await self._host.help_up()
            await asyncio.sleep(0.2)
        took = round(time.monotonic() - began, 1)
        self.report.longest_settle = max(self.report.longest_settle, took)
        await self._referee.check_all()
        self.model.settled()

    async def _left(self) -> list[str]:
        different = await self._referee.differences()
        return different or await self._host.unfinished(len(self.model.folder.held))

    async def _restart(self, action: Action) -> None:
        await self._host.stop()
        self._host.start()

    async def _cancel(self, action: Action) -> None:
        await self._host.cancel()
        self._host.start()

    async def _forget(self, action: Action) -> None:
        await self._host.stop()
        self._host.forget_items()
        self._host.start()

    async def _kill_worker(self, action: Action) -> None:
        self._host.kill_worker(action.choice)

    async def _embedder(self, action: Action) -> None:
        kind = FAULTS[action.pick(len(FAULTS))]
        self._host.embedder.faults += [kind] * (1 + action.pick(20) % 5)

    async def _commit_error(self, action: Action) -> None:
        self._host.faults.fail_at(STEPS[action.pick(len(STEPS))])

    async def _commit_stall(self, action: Action) -> None:
        self._host.faults.stall_at(STEPS[action.pick(len(STEPS))])

    async def _rival_commit(self, action: Action) -> None:
        await self._rival.commit()

    async def _pass_time(self, action: Action) -> None:
        self._host.ahead += (1.0, 61.0, 700.0)[action.pick(3)]

    async def _vacuum(self, action: Action) -> None:
        report = await self._store.vacuum(COLLECT_AFTER, full=action.choice < 0.5)
        for error in report.errors:
            self.model.blame(f"vacuum: {error}")

    # --- tags

    async def _tag(self, action: Action) -> None:
        if len(self.model.tags) >= TAGS:
            await self._delete_tag(action)
        name = f"tag-{self.report.actions[Kind.TAG]}"
        await self._store.create_tag(name)
        self.model.tags[name] = dict(self.model.rivals)

    async def _read_tag(self, action: Action) -> None:
        if not (name := self._chosen_tag(action)):
            return
        async with await type(self._store).open(
            self._store.path, _storage(), read_only=True, as_of=name
        ) as past:
            snapshot = await past.snapshot()
            rows = await check(snapshot, self.model)
            rivals = {u: await snapshot.content(rows[u]) for u in rows if u.startswith("soak:")}
        if rivals != self.model.tags[name]:
            self.model.blame(f"{name} has {rivals}, not {self.model.tags[name]} (S5, S6)")

    async def _restore(self, action: Action) -> None:
        if not (name := self._chosen_tag(action)):
            return
        self.model.steady.clear()
        try:
            report = await self._store.restore_tag(name)
        except StoreBusy:  # others were faster, and nothing has changed
            return
        self.model.rivals = dict(self.model.tags[name])
        if report.safety_tag is not None:
            await self._store.delete_tag(report.safety_tag)

    async def _delete_tag(self, action: Action) -> None:
        if name := self._chosen_tag(action):
            del self.model.tags[name]
            await self._store.delete_tag(name)

    def _chosen_tag(self, action: Action) -> str | None:
        names = list(self.model.tags)
        return names[action.pick(len(names))] if names else None


def _storage() -> Any:
    return AppConfig.model_validate(
        {"storage": {"collect_after": COLLECT_AFTER, "compact_every": 10, "history": 0}}
    ).storage


def _config(docs: Path) -> DaemonConfig:
    """Settings under which much happens in little time."""
    model = {"provider": "openai", "name": "soak", "vector_dim": DIM, "base_url": "http://nowhere"}
    app = AppConfig.model_validate(
        {
            "storage": _storage().model_dump(),
            "embeddings": {"model": model, "max_attempts": 2},
            "processing": {"workers": 1},
        }
    )
    source = FilesystemSource(
        id=SOURCE, path=docs, settle=0.1, delete_guard=1.0, delete_guard_min=10**9
    )
    section = IngesterConfig.model_validate(
        {
            "sources": [source],
            "api": {"enabled": False},
            "work": {"backoff": 0.1, "backoff_max": 1.0, "max_attempts": 100},
            "shutdown_grace": 5,
        }
    )
    return DaemonConfig(app=app, ingester=section)


@asynccontextmanager
async def opened(root: Path, *, seed: int, files: int) -> AsyncIterator[Simulation]:
    """A simulation in an empty folder, ready to run."""
    from haiku.rag.embed import identity
    from haiku.rag.store import Store

    docs = root / "documents"
    docs.mkdir()
    config = _config(docs)
    places = find_places(config, root / "soak.lancedb")
    wanted = identity(config.app.embeddings.model)
    model = Model(Folder(docs, random.Random(f"{seed} folder"), files))
    host = Host(config, places, SoakEmbedder(wanted), CommitFaults())
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        store = await enter(await Store.create(places.database, wanted, _storage()))
        one, two = [await enter(await Store.open(places.database, _storage())) for _ in range(2)]
        reader = await enter(await Store.open(places.database, _storage(), read_only=True))
        referee = Referee(reader, model, patience=COLLECT_AFTER / 2)
        rival = Rival(one, two, model, random.Random(f"{seed} rival"))
        report = Report(seed=seed, files=files, folder=str(root))
        yield Simulation(report, model, host, store, referee, rival)
