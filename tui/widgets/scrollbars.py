"""Scrollbars that cost few bytes."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment, Segments
from textual.scrollbar import ScrollBarRender
from textual.widget import Widget


class ToldBars(Widget):
    """A widget whose scrollbars know where it is once they are shown; the toolkit tells them only while they are."""

    def watch_show_vertical_scrollbar(self) -> None:
        """Tell the bar how far down it is, where it has been scrolled, or has not room for less, meanwhile."""
        self.vertical_scrollbar.position = self.scroll_y

    def watch_show_horizontal_scrollbar(self) -> None:
        """Tell the bar how far to the right it is."""
        self.horizontal_scrollbar.position = self.scroll_x


class WholeCellBars(ScrollBarRender):
    """Draws a scrollbar with whole cells, a horizontal one as three runs; Textual's own is one sequence per column."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8

    @classmethod
    def render_bar(cls, *args: Any, **options: Any) -> Segments:
        """Draw the bar and join neighbours that look the same."""
        bar = super().render_bar(*args, **options)
        return bar if bar.new_lines else Segments(list(Segment.simplify(bar.segments)), new_lines=False)
