"""What the daemon says of itself: collects the reasons, answers the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haiku.ingester.api import Health, Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from haiku.ingester.metrics import Metrics


class Reports:
    """The daemon's health, gathered from its parts. Implements `haiku.ingester.api.Reporter`."""

    def __init__(self, metrics: Metrics) -> None:
        self._figures = metrics
        self._own: dict[str, Reason] = {}
        self._elsewhere: list[Callable[[], Iterable[Reason]]] = []
        self._refresh: list[Callable[[], Awaitable[None]]] = []
        self._ready: Callable[[], bool] = bool

    def degrade(self, reason: Reason) -> bool:
        """Give a reason for a part. True when it was not given already."""
        new = self._own.get(reason.part) != reason
        self._own[reason.part] = reason
        return new

    def clear(self, part: str) -> None:
        """The part is well."""
        self._own.pop(part, None)

    def ask(self, reasons: Callable[[], Iterable[Reason]]) -> None:
        """Have a part's reasons asked each time, beside those given here."""
        self._elsewhere.append(reasons)

    def ready_when(self, condition: Callable[[], bool]) -> None:
        """Set what `/ready` says."""
        self._ready = condition

    def refresh_with(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Have figures brought up to date before each scrape."""
        self._refresh.append(refresh)

    def health(self) -> Health:
        """The state now."""
        asked = [reason for reasons in self._elsewhere for reason in reasons()]
        return Health(reasons=[*self._own.values(), *asked], ready=self._ready())

    async def metrics(self) -> tuple[bytes, str]:
        """The Prometheus text and its Content-Type."""
        for refresh in self._refresh:
            await refresh()
        return self._figures.render(), self._figures.content_type
