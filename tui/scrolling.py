"""What of the screen is only some lines further up or down, which a terminal does by itself for a few bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq
from typing import TypeVar

STEPS = (1, -1, 2, -2, 3, -3)
"""By how many lines up, or down where negative, a screen is looked for: a key's step, and those of a wheel."""

EVERY = 3
"""Of a line each third cell is looked at; some things are two cells wide."""

Cell = TypeVar("Cell")


@dataclass(frozen=True, slots=True)
class Scroll:
    """Lines of the terminal, from edge to edge, that move.

    Attributes
    ----------
    top, bottom : the first and the last line within which others move; what moves beyond them is lost.
    step : by how many lines they go up; negative where they go down.
    """

    top: int
    bottom: int
    step: int

    @property
    def codes(self) -> str:
        """Delete, or insert, lines in a region of the terminal (DECSTBM, DL and IL of the VT102, which all have).

        The region is the whole screen again in the end; where the cursor is by then is not to be relied on.
        """
        lines = f"{abs(self.step) if abs(self.step) > 1 else ''}{'M' if self.step > 0 else 'L'}"
        return f"\x1b[{self.top + 1};{self.bottom + 1}r\x1b[{self.top + 1}H\x1b[{lines}\x1b[r"

    def applied(self, lines: Sequence[list[Cell]], empty: Cell) -> list[list[Cell]]:
        """Move the lines; those that become free are of empty cells."""
        region = list(lines[self.top : self.bottom + 1])
        free = [[empty] * len(lines[self.top]) for _ in range(abs(self.step))]
        moved = region[self.step :] + free if self.step > 0 else free + region[: self.step]
        return [*lines[: self.top], *moved, *lines[self.bottom + 1 :]]


def find_scroll(before: Sequence[list[Cell]], after: Sequence[list[Cell]]) -> Scroll | None:
    """Find what makes most cells of a screen be what they are to become, or nothing where no step makes more so.

    Of most frames nothing is to be found. That is told of a part of the cells, and without writing any.
    """
    before, after = [line[::EVERY] for line in before], [line[::EVERY] for line in after]
    stays = [sum(map(eq, old, new)) for old, new in zip(before, after, strict=True)]
    best, found = 0, None
    for step in STEPS:
        gain = 0
        begin = max(-step, 0)
        for line in range(begin, min(len(after), len(after) - step)):
            if gain <= 0:
                gain, begin = 0, line
            gain += sum(map(eq, before[line + step], after[line])) - stays[line]
            if gain > best:
                free = stays[line + 1 : line + step + 1] if step > 0 else stays[begin + step : begin]
                if gain - sum(free) > best:
                    best = gain - sum(free)
                    found = Scroll(min(begin, begin + step), max(line, line + step), step)
    return found
