"""When the next state of a table that grows is delivered."""

from __future__ import annotations

import time

EVERY = 0.25
"""Seconds between two states of a table that grows, so that a screen is not drawn for every row."""

SHARE = 4
"""How many times as long as a state takes to write and to deliver nothing is delivered after it."""


class Pace:
    """Spreads states over time, the dear ones farther."""

    def __init__(self) -> None:
        self._begun = self._delivered = time.monotonic()
        self._pause = EVERY

    def is_due(self) -> bool:
        """Say whether it is time for another state; if so it is written now."""
        self._begun = time.monotonic()
        return self._begun - self._delivered > self._pause

    def delivered(self) -> None:
        """Remember that a state has just been delivered, and how long that took."""
        self._delivered = time.monotonic()
        self._pause = max(EVERY, SHARE * (self._delivered - self._begun))
