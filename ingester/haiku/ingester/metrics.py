"""What the daemon tells Prometheus.

In: what the rooms observe, as plain calls. Out: the text that `/metrics` answers. Rules: a
registry of its own, so that several daemons in one process do not mix; names and units by the
Prometheus naming rules; labels are sources, states and short words, never URIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

#: Upper bounds of the stage histogram, in seconds: from a tiny text to a long scan.
STAGE_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
PREFIX = "haiku_ingester"
#: What all items need, and may not answer.
PARTS = ("embedder", "store", "spool", "workers")
#: What becomes of the runs of scheduled jobs.
RUN_OUTCOMES = ("done", "failed", "cut_short")


class Metrics:
    """The daemon's figures. Methods are cheap and safe to call from the event loop."""

    #: The Content-Type of `render`.
    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._items = self._gauge("items", "Items known, by source and state", "source", "state")
        self._outcomes = self._counter(
            "outcomes", "Items finished, by what became of them", "source", "outcome", "code"
        )
        self._stages = Histogram(
            f"{PREFIX}_stage_seconds",
            "Time items spend in a stage of the write path",
            ["stage"],
            buckets=STAGE_BUCKETS,
            registry=self.registry,
        )
        self._queue_age = self._gauge(
            "queue_age_seconds", "Age of the oldest item that is due and not worked on"
        )
        self._working = self._gauge("items_working", "Items under way in this process")
        self._suspended = self._gauge(
            "deletes_suspended", "1 while deletions of the source wait for a person", "source"
        )
        self._held = self._gauge(
            "source_held", "1 while the source waits for a person after a restore", "source"
        )
        self._source_up = self._gauge("source_up", "1 while the source is healthy", "source")
        self._sweep_seconds = self._gauge(
            "last_sweep_timestamp_seconds", "When the last complete listing ended", "source"
        )
        self._watch_restarts = self._counter(
            "watch_restarts", "Watches that died and were started again", "source"
        )
        self._outdated = self._gauge("items_outdated", "Items indexed by another pipeline")
        self._outage = self._gauge(
            "outage", "1 while all work waits for this part to answer again", "part"
        )
        self._commits = self._counter("commits", "Commits of document groups")
        self._commit_conflicts = self._counter(
            "commit_conflicts", "Documents that lost against another writer and are done again"
        )
        self._runs = self._counter(
            "scheduled_runs", "Runs of scheduled jobs, by what became of them", "job", "outcome"
        )
        self._run_success = self._gauge(
            "scheduled_last_success_timestamp_seconds",
            "When a run of the job last ended well; 0: none has yet",
            "job",
        )
        #: Counts that other rooms keep; set at each scrape.
        self.totals = Totals()
        self.registry.register(self.totals)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    # --- from the work loop ---------------------------------------------------------------------

    def outcome(self, source: str, outcome: str, code: str = "") -> None:
        """An item ended: `outcome` is its state or "retry", `code` the error's short word."""
        self._outcomes.labels(source, outcome, code).inc()

    def outdated(self, count: int) -> None:
        """How many items another pipeline than today's has indexed."""
        self._outdated.set(count)

    def outages(self, parts: Collection[str]) -> None:
        """The parts that do not answer now."""
        for part in PARTS:
            self._outage.labels(part).set(part in parts)

    def stage(self, name: str, seconds: float) -> None:
        """An item spent so long in a stage ("fetch", "convert", "embed", "commit")."""
        self._stages.labels(name).observe(seconds)

    def committed(self, documents: int, *, conflicts: int = 0) -> None:
        """A group was committed; so many of its documents lost against another writer."""
        if documents:
            self._commits.inc()
        self._commit_conflicts.inc(conflicts)

    def working(self, count: int) -> None:
        """How many items are under way now."""
        self._working.set(count)

    # --- from the sources -----------------------------------------------------------------------

    def watch_restarted(self, source: str) -> None:
        """A watch died and was started again."""
        self._watch_restarts.labels(source).inc()

    def source_state(
        self, source: str, *, up: bool, suspended: bool, held: bool, last_sweep: float | None
    ) -> None:
        """How a source is.

        Args:
            source: its id.
            up: healthy.
            suspended: its deletions wait for a person.
            held: all of it waits for a person, because the database was restored.
            last_sweep: when its last listing ended, epoch seconds.
        """
        self._held.labels(source).set(held)
        self._source_up.labels(source).set(up)
        self._suspended.labels(source).set(suspended)
        if last_sweep is not None:
            self._sweep_seconds.labels(source).set(last_sweep)

    # --- from the schedule ----------------------------------------------------------------------

    def scheduled(self, job: str) -> None:
        """A job has a schedule: its figures are there before it first runs."""
        for outcome in RUN_OUTCOMES:
            self._runs.labels(job, outcome)
        self._run_success.labels(job)

    def scheduled_run(self, job: str, outcome: str) -> None:
        """A run of a job ended, one of `RUN_OUTCOMES`."""
        self._runs.labels(job, outcome).inc()

    def scheduled_success(self, job: str, at: float) -> None:
        """When a run of a job last ended well, in any instance: epoch seconds."""
        self._run_success.labels(job).set(at)

    # --- taken when somebody asks ---------------------------------------------------------------

    def items(self, counts: Mapping[str, Mapping[str, int]], queue_age: float) -> None:
        """Replace the item counts (source → state → number) and the queue's age in seconds."""
        self._items.clear()
        for source, states in counts.items():
            for state, number in states.items():
                self._items.labels(source, state).set(number)
        self._queue_age.set(queue_age)

    def render(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self.registry)


class Totals(Collector):
    """Counters that other rooms count themselves, as running totals since the start."""

    def __init__(self) -> None:
        #: Chunks sent to the embedder.
        self.embedded_chunks = 0
        #: Chunks whose vector was known already.
        self.reused_vectors = 0
        #: Index or compaction runs of the store that failed.
        self.upkeep_failures = 0
        #: Conversion workers that were replaced, by reason ("timeout", "crash", …).
        self.worker_restarts: Mapping[str, int] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The totals as counter families."""
        yield _total("embedded_chunks", "Chunks sent to the embedder", self.embedded_chunks)
        yield _total("reused_vectors", "Chunks whose vector was known", self.reused_vectors)
        yield _total("upkeep_failures", "Upkeep runs of the store failed", self.upkeep_failures)
        restarts = CounterMetricFamily(
            f"{PREFIX}_worker_restarts", "Conversion workers that were replaced", labels=["reason"]
        )
        for reason, count in self.worker_restarts.items():
            restarts.add_metric([reason], count)
        yield restarts


def _total(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)
