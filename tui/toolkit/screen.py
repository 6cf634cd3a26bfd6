"""A screen whose parts can have keys that work anywhere, and whose focus is always on a visible widget."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.binding import BindingsMap
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.geometry import Offset, Size
from textual.keys import key_to_character
from textual.reactive import Reactive
from textual.screen import Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from tui.toolkit.application import notify_copied


def painted(widget: Widget) -> tuple[Strip, ...]:
    """Paint a widget and its children, whatever lies over it; all lines are of its width."""
    size = widget.outer_size
    compositor = Compositor()
    compositor.reflow(widget, size)
    return tuple(strip.adjust_cell_length(size.width) for strip in compositor.render_strips(size))


class LayoutCompositor(Compositor):
    """Textual's compositor, but every widget is told when it is shown or resized.

    Textual rebuilds its map when asked between two layouts where a widget is; a widget shown since then is in that map
    already and is not told its size at the next layout. Here each layout is compared with the previous one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay out all widgets; return which are hidden, shown and resized since the previous layout."""
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result


class SizedScreen(Screen[ScreenResultType], inherit_bindings=False):
    """A screen that is only ever laid out for the terminal's present size, and says what it copies.

    Textual tells a screen its size again after each layout. With two sizes in its queue, and other messages between
    them, it would lay itself out for one and the other in turn for ever, and no key would be read any more.
    """

    async def on_event(self, event: events.Event) -> None:
        """Take the terminal's size in place of one that it no longer has."""
        if isinstance(event, events.Resize) and event.size != (size := self.app.size):
            event = events.Resize(size, size)
        await super().on_event(event)

    def action_copy_text(self) -> None:
        """Copy the selection, and show that."""
        super().action_copy_text()
        notify_copied(self.app)


class TerminalScreen(SizedScreen[object], inherit_bindings=False):
    """A screen of several parts.

    A binding with a group works wherever the focus is, even if its part is hidden; keys of the focused widget come
    first. Textual only knows the bindings of the focused widget and its parents.
    """

    focused = Reactive[Widget | None](None, repaint=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._compositor = LayoutCompositor()
        self._before_field: Widget | None = None

    @property
    def parts_with_keys(self) -> Sequence[Widget]:
        """Parts whose keys with a group work anywhere, in the order in which they are listed."""
        return ()

    @property
    def parts_with_focus(self) -> Sequence[Widget]:
        """Parts of which the first that can takes a focus that nothing else has."""
        return ()

    @property
    def _binding_chain(self) -> list[tuple[DOMNode, BindingsMap]]:
        """Bindings of the focused widget, the screen, its parts, and the application, in this order."""
        *chain, of_application = super()._binding_chain
        parts = self.parts_with_keys
        own = [(node, _with_group(keys, False) if node in parts else keys) for node, keys in chain]
        return [*own, *((part, self._shared_bindings(part)) for part in parts), of_application]

    def _shared_bindings(self, part: Widget) -> BindingsMap:
        """Return a part's bindings that have a group, except letters that the focused field takes."""
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
        """Widgets for tab, without fields: there the next key would be a letter."""
        return [each for each in super().focus_chain if not isinstance(each, Input)]

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, but not to a hidden widget that is still on screen.

        A click can meet such a widget until the next layout. Where the focus would be lost, as when the terminal
        becomes smaller, one of `parts_with_focus` takes it; only another window takes it from all.
        """
        if widget is not None and not is_displayed(widget):
            if self.focused is not None and is_displayed(self.focused):
                return
            widget = None
        if isinstance(widget, Input) and not isinstance(self.focused, Input) and not from_app_focus:
            self._before_field = self.focused
        if widget is None and self.app.app_focus:
            chain = self.focus_chain
            within = (each for part in self.parts_with_focus for each in chain if part in each.ancestors_with_self)
            widget = next(within, None)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def leave_field(self) -> None:
        """Give the focus back to what had it before the focused field, unless that is gone."""
        before = self._before_field
        can_have_it = before is not None and before.focusable and is_displayed(before)
        self.set_focus(before if can_have_it else None)

    def fill_focus(self) -> None:
        """Give the focus to a widget if none has it."""
        if self.focused is None:
            self.set_focus(None)

    def _update_auto_focus(self) -> None:
        """Give the focus to a visible widget; Textual takes the first, visible or not."""
        self.fill_focus()

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the widget under the mouse and the letter of its text; no letter where text is not selectable.

        For that Textual would draw a line of the widget, even before it is ready.
        """
        try:
            widget, _ = self.get_widget_at(x, y)
        except NoWidget:
            return None, None
        return super().get_widget_and_offset_at(x, y) if widget.allow_select else (widget, None)


def is_displayed(widget: Widget) -> bool:
    """Return whether a widget and all its ancestors are displayed."""
    return all(each.display for each in widget.ancestors_with_self if isinstance(each, Widget))


def _with_group(bindings: BindingsMap, has_group: bool) -> BindingsMap:
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
