"""F40: models are loaded once a process, and nothing is asked of any network."""

import subprocess
import sys
from collections import Counter

import pytest

from tests.acceptance.daemon import Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Runs at the start of every Python process: notes what is opened, refuses what leaves the machine.
WATCH = """
import os, socket, sys

def watch(event, args):
    if event == "open" and str(args[0]).endswith(("tokenizer.json", ".onnx")):
        note(f"open {os.path.basename(str(args[0]))}")
    elif event == "socket.getaddrinfo" and args[0] not in ("localhost", "127.0.0.1", None, ""):
        note(f"asked for {args[0]}")
        raise OSError("no network in this test")
    elif event == "socket.connect" and getattr(args[0], "family", None) in (
        socket.AF_INET, socket.AF_INET6,
    ) and str(args[1][0]) not in ("127.0.0.1", "::1"):
        note(f"connect {args[1]}")
        raise OSError("no network in this test")

def note(text):
    with open(os.environ["HAIKU_TEST_NOTES"] + f"/{os.getpid()}", "a") as file:
        file.write(text + "\\n")

sys.addaudithook(watch)
"""


def test_a_hundred_documents_without_a_network(site: Site) -> None:
    for number in range(100):
        site.write(f"{number}.md", f"# Note {number}\n\nThe text of note {number}.\n")
    watch, notes = site.root / "watch", site.root / "notes"
    watch.mkdir()
    notes.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    command = [sys.executable, "-m", "haiku.ingester.cli", "run-batch"]
    done = subprocess.run(
        [*command, "--config", str(site.config), "--db", str(site.database)],
        env=site.environment() | {"PYTHONPATH": str(watch), "HAIKU_TEST_NOTES": str(notes)},
        cwd=site.root,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(site.documents()) == 100
    seen = {file.name: Counter(file.read_text().splitlines()) for file in notes.iterdir()}
    assert seen  # the watch was there
    for process, counts in seen.items():
        assert not [text for text in counts if not text.startswith("open")], (process, counts)
        assert set(counts.values()) <= {1, 2}, (process, counts)  # its checksum, and itself
