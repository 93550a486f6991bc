"""Instance ids: one's own after a crash, another beside a running daemon."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from haiku.ingester.exceptions import ItemsUnavailable
from haiku.ingester.items.instance import Instance

HOLD = """
import sys, time
from haiku.ingester.items.instance import Instance
instance = Instance.acquire(sys.argv[1])
print(instance.id, flush=True)
time.sleep(60)
"""


def test_a_restarted_daemon_gets_its_id_back(tmp_path: Path):
    with Instance.acquire(tmp_path) as first:
        pass
    with Instance.acquire(tmp_path) as again:
        assert again.id == first.id
        assert len(again.id) == 36


def test_a_second_daemon_gets_a_slot_of_its_own(tmp_path: Path):
    with Instance.acquire(tmp_path / "made") as one, Instance.acquire(tmp_path / "made") as two:
        assert one.id != two.id


def test_a_killed_daemon_gives_its_slot_up(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    held = process.stdout.readline().strip()
    with Instance.acquire(tmp_path) as beside:
        assert beside.id != held
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Instance.acquire(tmp_path) as after:
        assert after.id == held


def test_an_id_that_was_cut_short_is_made_anew(tmp_path: Path):
    (tmp_path / "instance-0").write_text("0199")
    with Instance.acquire(tmp_path) as made:
        assert len(made.id) == 36
        assert (tmp_path / "instance-0").read_text() == made.id


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ItemsUnavailable, match="no instance id can be kept"):
        Instance.acquire(tmp_path / "file" / "folder")
