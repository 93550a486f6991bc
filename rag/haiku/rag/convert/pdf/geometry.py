"""Boxes in points, origin at the top left of the page as it is shown, y downwards."""

from collections.abc import Iterable
from typing import NamedTuple


class Box(NamedTuple):
    """An upright rectangle; `left <= right`, `top <= bottom`."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Extent along x, in points."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Extent along y, in points."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """The y of the centre."""
        return (self.top + self.bottom) / 2

    @property
    def centre(self) -> float:
        """The x of the centre."""
        return (self.left + self.right) / 2

    def holds(self, x: float, y: float, slack: float = 0.0) -> bool:
        """Whether the point lies inside, give or take `slack` points."""
        return (
            self.left - slack <= x <= self.right + slack
            and self.top - slack <= y <= self.bottom + slack
        )

    def overlap_x(self, other: "Box") -> float:
        """Common extent along x; negative is the distance between the two."""
        return min(self.right, other.right) - max(self.left, other.left)

    def overlap_y(self, other: "Box") -> float:
        """Common extent along y; negative is the distance between the two."""
        return min(self.bottom, other.bottom) - max(self.top, other.top)


def union(boxes: Iterable[Box]) -> Box:
    """The smallest box around all of them; at least one is needed."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


class Frame(NamedTuple):
    """A page turned so that its text reads left to right.

    `turns` counts the quarter turns, counter-clockwise, that the text has on the shown page:
    0 reads to the right, 1 upwards, 2 to the left and on its head, 3 downwards.
    """

    #: Size of the page as shown, in points.
    width: float
    height: float
    turns: int = 0

    def enter(self, box: Box) -> Box:
        """A box of the shown page, in this frame."""
        if self.turns == 1:
            return Box(self.height - box.bottom, box.left, self.height - box.top, box.right)
        if self.turns == 2:
            return Box(
                self.width - box.right,
                self.height - box.bottom,
                self.width - box.left,
                self.height - box.top,
            )
        if self.turns == 3:
            return Box(box.top, self.width - box.right, box.bottom, self.width - box.left)
        return box

    def leave(self, box: Box) -> Box:
        """A box of this frame, on the shown page: the inverse of `enter`."""
        back = Frame(*self.size, turns=-self.turns % 4)
        return back.enter(box)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the page in this frame, in points."""
        return (self.height, self.width) if self.turns % 2 else (self.width, self.height)
