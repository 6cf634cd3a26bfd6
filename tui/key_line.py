"""The line at the foot that says which keys work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.screen import Screen
from textual.widget import Widget

from tui.declared import in_declared_order

LAST = 2
"""Keys at the end of the line that stay on it."""


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

    def on_mount(self) -> None:
        """Follow the keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        """Draw the keys again if they are others; without the terminal's focus no widget has it, and they stay."""
        if not self.app.app_focus or screen is not self.screen:
            return
        shown = {each.binding.action: each for each in reversed(screen.active_bindings.values()) if each.binding.show}
        keys = tuple(
            _Key(each.binding.key, self.app.get_key_display(each.binding), each.binding.description, each.enabled)
            for each in in_declared_order(reversed(shown.values()))
        )
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def _fitting(self) -> tuple[_Key, ...]:
        """Leave out what there is no room for, from the left of the last two, which export and quit."""
        keys = list(self._keys)
        while len(keys) > LAST and sum(key.width + 1 for key in keys) > self.size.width + 1:
            del keys[-LAST - 1]
        return tuple(keys)

    def render(self) -> Text:
        """Write the keys one after the other."""
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
