"""What widgets share that paint by lines what may be larger than their place on the screen."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment, Segments
from rich.style import Style
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tui.drawing.levels import Ink, choose_ink
from tui.drawing.ramps import level_styles
from tui.drawing.text import centred
from tui.toolkit.application import sends_ascii_only
from tui.toolkit.layout import PlacedBars
from tui.toolkit.themes import palette_of


class ScrollArea(ScrollView, PlacedBars, inherit_bindings=False):
    """Scrolls by bars that cost few bytes, and knows what the terminal can tell apart.

    Its keys are those of the widgets made of it: what the toolkit's would scroll away from the cursor stays.
    """

    ALLOW_SELECT = False

    def on_mount(self) -> None:
        """Take the renderer of the scrollbars for these two bars only, as Textual documents it."""
        for bar in (self.vertical_scrollbar, self.horizontal_scrollbar):
            bar.renderer = WholeCellBars  # type: ignore[misc]  # declared of the class, for all bars

    def reveal(self) -> None:
        """Scroll as little as brings the cursor into view, once there is one and a place for it."""
        raise NotImplementedError

    def watch_show_vertical_scrollbar(self) -> None:
        """Keep the cursor in view beside the bar."""
        super().watch_show_vertical_scrollbar()
        self.reveal()

    def watch_show_horizontal_scrollbar(self) -> None:
        """Keep the cursor in view above the bar."""
        super().watch_show_horizontal_scrollbar()
        self.reveal()

    def scroll_at_once(self, left: int, top: int) -> None:
        """Show what begins at a cell and a line of all that can be scrolled."""
        self.scroll_to(left, top, animate=False, immediate=True)

    def message_line(self, message: str, y: int, style: Style) -> Strip:
        """Paint a line of a message in the middle of the widget."""
        width, height = self.size
        text = centred(message, width, height)[y]
        return Strip([Segment(text, style if text.strip() else Style(bgcolor=style.bgcolor))], width)

    @property
    def ink(self) -> Ink:
        """What tells levels apart on this terminal, under this theme."""
        app = self.app
        return choose_ink(app.console.color_system, no_color=app.no_color, ansi=app.native_ansi_color)

    def styles_of_levels(self, plain: str, *, is_signed: bool = False) -> tuple[Style, ...]:
        """Give the style of each level by its background, or the one that all glyphs have, the component ``plain``."""
        if self.ink is not Ink.COLOUR:
            return (self.get_component_rich_style(plain),)
        background, system = self.background_colors[1].rgb, str(self.app.console.color_system)
        return level_styles(background, system, palette_of(self.app.current_theme), is_signed=is_signed)

    @property
    def has_half_blocks(self) -> bool:
        """Whether the halves of a character can have colours of their own; such a character is not ASCII."""
        return self.ink is Ink.COLOUR and not sends_ascii_only(self.app)


class WholeCellBars(ScrollBarRender):
    """Draws a scrollbar with whole cells, a horizontal one as three runs; Textual's own is one sequence per column."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8

    @classmethod
    def render_bar(cls, *args: Any, **options: Any) -> Segments:
        """Draw the bar and join neighbours that look the same."""
        bar = super().render_bar(*args, **options)
        return bar if bar.new_lines else Segments(list(Segment.simplify(bar.segments)), new_lines=False)
