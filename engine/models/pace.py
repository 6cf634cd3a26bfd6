"""How fast something comes, and how long the rest will take."""

from __future__ import annotations

from collections import deque

WINDOW = 20.0
"""Seconds that are looked back; a shorter time would make the estimate jump with every hiccup of a network."""

ENOUGH = 1.0
"""Seconds after which there is an estimate."""


class Pace:
    """The mean rate over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float | None:
        """Take note of what is done by now and give the rate.

        Parameters
        ----------
        now : in seconds, on a clock that never goes back.
        done : how much is done of it.

        Returns
        -------
        rate : per second; None while too little time has passed to tell, or where nothing has come in it.
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        if now - since < ENOUGH or done <= before:
            return None
        return (done - before) / (now - since)
