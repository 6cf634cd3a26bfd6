"""The commands of the palette: any head, every view, what every key does, and themes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from rich.text import Text
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider

from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.parts import Parts
from tui.screens.command_fit import LETTERS, fit_of
from tui.screens.commands import ALSO_CALLED, THEME, Doable, doables, in_view
from tui.state.places import parse_place, split_digits
from tui.state.tree_search import is_condition, is_name
from tui.toolkit.keys import key_of
from tui.toolkit.themes import every_theme, find_theme
from tui.ways import Ways

MOST = 40
"""Heads that are offered at once: more than a screen has room for, and few of the thousands there are."""


class Commands(Provider):
    """Heads that a text may mean before everything else, then what matches it by its letters."""

    @property
    def _parts(self) -> Parts:
        """The application."""
        assert isinstance(self.app, Parts)
        return self.app

    async def discover(self) -> Hits:
        """Offer views first, then the other actions in the order of the help."""
        for each in doables(self._parts, self.screen):
            yield DiscoveryHit(Text(_shown(each)), each.do, _shown(each))

    async def search(self, query: str) -> Hits:
        """Offer heads, then actions, views and themes, the best match first; of two as good the one of the help."""
        ways = self._parts.ways
        if ways is not None:
            heads = _heads(query, ways)
            if not heads and (trouble := _trouble(query, ways)):
                yield Hit(2.0, Text(trouble), partial(self.app.notify, trouble), trouble)
            for place, head in enumerate(heads):
                name = f"{head.stack} {head}" if len(ways.outline.stacks) > 1 else str(head)
                label = ways.labels.get(head, "")
                shown = f"{name} · {label}" if label else name
                yield Hit(_worth(query, head, label) - place / 1000, Text(shown), partial(ways.jump, head), shown)
        matcher = self.matcher(query)
        best: dict[str, tuple[float, Doable]] = {}
        every = list(self._every())
        every += [replace(each, name=name) for each in every for name in ALSO_CALLED.get(each.name, ())]
        fits = [fit_of(query, each.name, each.description) for each in every]
        least = LETTERS + 1 if max(fits) > LETTERS else LETTERS  # letters alone count where there is nothing better
        for place, (each, fit) in enumerate(zip(every, fits, strict=True)):
            if fit >= least:
                score = (fit - place / 1000) / 10
                if score > best.get(each.description, (0.0, each))[0]:
                    best[each.description] = (score, each)
        for score, each in best.values():
            yield Hit(score, matcher.highlight(_shown(each, query)), each.do, _shown(each, query))

    def _every(self) -> Iterator[Doable]:
        """Give everything that can be done; what the active view has of a name comes after what has the focus now."""
        own = [self._jump, *doables(self._parts, self.screen)]
        yield from own
        known = {word for each in own for word in (each.name, each.description)}
        for each in (*self._views(), *in_view(self._parts)):
            if known.isdisjoint((each.name, each.description)):
                known |= {each.name, each.description}
                yield each
        for name in every_theme():
            yield Doable(name, f"{THEME}{name}", (), partial(self._parts.choose_theme, find_theme(name)))

    @property
    def _jump(self) -> Doable:
        """Give the line at the foot, whose key waits for every box to be closed."""
        jump = next(each for each in type(self._parts).BINDINGS if isinstance(each, Binding) and each.action == "jump")
        go_to = partial(self.app.run_action, "app.jump")
        return Doable("jump", jump.description, (key_of(self.app, str(jump.id)),), go_to)

    def _views(self) -> Iterator[Doable]:
        """Give the views, of which some share a key."""
        if (ways := self._parts.ways) is not None:
            for view in ways.views:
                yield Doable(view, f"{view.capitalize()} view", (), partial(ways.go, view))


def _shown(each: Doable, typed: str = "") -> str:
    """Write what is done with its keys, behind the word for it where that alone is what was typed."""
    is_said = each.name.replace("-", " ") in each.description.lower()
    is_name = not is_said and fit_of(typed, each.name, "") > fit_of(typed, "", each.description)
    return f"{each.name} · " * is_name + each.description + (f"  ({' '.join(each.keys)})" if each.keys else "")


def _worth(typed: str, head: Head, label: str) -> float:
    """Say how well a head that is found fits what is typed: one with a number in it is meant before all else."""
    return 2.0 if any(map(str.isdigit, typed)) or typed.strip().lower() in head.stack else fit_of(typed, "", label) / 10


def _heads(query: str, ways: Ways) -> tuple[Head, ...]:
    """List the heads and layers that a text may mean, a head or layer by its name first, of a layer its heads last."""
    try:
        place = parse_place(query, ways.outline, ways.here, ())
    except EngineError:
        named: tuple[Head, ...] = ()
    else:
        named = (place,) if isinstance(place, Head) else ()
    found = () if is_condition(query) else ways.find(query)
    inside = (head for layer in named if layer.is_layer for head in ways.outline.layer(layer).head_names())
    every = chain(named, split_digits(query, ways.outline, ways.here), found, inside)
    return tuple(islice(dict.fromkeys(every), MOST))


def _trouble(query: str, ways: Ways) -> str:
    """Say why there is no head of a name; nothing of a text that is none."""
    if is_name(query):
        try:
            parse_place(query, ways.outline, ways.here, ())
        except EngineError as error:
            return str(error)
    return ""
