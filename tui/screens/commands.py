"""What can be done now by its name: what every key does that works where the focus is, and themes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.keys import GROUPS, VIEWS, in_declared_order, is_bound, name_of
from tui.views.switcher import Views
from tui.widgets.field import OF_EDITING

EXACT, BEGINS, WORDS, WITHIN, NOT = 4, 3, 2, 1, 0
"""From what is called just so, over what begins so or has words that do, to what has it somewhere."""

_WORD = re.compile(r"\w+")


def fit_of(typed: str, name: str, said: str) -> int:
    """Say how well a command fits what is typed; see `EXACT` and what follows it.

    Parameters
    ----------
    typed : into the palette, in any case.
    name : the word by which it can be typed elsewhere, such as ``next-head``.
    said : what it does.

    Examples
    --------
    >>> [fit_of(typed, "next-head", "Next head") for typed in ("next head", "next", "head", "ext", "nd")]
    [4, 3, 2, 1, 0]
    """
    wanted = " ".join(typed.lower().split())
    texts = (name.lower(), name.lower().replace("-", " "), said.lower())
    if not wanted:
        return NOT
    if wanted in texts:
        return EXACT
    if any(each.startswith(wanted) for each in texts):
        return BEGINS
    words = [word for each in texts for word in _WORD.findall(each)]
    if all(any(word.startswith(part) for word in words) for part in wanted.split()):
        return WORDS
    return WITHIN if any(wanted in each for each in texts) else NOT


OWN = ("command_palette", "jump", "screen.copy_text")
"""Actions that ask for what the palette and the line at the foot are asked, or that are of what the mouse selects."""

ALSO_CALLED = {
    "ablation": ("ablate", "knock out", "knockout"),
    "attention": ("heatmap",),
    "copy-cell": ("yank", "clipboard"),
    "copy-view": ("clipboard",),
    "distance": ("delta", "rotary"),
    "export": ("save", "csv", "npz", "parquet", "jsonl", "svg", "export csv", "screenshot"),
    "lens": ("logit lens",),
    "less": ("smaller epsilon", "less epsilon"),
    "models": ("load model", "switch model"),
    "more": ("epsilon", "larger epsilon", "more epsilon"),
    "next-theme": ("colours", "colors", "dark mode", "light mode"),
    "quit": ("exit",),
    "sentence": ("prompt", "edit sentence"),
    "sentences": ("history",),
    "spectra": ("svd", "singular values"),
    "switch": ("off", "on", "ablate", "knock out", "knockout"),
    "weights": ("parameters", "norms"),
    "zoom": ("fullscreen", "full screen", "maximize"),
}
"""What hands type for a command or a view whose own name is another word."""

THEME = "theme "
"""Stands before the name of one."""


@dataclass(frozen=True)
class Doable:
    """Something that can be done now.

    Attributes
    ----------
    name : a word, which can be typed: the last one of its binding's id.
    description : what it does.
    keys : that do it.
    do : does it.
    """

    name: str
    description: str
    keys: tuple[str, ...]
    do: Callable[[], object]


def doables(screen: Screen[Any]) -> Iterator[Doable]:
    """Give what every key does that works now: views first, then the other actions in the order of the help."""
    app = screen.app
    found: dict[tuple[DOMNode, str], list[Binding]] = {}
    for each in in_declared_order(screen.active_bindings.values()):
        name = each.binding.id
        if name is not None and not name.startswith(OF_EDITING) and each.binding.action not in OWN:
            found.setdefault((each.node, each.binding.action), []).append(each.binding)
    for (node, action), bindings in sorted(found.items(), key=lambda item: _order(item[1][0])):
        name = name_of(bindings[0])
        keys = dict.fromkeys(map(app.get_key_display, filter(is_bound, bindings)))
        yield Doable(name, bindings[0].description, tuple(keys), partial(app.run_action, action, node))


def in_view(views: Views) -> Iterator[Doable]:
    """Give what keys do in the active view, where the focus is not; it goes there first."""
    pane = views.active
    for node in (*(each for each in pane.query("*").results(Widget) if not isinstance(each, Input)), pane):
        for _, binding in node._bindings:
            if binding.id is not None and binding.action not in OWN:
                do = partial(_do_in_view, views, binding.action, node)
                yield Doable(name_of(binding), binding.description, (), do)


async def _do_in_view(views: Views, action: str, node: DOMNode) -> None:
    """Give the active view the keys, and do something there."""
    views.active.focus_view()
    await views.app.run_action(action, node)


def _order(binding: Binding) -> int:
    """Put views first, and groups in the order of the help."""
    return 0 if binding.group is VIEWS else 1 + (GROUPS.index(binding.group) if binding.group in GROUPS else 9)
