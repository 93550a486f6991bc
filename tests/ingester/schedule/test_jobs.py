"""The jobs on a real database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.ingester.schedule.conftest import DAY, Clock, Recording, moment
from tests.rag.store.making import IDENTITY, put

from haiku.ingester.config import ScheduleConfig, WorkConfig
from haiku.ingester.exceptions import RunFailed
from haiku.ingester.items import Items
from haiku.ingester.metrics import Metrics
from haiku.ingester.schedule.jobs import Tags, Vacuum
from haiku.ingester.schedule.keeping import Keeper
from haiku.ingester.service.schedules import failures, make_keepers
from haiku.ingester.timetable import Slot, Timetable
from haiku.rag.config.models import StorageConfig
from haiku.rag.store import Store, marks


def slot(text: str) -> Slot:
    return Slot(nominal=datetime.fromisoformat(text), at=moment(text))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.create(tmp_path / "db", IDENTITY, StorageConfig()) as store:
        await store.commit([put("file:///a")])
        yield store


async def names(store: Store) -> list[str]:
    return sorted(tag.name for tag in await store.list_tags())


async def test_vacuum_collects(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = Clock()
    monkeypatch.setattr(marks, "here", lambda: ("this one", now()))
    await store.commit([put("file:///a", "again")])
    await Vacuum(store).run(slot("2026-05-05T03:30"))
    assert (await store.info()).replaced_revisions == 1
    now.now += DAY
    done = await Vacuum(store).run(slot("2026-05-06T03:30"))
    assert (await store.info()).replaced_revisions == 0
    assert done.startswith("1 revisions collected")


@pytest.mark.parametrize("left", ["errors", "skipped"])
async def test_what_vacuum_could_not_do_is_a_failure(
    store: Store, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Report:
        errors: tuple[str, ...] = ()
        skipped: tuple[str, ...] = ()
        postponed: tuple[str, ...] = ()

    setattr(Report, left, ("chunks: the disk is short",))

    async def vacuum() -> Report:
        return Report()

    monkeypatch.setattr(store, "vacuum", vacuum)
    with pytest.raises(RunFailed, match="the disk is short"):
        await Vacuum(store).run(slot("2026-05-05T03:30"))


async def test_a_vacuum_stops_before_its_next_step_and_its_slot_is_not_done(
    store: Store, tmp_path: Path
) -> None:
    clock, told, steps = Clock(), Recording(), []
    told.name = "vacuum"
    items = await Items.open(f"sqlite:///{tmp_path}/items", "one", WorkConfig(), clock=clock)
    table = Timetable("30 3 * * *", "UTC")
    keeper = Keeper(Vacuum(store), table, items.schedules, told, grace=DAY)
    await keeper.look()
    clock.now = moment("2026-05-05T03:30")
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def step(name: str) -> None:
        steps.append(name)
        waits.set()
        await goes_on.wait()

    store.on_upkeep_step(step)
    running = asyncio.create_task(keeper.look())
    await waits.wait()
    assert len(await store.commit([put("file:///b")])) == 1  # ingestion goes on
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (len(steps), told.outcomes) == (1, ["cut_short"])
    goes_on.set()
    await keeper.look()
    assert told.outcomes == ["cut_short", "done"]
    await items.close()


async def test_tags_have_the_slot_in_their_name_and_the_newest_are_kept(store: Store) -> None:
    for other in ("release-1", "auto-2", "auto-20260101T0000-x"):
        await store.create_tag(other)
    tags = Tags(store, "auto-{slot}", keep=2)
    for day in ("03", "04", "05", "06"):
        done = await tags.run(slot(f"2026-05-{day}T02:30"))
    assert done == "tag auto-20260506T0230; deleted auto-20260504T0230"
    assert await names(store) == [
        *("auto-2", "auto-20260101T0000-x", "auto-20260505T0230", "auto-20260506T0230"),
        "release-1",
    ]


async def test_a_slot_is_tagged_once_and_a_broken_tag_made_again(store: Store) -> None:
    tags, at = Tags(store, "{slot}.daily", keep=3), slot("2026-05-05T02:30")
    await tags.run(at)
    (made,) = await store.list_tags()
    await store.commit([put("file:///b")])
    await tags.run(at)
    assert await store.list_tags() == [made]

    async def fail(name: str) -> None:
        if name == "untag document_meta":
            raise ConnectionError("cut")

    store.on_step(fail)
    with pytest.raises(ConnectionError):
        await store.delete_tag(made.name)
    (broken,) = await store.list_tags()
    assert not broken.complete
    store.on_step(pass_over)
    await tags.run(at)
    (again,) = await store.list_tags()
    assert (again.complete, again.documents) == (True, 2)


async def pass_over(_name: str) -> None:
    """No fault any more."""


async def test_a_tag_of_a_wrong_clock_does_not_take_the_place_of_the_new_one(store: Store) -> None:
    await store.create_tag("auto-20990101T0000")
    await Tags(store, "auto-{slot}", keep=1).run(slot("2026-05-05T02:30"))
    assert "auto-20260505T0230" in await names(store)


async def test_a_failed_run_is_a_reason_until_the_next_success(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, metrics = Clock(), Metrics()
    items = await Items.open(f"sqlite:///{tmp_path}/items", "one", WorkConfig(), clock=clock)
    config = ScheduleConfig.model_validate({"tags": {"cron": "0 2 * * *"}})

    class Opened:
        def __init__(self) -> None:
            self.store, self.items = store, items

    keepers = make_keepers(config, Opened(), metrics)  # type: ignore[arg-type]
    assert [keeper.job for keeper in keepers] == ["vacuum", "tag"]
    text = metrics.render().decode()
    assert 'haiku_ingester_scheduled_runs_total{job="tag",outcome="failed"} 0.0' in text
    tag = keepers[1]
    await tag.look()
    with monkeypatch.context() as patch:
        patch.setattr(store, "list_tags", refuse)
        clock.now = moment("2026-05-05T02:00")
        await tag.look()
    (reason,) = failures(keepers)
    assert (reason.part, reason.code, reason.fatal) == ("schedule:tag", "schedule_failed", False)
    assert reason.text == "tag of 2026-05-05T02:00 failed: no such bucket"
    clock.now += DAY
    await tag.look()
    assert list(failures(keepers)) == []
    text = metrics.render().decode()
    for outcome in ("done", "failed"):
        assert f'runs_total{{job="tag",outcome="{outcome}"}} 1.0' in text
    at = moment("2026-05-06T02:00")
    (line,) = (
        x
        for x in text.splitlines()
        if x.startswith('haiku_ingester_scheduled_last_success_timestamp_seconds{job="tag"')
    )
    assert float(line.split()[1]) == at
    await items.close()


async def refuse() -> None:
    raise OSError("no such bucket")
