"""The section `ingester.schedule`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from haiku.ingester.config import ScheduleConfig, TagSchedule, load_daemon_config
from haiku.ingester.service.schedules import expressions
from haiku.rag import tagnames
from haiku.rag.exceptions import ConfigError, TagNameRefused


def test_by_default_there_is_a_vacuum_a_night_and_no_tag() -> None:
    config = ScheduleConfig()
    assert expressions(config) == {"vacuum": "30 3 * * *"}
    assert config.timezone == "UTC"


def test_each_can_be_switched_off_and_on() -> None:
    sections = {"vacuum": {"cron": None}, "tags": {"cron": "@daily"}}
    assert expressions(ScheduleConfig.model_validate(sections)) == {"tag": "@daily"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{timezone: Mars/Base}", "schedule.timezone"),
        ("{vacuum: {cron: 30 3 * *}}", "schedule.vacuum.cron"),
        ("{vacuum: {cron: 0 0 31 2 *}}", "a day that never comes"),
        ("{tags: {name: nightly}}", "{slot}"),
        ("{tags: {name: '{slot}{slot}'}}", "{slot}"),
        ("{tags: {name: 'a b{slot}'}}", "letters from a to z"),
        ("{tags: {name: '.{slot}'}}", "cannot be the name of a tag"),
        ("{tags: {name: 'a..b{slot}'}}", "cannot be the name of a tag"),
        ("{tags: {name: '{slot}'}}", "it is read as a time"),
        ("{tags: {keep: 0}}", "schedule.tags.keep"),
    ],
)
def test_what_is_wrong_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "haiku.rag.yaml"
    file.write_text(f"ingester:\n  schedule: {text}\n")
    with pytest.raises(ConfigError) as error:
        load_daemon_config(file)
    assert message in str(error.value)
    assert "ingester.schedule" in str(error.value)
    assert "Value error" not in str(error.value)


@given(
    st.text(alphabet="aZ09._-lock {}ä\n", max_size=12), st.text(alphabet="a.-_lock ä", max_size=9)
)
def test_a_name_is_refused_exactly_when_the_store_would(before: str, after: str) -> None:
    try:
        tagnames.check(f"{before}20260329T0230{after}")
        allowed = True
    except TagNameRefused:
        allowed = False
    try:
        TagSchedule(name=f"{before}{{slot}}{after}")
        assert allowed
    except ValidationError:
        assert not allowed
