"""The heads that a person has pinned, to see them beside each other."""

from __future__ import annotations

from engine.values.heads import Head
from tui.state.session import Session, Shown

MOST = 7
"""Heads that can be pinned; with the selected one they are as many as lines are told apart by signs and colours."""


def how_to_pin(pin: str, compare: str) -> str:
    """Say what to do where nothing is pinned, with the keys for it."""
    return f"nothing is pinned: {pin} pins the selected head, {compare} then shows it beside others"


def toggle_pin(session: Session, head: Head | None, key: str) -> str:
    """Pin a head, or unpin it; say in a line why that cannot be, with the key for what can be, or nothing.

    Examples
    --------
    >>> session = Session()
    >>> toggle_pin(session, Head("decoder", 0, 1), "P"), [str(head) for head in session.shown.pins]
    ('', ['L0H1'])
    >>> toggle_pin(session, Head("decoder", 0), "P")
    'L0 is a whole layer; P pins single heads, choose one of its heads'
    """
    pins = session.shown.pins
    if head is None:
        return f"the model as a whole cannot be pinned; {key} pins single heads, choose one in the tree"
    if head.is_layer:
        return f"{head} is a whole layer; {key} pins single heads, choose one of its heads"
    if head not in pins and len(pins) == MOST:
        return f"{MOST} heads are pinned, no more are told apart; unpin one with {key}: {', '.join(map(str, pins))}"
    session.change(pins=tuple(each for each in pins if each != head) if head in pins else (*pins, head))
    return ""


def compared_heads(shown: Shown) -> tuple[Head, ...]:
    """List what is compared: the pinned heads, then the selected one unless it is pinned."""
    selected = shown.selected
    if selected is None or selected.is_layer or selected in shown.pins:
        return shown.pins
    return (*shown.pins, selected)


def compared_pair(shown: Shown) -> tuple[Head, Head] | None:
    """Name the two heads whose maps have a difference: what is subtracted, the first pinned, comes first.

    The other one is the selected head, or the last one pinned where that is the first itself.
    """
    heads = compared_heads(shown)
    if not shown.pins or len(heads) < 2:
        return None
    return heads[0], shown.selected if shown.selected is not None and shown.selected in heads[1:] else heads[-1]
