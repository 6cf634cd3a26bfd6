"""The screen with the tree and the views: who has the focus there, and when it is laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.key_groups import TAKING_AWAY
from tui.toolkit.placing import Placing
from tui.toolkit.selected_text import say_copied
from tui.widgets.key_line import KeyLine


class MainScreen(Screen[object], inherit_bindings=False):
    """The screen with the tree and the views; where the focus goes, the widgets concerned are drawn anew, not all.

    Parameters
    ----------
    choose_focus : says which of the widgets that can have the focus gets it, where nobody has.

    Attributes
    ----------
    before_field : what had the focus before the field that has it, or had it last.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+c,super+c",
            "screen.copy_text",
            "Copy selected text, or else quit",
            show=False,
            id="app.copy_selected",
            group=TAKING_AWAY,
        ),
    ]

    focused = Reactive[Widget | None](None, repaint=False)

    def __init__(self, choose_focus: Callable[[Sequence[Widget]], Widget | None], id: str | None = None) -> None:
        super().__init__(id=id)
        self._compositor = Placing()
        self._choose_focus = choose_focus
        self.before_field: Widget | None = None

    def action_copy_text(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy_text()
        say_copied(self.app)

    @property
    def focus_chain(self) -> list[Widget]:
        """What tab goes through: the tree and the views, and no field, where the next key would be a letter."""
        return [each for each in super().focus_chain if not isinstance(each, Input)]

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, but not to what another view has taken the place of and is on screen still.

        The mouse can meet it there until all is laid out anew; then it would go, and leave the focus to nobody. Where
        nobody is to have it, or who has it has gone, as when the terminal becomes smaller, the application says who
        has it instead; only another window takes it from all.
        """
        if widget is not None and not is_displayed(widget):
            if self.focused is not None and is_displayed(self.focused):
                return
            widget = None
        if isinstance(widget, Input) and not isinstance(self.focused, Input) and not from_app_focus:
            self.before_field = self.focused
        if widget is None and self.app.app_focus:
            widget = self._choose_focus(self.focus_chain)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find what the mouse is over, and which letter of its text; there is none in what is drawn cell by cell.

        Of that the toolkit would draw a line all the same, be it before it is ready for it.
        """
        try:
            widget, _ = self.get_widget_at(x, y)
        except NoWidget:
            return None, None
        return super().get_widget_and_offset_at(x, y) if widget.allow_select else (widget, None)

    def _update_auto_focus(self) -> None:
        """Fill the focus when the screen is there, or there again; the toolkit takes the first, displayed or not."""
        if self.focused is None:
            self.set_focus(None)

    def on_screen_suspend(self) -> None:
        """Show the keys of the screen that has come over this one."""
        self.query_one(KeyLine).follow(self.app.screen)

    def on_screen_resume(self) -> None:
        """Show the keys of this one again."""
        self.query_one(KeyLine).follow(self)


def is_displayed(widget: Widget) -> bool:
    """Say whether a widget, and all that it is in, is to be displayed, on screen by now or not."""
    return all(each.display for each in widget.ancestors_with_self if isinstance(each, Widget))
