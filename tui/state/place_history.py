"""Back and forward, as a browser has them: what was shown, of which a new visit cuts the forward part."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.state.session import Shown

REST = 0.5
"""Seconds after which a place counts as visited; those that one only passes through do not."""

MOST = 200
"""Places that are remembered."""


class PlaceHistory:
    """What was shown at each place; a place is a head, or layer, in a view. The last one may be passed through only.

    Parameters
    ----------
    clock : tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: list[Shown] = []
        self._at = -1
        self._since = 0.0
        self._counts = False

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._at > 0

    def jump(self) -> None:
        """Have the place here count as visited, however short: one jumps from it."""
        self._counts = True

    def move(self, shown: Shown) -> None:
        """Come to a place; the one before stays if it was rested at, and what was forward of it is forgotten."""
        here, now = self._places[self._at] if self._places else None, self._clock()
        if here is not None and _are_one_place(here, shown):
            return
        is_visited = self._counts or now - self._since >= REST
        self._since, self._counts = now, False
        del self._places[self._at + 1 :]
        if here is not None and not is_visited:
            self._places.pop()
        if self._places and _are_one_place(self._places[-1], shown):
            self._counts = True
        else:
            self._places.append(shown)
        del self._places[:-MOST]
        self._at = len(self._places) - 1

    def turn(self, shown: Shown) -> None:
        """Look at another view of the place that one is at, without going anywhere."""
        if self._places and self._places[self._at].selected == shown.selected:
            self._places[self._at] = shown

    def step(self, step: int) -> Shown | None:
        """Go back or forward; None where there is nothing."""
        if not 0 <= self._at + step < len(self._places):
            return None
        self._at += step
        self._since, self._counts = self._clock(), True
        return self._places[self._at]


def _are_one_place(one: Shown, other: Shown) -> bool:
    """Say whether two are of the same head in the same view."""
    return (one.selected, one.view) == (other.selected, other.view)
