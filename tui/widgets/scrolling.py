"""Keys that go by pages, and scrollbars that cost few bytes."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment, Segments
from textual.binding import Binding
from textual.scrollbar import ScrollBarRender
from textual.widget import Widget


def paging(id: str, of: str = "A page", half: str = "Half a page") -> list[Binding]:
    """Give the bindings of what has an ``action_page`` that takes a number of pages, which may be a half.

    Parameters
    ----------
    id : the first part of the bindings' ids.
    of, half : what one press goes by.
    """
    return [
        Binding("pagedown,ctrl+f", "page(1)", f"{of} down", show=False, id=f"{id}.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", f"{of} up", show=False, id=f"{id}.page_up"),
        Binding("ctrl+d", "page(0.5)", f"{half} down", show=False, id=f"{id}.half_down"),
        Binding("ctrl+u", "page(-0.5)", f"{half} up", show=False, id=f"{id}.half_up"),
    ]


def lines_of(pages: float, page: int) -> int:
    """Give the lines of so many pages: of a half at least one.

    Examples
    --------
    >>> lines_of(1, 12), lines_of(-0.5, 12), lines_of(0.5, 1), lines_of(-1, 0)
    (12, -6, 1, -1)
    """
    return int(pages * page) or (1 if pages > 0 else -1)


class PlacedBars(Widget):
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
