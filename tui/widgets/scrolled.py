"""What widgets share that paint by lines what may be larger than their place on the screen."""

from __future__ import annotations

from textual.scroll_view import ScrollView

from tui.drawing.levels import Ink, choose_ink
from tui.toolkit.application import sends_ascii_only
from tui.widgets.scrollbars import ToldBars, WholeCellBars


class Scrolled(ScrollView, ToldBars, inherit_bindings=False):
    """Scrolls by bars that cost few bytes, and knows what the terminal can tell apart.

    Its keys are those of the widgets made of it: what the toolkit's would scroll away from the cursor stays.
    """

    ALLOW_SELECT = False

    def on_mount(self) -> None:
        """Take the renderer of the scrollbars for these two bars only, as Textual documents it."""
        for bar in (self.vertical_scrollbar, self.horizontal_scrollbar):
            bar.renderer = WholeCellBars  # type: ignore[misc]  # declared of the class, for all bars

    @property
    def ink(self) -> Ink:
        """What tells levels apart on this terminal, under this theme."""
        app = self.app
        return choose_ink(app.console.color_system, no_color=app.no_color, ansi=app.native_ansi_color)

    @property
    def has_half_blocks(self) -> bool:
        """Whether the halves of a character can have colours of their own; such a character is not ASCII."""
        return self.ink is Ink.COLOUR and not sends_ascii_only(self.app)
