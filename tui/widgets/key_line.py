"""The line at the foot with the keys that work now."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.keys import KEY_NAME_REPLACEMENTS, key_to_character
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.keys import is_bound

KEPT_BELOW = {"app.zoom": 60, "table.all_rows": math.inf, "explain.all_rows": math.inf}
"""Width of the line from which a key gives way to others, by its binding's id.

The narrower the line, the more useful zooming is. The key that removes a filter is listed only while there is one.
"""

BOTH = {"app.next_head": ("app.previous_head", "app.next_head"), "app.more": ("app.more", "app.less")}
"""Keys that stand side by side because they do opposite things, by their bindings' ids."""

GAP = "  "
"""Between two keys."""

_OLD_NAMES = {new: old for old, new in KEY_NAME_REPLACEMENTS.items()}
"""Textual's older names of keys such as ``slash``, by which it still finds their characters."""


@dataclass(frozen=True)
class _Key:
    """A key and its word; ``kept_below`` is the width of the line below which it never gives way."""

    key: str
    display: str
    description: str
    enabled: bool
    kept_below: float

    @property
    def width(self) -> int:
        """Cells that it takes, without the gap."""
        return cell_len(self.display) + 1 + cell_len(self.description)


class KeyLine(Widget, can_focus=False):
    """Shows the keys in one widget, so that a change of focus lays out nothing."""

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
    """Whether a binding, by its id, can do nothing now and is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: tuple[_Key, ...] = ()
        self._message = ""

    def show_message(self, text: str) -> None:
        """Show a message in place of the keys, until the next key."""
        self._message = text
        self.refresh()

    def clear_message(self) -> None:
        """Show the keys again."""
        if self._message:
            self.show_message("")

    def on_mount(self) -> None:
        """Subscribe to the screen's keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def follow(self, screen: Screen[Any]) -> None:
        """Show the keys of a screen that has come over this one, or of this one again."""
        if screen is not self.screen:
            screen.bindings_updated_signal.unsubscribe(self)  # or it would follow twice
            screen.bindings_updated_signal.subscribe(self, self._show_keys)
        self._show_keys(screen)

    def _show_keys(self, screen: Screen[object]) -> None:
        """Draw the keys if they have changed; ignore other screens, and an application without the focus."""
        if not self.app.app_focus or screen is not self.app.screen:
            return
        keys = tuple(self._list_keys(screen))
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def _list_keys(self, screen: Screen[object]) -> Iterator[_Key]:
        """Yield the keys with a word in ``foot_keys``, the focused widget first, and those that ask for it.

        Keys of the application come last, and stay.
        """
        found: dict[str, tuple[Binding, bool]] = {}
        for each in screen.active_bindings.values():
            if is_bound(each.binding) and not (isinstance(screen.focused, Input) and self._is_typed(each)):
                found.setdefault(each.binding.id or each.binding.action, (each.binding, each.enabled))
        words: dict[str, str] = {}
        for node in (screen.focused or screen).ancestors_with_self:
            for name, word in getattr(node, "foot_keys", {}).items():
                words.setdefault(name, word)
        last: Mapping[str, str] = getattr(self.app, "foot_keys", {})
        others = (name for name, (binding, _) in found.items() if binding.show and name not in words)
        for name in (*(name for name in words if name not in last), *others, *last):
            if name in found and not self.leaves_out(name):
                binding, enabled = found[name]
                kept_below = math.inf if name in last else KEPT_BELOW.get(name, 0)
                both = (found[each][0] for each in BOTH.get(name, (name,)) if each in found)
                display, word = " ".join(map(self.app.get_key_display, both)), words.get(name, binding.description)
                yield _Key(binding.key, display, word, enabled, kept_below)

    def _is_typed(self, each: ActiveBinding) -> bool:
        """Return whether a key is left out while a field has the focus: it is text, or works anywhere."""
        typed = key_to_character(_OLD_NAMES.get(each.binding.key, each.binding.key))
        return each.binding.group is not None or (typed is not None and typed.isprintable())

    def _keys_that_fit(self) -> tuple[_Key, ...]:
        """Return the keys that fit; of those that may give way, the last go first."""
        keys = list(self._keys)
        for last in reversed(self._keys):
            if sum(key.width + len(GAP) for key in keys) <= self.size.width + len(GAP):
                break
            if last.kept_below <= self.size.width:
                keys.remove(last)
        return tuple(keys)

    def render(self) -> Text:
        """Write the keys, or the message."""
        if self._message:
            return Text(f" {self._message}")
        style = self.get_component_rich_style("key-line--key")
        line = Text()
        for key in self._keys_that_fit():
            gap = GAP if line else ""
            line.append(gap).append(key.display, style).append(f" {key.description}", "" if key.enabled else "dim")
        return line

    def on_click(self, event: events.Click) -> None:
        """Press the clicked key."""
        self.press_at(event.x)

    def press_at(self, column: int) -> None:
        """Press the key at a column of this line."""
        left = 0
        for key in self._keys_that_fit():
            if left <= column < left + key.width and key.enabled:
                self.app.simulate_key(key.key)
            left += key.width + len(GAP)
