"""The commands that read the items database and ask things of the daemon through it."""

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from haiku.ingester.cli import app, opening, output
from haiku.ingester.config import WorkConfig
from haiku.ingester.items import Failed, Indexed, Observation, RequestKind
from haiku.ingester.items.instance import Instance
from haiku.ingester.items.items import Items
from haiku.ingester.timetable import Slot
from haiku.rag import uris


class Place:
    """A configuration, a database path, and an items database that a test fills."""

    def __init__(self, root: Path) -> None:
        self.docs = root / "docs"
        self.state = root / "db.ingester"
        self.config = root / "config.yaml"
        self.config.write_text(
            "ingester:\n  sources:\n"
            f"    - {{id: docs, path: {self.docs}}}\n    - {{id: more, path: {root}/more}}\n"
        )
        self.places = ["--config", str(self.config), "--db", str(root / "db.lancedb")]

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, *self.places])

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def items(self, work: Callable[[Items], Coroutine[Any, Any, Any]]) -> Any:
        async def opened() -> Any:
            url = f"sqlite:///{self.state}/items.sqlite"
            items = await Items.open(url, "test", WorkConfig())
            try:
                return await work(items)
            finally:
                await items.close()

        return asyncio.run(opened())

    def uri(self, name: str) -> str:
        return uris.path_to_uri(self.docs / name)


async def fill(items: Items, place: Place) -> None:
    """One indexed, one failed, one waiting."""
    names = ("a good one.md", "bad\x1b[31m.docx", "new.md")
    for name in names[:2]:
        await items.observe("docs", [Observation(place.uri(name), "m1", 3)], live=False)
        (claim,) = await items.claim(1)
        if name == names[0]:
            await items.finish(
                claim,
                Indexed(
                    content_hash="h",
                    mark="m1",
                    fingerprint="f",
                    document_id="d",
                    chunk_count=2,
                ),
            )
        else:
            await items.finish(
                claim, Failed(code="corrupt", reason="not a [bold] zip\x1b[2J", stage="convert")
            )
    await items.observe("docs", [Observation(place.uri(names[2]), "m1", 3)], live=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def filled(place: Place) -> Place:
    place.items(lambda items: fill(items, place))
    return place


def test_status_counts_by_source_and_state(filled: Place) -> None:
    found = filled.json("status")
    docs, more = found["sources"]
    assert docs["items"] == {"indexed": 1, "failed": 1, "pending": 1}
    assert (more["id"], more["items"]) == ("more", {})
    assert found["daemons"] == []
    assert "not running" in filled.run("status").stdout


def test_status_knows_a_running_daemon(filled: Place) -> None:
    with Instance.acquire(filled.state) as instance:
        assert filled.json("status")["daemons"] == [instance.id]


def test_status_shows_the_next_and_the_last_run_of_each_schedule(filled: Place) -> None:
    filled.config.write_text(
        filled.config.read_text()
        + "  schedule: {timezone: Europe/Berlin, tags: {cron: '@daily'}}\n"
    )

    async def run(items: Items) -> None:
        slot = Slot(nominal=datetime(2026, 3, 29, 2, 30), at=time.time() + 5)
        await items.schedules.count_from_now("vacuum")
        await items.schedules.begin("vacuum", slot)
        await items.schedules.finish("vacuum", failed=True, detail="the disk is short")

    filled.items(run)
    vacuum, tag = filled.json("status")["schedules"]
    assert (vacuum["job"], vacuum["cron"], vacuum["next_slot"][10:]) == (
        *("vacuum", "30 3 * * *"),
        "T03:30",
    )
    assert (vacuum["last_slot"], vacuum["last_outcome"]) == ("2026-03-29T02:30", "failed")
    assert vacuum["last_detail"] == "the disk is short"
    assert (vacuum["last_succeeded_at"], vacuum["running_since"]) == (None, None)
    assert (tag["job"], tag["timezone"], tag["last_slot"]) == ("tag", "Europe/Berlin", None)
    text = filled.run("status").stdout
    assert "the disk is short" in text
    assert f"tag\t{tag['next_slot']}\tEurope/Berlin\tnever" in text


def test_items_are_listed_filtered_and_cut(filled: Place) -> None:
    assert [item["state"] for item in filled.json("items")] == ["indexed", "failed", "pending"]
    assert len(filled.json("items", "--limit", "2")) == 2
    assert [i["state"] for i in filled.json("items", "--offset", "2")] == ["pending"]
    assert [i["path"] for i in filled.json("items", "--state", "pending")] == [
        str(filled.docs / "new.md")
    ]
    assert filled.json("items", "--source", "more") == []
    assert len(filled.json("items", "--limit", str(10**30))) == 3
    assert filled.json("items", "--offset", str(10**30)) == []


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_that_there_are_more_items_is_said(filled: Place, more: list[str]) -> None:
    cut = filled.run("items", "--limit", "2", *more)
    assert cut.stderr == "2 of 3 items; more with --limit and --offset\n"
    for all_of_them in (["--limit", "3"], ["--state", "failed"], ["--source", "more"]):
        assert filled.run("items", *all_of_them, *more).stderr == ""
    assert filled.run("failed", "list", *more).stderr == ""
    filled.items(lambda items: items.observe("more", [Observation("file:///x", "m")], live=False))
    (claim,) = [c for c in filled.items(lambda i: i.claim(9)) if c.source_id == "more"]
    failed = Failed(code="corrupt", reason="no", stage="convert")
    filled.items(lambda items: items.finish(claim, failed))
    cut = filled.run("failed", "list", "--limit", "1", *more)
    assert cut.stderr == "1 of 2 failed items; more with --limit\n"


def test_a_source_that_all_share_is_left_out_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["docs", "/a/b.md"], ["docs", "/c/d.md"]]
    output.table(["source", "path"], rows)
    assert capsys.readouterr().out == "source\tpath\ndocs\t/a/b.md\ndocs\t/c/d.md\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.table(["source", "path"], rows)
    alike = capsys.readouterr().out
    output.table(["source", "path"], [*rows, ["more", "/e"]])
    unlike = capsys.readouterr().out
    assert "docs" not in alike
    assert "source" not in alike
    assert "/c/d.md" in alike
    assert unlike.count("docs") == 2
    output.table(["source", "path"], [])
    assert "source" in capsys.readouterr().out


def test_commands_are_printed_as_they_can_be_pasted() -> None:
    config, folders = Path("my config.yaml"), [Path("/a b"), Path("/c")]
    text = opening.command("run-batch", "--plan", "a$b", config=config, db="d b", folders=folders)
    first, rest = shlex.split(text)[:6], shlex.split(text)[6:]
    assert first == ["haiku-ingester", "run-batch", "--plan", "a$b", "--config", "my config.yaml"]
    assert rest == ["--db", "d b", "--folder", "/a b", "--folder", "/c"]
    assert opening.command("status", config=None, db=None) == "haiku-ingester status"


def test_a_held_source_is_shown_with_commands_for_it(filled: Place) -> None:
    filled.items(lambda items: items.note_restores(["docs"], 0))
    filled.items(lambda items: items.note_restores(["docs"], 1))
    shown = filled.run("status").stdout
    assert f"haiku-ingester source resync docs {shlex.join(filled.places)}" in shown
    assert f"haiku-ingester source keep docs {shlex.join(filled.places)}" in shown


@pytest.mark.parametrize("minutes", ["nan", "inf", "-inf", "0"])
def test_a_soak_ends(minutes: str) -> None:
    result = CliRunner().invoke(app, ["soak", "--minutes", minutes])
    assert result.exit_code == 2
    assert "--minutes" in result.stderr


@pytest.mark.parametrize("command", [[], ["items"], ["source", "keep"], ["failed"]])
def test_help_has_a_short_name(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "-h"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("kind", ["missing", "damaged"])
def test_a_plan_that_cannot_be_read_is_wrong_usage(place: Place, kind: str) -> None:
    file = place.docs.parent / "plan.json"
    if kind == "damaged":
        file.write_text("{")
    result = place.run("run-batch", "--plan", str(file))
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert "Errno" not in result.stderr


def test_a_tag_that_cannot_be_named_so_is_wrong_usage(place: Place) -> None:
    result = place.run("run-batch", "--tag", "5")
    assert result.exit_code == 2
    assert "it is read as a version" in result.stderr


def test_an_unknown_state_is_refused_with_the_known_ones(filled: Place) -> None:
    result = filled.run("items", "--state", "broken")
    assert result.exit_code == 2
    assert "pending" in result.stderr


def test_names_are_shown_decoded_and_harmless(filled: Place) -> None:
    for command in (["items"], ["failed", "list"]):
        text = filled.run(*command).stdout
        assert "bad\\x1b[31m.docx" in text
        assert "\x1b" not in text
        assert "not a [bold] zip\\x1b[2J" in text
    assert "a good one.md" in filled.run("items").stdout


def test_failed_items_have_stage_code_attempts_and_reason(filled: Place) -> None:
    (item,) = filled.json("failed", "list")
    assert item["stage"] == "convert"
    assert item["code"] == "corrupt"
    assert item["attempts"] == 1
    assert item["reason"] == "not a [bold] zip\x1b[2J"


@pytest.mark.parametrize("how", ["--all", "path", "uri"])
def test_retry_makes_a_failed_item_pending(filled: Place, how: str) -> None:
    name = "bad\x1b[31m.docx"
    argument = {"--all": "--all", "path": str(filled.docs / name), "uri": filled.uri(name)}[how]
    result = filled.run("failed", "retry", argument)
    assert result.exit_code == 0, result.output
    assert result.stdout == "1 item to be tried again\n"
    assert filled.json("failed", "list") == []
    assert len(filled.json("items", "--state", "pending")) == 2


def test_retry_of_what_is_not_known_says_so(filled: Place) -> None:
    result = filled.run("failed", "retry", str(filled.docs / "nothing.md"))
    assert result.exit_code == 3
    assert "nothing.md" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--all", "x"]])
def test_retry_wants_one_thing_or_all(filled: Place, arguments: list[str]) -> None:
    assert filled.run("failed", "retry", *arguments).exit_code == 2


def test_refresh_leaves_a_request_for_the_daemon(filled: Place) -> None:
    assert filled.run("source", "refresh", "docs").exit_code == 0
    (request,) = filled.items(lambda items: items.take_requests(["docs", "more"]))
    assert (request.source_id, request.kind) == ("docs", RequestKind.REFRESH)


def test_deletions_are_confirmed_only_where_they_are_suspended(filled: Place) -> None:
    result = filled.run("source", "confirm-deletes", "docs")
    assert (result.exit_code, result.stdout) == (0, "no deletions of docs are suspended\n")
    assert not filled.items(lambda items: items.take_requests(["docs"]))
    filled.items(lambda items: items.suspend_deletes("docs", count=40, reason="40 of 50 gone"))
    docs = filled.json("source", "list")[0]
    assert docs["deletes_suspended"]["count"] == 40
    assert "40 of 50 gone" in filled.run("status").stdout
    assert filled.run("source", "confirm-deletes", "docs").exit_code == 0
    (request,) = filled.items(lambda items: items.take_requests(["docs"]))
    assert request.kind == RequestKind.CONFIRM_DELETES


def test_a_source_that_is_not_configured_is_refused(filled: Place) -> None:
    for command in ("refresh", "confirm-deletes"):
        result = filled.run("source", command, "dosc")
        assert result.exit_code == 3
        assert "docs, more" in result.stderr


@pytest.mark.parametrize(
    "command", [["items"], ["failed", "list"], ["failed", "retry", "--all"]], ids=" ".join
)
def test_a_filter_by_a_source_that_nobody_knows_is_refused(
    filled: Place, command: list[str]
) -> None:
    result = filled.run(*command, "--source", "dosc")
    assert result.exit_code == 3
    assert "'dosc'; there is docs, more" in result.stderr
    filled.config.write_text("ingester: {sources: []}\n")
    assert filled.run(*command, "--source", "docs").exit_code == 0  # it still has items


def test_sources_that_are_remembered_but_not_configured_are_shown(filled: Place) -> None:
    filled.items(lambda items: items.observe("old", [Observation("file:///x", "m")], live=False))
    old = filled.json("source", "list")[-1]
    assert (old["id"], old["type"], old["items"]) == ("old", None, {"pending": 1})
    assert "not configured" in filled.run("source", "list").stdout


def test_looking_creates_nothing(place: Place, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for command in (["status"], ["items"], ["failed", "list"], ["source", "list"]):
        result = place.run(*command)
        assert result.exit_code == 3
        assert "no items database" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_wrong_configuration_is_one_clear_message(place: Place) -> None:
    place.config.write_text("ingester:\n  sorces: []\n")
    result = place.run("status")
    assert result.exit_code == 2
    assert "ingester.sorces: unknown key" in result.stderr
    assert "Traceback" not in result.output


def test_an_empty_folder_is_not_the_working_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["run-batch", "--folder", " ", "--db", str(tmp_path / "x.lancedb")]
    )
    assert result.exit_code == 2
    assert "path is empty" in result.output
    assert list(tmp_path.iterdir()) == []
