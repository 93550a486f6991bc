"""Vector lines → grids (ruled tables), stacks of rules, and separators.

Every axis-parallel stroke, the edges of rectangles, and thin filled rectangles count as rules.
Rules are snapped together, and those that touch form one grid: its lines give rows and columns, and
where a stretch of line is missing two cells are one (as in the lattice method of Nurminen, 2013,
"Algorithmic extraction of data in tables in PDF documents").
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from haiku.rag.convert.pdf import geometry
from haiku.rag.convert.pdf.page import Grid
from haiku.rag.convert.pdf.segments import Upright

#: Points of a polyline beyond which it is a drawing, not a rule.
LONGEST_PATH = 12
#: Rules beyond which a page is a drawing; none are used then.
MOST_RULES = 4000
#: Crossings to look at beyond which the merged rules are a drawing.
MOST_CROSSINGS = 100_000
#: Cells beyond which a grid is graph paper.
MOST_CELLS = 4000
#: Lines this close, in points, are one line.
SNAP = 2.0
#: Filled rectangles up to this thickness, in points, are lines.
THIN = 2.5
#: Shorter lines are parts of ornaments and letters, in points.
SHORTEST = 6.0

Path = list[tuple[float, float]]


class Rule(NamedTuple):
    """A horizontal or vertical line: its place on one axis, its extent on the other."""

    at: float
    start: float
    end: float


class Ruling(NamedTuple):
    """What the rules of a page make."""

    grids: list[Grid]
    stacks: list[geometry.Box]
    separators: list[geometry.Box]
    uprights: list[Upright]


def find(paths: Iterable[Path], size: tuple[float, float]) -> Ruling:
    """The structure in the vector graphics of a page of `size` (width, height in points)."""
    flat: list[Rule] = []
    upright: list[Rule] = []
    for path in paths:
        _collect(path, size, flat, upright)
        if len(flat) + len(upright) > MOST_RULES:
            return Ruling([], [], [], [])
    flat, upright = _merge(flat), _merge(upright)
    if len(flat) * len(upright) > MOST_CROSSINGS:
        return Ruling([], [], [], [])
    groups, loose = _groups(flat, upright)
    grids = [grid for group in groups if (grid := _grid(*group))]
    uprights = [
        (rule.at, rule.start, rule.end)
        for _, members in groups
        for rule in members
        if rule.end - rule.start > 8
    ]
    return Ruling(grids, _stacks(loose), _separators(loose, size[0]), uprights)


def _collect(path: Path, size: tuple[float, float], flat: list[Rule], upright: list[Rule]) -> None:
    """Add the rules of one polyline."""
    (left, top), (right, bottom) = (
        map(min, zip(*path, strict=True)),
        map(max, zip(*path, strict=True)),
    )
    width, height = right - left, bottom - top
    if width > 0.9 * size[0] and height > 0.9 * size[1]:
        return
    if height <= THIN and width >= SHORTEST:
        flat.append(Rule((top + bottom) / 2, left, right))
    elif width <= THIN and height >= SHORTEST:
        upright.append(Rule((left + right) / 2, top, bottom))
    elif width > THIN and height > THIN:
        for (x0, y0), (x1, y1) in pairwise(path):
            if abs(y1 - y0) < 0.5 and abs(x1 - x0) >= SHORTEST:
                flat.append(Rule((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
            elif abs(x1 - x0) < 0.5 and abs(y1 - y0) >= SHORTEST:
                upright.append(Rule((x0 + x1) / 2, min(y0, y1), max(y0, y1)))


def _merge(rules: list[Rule]) -> list[Rule]:
    """Snap rules to common places and join those that touch or overlap."""
    merged: list[Rule] = []
    rules.sort()
    index = 0
    while index < len(rules):
        at = rules[index].at
        level = []
        while index < len(rules) and rules[index].at - at <= SNAP:
            level.append(rules[index])
            index += 1
        at = sum(rule.at for rule in level) / len(level)
        level.sort(key=lambda rule: rule.start)
        start, end = level[0].start, level[0].end
        for rule in level[1:]:
            if rule.start <= end + 1.5 * SNAP:
                end = max(end, rule.end)
            else:
                merged.append(Rule(at, start, end))
                start, end = rule.start, rule.end
        merged.append(Rule(at, start, end))
    return merged


def _groups(
    flat: list[Rule], upright: list[Rule]
) -> tuple[list[tuple[list[Rule], list[Rule]]], list[Rule]]:
    """Connected sets of rules that have both directions, and the horizontal rules left over."""
    parent = list(range(len(flat) + len(upright)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for row, rule in enumerate(flat):
        for column, other in enumerate(upright, len(flat)):
            if (
                rule.start - SNAP <= other.at <= rule.end + SNAP
                and other.start - SNAP <= rule.at <= other.end + SNAP
            ):
                parent[root(row)] = root(column)
    sets: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for index in range(len(parent)):
        group = sets.setdefault(root(index), ([], []))
        if index < len(flat):
            group[0].append(flat[index])
        else:
            group[1].append(upright[index - len(flat)])
    both = [group for group in sets.values() if group[0] and group[1]]
    loose = [rule for group in sets.values() if not group[1] for rule in group[0]]
    return both, loose


def _levels(places: Iterable[float]) -> list[float]:
    """Sorted places, those within `SNAP` of each other once."""
    levels: list[float] = []
    for place in sorted(places):
        if not levels or place - levels[-1] > 1.5 * SNAP:
            levels.append(place)
    return levels


def _grid(flat: list[Rule], upright: list[Rule]) -> Grid | None:
    """The cells of one connected set of rules, or None if they make fewer than 2 × 2."""
    ends = [place for rule in flat for place in (rule.start, rule.end)]
    xs = _levels([rule.at for rule in upright] + [min(ends), max(ends)])
    ends = [place for rule in upright for place in (rule.start, rule.end)]
    ys = _levels([rule.at for rule in flat] + [min(ends), max(ends)])
    if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > MOST_CELLS:
        return None
    return Grid(xs, ys, _cells(xs, ys, flat, upright))


def _cells(
    xs: list[float], ys: list[float], flat: list[Rule], upright: list[Rule]
) -> list[tuple[int, int, int, int]]:
    """Spans of the cells; neighbours without a line between them are one."""
    rows, columns = len(ys) - 1, len(xs) - 1
    owner = {(row, column): (row, column) for row in range(rows) for column in range(columns)}

    def root(cell: tuple[int, int]) -> tuple[int, int]:
        while owner[cell] != cell:
            cell = owner[cell]
        return cell

    for row, column in list(owner):
        middle = (ys[row] + ys[row + 1]) / 2
        if column + 1 < columns and not _drawn(upright, xs[column + 1], middle):
            owner[root((row, column + 1))] = root((row, column))
        middle = (xs[column] + xs[column + 1]) / 2
        if row + 1 < rows and not _drawn(flat, ys[row + 1], middle):
            owner[root((row + 1, column))] = root((row, column))
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for cell in owner:
        groups.setdefault(root(cell), []).append(cell)
    spans = []
    for members in groups.values():
        top, bottom = min(members)[0], max(members)[0] + 1
        left = min(column for _, column in members)
        right = max(column for _, column in members) + 1
        if (bottom - top) * (right - left) == len(members):
            spans.append((top, left, bottom, right))
        else:
            spans.extend((row, column, row + 1, column + 1) for row, column in members)
    return sorted(spans)


def _drawn(rules: list[Rule], at: float, middle: float) -> bool:
    """Whether a rule at `at` covers the place `middle` along it."""
    return any(
        abs(rule.at - at) <= 1.5 * SNAP and rule.start - SNAP <= middle <= rule.end + SNAP
        for rule in rules
    )


def _stacks(loose: list[Rule]) -> list[geometry.Box]:
    """Outlines of two or more horizontal rules of equal extent, one below the other."""
    stacks: list[list[Rule]] = []
    for rule in sorted(loose):
        for stack in stacks:
            if abs(stack[0].start - rule.start) <= 3 and abs(stack[0].end - rule.end) <= 3:
                stack.append(rule)
                break
        else:
            stacks.append([rule])
    return [
        geometry.Box(stack[0].start, stack[0].at, stack[0].end, stack[-1].at)
        for stack in stacks
        if len(stack) >= 2
    ]


def _separators(loose: list[Rule], width: float) -> list[geometry.Box]:
    """Horizontal rules that span part of a column, as above footnotes."""
    return [
        geometry.Box(rule.start, rule.at, rule.end, rule.at)
        for rule in loose
        if rule.end - rule.start < 0.5 * width
    ]
