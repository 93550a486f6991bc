"""`run-batch`: one complete look, all the work, and an exit code that tells."""

import json

import pytest

from tests.acceptance.daemon import Site

#: Starting a process takes seconds on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_every_file_is_tried_and_the_bad_one_is_named(site: Site) -> None:
    for number in range(5):
        site.write(f"a{number}.md", f"Good note {number}.\n")
        site.write(f"c{number}.md", f"Another good note {number}.\n")
    site.write("b.docx", b"PK\x03\x04 this is no archive")
    done = site.run("run-batch")
    assert done.returncode == 1, done.stderr
    assert "b.docx" in done.stdout
    assert "10 indexed" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(site.documents()) == 10

    (site.docs / "b.docx").unlink()
    again = site.run("run-batch", "--json")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["succeeded"]
    assert found["counts"] == {"indexed": 10}


def test_a_missing_folder_fails_the_run_but_not_the_other_source(site: Site) -> None:
    site.write("note.md", "A note.\n")
    site.configure(
        sources=[
            {"id": "lost", "path": str(site.root / "not-there")},
            {"id": "docs", "path": str(site.docs)},
        ]
    )
    done = site.run("run-batch", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert "not-there" in found["problems"]["lost"]
    assert len(site.documents()) == 1


def test_a_folder_needs_no_configuration(site: Site) -> None:
    site.write("note.md", "A note.\n")
    site.config.write_text("{}")
    assert site.run("run-batch").returncode == 2
    done = site.run("run-batch", "--folder", str(site.docs))
    assert done.returncode == 0, done.stderr
    assert len(site.documents()) == 1
    missing = site.run("run-batch", "--folder", str(site.root / "not-there"))
    assert missing.returncode == 4
    assert "not-there" in missing.stderr


def test_a_database_inside_the_folder_is_not_ingested(site: Site) -> None:
    site.database = site.docs / "inside.lancedb"
    site.write("note.md", "A note.\n")
    assert site.run("run-batch").returncode == 0
    assert site.run("run-batch").returncode == 0
    assert len(site.documents()) == 1


def test_a_run_that_succeeds_is_tagged(site: Site) -> None:
    site.write("a.md", "A good note.\n")
    bad = site.write("b.docx", b"PK\x03\x04 this is no archive")
    failed = site.run("run-batch", "--tag", "v1")
    assert failed.returncode == 1
    assert "not tagged as v1" in failed.stderr
    bad.unlink()
    done = site.run("run-batch", "--tag", "v1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tag"] == "v1"
    site.write("c.md", "Another note.\n")
    again = site.run("run-batch", "--tag", "v1")
    assert again.returncode == 1
    assert "a tag v1 already" in again.stderr
    assert len(site.documents()) == 1  # nothing was done
    assert site.run("run-batch", "--tag", "no good").returncode == 2
