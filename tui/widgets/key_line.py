"""The line at the foot that says which keys work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, key_to_character
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.keys import in_declared_order, is_bound

LABELS = {
    "sentence.read": "Read it",
    "sentence.leave": "Back",
    "sentence.older": "Earlier",
    "sentence.clear": "Clear",
    "sentence.find": "Find",
    "filter.apply": "Filter",
    "explain.apply": "Filter",
    "overview.take": "Show it",
    "filter.complete": "Complete",
    "filter.clear": "All rows",
    "overview.leave": "Leave",
    "table.all_rows": "All rows",
    "explain.all_rows": "All rows",
    "map.back": "Small maps",
    "map.terms": "Terms",
    "explain.back": "Map",
    "table.filter": "Filter",
    "table.sort": "Sort",
    "app.search": "Search",
    "app.jump": "Go to",
    "app.sentence": "Sentence",
    "app.spectra": "Spectra",
    "app.ranks": "Ranks",
    "app.attention": "Attention",
    "app.overview": "All heads",
    "app.text": "Text",
    "app.maps": "Maps",
    "app.pin": "Pin",
    "app.export": "Export",
    "app.palette": "Commands",
    "app.zoom": "All room",
    "app.back": "Back",
    "app.next_head": "Next head",
    "app.circuits": "Circuits",
    "app.patterns": "Patterns",
    "app.predictions": "Predictions",
    "app.help": "Keys",
    "app.quit": "Quit",
}
"""What a key does in a word, by its binding's id. The last two stay; of the others the first stay longest."""

_OLD_NAMES = {new: old for old, new in KEY_NAME_REPLACEMENTS.items()}
"""By which the toolkit still finds the characters of keys that it calls otherwise, such as ``slash``."""

LAST = ("app.help", "app.quit")
"""Keys at the end of the line."""

TAKEN_AWAY = ("table.all_rows", "explain.all_rows")
"""Keys that take a filter away, which are there only while one holds."""

KEPT_BELOW = {"app.zoom": 60, **dict.fromkeys((*TAKEN_AWAY, *LAST), math.inf)}
"""Cells that a line must have before a key gives way to others: the narrower, the more a view needs all the room."""

_TYPED = {
    "chooser.open": "Open",
    "chooser.leave": "",
    "chooser.complete": "Complete",
    "chooser.down": "Next",
    "chooser.up": "Before",
    "chooser.help": "Keys",
}
"""Keys of the field of models; how it is left depends on what is typed."""

FIRST = {
    "tree": {"app.search": "Search", "app.jump": "Go to", "app.switch": "Off"},
    "compare": {
        "app.compare": "Maps, difference",
        "heatmap.numbers": "Numbers",
        "app.pin": "Pin",
        "app.scale": "Scale",
    },
    "attention map": {
        "heatmap.zoom_in": "Zoom",
        "heatmap.fit": "Whole",
        "app.averaging": "Mean",
        "app.explain": "Explain",
    },
    "attention map -near": {
        "heatmap.zoom_out": "Zoom out",
        "heatmap.fit": "Whole",
        "app.averaging": "Mean",
        "app.explain": "Explain",
    },
    "attention map -single": {"app.averaging": "Mean", "app.explain": "Explain", "heatmap.numbers": "Numbers"},
    "heads": {"table.filter": "Filter", "table.switch": "Off", "app.overview": "Map"},
    "ablation": {"table.filter": "Filter", "table.switch": "Off"},
    "ranks": {"app.next_measure": "Measure", "app.more": "ε", "table.filter": "Filter"},
    "spectra": {"app.scale": "Scale", "app.distance": "Distance"},
    "explain": {"explain.enter": "Its cell"},
    "directions": {"table.fold": "Fold norms", "app.distance": "Distance"},
    "text": {"text.other": "Turn", "text.both": "Both", "text.follow": "Largest"},
    "text -both": {"text.other": "Turn", "text.both": "One", "text.follow": "Largest"},
    "small maps": {"heads.open": "Large map"},
    "export": {
        "export.write": "Write",
        "field.submit": "Write",
        "export.next_format": "Format",
        "export.name": "Name",
        "export.close": "Back",
    },
    "sentences": {
        "menu.select": "Show",
        "field.submit": "Show",
        "sentences.find": "Find",
        "sentences.forget": "Forget",
        "sentences.back": "Back",
    },
    "sentences -forgotten": {
        "menu.select": "Show",
        "field.submit": "Show",
        "sentences.find": "Find",
        "sentences.forget": "Forget",
        "sentences.bring_back": "Bring back",
        "sentences.back": "Back",
    },
    "field of models": _TYPED | {"chooser.leave": "Leave"},
    "field of models -typed": _TYPED | {"chooser.leave": "Clear"},
    "opening a model": {"chooser.leave": "Stop"},
    "list of models": {
        "chooser.open": "Open",
        "chooser.leave": "Back",
        "chooser.search": "Search",
        "chooser.help": "Keys",
        "menu.down": "Next",
        "menu.up": "Before",
        "menu.last": "Last",
        "menu.first": "First",
    },
    "palette": {
        "field.submit": "Do it",
        "palette.leave": "Back",
    },
    "overview": {
        "overview.choose": "Go in",
        "app.next_measure": "Measure",
        "overview.next_group": "Matrix",
        "overview.find": "Find",
        "app.overview": "Table",
    },
}
"""Keys of one view, before those of all, by the pane's id or the name of the widget, or screen, that has the focus.

What has one of the classes of `TURNED` has keys of its own then.
"""

TURNED = ("-both", "-single", "-near", "-forgotten", "-typed")
"""Classes of panes and widgets that look at something in another way, or are typed into."""


@dataclass(frozen=True)
class _Key:
    """A key, how it is written, what it does, whether it does so now, and on lines of how few cells none drops it."""

    key: str
    display: str
    description: str
    enabled: bool
    kept_below: float

    @property
    def width(self) -> int:
        """Cells that it takes, without the gap that follows."""
        return cell_len(self.display) + 1 + cell_len(self.description)


class KeyLine(Widget, can_focus=False):
    """The keys as they are now, drawn by one widget: they change with the focus, and nothing is laid out for that."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-description-foreground;
        background: $footer-background;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .key-line--key { color: $footer-key-foreground; text-style: bold; }
    }
    """

    leaves_out: Callable[[str], bool] = staticmethod(lambda name: False)
    """Says of a binding, by its id, whether its key could now only say why it does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: tuple[_Key, ...] = ()
        self._said = ""

    def say(self, text: str) -> None:
        """Say something in the place of the keys, until the next one is pressed."""
        self._said = text
        self.refresh()

    def hush(self) -> None:
        """Show the keys again."""
        if self._said:
            self.say("")

    def on_mount(self) -> None:
        """Follow the keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def follow(self, screen: Screen[Any]) -> None:
        """Show the keys of another screen that has come over this one, or of this one again."""
        if screen is not self.screen:
            screen.bindings_updated_signal.unsubscribe(self)  # or it would follow twice
            screen.bindings_updated_signal.subscribe(self, self._show_keys)
        self._show_keys(screen)

    def _show_keys(self, screen: Screen[object]) -> None:
        """Draw the keys again if they are others; without the terminal's focus, or under another screen, they stay."""
        if not self.app.app_focus or screen is not self.app.screen:
            return
        keys = tuple(self._worth_showing(screen))
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def _worth_showing(self, screen: Screen[object]) -> Iterator[_Key]:
        """Give the keys that have a word or ask to be shown: the focused view's, then in the order of `LABELS`."""
        found: dict[str, tuple[Binding, bool]] = {}
        for each in in_declared_order(screen.active_bindings.values()):
            if is_bound(each.binding) and not (isinstance(screen.focused, Input) and self._is_typed(each)):
                found.setdefault(each.binding.id or each.binding.action, (each.binding, each.enabled))
        own = _first(screen.focused or screen)
        others = (name for name, (binding, _) in found.items() if binding.show and name not in LABELS)
        first = (name for name in LABELS if name not in LAST)
        labels = {**LABELS, "app.zoom": "Share room"} if screen.has_class("-zoomed") else LABELS
        for name in dict.fromkeys((*own, *first, *others, *LAST)):
            if name in found and not self.leaves_out(name):
                binding, enabled = found[name]
                label = own.get(name) or labels.get(name, binding.description)
                yield _Key(binding.key, self.app.get_key_display(binding), label, enabled, KEPT_BELOW.get(name, 0))

    def _is_typed(self, each: ActiveBinding) -> bool:
        """Say whether a key is typed into a field, or is about what is around it."""
        typed = key_to_character(_OLD_NAMES.get(each.binding.key, each.binding.key))
        return each.node in (self.app, self.screen) or (typed is not None and typed.isprintable())

    def _fitting(self) -> tuple[_Key, ...]:
        """Leave out what there is no room for, from the left of those that stay."""
        keys = list(self._keys)
        while sum(key.width + 1 for key in keys) > self.size.width + 1:
            place = next(
                (place for place in reversed(range(len(keys))) if keys[place].kept_below <= self.size.width), None
            )
            if place is None:
                break
            del keys[place]
        return tuple(keys)

    def render(self) -> Text:
        """Write the keys one after the other, or what is said."""
        if self._said:
            return Text(f" {self._said}")
        style = self.get_component_rich_style("key-line--key")
        line = Text()
        for key in self._fitting():
            gap = " " if line else ""
            line.append(gap).append(key.display, style).append(f" {key.description}", "" if key.enabled else "dim")
        return line

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        self.press_at(event.x)

    def press_at(self, column: int) -> None:
        """Press the key that stands at a column of this line."""
        left = 0
        for key in self._fitting():
            if left <= column < left + key.width and key.enabled:
                self.app.simulate_key(key.key)
            left += key.width + 1


def _turned(node: DOMNode, name: str | None) -> str | None:
    """Give a name, with the class of what is turned."""
    return next((f"{name} {each}" for each in TURNED if node.has_class(each)), name)


def _first(focused: Widget) -> dict[str, str]:
    """Give the keys of the view that has the focus, with their words, or of a screen on which nothing has it."""
    places = (
        *((node, node.id) for node in focused.ancestors),
        *((node, node.name) for node in focused.ancestors_with_self),
    )
    names = (_turned(node, name) for node, name in places)
    return next((FIRST[name] for name in names if name in FIRST), {})
