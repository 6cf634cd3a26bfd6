"""The heads that a person has marked: pinned for comparison, or switched off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.values.heads import Head, Off
from tui.state.session import Session, Shown

MOST_PINS = 7
"""Heads that can be pinned: with the selected one, there is a sign and a colour for each."""


def how_to_pin(pin: str, compare: str) -> str:
    """Say how to pin heads, with the keys for it."""
    return f"nothing is pinned; {pin} pins the selected head, {compare} compares pinned heads"


def toggle_pin(session: Session, head: Head | None, key: str) -> str:
    """Pin or unpin a head; give the message why that is impossible, or an empty text.

    Examples
    --------
    >>> session = Session()
    >>> toggle_pin(session, Head("decoder", 0, 1), "P"), [str(head) for head in session.shown.pins]
    ('', ['L0H1'])
    >>> toggle_pin(session, Head("decoder", 0), "P")
    'L0 is a layer, and only heads can be pinned; choose one of its heads, then press P'
    """
    pins = session.shown.pins
    if head is None:
        return f"only heads can be pinned; choose one in the tree, then press {key}"
    if head.is_layer:
        return f"{head} is a layer, and only heads can be pinned; choose one of its heads, then press {key}"
    if head not in pins and len(pins) == MOST_PINS:
        return f"{MOST_PINS} heads are pinned, which is the limit; unpin one with {key}: {', '.join(map(str, pins))}"
    session.change(pins=tuple(each for each in pins if each != head) if head in pins else (*pins, head))
    return ""


def compared_heads(shown: Shown) -> tuple[Head, ...]:
    """List the heads to compare: the pinned ones, then the selected one unless it is pinned."""
    selected = shown.selected
    if selected is None or selected.is_layer or selected in shown.pins:
        return shown.pins
    return (*shown.pins, selected)


def compared_pair(shown: Shown) -> tuple[Head, Head] | None:
    """Give the two heads of a difference of maps; the first one pinned comes first and is subtracted.

    The other is the selected head, or the last one pinned if the selected head is the first itself.
    """
    heads = compared_heads(shown)
    if not shown.pins or len(heads) < 2:
        return None
    return heads[0], shown.selected if shown.selected is not None and shown.selected in heads[1:] else heads[-1]


ALL_ON = "all heads are on"


def off_fields(shown: Shown, off: Off, *, is_comparing: bool) -> dict[str, Any]:
    """Give the fields that switch heads off; with none off, only a second model leaves a difference of maps."""
    return {"off": off, "difference": shown.difference and (bool(off.heads) or is_comparing)}


def switch_heads(off: Off, heads: Sequence[Head], *, is_off: bool) -> Off:
    """Switch heads off, after those that are off already, or on.

    Examples
    --------
    >>> one, two = Head("decoder", 0, 1), Head("decoder", 1, 0)
    >>> [str(each) for each in switch_heads(Off((one,)), [two], is_off=True).heads]
    ['L0H1', 'L1H0']
    """
    others = tuple(each for each in off.heads if each not in heads)
    return replace(off, heads=(*others, *heads) if is_off else others)


def why_not_switched(head: Head | None, key: str) -> str:
    """Say why the model or a layer cannot be switched off; empty for a head."""
    if head is None:
        return f"only heads can be switched off; choose one, then press {key}"
    if head.is_layer:
        return f"{head} is a layer; type :off {head} for all its heads, or choose one and press {key}"
    return ""


def say_off(off: Off, stacks: Sequence[str], all_on: str) -> str:
    """Name the heads that are off, and the key that switches all on."""
    return f"{off.text(stacks)}; {all_on} switches all on" if off.heads else ALL_ON
