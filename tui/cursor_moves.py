"""How the terminal's cursor is taken from a place to another in few bytes."""

from __future__ import annotations

import sys
from functools import lru_cache

Place = tuple[int, int]
"""Row and column of the terminal's cursor."""

UNKNOWN_PLACE: Place = (-1, -1)
"""Where the cursor is, when only the terminal can tell."""

LINE_DOWN, LINE_UP = "\x1bD" if sys.platform == "win32" else "\v", "\x1bM"
"""One line further in the same column, where there is one: else the screen would scroll.

They are VT and RI (ECMA-48, 8.3.161 and 8.3.104). The console of Windows goes to the left edge at VT, and not at IND.
"""


@lru_cache(maxsize=16384)
def moved(place: Place, to: Place) -> str:
    """Give the shortest codes that take the cursor from a place to another (ECMA-48, 8.3.18 to 8.3.22, and VPA)."""
    row, column = to
    absolute = f"\x1b[{row + 1};{column + 1}H"
    if place == UNKNOWN_PLACE:
        return absolute
    down, right = row - place[0], column - place[1]
    across = _shorter(right, "C", "D", f"\x1b[{column + 1}G")
    if -3 <= right < 0:
        across = "\b" * -right
    along = _shorter(down, "B", "A", f"\x1b[{row + 1}d")
    along = min(along, LINE_DOWN * down if down > 0 else LINE_UP * -down, key=len)
    return min(along + across, absolute, key=len)


def _shorter(steps: int, ahead: str, back: str, absolute: str) -> str:
    """Write steps on a line or a column by their number, or as where they lead, whichever is shorter."""
    if not steps:
        return ""
    number = "" if abs(steps) == 1 else str(abs(steps))
    return min(f"\x1b[{number}{ahead if steps > 0 else back}", absolute, key=len)
