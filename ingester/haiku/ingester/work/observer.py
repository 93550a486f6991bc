"""What the work loop tells whoever counts: `haiku.ingester.metrics.Metrics` is one."""

from typing import Protocol


class Observer(Protocol):
    """Takes figures; its methods are cheap and do not raise."""

    def outcome(self, source: str, outcome: str, code: str = "") -> None:
        """An item ended: `outcome` is its state or "retry", `code` the error's short word."""
        ...

    def stage(self, name: str, seconds: float) -> None:
        """An item spent so long in a stage ("fetch", "convert", "embed", "commit")."""
        ...

    def working(self, count: int) -> None:
        """How many items are under way now."""
        ...


class Silent:
    """An observer that keeps nothing."""

    def outcome(self, source: str, outcome: str, code: str = "") -> None:
        """Nothing."""

    def stage(self, name: str, seconds: float) -> None:
        """Nothing."""

    def working(self, count: int) -> None:
        """Nothing."""
