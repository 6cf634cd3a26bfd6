"""Things are done in an order that costs little, and each once."""

from __future__ import annotations

from itertools import pairwise, permutations
from random import Random

import pytest

from tui.ordering import Costs, cheap_order


def cost(order: list[int] | tuple[int, ...], costs: Costs) -> int:
    """Add up what an order costs; the last row is of what is done first."""
    return sum(costs[before][after] for before, after in pairwise([-1, *order]))


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_the_order_costs_hardly_more_than_the_cheapest_there_is(count: int) -> None:
    draw = Random(count)
    found = least = 0
    for _ in range(30):
        costs = [[draw.randrange(3, 30) for _ in range(count)] for _ in range(count + 1)]
        order = cheap_order(costs)
        assert sorted(order) == list(range(count))
        found += cost(order, costs)
        least += min(cost(each, costs) for each in permutations(range(count)))
    assert least <= found <= 1.02 * least


def test_of_many_none_is_left_out_and_what_is_alike_stays_together() -> None:
    kinds = [place % 5 for place in range(60)]
    costs = [[3 + 17 * (before != after) for after in kinds] for before in [*kinds, 0]]
    order = cheap_order(costs)
    assert sorted(order) == list(range(60))
    assert cost(order, costs) == 60 * 3 + 4 * 17


def test_nothing_to_do_is_no_order() -> None:
    assert cheap_order([[]]) == []
