"""A model of sources, store and two instances, against the real items database.

Whatever happens in whatever order, once everything is quiet the store holds exactly what the
source holds, and every item is in its final state.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from haiku.ingester.config import WorkConfig
from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items import (
    Action,
    Claim,
    Failed,
    Indexed,
    Items,
    Observation,
    Removed,
    Retry,
    Skipped,
    State,
)

URIS = st.sampled_from(["a", "b", "c"])
INSTANCES = st.sampled_from(["one", "two"])
CONFIG = WorkConfig(max_attempts=1000, backoff=1.0, backoff_max=1.0, lease=60.0)


class Machine(RuleBasedStateMachine):
    """URI → content in `truth` (the source) and `store`; a mark is content and revision."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.now = 1_800_000_000.0
        self.serial = 0
        self.truth: dict[str, tuple[str, int]] = {}
        self.store: dict[str, str] = {}
        self.claims: dict[str, list[Claim]] = {"one": [], "two": []}
        self.items = {name: self.run(self.open(name)) for name in self.claims}

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    async def open(self, name: str) -> Items:
        url = f"sqlite:///{Path(self.folder.name) / 'items.db'}"
        return await Items.open(url, name, CONFIG, clock=self.clock)

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    def teardown(self) -> None:
        for items in self.items.values():
            self.run(items.close())
        self.loop.close()
        self.folder.cleanup()

    def new_content(self) -> tuple[str, int]:
        self.serial += 1
        return f"content-{self.serial}", self.serial

    def observation(self, uri: str) -> Observation:
        content, revision = self.truth[uri]
        skip = "too_large" if revision % 5 == 0 else None
        return Observation(uri, f"{content}/{revision}", 1, None, skip)

    # --- the source

    @rule(uri=URIS, live=st.booleans())
    def write(self, uri: str, live: bool) -> None:
        self.truth[uri] = self.new_content()
        self.run(self.items["one"].observe("docs", [self.observation(uri)], live=live))

    @rule(uri=URIS)
    def write_unnoticed(self, uri: str) -> None:
        self.truth[uri] = self.new_content()

    @rule(uri=URIS)
    def delete(self, uri: str) -> None:
        self.truth.pop(uri, None)
        self.run(self.items["one"].gone("docs", [uri], live=True))

    @rule(uri=URIS, to=URIS)
    def rename(self, uri: str, to: str) -> None:
        if uri not in self.truth or uri == to:
            return
        known = self.run(self.items["one"].known("docs")).get(uri)
        noticed = known is not None and known.mark == self.observation(uri).mark
        content, _ = self.truth.pop(uri)
        self.truth[to] = content, self.new_content()[1]
        if noticed:  # else the source sees that it is not the same content
            self.run(self.items["one"].moved("docs", uri, self.observation(to)))
        else:
            self.run(self.items["one"].observe("docs", [self.observation(to)], live=True))
            self.run(self.items["one"].gone("docs", [uri], live=True))

    @rule()
    def sweep(self) -> None:
        known = self.run(self.items["two"].known("docs"))
        seen = [self.observation(uri) for uri in self.truth]
        self.run(self.items["two"].observe("docs", seen, live=False))
        self.run(self.items["two"].gone("docs", known.keys() - self.truth.keys(), live=False))

    # --- the workers

    @rule(name=INSTANCES, limit=st.integers(1, 3))
    def claim(self, name: str, limit: int) -> None:
        self.claims[name] += self.run(self.items[name].claim(limit))

    @rule(name=INSTANCES, data=st.data(), how=st.sampled_from(["well", "well", "retry", "fail"]))
    def end(self, name: str, data: st.DataObject, how: str) -> None:
        if not self.claims[name]:
            return
        index = data.draw(st.integers(0, len(self.claims[name]) - 1))
        self.work(name, self.claims[name].pop(index), how)

    @rule(name=INSTANCES, data=st.data())
    def commit_and_die(self, name: str, data: st.DataObject) -> None:
        """A crash between the commit and its acknowledgement."""
        for claim in self.claims[name]:
            if data.draw(st.booleans()):
                self.commit(name, claim)
        self.die(name)

    @rule(name=INSTANCES)
    def die(self, name: str) -> None:
        self.claims[name] = []
        self.run(self.items[name].close())
        self.items[name] = self.run(self.open(name))
        self.run(self.items[name].reclaim())

    @rule(name=INSTANCES)
    def release(self, name: str) -> None:
        self.run(self.items[name].release(self.claims[name]))
        self.claims[name] = []

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def ask_again(self) -> None:
        self.run(self.items["one"].retry())

    def work(self, name: str, claim: Claim, how: str) -> None:
        result: Any
        if how == "retry":
            result = Retry(code="unavailable", reason="", stage="fetch")
        elif how == "fail" and claim.action != Action.REMOVE:
            result = Failed(code="corrupt", reason="", stage="convert")
        else:
            result = self.commit(name, claim)
        if result is None:
            return
        try:
            self.run(self.items[name].finish(claim, result))
        except LeaseLost:
            pass

    def commit(self, name: str, claim: Claim) -> Any:
        """What a pipeline does; None when the lease is lost."""
        if self.run(self.items[name].still_held([claim])) != [True]:
            return None
        if claim.action == Action.REMOVE:
            self.store.pop(claim.uri, None)
            return Removed()
        moves = claim.action == Action.MOVE and claim.moved_from in self.store
        if moves and claim.uri not in self.store:
            self.store[claim.uri] = self.store.pop(claim.moved_from)
            return self.success(claim.mark, self.store[claim.uri], moved=True)
        if claim.uri not in self.truth:
            return Retry(code="vanished", reason="", stage="fetch")
        seen = self.observation(claim.uri)
        if seen.skip:
            self.store.pop(claim.uri, None)
            return Skipped(code=seen.skip, reason="")
        self.store[claim.uri] = self.truth[claim.uri][0]
        return self.success(seen.mark, self.store[claim.uri])

    def success(self, mark: str, content: str, *, moved: bool = False) -> Indexed:
        return Indexed(
            content_hash=content,
            mark=mark,
            fingerprint="f",
            document_id="d",
            chunk_count=1,
            moved=moved,
        )

    # --- what must hold

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        held = [
            claim.item_id
            for name, claims in self.claims.items()
            for claim, mine in zip(claims, self.run(self.items[name].renew(claims)), strict=True)
            if mine
        ]
        assert len(held) == len(set(held))

    @rule()
    def settle(self) -> None:
        """A sweep and all the work: the store is the source."""
        for name in self.claims:
            self.die(name)
        self.sweep()
        self.run(self.items["one"].retry())
        for _ in range(200):
            self.now += 120
            claims = self.run(self.items["one"].claim(2))
            for claim in claims:
                self.work("one", claim, "well")
            if not claims:
                break
        wanted = {u: c for u, (c, r) in self.truth.items() if r % 5}
        assert self.store == wanted
        known = self.run(self.items["one"].known("docs"))
        assert {uri: k.state for uri, k in known.items()} == {
            uri: State.INDEXED if uri in wanted else State.SKIPPED for uri in self.truth
        }
        assert self.run(self.items["one"].outstanding()) == 0


class TestMachine(Machine.TestCase):
    settings = settings(
        max_examples=40,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
