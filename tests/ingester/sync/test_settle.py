"""When an object counts as still."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from haiku.ingester.sync.settle import PATIENCE, Settler


def _run(settler: Settler, until: float, mark: str = "m", start: float = 0.0) -> float | None:
    """Look whenever a look is due; when the object was taken, or None."""
    now = start
    while (due := settler.next_due()) is not None and due <= until:
        now = max(now, due)
        for uri in settler.due(now):
            if settler.seen(uri, mark, now):
                return now
    return None


def test_taken_after_being_still() -> None:
    settler = Settler(1.0)
    settler.touch("a", 0.0)
    assert _run(settler, 10) == 1.0
    assert len(settler) == 0


def test_every_report_starts_the_wait_again() -> None:
    settler = Settler(1.0)
    for tenths in range(0, 31, 3):
        settler.touch("a", tenths / 10)
        assert _run(settler, tenths / 10 + 0.29) is None
    assert _run(settler, 10) == 4.0


def test_mark_that_differs_between_looks_starts_the_wait_again() -> None:
    settler = Settler(1.0)
    settler.touch("a", 0.0)
    assert not settler.seen("a", "1", 0.5)
    assert not settler.seen("a", "2", 1.0)
    assert settler.next_due() == 2.0
    assert settler.seen("a", "2", 2.0)


def test_listing_is_a_first_look() -> None:
    settler = Settler(1.0)
    settler.touch("a", 0.0, mark="1")
    assert settler.next_due() == 1.0
    assert settler.seen("a", "1", 1.0)


def test_never_still_but_finished_is_taken_in_the_end() -> None:
    settler, taken = Settler(1.0), []
    for tenths in range(0, 1001):
        now = tenths / 10
        settler.touch("a", now, closed=True)
        if settler.due(now) and settler.seen("a", str(now), now):
            taken.append(now)
    assert 100 / PATIENCE - 1 <= len(taken) <= 100 / PATIENCE


def test_held_open_without_a_pause_is_not_taken() -> None:
    """F01: a long copy."""
    settler = Settler(1.0)
    for tenths in range(0, 1001):
        settler.touch("a", tenths / 10)
        assert not settler.due(tenths / 10)
    assert _run(settler, 200) == 101.0


def test_what_is_not_there_is_forgotten() -> None:
    settler = Settler(1.0)
    settler.touch("a", 0.0)
    assert not settler.seen("a", None, 0.5)
    assert len(settler) == 0
    assert settler.seen("unheard of", "m", 0.5)


@given(st.lists(st.floats(0, 20), min_size=1), st.floats(0, 3))
def test_each_is_taken_once_and_never_too_early(reports: list[float], settle: float) -> None:
    settler, taken = Settler(settle), []
    for report in sorted(reports):
        at = _run(settler, report - 1e-9)
        taken += [at] if at is not None else []
        settler.touch("a", report)
    last = _run(settler, 100)
    assert last is not None
    assert last >= max(reports) + settle
    early = 1e-6  # rounding
    assert all(not any(at - settle + early < r < at for r in reports) for at in taken)
