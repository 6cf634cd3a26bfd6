"""The commands that can be run by name now: the action of every key that works where the focus is."""

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

from engine.values.views import OVERVIEW
from tui.state.overview_measures import named_measure
from tui.toolkit.keys import GROUPS, command_name, is_bound
from tui.toolkit.messages import PlaceWanted
from tui.views.switcher import Views
from tui.widgets.field import OF_EDITING

EXACT, BEGINS, WORDS, WITHIN, NOT = 4, 3, 2, 1, 0
"""How well a name fits a typed text: it is the text, begins with it, has words that do, holds it, or does not."""


def fit_of(typed: str, *names: str) -> int:
    """Rate how well the names of something fit a typed text, from `NOT` to `EXACT`.

    Examples
    --------
    >>> [fit_of(typed, "next-head", "Next head") for typed in ("next head", "next", "head", "ext", "nd")]
    [4, 3, 2, 1, 0]
    """
    wanted = " ".join(typed.lower().split())
    texts = [text for name in names for text in (name.lower(), name.lower().replace("-", " "))]
    if not wanted:
        return NOT
    if wanted in texts:
        return EXACT
    if any(each.startswith(wanted) for each in texts):
        return BEGINS
    words = [word for each in texts for word in re.findall(r"\w+", each)]
    if all(any(word.startswith(part) for word in words) for part in wanted.split()):
        return WORDS
    return WITHIN if any(wanted in each for each in texts) else NOT


OWN = ("command_palette", "screen.copy_text")
"""Actions that are no commands: one opens the palette, one copies what the mouse has selected."""

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
    "quit": ("exit",),
    "sentence": ("prompt", "edit sentence"),
    "sentences": ("history",),
    "spectra": ("svd", "singular values"),
    "switch": ("off", "on", "ablate", "knock out", "knockout"),
    "weights": ("parameters", "norms"),
    "zoom": ("fullscreen", "full screen", "maximize"),
}
"""Other words that people type for a command or a view."""

THEME = "theme "
"""Precedes the name of a theme."""


@dataclass(frozen=True)
class Command:
    """A command that can be run now; its name is the last part of its binding's id."""

    name: str
    description: str
    keys: tuple[str, ...]
    run: Callable[[], object]


def commands_on(screen: Screen[Any]) -> Iterator[Command]:
    """Yield the actions of all active keys: views first, then the others in the order of the help."""
    app = screen.app
    order: dict[Binding.Group | None, int] = {group: place for place, group in enumerate(GROUPS)}
    found: dict[tuple[DOMNode, str], list[Binding]] = {}
    for each in screen.active_bindings.values():
        name = each.binding.id
        if name is not None and not name.startswith(OF_EDITING) and each.binding.action not in OWN:
            found.setdefault((each.node, each.binding.action), []).append(each.binding)
    for (node, action), bindings in sorted(found.items(), key=lambda item: order.get(item[1][0].group, len(order))):
        name = command_name(bindings[0])
        keys = dict.fromkeys(map(app.get_key_display, filter(is_bound, bindings)))
        yield Command(name, bindings[0].description, tuple(keys), partial(app.run_action, action, node))


def commands_in_view(views: Views) -> Iterator[Command]:
    """Yield the actions of the active view for when the focus is elsewhere: each focuses the view first."""
    pane = views.active
    for node in (*(each for each in pane.query("*").results(Widget) if not isinstance(each, Input)), pane):
        for _, binding in node._bindings:
            if binding.id is not None and binding.action not in OWN:
                run = partial(_run_in_view, views, binding.action, node)
                yield Command(command_name(binding), binding.description, (), run)


def show_measure(views: Views, name: str) -> None:
    """Show a measure; go to the overview if only that can show it; `EngineError` when there is no such measure."""
    fields = named_measure(name)
    views.session.change(**fields)
    if "measure" not in fields and views.session.shown.view != OVERVIEW:
        views.post_message(PlaceWanted(OVERVIEW))


async def _run_in_view(views: Views, action: str, node: DOMNode) -> None:
    views.active.focus_view()
    await views.app.run_action(action, node)
