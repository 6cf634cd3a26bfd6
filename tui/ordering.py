"""In which order things are done where what each costs depends on what was done before it."""

from __future__ import annotations

from collections.abc import Sequence

LENGTHS = (1, 2, 3)
"""How many things that follow each other are tried at another place together."""

Costs = Sequence[Sequence[int]]
"""What each thing (the second index) costs right after each (the first); the last row is of what is done first."""


def cheap_order(costs: Costs) -> list[int]:
    """Find an order that costs little; the least is not looked for, which takes too long for a key.

    Pairs are joined, the cheapest first, until all is one chain; then a few that follow each other are moved to
    another place as long as that costs less.

    Examples
    --------
    >>> cheap_order([[9, 1, 9], [9, 9, 1], [1, 9, 9], [1, 5, 1]]), cheap_order([[5, 1], [2, 5], [1, 1]])
    ([0, 1, 2], [0, 1])
    """
    return _improved(_joined(costs), costs)


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


def _improved(order: list[int], costs: Costs) -> list[int]:
    """Move what follows each other to where it costs less, until there is no such place."""
    begin = len(order)
    table = [[*row, 0] for row in costs]  # with what it costs to be done, which is nothing
    around = [begin, *order, begin]
    while True:
        before = around
        for length in LENGTHS:
            for start in range(1, len(around) - length):
                around = _moved(around, start, start + length, table)
        if around is before:
            return around[1:-1]


def _moved(around: list[int], start: int, stop: int, table: Costs) -> list[int]:
    """Move some to the place where they cost least; what begins and ends the order stays there."""
    first, last = around[start], around[stop - 1]
    left, right = around[start - 1], around[stop]
    if left == right:
        return around
    best = saved = table[left][first] + table[last][right] - table[left][right]
    rest, place = around[:start] + around[stop:], 0
    if saved <= 0:
        return around
    after_last = table[last]
    previous = rest[0]
    for at, following in enumerate(rest[1:], 1):
        cost = table[previous][first] + after_last[following] - table[previous][following]
        if cost < best:
            best, place = cost, at
        previous = following
    return rest[:place] + around[start:stop] + rest[place:] if place else around
