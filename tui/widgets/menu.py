"""A list to choose from."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from tui.toolkit.keys import lines_of, paging_bindings


class Menu(OptionList, inherit_bindings=False):
    """A list to choose from: a click moves to a line, a second click takes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down,ctrl+n", "cursor_down", "Down", show=False, id="menu.down"),
        Binding("k,up,ctrl+p", "cursor_up", "Up", show=False, id="menu.up"),
        Binding("enter", "select", "Take what the cursor is on", show=False, id="menu.select"),
        Binding("gg,home,ctrl+home", "first", "First line", show=False, id="menu.first"),
        Binding("G,end,ctrl+end", "last", "Last line", show=False, id="menu.last"),
        *paging_bindings("menu"),
    ]

    def on_click(self, event: events.Click) -> None:
        """Move to the clicked line; Textual would take it at once."""
        line = event.style.meta.get("option")
        if line is None or line == self.highlighted:
            return
        if line >= self.option_count:  # the list was filled again after the click
            event.prevent_default()
        elif not self._options[line].disabled:
            event.prevent_default()
            self.highlighted = line

    def action_page_down(self) -> None:
        """Move a page down; Textual's version fails before all lines are laid out."""
        self.action_page(1)

    def action_page_up(self) -> None:
        """Move a page up."""
        self.action_page(-1)

    def action_page(self, pages: float) -> None:
        """Move by the lines in view, to the nearest enabled one."""
        step = lines_of(pages, self.scrollable_content_region.height)
        at = max(0, min((self.highlighted or 0) + step, self.option_count - 1))
        enabled = [place for place, option in enumerate(self.options) if not option.disabled]
        if enabled:
            self.highlighted = min(enabled, key=lambda place: ((place - at) * step < 0, abs(place - at)))
