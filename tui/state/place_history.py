"""The places where one has been, as a browser keeps them: back, forward, and a new visit cuts the forward part."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.values.heads import Head

REST = 0.5
"""Seconds after which a place counts as visited; those that one only passes through do not."""

KEPT = 200
"""Places that are remembered."""


@dataclass(frozen=True, slots=True)
class Place:
    """A head in a view.

    Attributes
    ----------
    head : the head or layer; None is the model as a whole.
    view : the view's name.
    row : of a table, the row that the cursor was on, as it came.
    in_tree : whether the keys went to the tree.
    """

    head: Head | None
    view: str
    row: int | None = None
    in_tree: bool = True

    def is_at(self, other: Place) -> bool:
        """Say whether both are of the same head in the same view."""
        return (self.head, self.view) == (other.head, other.view)


class Visited:
    """Visited places, the last of which may be one that is only passed through.

    Parameters
    ----------
    clock : tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: list[Place] = []
        self._at = -1
        self._since = 0.0
        self._counts = False

    @property
    def here(self) -> Place | None:
        """The place that was come to last."""
        return self._places[self._at] if self._places else None

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._at > 0

    def leave(self, row: int | None, in_tree: bool, *, is_jump: bool = False) -> None:
        """Remember what the place here looks like before it is left; from where one jumps is visited, however short."""
        if self._places:
            self._places[self._at] = replace(self._places[self._at], row=row, in_tree=in_tree)
            self._counts = self._counts or is_jump

    def move(self, place: Place) -> None:
        """Come to a place; the one before stays if it was rested at, and what was forward of it is forgotten."""
        here, now = self.here, self._clock()
        if here is not None and here.is_at(place):
            return
        is_visited = self._counts or now - self._since >= REST
        self._since, self._counts = now, False
        del self._places[self._at + 1 :]
        if here is not None and not is_visited:
            self._places.pop()
        if self._places and self._places[-1].is_at(place):
            self._counts = True
        else:
            self._places.append(place)
        del self._places[:-KEPT]
        self._at = len(self._places) - 1

    def turn(self, place: Place) -> None:
        """Look at another view of the place that one is at, without going anywhere."""
        if self._places and self._places[self._at].head == place.head:
            self._places[self._at] = place

    def step(self, step: int) -> Place | None:
        """Go back or forward; None where there is nothing."""
        if not 0 <= self._at + step < len(self._places):
            return None
        self._at += step
        self._since, self._counts = self._clock(), True
        return self._places[self._at]
