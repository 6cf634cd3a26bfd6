"""In which order things are done where what each costs depends on what was done before it."""

from __future__ import annotations

from collections.abc import Sequence

Costs = Sequence[Sequence[int]]
"""What each thing (the second index) costs right after each (the first); the last row is of what is done first."""


def cheap_order(costs: Costs) -> list[int]:
    """Find an order that costs little; the least is not looked for, which takes too long for a key.

    Pairs are joined, the cheapest first, until all is one chain; then stretches of it that follow each other change
    places as long as that costs less.

    Examples
    --------
    >>> cheap_order([[9, 1, 9], [9, 9, 1], [1, 9, 9], [1, 5, 1]]), cheap_order([[5, 1], [2, 5], [1, 1]])
    ([0, 1, 2], [0, 1])
    """
    return _exchanged(_joined(costs), costs)


def _joined(costs: Costs) -> list[int]:
    """Join what costs least to do one after the other, as long as nothing follows two, and nothing itself."""
    count = len(costs) - 1
    follower: dict[int, int] = {}
    is_free = [True] * count
    ends = list(range(count + 1))  # of the chain that begins, or ends, with each
    for _, before, after in sorted((costs[i][j], i, j) for i in range(count + 1) for j in range(count) if i != j):
        if before not in follower and is_free[after] and ends[before] != after:
            follower[before], is_free[after] = after, False
            first, last = ends[before], ends[after]
            ends[first], ends[last] = last, first
    order, at = [], count
    while at in follower:
        at = follower[at]
        order.append(at)
    return order


def _exchanged(order: list[int], costs: Costs) -> list[int]:
    """Have two stretches that follow each other, however long, change places where that costs less, while any do."""
    begin = len(order)
    table = [[*row, 0] for row in costs]  # with what it costs to be done, which is nothing
    around = [begin, *order, begin]
    is_changed = True
    while is_changed:
        is_changed = False
        for start in range(1, len(around) - 2):
            while stretches := _cheapest_exchange(around, start, table):
                middle, stop = stretches
                around[start:stop] = around[middle:stop] + around[start:middle]
                is_changed = True
    return around[1:-1]


def _cheapest_exchange(around: list[int], start: int, table: Costs) -> tuple[int, int] | None:
    """Find where two stretches end that change places at the least cost, the first of which begins at a place.

    None where none would cost less than as they are.
    """
    best, found = 0, None
    first, from_left = around[start], table[around[start - 1]]
    for middle in range(start + 1, len(around) - 1):
        second, from_first = around[middle], table[around[middle - 1]]
        saved = from_left[first] + from_first[second] - from_left[second]
        if saved <= best:
            continue  # what follows could make up for it, but hardly ever does, and looking takes as long again
        last = second
        for stop in range(middle + 1, len(around)):
            right, from_last = around[stop], table[last]
            gain = saved + from_last[right] - from_last[first] - from_first[right]
            if gain > best:
                best, found = gain, (middle, stop)
            last = right
    return found
