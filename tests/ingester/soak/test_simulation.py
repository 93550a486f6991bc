"""The simulator holds on a sound store, repeats itself by its seed, and sees what is broken."""

import random
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from haiku.ingester.cli import app
from haiku.ingester.soak import simulation
from haiku.ingester.soak.folder import Folder
from haiku.ingester.soak.model import Model
from haiku.ingester.soak.script import Action, Kind, Script
from haiku.rag.store import commit, plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def actions(seed: int, count: int = 2000) -> list[Action]:
    return list(islice(iter(Script(seed).next, None), count))


def test_the_same_seed_gives_the_same_actions():
    assert actions(5) == actions(5) != actions(6)
    assert {action.kind for action in actions(5)} == set(Kind)


def test_the_same_seed_gives_the_same_folder(tmp_path: Path):
    held = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name, random.Random(7), 20)
        for _ in range(200):
            folder.step()
        held.append(folder.held)
        on_disk = {
            path.relative_to(folder.root).as_posix(): path.read_bytes()
            for path in folder.root.rglob("*")
            if path.is_file()
        }
        assert on_disk == folder.held
    assert held[0] == held[1]
    assert 10 <= len(held[0]) <= 30


def test_what_moves_or_goes_is_not_steady_any_more(tmp_path: Path):
    model = Model(Folder(tmp_path, random.Random(1), 10))
    for _ in range(100):
        model.change()
        assert model.steady <= model.wanted().keys()
        assert all(digest in model.contents[uri] for uri, digest in model.wanted().items())
        if random.random() < 0.1:
            model.settled()


def test_the_command_runs_and_everything_holds():
    done = CliRunner().invoke(
        app, ["soak", "--seed", "3", "--minutes", "0.1", "--files", "15", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert '"holds": true' in done.stdout
    assert '"seed": 3' in done.stdout


async def broken(root: Path, kinds: list[Kind]) -> list[str]:
    """What a short run of some actions finds wrong."""
    root.mkdir()
    async with simulation.opened(root, seed=1, files=10) as made:

        class Few(Script):
            """These actions, then rest until the time is over."""

            def next(self) -> Action:
                return Action(kinds.pop(0) if kinds else Kind.REST, 0.3)

        report = await made.run(Few(1), 6.0, lambda _: None)
    assert report.holds == (not report.wrong)
    return report.wrong


async def test_it_sees_a_stale_commit_that_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plan, "_holds", lambda expected, here: True)
    wrong = await broken(tmp_path / "soak", [Kind.STALE] * 2)
    assert any("a commit that was overtaken at" in text for text in wrong), wrong


async def test_it_sees_a_document_without_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    append = commit.Committer._append_table

    def forget_chunks(self: commit.Committer, table: str, rows: object) -> int:
        return append(self, table, rows.slice(0, 1) if table == "chunks" else rows)

    monkeypatch.setattr(commit.Committer, "_append_table", forget_chunks)
    wrong = await broken(tmp_path / "soak", [Kind.RIVAL] * 3)
    assert any("(S1)" in text for text in wrong), wrong
