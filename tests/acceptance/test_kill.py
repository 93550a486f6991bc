"""SIGKILL and SIGTERM at random moments while the folder changes: nothing lost, nothing doubled.

`make kill` does the same with 100 kills and 300 files; `KILL_SEED` repeats a run of this test.
"""

import os
import random

import pytest

from tests.acceptance.daemon import Site
from tests.acceptance.embedding import EmbeddingServer
from tests.acceptance.kill import KillRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


# F25
def test_killed_at_random_moments_nothing_is_lost_or_doubled(site: Site) -> None:
    seed = int(os.environ.get("KILL_SEED", random.randrange(10**6)))
    print(f"KILL_SEED={seed}")
    with EmbeddingServer() as server:
        report = KillRun(site, server, seed=seed, kills=8, files=40, pauses=1).run()
    print(report.as_json())
    assert report.wrong == []
    assert report.looks > 0
    assert report.ids_kept == report.moves > 0
