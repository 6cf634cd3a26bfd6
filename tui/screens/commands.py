"""What can be done now by its name: what every key does that works where the focus is, and themes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from engine.values.errors import EngineError
from tui.parts import Parts
from tui.toolkit.key_groups import GROUPS, VIEWS
from tui.toolkit.keys import in_declared_order, is_bound, key_of
from tui.toolkit.themes import SHORT, find_theme
from tui.widgets.field import OF_EDITING

EXACT, BEGINS, WORDS, WITHIN, LETTERS, NOT = 5, 4, 3, 2, 1, 0
"""From what is called just so, over what begins so or has words that do, to what has no more than the letters."""

_WORD = re.compile(r"\w+")


def fit_of(typed: str, name: str, said: str) -> int:
    """Say how well a command fits what is typed; see `EXACT` and what follows it.

    Letters by themselves are found where each piece of them begins a word or goes on in it, and where the pieces are
    few: what has them anywhere is not what is meant.

    Parameters
    ----------
    typed : into the palette, in any case.
    name : the word by which it can be typed elsewhere, such as ``next-head``.
    said : what it does.

    Examples
    --------
    >>> [fit_of(typed, "next-head", "Next head") for typed in ("next head", "next", "head", "ext", "nexthd", "nd")]
    [5, 4, 3, 2, 1, 0]
    >>> fit_of("nxt lay", "next-layer", "Next layer"), fit_of("parquet", "", "previous"), fit_of("yank", "", "any key")
    (1, 0, 0)
    >>> fit_of("patterns", "export-again", "Export as last time, at first what is on screen")
    0
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
    if any(wanted in each for each in texts):
        return WITHIN
    return LETTERS if any(_is_in_few_pieces(wanted, each) for each in texts[1:]) else NOT


def _is_in_few_pieces(wanted: str, text: str) -> bool:
    """Say whether a text has the letters in their order, two or more to a word of it on the whole.

    Those of a word begin with its first one.
    """
    letters = "".join(wanted.split())
    words = _WORD.findall(text.replace("-", " "))
    most = (len(letters) + 1) // 2
    return any(_is_spread(letters, words[place:], most) for place in range(len(words)))


def _is_spread(letters: str, words: Sequence[str], most: int) -> bool:
    """Say whether letters are spread over words that follow each other, each word's from its first on, so many at most.

    Examples
    --------
    >>> [_is_spread(letters, ["next", "head"], 2) for letters in ("nexthd", "nxhe", "nd", "xthd", "nh")]
    [True, True, False, False, True]
    """
    if not letters:
        return True
    if not words or most < 1 or letters[0] != words[0][0]:
        return False
    taken, at = 1, 1
    reached = [taken]
    while taken < len(letters) and (at := words[0].find(letters[taken], at) + 1):
        taken += 1
        reached.append(taken)
    return any(_is_spread(letters[each:], words[1:], most - 1) for each in reversed(reached))


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


def doables(app: Parts, screen: Screen[Any]) -> Iterator[Doable]:
    """Give what every key does that works now: views first, then the other actions in the order of the help."""
    found: dict[tuple[DOMNode, str], list[Binding]] = {}
    for each in in_declared_order(screen.active_bindings.values()):
        name = each.binding.id
        if name is not None and not name.startswith(OF_EDITING) and each.binding.action not in OWN:
            found.setdefault((each.node, each.binding.action), []).append(each.binding)
    for (node, action), bindings in sorted(found.items(), key=lambda item: _order(item[1][0])):
        name = _name(bindings[0])
        keys = dict.fromkeys(map(app.get_key_display, filter(is_bound, bindings)))
        yield Doable(name, bindings[0].description, tuple(keys), partial(app.run_action, action, node))


def in_view(app: Parts) -> Iterator[Doable]:
    """Give what keys do in the active view, where the focus is not; it goes there first."""
    pane = app.views.active
    for node in (*(each for each in pane.query("*").results(Widget) if not isinstance(each, Input)), pane):
        for _, binding in node._bindings:
            if binding.id is not None and binding.action not in OWN:
                do = partial(_do_in_view, app, binding.action, node)
                yield Doable(_name(binding), binding.description, (), do)


async def _do_in_view(app: Parts, action: str, node: DOMNode) -> None:
    """Give the active view the keys, and do something there."""
    app.views.active.focus_view()
    await app.run_action(action, node)


def _name(binding: Binding) -> str:
    """Give the word by which something can be done."""
    return str(binding.id).rpartition(".")[2].replace("_", "-")


def _order(binding: Binding) -> int:
    """Put views first, and groups in the order of the help."""
    return 0 if binding.group is VIEWS else 1 + (GROUPS.index(binding.group) if binding.group in GROUPS else 9)


class NamedCommands:
    """What can be typed to have something done, where the focus is while this is made.

    Parameters
    ----------
    app : in which.

    Attributes
    ----------
    names : of all of them, those of themes last.
    """

    def __init__(self, app: Parts) -> None:
        self._app = app
        self._by_name: dict[str, Doable] = {}
        for each in doables(app, app.screen):
            self._by_name.setdefault(each.name, each)
        themes = (*SHORT, *sorted(app.available_themes.keys() - set(SHORT.values())))
        self.names = (*self._by_name, *(f"{THEME}{name}" for name in themes))

    def named(self, text: str) -> Callable[[], object] | None:
        """Find what a name by itself does; None where nothing is called so.

        Raises
        ------
        EngineError : when there is no such theme, or when something stands behind what takes nothing.
        """
        if text == THEME.strip():
            raise EngineError(f"theme takes a name; {key_of(self._app, 'prompt.complete')} completes those there are")
        if text.startswith(THEME):
            try:
                theme = find_theme(text.removeprefix(THEME).strip())
            except click.BadParameter:
                raise EngineError(f"no such theme; {key_of(self._app, 'prompt.complete')} completes names") from None
            return partial(self._app.choose_theme, theme)
        word, _, behind = text.partition(" ")
        if behind and word in self._by_name:
            raise EngineError(f"{word} takes nothing behind it; type it alone")
        found = self._by_name.get(text)
        return next((each.do for each in in_view(self._app) if each.name == text), None) if found is None else found.do

    def begun(self, text: str) -> Callable[[], object]:
        """Find what a key does that is typed as it is written, or a name that begins with what is typed.

        Raises
        ------
        EngineError : when there is none, or more than one.
        """
        of_key = [each for each in self._by_name.values() if text in each.keys]
        named = [each for name, each in self._by_name.items() if name.startswith(text.lower())]
        said = [each for each in self._by_name.values() if each.description.lower().startswith(text.lower())]
        found = of_key or named or said
        if len(found) == 1:
            return found[0].do
        if found:
            raise EngineError(f"could be {', '.join(each.name for each in found)}")
        palette, keys = key_of(self._app, "app.palette"), key_of(self._app, "app.help")
        raise EngineError(f"no head, view or command; {palette} finds all, {keys} keys")
