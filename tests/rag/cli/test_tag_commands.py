"""tag create, list, restore, delete; history; --as-of on every reading command."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import lance
import pytest

from haiku.rag.client import HaikuRAG
from haiku.rag.exceptions import ReadOnly, TagNotFound
from haiku.rag.store import schema

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

HANDBOOK = "file:///docs/staff%20handbook.md"


def read(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def tagged(run: Any, database: Any) -> Any:
    """Three documents under the tag `v1`; then one of them is deleted."""
    run("tag", "create", "v1", "--db", database)
    assert run("delete", HANDBOOK, "--db", database).exit_code == 0
    return database


def uris(run: Any, database: Any, *more: str) -> set[str]:
    found = read(run("list", "--db", database, "--json", *more))
    return {document["uri"] for document in found["documents"]}


def test_a_tag_is_made_listed_and_deleted(run: Any, database: Any) -> None:
    assert "no tags" in run("tag", "list", "--db", database).stderr
    made = run("tag", "create", "v1", "--db", database)
    assert made.exit_code == 0
    assert made.stdout.split() == ["tagged", "v1", "documents", "3"]
    (tag,) = read(run("tag", "list", "--db", database, "--json"))
    assert tag["name"] == "v1"
    assert tag["complete"]
    assert set(tag["versions"]) == set(schema.TABLES)
    shown = run("tag", "list", "--db", database).stdout
    assert "v1" in shown
    assert "complete" in shown
    assert read(run("tag", "delete", "v1", "--db", database, "--json"))["name"] == "v1"
    assert read(run("tag", "list", "--db", database, "--json")) == []


def test_a_tag_is_restored_and_the_restore_undone(run: Any, tagged: Any) -> None:
    report = read(run("tag", "restore", "v1", "--db", tagged, "--json"))
    assert (report["documents"], report["changed"], report["copied"]) == (3, 1, 1)
    assert HANDBOOK in uris(run, tagged)
    undone = run("tag", "restore", report["safety_tag"], "--db", tagged)
    assert undone.exit_code == 0
    assert "undo with  haiku-rag tag restore before-restore-" in undone.stdout
    assert "set back" not in undone.stdout
    assert HANDBOOK not in uris(run, tagged)


def test_the_command_that_undoes_a_restore_works_as_it_is_printed(
    run: Any, tagged: Any, tmp_path: Path
) -> None:
    moved = tagged.rename(tmp_path / "my docs.lancedb")
    config = tmp_path / "its config.yaml"
    config.write_text("{}")
    done = run("tag", "restore", "v1", "--db", "my docs.lancedb", "--config", config)
    (undo,) = [line for line in done.stdout.splitlines() if line.startswith("undo with")]
    program, *arguments = shlex.split(undo.removeprefix("undo with"))
    assert program == "haiku-rag"
    assert arguments[3:] == ["--db", "my docs.lancedb", "--config", str(config)]
    assert run(*arguments).exit_code == 0
    assert HANDBOOK not in uris(run, moved)


def test_a_restore_of_what_is_there_changes_nothing(run: Any, database: Any) -> None:
    run("tag", "create", "v1", "--db", database)
    before = read(run("history", "--db", database, "--json"))
    done = run("tag", "restore", "v1", "--db", database)
    assert done.exit_code == 0
    assert "nothing differs from v1" in done.stdout
    assert "undo" not in done.stdout
    assert read(run("history", "--db", database, "--json")) == before
    assert len(read(run("tag", "list", "--db", database, "--json"))) == 1


def test_every_reading_command_reads_the_past(run: Any, tagged: Any) -> None:
    past = ("--as-of", "v1", "--db", tagged, "--json")
    assert uris(run, tagged, "--as-of", "v1") - uris(run, tagged) == {HANDBOOK}
    assert read(run("get", HANDBOOK, *past))["uri"] == HANDBOOK
    (hit,) = read(run("search", "holiday", "--type", "fts", *past))
    assert hit["document_uri"] == HANDBOOK
    assert read(run("search", "holiday", *past))[0]["document_uri"] == HANDBOOK
    (hit,) = read(run("search", "holiday", "--type", "fts", "--expand", *past))
    assert "goes on here" in hit["content"]
    assert read(run("info", *past))["documents"] == 3
    assert read(run("info", "--db", tagged, "--json"))["documents"] == 2
    version = read(run("history", "--db", tagged, "--json"))[0]["version"]
    assert HANDBOOK not in uris(run, tagged, "--as-of", str(version))


def test_history_tells_what_changed(run: Any, tagged: Any) -> None:
    run("tag", "restore", "v1", "--db", tagged)
    found = read(run("history", "--db", tagged, "--json", "--limit", 3))
    assert [entry["restored"] for entry in found] == [True, False, False]
    assert [entry["documents"] for entry in found] == [3, 2, 3]
    assert found[2]["tags"] == ["v1"]
    shown = run("history", "--db", tagged).stdout
    assert "restored: 1 created" in shown
    assert "1 deleted" in shown
    assert "3 created" in shown
    assert "before-restore-" in shown


def test_versions_that_history_leaves_out_are_explained(run: Any, tagged: Any) -> None:
    assert "upkeep" not in run("history", "--db", tagged).stderr
    run("vacuum", "--db", tagged)
    run("delete", "file:///docs/O'Brien.md", "--db", tagged)
    listed = read(run("history", "--db", tagged, "--json"))
    assert listed[0]["version"] - listed[1]["version"] > 1
    assert "versions between these" in run("history", "--db", tagged).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("tag", "create", "v1"), 4, "a tag v1 already"),
        (("tag", "create", "no good"), 2, "cannot be the name of a tag"),
        (("tag", "create", "5"), 2, "it is read as a version"),
        (("tag", "restore", "v2"), 3, "no tag 'v2'"),
        (("tag", "delete", "v2"), 3, "no tag 'v2'"),
        (("list", "--as-of", "v2"), 3, "no tag"),
        (("list", "--as-of", "9999"), 3, "does not keep version 9999"),
        (("list", "--as-of", "2001-01-01"), 3, "Kept: versions"),
        (("tag",), 2, "create"),
    ],
)
def test_how_it_ends(run: Any, tagged: Any, arguments: Any, code: int, says: str) -> None:
    result = run(*arguments, *(("--db", tagged) if len(arguments) > 1 else ()))
    assert result.exit_code == code
    assert says in result.output


def test_a_partial_tag_is_shown_as_such_and_not_restored(run: Any, database: Any) -> None:
    lance.dataset(f"{database}/chunks.lance").tags.create("half", 1)
    (tag,) = read(run("tag", "list", "--db", database, "--json"))
    assert not tag["complete"]
    assert "partial: missing on document_meta" in run("tag", "list", "--db", database).stdout
    refused = run("tag", "restore", "half", "--db", database)
    assert refused.exit_code == 1
    assert "haiku-rag tag delete half" in refused.stderr
    assert run("tag", "delete", "half", "--db", database).exit_code == 0


async def test_the_facade_reads_the_past_and_refuses_to_write_there(tagged: Any) -> None:
    async with HaikuRAG(tagged, as_of="v1") as then:
        assert await then.count_documents() == 3
        found = await then.get_document_by_uri(HANDBOOK)
        assert found is not None
        assert found.content
        with pytest.raises(ReadOnly):
            await then.delete_document(found.id)
        with pytest.raises(ReadOnly):
            await then.create_tag("x")
        assert [tag.name for tag in await then.list_tags()] == ["v1"]
    with pytest.raises(TagNotFound):
        await HaikuRAG(tagged, as_of="nothing").__aenter__()
    async with HaikuRAG(tagged) as client:
        assert (await client.history(1))[0].deleted == 1
        await client.restore_tag("v1")
        assert await client.count_documents() == 3
        await client.delete_tag("v1")
