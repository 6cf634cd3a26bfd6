"""Heads that are switched off while a sentence is read."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.heads import Head
from engine.values.plural import counted

NAMED = 4
"""Heads that are named one by one; of more the first are, and the others are counted."""


@dataclass(frozen=True, slots=True)
class Off:
    """Which heads are off, and what stands in the place of what they give.

    Attributes
    ----------
    heads : the heads, in any order.
    by_mean : whether it is the mean, over the sentence's tokens, of what the head gives with nothing off, and not zero.
    """

    heads: tuple[Head, ...] = ()
    by_mean: bool = False

    def __str__(self) -> str:
        """Name the heads: ``L0H1, L1H2 off``, or the first of many: ``12 heads off: L0H0, L0H1, L0H2 …``."""
        way = f" by {'its' if len(self.heads) == 1 else 'their'} mean" if self.by_mean else ""
        if len(self.heads) > NAMED:
            return f"{counted(len(self.heads), 'head')} off{way}: {', '.join(map(str, self.heads[: NAMED - 1]))} …"
        return f"{', '.join(map(str, self.heads))} off{way}" if self.heads else ""


NOTHING_OFF = Off()
"""All heads work."""
