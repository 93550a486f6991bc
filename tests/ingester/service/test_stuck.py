"""A stop that does not end."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from haiku.ingester.cli import running
from haiku.ingester.service.daemon import Daemon

async def serve(self):
    os.kill(os.getpid(), signal.SIGTERM)
    await self._stop.requested.wait()
    await asyncio.to_thread(a_share_that_hangs)

def a_share_that_hangs():
    time.sleep(600)

Daemon.serve, running.STOP_SLACK = serve, 0.5
running.serve_command(Path(sys.argv[1]), sys.argv[2], [Path(sys.argv[3])])
"""


def test_a_stop_that_does_not_end_is_ended_and_says_what_it_was_at(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("ingester: {shutdown_grace: 0}")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(config), str(tmp_path / "db"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "ended by force" in done.stderr
    assert "a_share_that_hangs" in done.stderr
