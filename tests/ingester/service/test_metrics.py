"""The figures Prometheus gets."""

import re

from prometheus_client.parser import text_string_to_metric_families

from haiku.ingester.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_item_counts_are_replaced_not_added() -> None:
    metrics = Metrics()
    metrics.items({"docs": {"pending": 3, "failed": 1}}, 12.5)
    metrics.items({"docs": {"indexed": 4}}, 0.0)
    found = {key: value for key, value in samples(metrics).items() if "items" in key[0]}
    assert found == {
        ("haiku_ingester_items", (("source", "docs"), ("state", "indexed"))): 4,
        ("haiku_ingester_items_working", ()): 0,
        ("haiku_ingester_items_outdated", ()): 0,
    }


def test_outcomes_stages_and_commits_are_counted() -> None:
    metrics = Metrics()
    metrics.outcome("docs", "failed", "corrupt")
    metrics.outcome("docs", "failed", "corrupt")
    metrics.stage("convert", 0.3)
    metrics.committed(5, conflicts=2)
    metrics.committed(0)
    found = samples(metrics)
    labels = (("code", "corrupt"), ("outcome", "failed"), ("source", "docs"))
    assert found["haiku_ingester_outcomes_total", labels] == 2
    assert found["haiku_ingester_stage_seconds_count", (("stage", "convert"),)] == 1
    assert found["haiku_ingester_commits_total", ()] == 1
    assert found["haiku_ingester_commit_conflicts_total", ()] == 2


def test_totals_of_other_rooms_are_shown_as_counters() -> None:
    metrics = Metrics()
    metrics.totals.embedded_chunks = 7
    metrics.totals.reused_vectors = 3
    metrics.totals.worker_restarts = {"timeout": 1}
    found = samples(metrics)
    assert found["haiku_ingester_embedded_chunks_total", ()] == 7
    assert found["haiku_ingester_reused_vectors_total", ()] == 3
    assert found["haiku_ingester_worker_restarts_total", (("reason", "timeout"),)] == 1


def test_sources_tell_their_state() -> None:
    metrics = Metrics()
    metrics.source_state("docs", up=False, suspended=True, held=True, last_sweep=None)
    metrics.source_state("other", up=True, suspended=False, held=False, last_sweep=1_700_000_000.0)
    found = samples(metrics)
    assert found["haiku_ingester_deletes_suspended", (("source", "docs"),)] == 1
    assert found["haiku_ingester_source_up", (("source", "docs"),)] == 0
    assert found["haiku_ingester_source_held", (("source", "docs"),)] == 1
    assert found["haiku_ingester_source_held", (("source", "other"),)] == 0
    sweep = "haiku_ingester_last_sweep_timestamp_seconds"
    assert (sweep, (("source", "docs"),)) not in found
    assert found[sweep, (("source", "other"),)] == 1_700_000_000.0


def test_two_daemons_in_a_process_do_not_share_figures() -> None:
    first, second = Metrics(), Metrics()
    first.committed(1)
    assert samples(second)["haiku_ingester_commits_total", ()] == 0


def test_names_and_units_follow_the_rules() -> None:
    metrics = Metrics()
    metrics.outcome("docs", "indexed")
    for family in text_string_to_metric_families(metrics.render().decode()):
        assert re.fullmatch(r"haiku_ingester_[a-z_]+", family.name)
        assert family.documentation
        if family.type == "gauge":
            assert not family.name.endswith("_total")
