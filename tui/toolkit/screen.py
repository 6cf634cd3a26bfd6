"""A screen on which some keys of its parts work wherever the focus is, and whose focus is where it can be seen."""

from __future__ import annotations

from collections.abc import Sequence

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.binding import BindingsMap
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.geometry import Offset, Size
from textual.keys import key_to_character
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.application import notify_copied


class LayoutCompositor(Compositor):
    """The toolkit's, but that every widget is told when it is shown or has another size.

    Asked between two layouts where a widget is, the toolkit's makes its map anew; what came to be displayed meanwhile
    is in that one already, and at the next layout is not told its size. Here a layout is compared with the one before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay all widgets out, and say which are hidden, shown and of another size since the last time."""
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result


class TerminalScreen(Screen[object], inherit_bindings=False):
    """A screen of several parts.

    A binding that has a group works wherever the focus is, also one of a part that is not displayed; a key of what has
    the focus comes before it. The toolkit knows bindings of what has the focus alone.

    Attributes
    ----------
    before_field : what had the focus before the field that has it.
    """

    focused = Reactive[Widget | None](None, repaint=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._compositor = LayoutCompositor()
        self.before_field: Widget | None = None

    @property
    def parts_with_keys(self) -> Sequence[Widget]:
        """The parts whose keys with a group work wherever the focus is, in the order in which they are listed."""
        return ()

    @property
    def parts_with_focus(self) -> Sequence[Widget]:
        """The parts of which the first that can have the focus has it where it would be nobody's."""
        return ()

    @property
    def _binding_chain(self) -> list[tuple[DOMNode, BindingsMap]]:
        """The keys of what has the focus, of the screen, of its parts, and of the application, the first before all."""
        *chain, of_application = super()._binding_chain
        parts = self.parts_with_keys
        own = [(node, _with_group(keys, False) if node in parts else keys) for node, keys in chain]
        return [*own, *((part, self._shared_bindings(part)) for part in parts), of_application]

    def _shared_bindings(self, part: Widget) -> BindingsMap:
        """Give the keys of a part that have a group, but those that are letters for what has the focus."""
        shared, focused = _with_group(part._bindings, True), self.focused
        if focused is not None:
            for key in list(shared.key_to_bindings):
                if focused.check_consume_key(key, key_to_character(key)):
                    del shared.key_to_bindings[key]
        if self.app._keymap:
            shared.apply_keymap(self.app._keymap)
        return shared

    @property
    def focus_chain(self) -> list[Widget]:
        """What tab goes through, without fields, where the next key would be a letter."""
        return [each for each in super().focus_chain if not isinstance(each, Input)]

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, but not to what another view has taken the place of and is on screen still.

        The mouse can meet it there until all is laid out anew; then it would go, and leave the focus to nobody. Where
        nobody is to have it, or who has it has gone, as when the terminal becomes smaller, one of some parts has it
        instead; only another window takes it from all.
        """
        if widget is not None and not is_displayed(widget):
            if self.focused is not None and is_displayed(self.focused):
                return
            widget = None
        if isinstance(widget, Input) and not isinstance(self.focused, Input) and not from_app_focus:
            self.before_field = self.focused
        if widget is None and self.app.app_focus:
            chain = self.focus_chain
            within = (each for part in self.parts_with_focus for each in chain if part in each.ancestors_with_self)
            widget = next(within, None)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def fill_focus(self) -> None:
        """Have somebody get the focus where nobody has it."""
        if self.focused is None:
            self.set_focus(None)

    def _update_auto_focus(self) -> None:
        """Fill the focus when the screen is there, or there again; the toolkit takes the first, displayed or not."""
        self.fill_focus()

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find what the mouse is over, and which letter of its text; there is none in what is drawn cell by cell.

        Of that the toolkit would draw a line all the same, be it before it is ready for it.
        """
        try:
            widget, _ = self.get_widget_at(x, y)
        except NoWidget:
            return None, None
        return super().get_widget_and_offset_at(x, y) if widget.allow_select else (widget, None)

    def action_copy_text(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy_text()
        notify_copied(self.app)


def is_displayed(widget: Widget) -> bool:
    """Say whether a widget, and all that it is in, is to be displayed, on screen by now or not."""
    return all(each.display for each in widget.ancestors_with_self if isinstance(each, Widget))


def _with_group(bindings: BindingsMap, has_group: bool) -> BindingsMap:
    """Give those bindings that have a group, or those that have none."""
    every = {
        key: [each for each in of_key if (each.group is not None) is has_group]
        for key, of_key in bindings.key_to_bindings.items()
    }
    return BindingsMap.from_keys({key: of_key for key, of_key in every.items() if of_key})


class PlacedBars(Widget):
    """A widget whose scrollbars are told their position when they appear; Textual only tells visible ones."""

    def watch_show_vertical_scrollbar(self) -> None:
        """Tell the vertical bar its position."""
        self.vertical_scrollbar.position = self.scroll_y

    def watch_show_horizontal_scrollbar(self) -> None:
        """Tell the horizontal bar its position."""
        self.horizontal_scrollbar.position = self.scroll_x
