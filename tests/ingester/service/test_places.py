"""Where the daemon keeps its own files, and sources made from a path."""

from pathlib import Path

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haiku.ingester.config import DaemonConfig, FilesystemSource, IngesterConfig
from haiku.ingester.service.places import (
    find_places,
    folder_source,
    with_folders,
    without_own_files,
)
from haiku.rag.config import AppConfig

NAMES = st.text(
    st.characters(blacklist_characters="/\x00\n\r", blacklist_categories=["Cs"]),
    min_size=1,
    max_size=20,
).filter(lambda name: name not in (".", ".."))


def daemon_config(**section: object) -> DaemonConfig:
    return DaemonConfig(app=AppConfig(), ingester=IngesterConfig.model_validate(section))


def test_everything_stands_beside_a_local_database(tmp_path: Path) -> None:
    places = find_places(daemon_config(), tmp_path / "docs.lancedb")
    assert places.state == tmp_path / "docs.ingester"
    assert places.items_url == f"sqlite+aiosqlite:///{tmp_path}/docs.ingester/items.sqlite"
    assert places.spool == tmp_path / "docs.ingester" / "spool"


def test_configured_places_win(tmp_path: Path) -> None:
    config = daemon_config(items_db="sqlite:///elsewhere.db", spool={"dir": str(tmp_path)})
    places = find_places(config, tmp_path / "docs.lancedb")
    assert places.items_url == "sqlite:///elsewhere.db"
    assert places.spool == tmp_path


def test_a_remote_database_has_a_state_folder_of_its_own() -> None:
    one = find_places(daemon_config(), "s3://bucket/one")
    other = find_places(daemon_config(), "s3://bucket/other")
    assert one.database == "s3://bucket/one"
    assert one.state != other.state
    assert one.state.is_absolute()


def test_a_folder_is_the_same_source_at_every_start(tmp_path: Path) -> None:
    assert folder_source(tmp_path / "a").id == folder_source(tmp_path / "x" / ".." / "a").id
    assert folder_source(tmp_path / "a").id != folder_source(tmp_path / "b" / "a").id


@given(NAMES)
def test_any_folder_name_gives_a_legal_id(name: str) -> None:
    assert folder_source(Path("/data") / name).path == Path("/data") / name


def test_a_folder_that_is_configured_is_not_doubled(tmp_path: Path) -> None:
    config = daemon_config(sources=[{"id": "docs", "path": str(tmp_path)}])
    found = with_folders(config, [tmp_path, tmp_path / "more", tmp_path / "more"])
    assert [source.path for source in found.ingester.sources] == [tmp_path, tmp_path / "more"]


@given(NAMES, NAMES.map(lambda name: f"{name}.lancedb"))
def test_a_database_below_the_folder_is_not_a_document(folder: str, name: str) -> None:
    root = Path("/data") / folder
    places = find_places(daemon_config(), root / name)
    source = without_own_files(FilesystemSource(id="x", path=root), places)
    spec = pathspec.GitIgnoreSpec.from_lines(source.ignore)
    for own in (Path(places.database), places.state):
        assert spec.match_file(f"{own.relative_to(root).as_posix()}/file")
    assert not spec.match_file("a document.md")


def test_a_database_elsewhere_changes_nothing(tmp_path: Path) -> None:
    source = FilesystemSource(id="x", path=tmp_path / "docs")
    places = find_places(daemon_config(), tmp_path / "docs.lancedb")
    assert without_own_files(source, places) is source


@pytest.mark.parametrize("folder", [Path("/"), Path("/data")])
def test_the_root_itself_is_never_ignored(folder: Path) -> None:
    config = daemon_config(spool={"dir": "/data"})
    source = without_own_files(FilesystemSource(id="x", path=folder), find_places(config, "/db"))
    spec = pathspec.GitIgnoreSpec.from_lines(source.ignore)
    assert not spec.match_file("other/a.md")
