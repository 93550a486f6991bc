"""A model of sources, store and two instances, against the real items database.

Whatever happens in whatever order, once everything is quiet the store holds exactly what the
source holds, and every item is in its final state.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haiku.ingester.config import WorkConfig
from haiku.ingester.exceptions import LeaseLost
from haiku.ingester.items import (
    Action,
    Claim,
    Failed,
    Indexed,
    Items,
    Observation,
    Postponed,
    Removed,
    Retry,
    Skipped,
    State,
)

CONFIG = WorkConfig(max_attempts=1000, backoff=1.0, backoff_max=1.0, lease=60.0)


class Model:
    """URI → content in `truth` (the source) and `store`; a mark is content and revision."""

    def __init__(self, template: Path) -> None:
        self.folder = tempfile.TemporaryDirectory()
        shutil.copy(template, self.folder.name)
        self.loop = asyncio.new_event_loop()
        self.now = 1_800_000_000.0
        self.serial = 0
        self.truth: dict[str, tuple[str, int]] = {}
        self.store: dict[str, str] = {}
        #: What was deleted last, by URI.
        self.deleted: dict[str, tuple[str, int]] = {}
        #: Source objects whose last change nobody has told of.
        self.unnoticed: set[str] = set()
        self.claims: dict[str, list[Claim]] = {"one": [], "two": []}
        #: Claim → what was fetched for it; None: the object was not there.
        self.fetched: dict[Claim, Observation | None] = {}
        #: Item → the token it was handed out with last.
        self.holder: dict[int, str] = {}
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

    def write(self, uri: str, live: bool) -> None:
        self.truth[uri] = self.new_content()
        self.notice(uri, live=live)

    def notice(self, uri: str, *, live: bool) -> None:
        self.unnoticed.discard(uri)
        self.run(self.items["one"].observe("docs", [self.observation(uri)], live=live))

    def write_unnoticed(self, uri: str) -> None:
        self.truth[uri] = self.new_content()
        self.unnoticed.add(uri)

    def delete(self, uri: str) -> None:
        if uri in self.truth:
            self.deleted[uri] = self.truth.pop(uri)
        self.unnoticed.discard(uri)
        self.run(self.items["one"].gone("docs", [uri], live=True))

    def put_back(self, uri: str) -> None:
        """The very same object again, e.g. a disk that is mounted anew."""
        if uri in self.deleted and uri not in self.truth:
            self.truth[uri] = self.deleted.pop(uri)
            self.notice(uri, live=True)

    def rename(self, uri: str, to: str) -> None:
        if uri not in self.truth or uri == to:
            return
        known = self.run(self.items["one"].known("docs")).get(uri)
        noticed = known is not None and known.mark == self.observation(uri).mark
        content, _ = self.truth.pop(uri)
        self.truth[to] = content, self.new_content()[1]
        self.unnoticed -= {uri, to}
        if noticed:  # else the source sees that it is not the same content
            self.run(self.items["one"].moved("docs", uri, self.observation(to)))
        else:
            self.notice(to, live=True)
            self.run(self.items["one"].gone("docs", [uri], live=True))

    def sweep(self) -> None:
        self.unnoticed.clear()
        known = self.run(self.items["two"].known("docs"))
        seen = [self.observation(uri) for uri in self.truth]
        self.run(self.items["two"].observe("docs", seen, live=False))
        self.run(self.items["two"].gone("docs", known.keys() - self.truth.keys(), live=False))

    # --- the workers

    def claim(self, name: str, limit: int) -> None:
        for claim in self.take(name, limit):
            self.claims[name].append(claim)
            self.fetched[claim] = self.fetch(claim)

    def take(self, name: str, limit: int) -> list[Claim]:
        claims: list[Claim] = self.run(self.items[name].claim(limit))
        self.holder.update({claim.item_id: claim.token for claim in claims})
        return claims

    def fetch(self, claim: Claim) -> Observation | None:
        return self.observation(claim.uri) if claim.uri in self.truth else None

    def fetch_again(self, name: str) -> None:
        for claim in self.claims[name]:
            self.fetched[claim] = self.fetch(claim)

    def end(self, name: str, how: str) -> None:
        if self.claims[name]:
            self.work(name, self.claims[name].pop(self.serial % len(self.claims[name])), how)

    def commit_and_die(self, name: str) -> None:
        """A crash between the commit and its acknowledgement."""
        for claim in self.claims[name][::2]:
            self.commit(name, claim)
        self.die(name)

    def die(self, name: str) -> None:
        self.claims[name] = []
        self.run(self.items[name].close())
        self.items[name] = self.run(self.open(name))
        self.run(self.items[name].reclaim())

    def release(self, name: str) -> None:
        self.run(self.items[name].release(self.claims[name]))
        self.claims[name] = []

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def ask_again(self) -> None:
        self.run(self.items["one"].retry())

    def work(self, name: str, claim: Claim, how: str) -> None:
        result: Any
        if how == "retry":
            result = Retry(code="unavailable", reason="", stage="fetch")
        elif how == "defer":
            result = Postponed(code="slow", reason="", stage="convert", slow=True)
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
        assert self.holder[claim.item_id] == claim.token, "two commit the same item"
        if claim.action == Action.REMOVE:
            self.store.pop(claim.uri, None)
            return Removed()
        moves = claim.action == Action.MOVE and claim.moved_from in self.store
        if moves and claim.uri not in self.store:
            self.store[claim.uri] = self.store.pop(claim.moved_from)
            return self.success(claim.mark, self.store[claim.uri], moved=True)
        seen = self.fetched[claim]
        if seen is None:
            return Retry(code="vanished", reason="", stage="fetch")
        if seen.skip:
            self.store.pop(claim.uri, None)
            return Skipped(code=seen.skip, reason="")
        self.store[claim.uri] = seen.mark.split("/")[0]
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

    def settle(self) -> None:
        """Every change told of, and all the work done: the store is the source."""
        for uri in sorted(self.unnoticed):
            self.notice(uri, live=False)
        for name, claims in self.claims.items():
            while claims:
                self.work(name, claims.pop(), "well")
        for _ in range(200):
            self.now += 120
            self.run(self.items["one"].retry())
            claims = self.take("one", 2)
            for claim in claims:
                self.fetched[claim] = self.fetch(claim)
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


URIS = st.sampled_from(["a", "b", "c"])
INSTANCES = st.sampled_from(["one", "two"])


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """A call of a method of the model."""
    return st.tuples(st.just(name), *arguments)


WELL = step("end", INSTANCES, st.just("well"))
CLAIM = step("claim", INSTANCES, st.integers(1, 3))
STEPS = st.one_of(
    step("write", URIS, st.booleans()),
    step("write_unnoticed", URIS),
    step("delete", URIS),
    step("put_back", URIS),
    step("rename", URIS, URIS),
    step("rename", URIS, URIS),
    step("sweep"),
    CLAIM,
    CLAIM,
    CLAIM,
    WELL,
    WELL,
    WELL,
    step("end", INSTANCES, st.sampled_from(["retry", "fail", "defer"])),
    step("fetch_again", INSTANCES),
    step("commit_and_die", INSTANCES),
    step("die", INSTANCES),
    step("release", INSTANCES),
    step("pass_time", st.sampled_from([1.0, 61.0])),
    step("ask_again"),
    step("settle"),
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(STEPS, min_size=30, max_size=60))
def test_when_all_is_quiet_the_store_is_the_source(template: Path, steps: list[Any]) -> None:
    model = Model(template)
    try:
        for uri in "ab":  # there is something to move from the beginning
            model.write(uri, True)
        model.settle()
        for name, *arguments in steps:
            getattr(model, name)(*arguments)
        model.settle()
    finally:
        model.teardown()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty items database: migrating one for every example would take longer than the rest."""
    file = tmp_path_factory.mktemp("template") / "items.db"

    async def make() -> None:
        items = await Items.open(f"sqlite:///{file}", "one", CONFIG)
        await items.close()

    asyncio.run(make())
    return file
