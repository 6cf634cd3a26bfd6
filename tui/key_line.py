"""The line at the foot that says which keys work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.screen import Screen
from textual.widget import Widget

LABELS = {
    "sentence.read": "Read it",
    "sentence.leave": "Back to the tree",
    "filter.apply": "Filter",
    "filter.complete": "Complete",
    "filter.clear": "All rows",
    "explain.back": "Map",
    "table.filter": "Filter",
    "table.sort": "Sort",
    "heatmap.zoom_in": "Zoom",
    "heatmap.fit": "Whole",
    "app.averaging": "Mean",
    "app.explain": "Explain",
    "app.next_measure": "Measure",
    "app.more": "ε",
    "app.scale": "Scale",
    "app.distance": "Distance",
    "app.search": "Search",
    "app.jump": "Go to",
    "tree.switch": "Off",
    "app.sentence": "Sentence",
    "app.spectra": "Spectra",
    "app.ranks": "Ranks",
    "app.attention": "Attention",
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

LAST = 2
"""Keys at the end of the line that stay on it."""

ONLY_IN = {
    "app.averaging": "attention map",
    "app.explain": "attention map",
    "app.next_measure": "ranks",
    "app.more": "ranks",
    "app.scale": "spectra",
    "app.distance": "spectra",
}
"""Keys that work anywhere and are worth a place only in one widget, by its name."""


@dataclass(frozen=True)
class _Key:
    """A key, how it is written, what it does, and whether it does so now."""

    key: str
    display: str
    description: str
    enabled: bool

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
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        """Draw the keys again if they are others; without the terminal's focus, or under another screen, they stay."""
        if not self.app.app_focus or screen is not self.app.screen:
            return
        keys = tuple(self._worth_showing(screen))
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def _worth_showing(self, screen: Screen[object]) -> Iterator[_Key]:
        """Give the keys that have a word or ask to be shown, in the order of `LABELS`."""
        focused = "" if screen.focused is None else screen.focused.name or ""
        found: dict[str, _Key] = {}
        for each in screen.active_bindings.values():
            binding = each.binding
            name = binding.id or binding.action
            is_wanted = name in LABELS or binding.show
            if is_wanted and name not in found and ONLY_IN.get(name, focused) == focused:
                display = self.app.get_key_display(binding)
                found[name] = _Key(binding.key, display, LABELS.get(name, binding.description), each.enabled)
        *first, help_id, quit_id = LABELS
        others = (name for name in found if name not in LABELS)
        yield from (found[name] for name in (*first, *others, help_id, quit_id) if name in found)

    def _fitting(self) -> tuple[_Key, ...]:
        """Leave out what there is no room for, from the left of the last two."""
        keys = list(self._keys)
        while len(keys) > LAST and sum(key.width + 1 for key in keys) > self.size.width + 1:
            del keys[-LAST - 1]
        return tuple(keys)

    def render(self) -> Text:
        """Write the keys one after the other, or what is said."""
        if self._said:
            return Text(f" {self._said}")
        style = self.get_component_rich_style("key-line--key")
        line = Text()
        for key in self._fitting():
            dim = "" if key.enabled else "dim"
            line.append(key.display, style).append(f" {key.description}", dim).append(" ")
        return line

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        left = 0
        for key in self._fitting():
            if left <= event.x < left + key.width and key.enabled:
                self.app.simulate_key(key.key)
            left += key.width + 1
