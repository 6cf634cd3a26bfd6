"""The commands of the palette: any head, every view, what every key does, and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

from rich.text import Text
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider

from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.doable import doables
from tui.key_names import key_of
from tui.matches import is_condition, is_name
from tui.parts import Parts
from tui.places import parse_place, split_digits
from tui.way_actions import WayActions
from tui.ways import Ways

MOST = 40
"""Heads that are offered at once: more than a screen has room for, and few of the thousands there are."""

Command = tuple[str, Callable[[], object]]
"""What a command is called, with its keys, and what it does."""


class Commands(Provider):
    """Heads that a text may mean before everything else, then what matches it by its letters."""

    @property
    def _parts(self) -> Parts:
        """The application."""
        assert isinstance(self.app, Parts)
        return self.app

    async def discover(self) -> Hits:
        """Offer views first, then the other actions in the order of the help."""
        for name, command in self._actions():
            yield DiscoveryHit(Text(name), command, name)

    async def search(self, query: str) -> Hits:
        """Offer heads, then actions and themes, the best match first; of two as good the line that goes anywhere."""
        ways = self._parts.conductor.ways
        if ways is not None:
            heads = _heads(query, ways)
            if not heads and (trouble := _trouble(query, ways)):
                yield Hit(2.0, Text(trouble), partial(self.app.notify, trouble, markup=False), trouble)
            for place, head in enumerate(heads):
                name = f"{head.stack} {head}" if len(ways.outline.stacks) > 1 else str(head)
                label = ways.labels.get(head, "")
                shown = f"{name} · {label}" if label else name
                yield Hit(2.0 - place / 1000, Text(shown), partial(ways.jump, head), shown)
        matcher = self.matcher(query)
        for name, command in (self._jump, *self._actions(), *self._themes()):
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), command, name)

    @property
    def _jump(self) -> Command:
        """Give the line at the foot, whose key waits for every box to be closed."""
        jump = next(each for each in WayActions.BINDINGS if isinstance(each, Binding) and each.action == "jump")
        return f"{jump.description}  ({key_of(self.app, str(jump.id))})", partial(self.app.run_action, "app.jump")

    def _actions(self) -> Iterator[Command]:
        """Give what every key does that works now, with the keys."""
        for each in doables(self._parts, self.screen):
            yield each.description + (f"  ({' '.join(each.keys)})" if each.keys else ""), each.do

    def _themes(self) -> Iterator[Command]:
        """Give the themes."""
        for name in sorted(self.app.available_themes):
            yield f"theme {name}", partial(self._parts.choose_theme, name)


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
