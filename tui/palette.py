"""The commands of the palette: any head, every view, what every key does, and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider

from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.doable import doables
from tui.matches import is_condition, is_name
from tui.parts import Parts
from tui.places import parse_place, split_digits
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
        """Offer heads, then actions and themes, the best match first."""
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
        for name, command in (*self._actions(), *self._themes()):
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), command, name)

    def _actions(self) -> Iterator[Command]:
        """Give what every key does that works now, with the keys."""
        for each in doables(self._parts, self.screen):
            yield each.description + (f"  ({' '.join(each.keys)})" if each.keys else ""), each.do

    def _themes(self) -> Iterator[Command]:
        """Give the themes."""
        for name in sorted(self.app.available_themes):
            yield f"theme {name}", partial(self._parts.choose_theme, name)


def _heads(query: str, ways: Ways) -> tuple[Head, ...]:
    """List the heads and layers that a text may mean, a head or layer by its name first."""
    try:
        place = parse_place(query, ways.outline, ways.here, ())
    except EngineError:
        named: tuple[Head, ...] = ()
    else:
        named = (place,) if isinstance(place, Head) else ()
    found = () if is_condition(query) else ways.find(query)
    return tuple(islice(dict.fromkeys((*named, *split_digits(query, ways.outline, ways.here), *found)), MOST))


def _trouble(query: str, ways: Ways) -> str:
    """Say why there is no head of a name; nothing of a text that is none."""
    if is_name(query):
        try:
            parse_place(query, ways.outline, ways.here, ())
        except EngineError as error:
            return str(error)
    return ""
