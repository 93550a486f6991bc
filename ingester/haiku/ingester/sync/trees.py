"""Sets of URIs that stand for everything that starts with one of them."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Trees:
    """A set of prefixes that can be asked quickly, however many there are."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        #: Sorted, none a prefix of another one.
        self.tops: list[str] = []
        for prefix in sorted(prefixes):
            if not self.tops or not prefix.startswith(self.tops[-1]):
                self.tops.append(prefix)

    def __contains__(self, uri: str) -> bool:
        """Whether a URI starts with one of the prefixes.

        Only the last prefix that sorts before the URI can be one: another that sorted between the
        two would have to start with it.
        """
        place = bisect_right(self.tops, uri)
        return place > 0 and uri.startswith(self.tops[place - 1])
