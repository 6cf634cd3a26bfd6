"""What widgets share that paint by lines what may be larger than their place on the screen."""

from __future__ import annotations

from textual.scroll_view import ScrollView

from tui.drawing.levels import Ink, choose_ink
from tui.widgets.scrollbars import AsciiScrollBarRender, MergedScrollBarRender, ToldBars


class Scrolled(ScrollView, ToldBars, inherit_bindings=False):
    """Scrolls by bars that cost few bytes, and knows what the terminal can tell apart.

    Its keys are those of the widgets made of it: what the toolkit's would scroll away from the cursor stays.

    Attributes
    ----------
    ascii_only : whether only ASCII characters are drawn.
    """

    ALLOW_SELECT = False

    def __init__(self, *, ascii_only: bool, name: str | None = None) -> None:
        super().__init__(name=name)
        self.ascii_only = ascii_only

    def on_mount(self) -> None:
        """Take the renderer of the scrollbars for these two bars only, as Textual documents it."""
        renderer = AsciiScrollBarRender if self.ascii_only else MergedScrollBarRender
        for bar in (self.vertical_scrollbar, self.horizontal_scrollbar):
            bar.renderer = renderer  # type: ignore[misc]  # declared of the class, for all bars

    @property
    def ink(self) -> Ink:
        """What tells levels apart on this terminal, under this theme."""
        app = self.app
        return choose_ink(
            app.console.color_system, no_color=app.no_color, ansi=app.native_ansi_color, ascii_only=self.ascii_only
        )
