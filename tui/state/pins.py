"""The heads that a person has pinned, to see them beside each other."""

from __future__ import annotations

from engine.values.heads import Head
from tui.drawing.lines import MOST_LINES

MOST = MOST_LINES - 1
"""Heads that can be pinned; the selected one is seen beside them."""


def how_to_pin(pin: str, compare: str) -> str:
    """Say what to do where nothing is pinned, with the keys for it."""
    return f"nothing is pinned: {pin} pins the selected head, {compare} then shows it beside others"


class Pins:
    """Pinned heads in the order in which they were pinned.

    Attributes
    ----------
    heads : those.
    """

    def __init__(self) -> None:
        self.heads: tuple[Head, ...] = ()

    def toggle(self, name: Head | None, key: str) -> str:
        """Pin a head, or unpin it; say in a line why that cannot be, with the key for what can be, or nothing.

        Examples
        --------
        >>> pins = Pins()
        >>> pins.toggle(Head("decoder", 0, 1), "P"), [str(head) for head in pins.heads]
        ('', ['L0H1'])
        >>> pins.toggle(Head("decoder", 0), "P")
        'L0 is a whole layer; P pins single heads, choose one of its heads'
        """
        if name is None:
            return f"the model as a whole cannot be pinned; {key} pins single heads, choose one in the tree"
        if name.is_layer:
            return f"{name} is a whole layer; {key} pins single heads, choose one of its heads"
        if name in self.heads:
            self.heads = tuple(head for head in self.heads if head != name)
        elif len(self.heads) == MOST:
            pinned = ", ".join(map(str, self.heads))
            return f"{MOST} heads are pinned, no more are told apart; unpin one with {key}: {pinned}"
        else:
            self.heads = (*self.heads, name)
        return ""

    def beside(self, selected: Head | None) -> tuple[Head, ...]:
        """List what is compared: the pinned heads, then the selected one unless it is pinned."""
        if selected is None or selected.is_layer or selected in self.heads:
            return self.heads
        return (*self.heads, selected)

    def pair(self, selected: Head | None) -> tuple[Head, Head] | None:
        """Name the two heads whose maps have a difference: what is subtracted, the first pinned, comes first.

        The other one is the selected head, or the last one pinned where that is the first itself.
        """
        heads = self.beside(selected)
        if not self.heads or len(heads) < 2:
            return None
        other = selected if selected in heads[1:] else heads[-1]
        return (heads[0], other) if other is not None else None
