"""The parts of the menu of what can be written: the list of that, and the line of the file's name."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip

from tui.drawing.text import path_within
from tui.widgets.field import Field
from tui.widgets.menu import Choices


class Whats(Choices):
    """The list of what can be written; beside it, arrows choose the format.

    Lines up and down, and Enter, are keys of the whole menu, so that each is called one thing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "screen.format(1)", "Next format", show=False, id="export.next_format"),
        Binding("left,h", "screen.format(-1)", "Previous format", show=False, id="export.previous_format"),
        Binding("g", "first", "First", show=False, id="export.first"),
        Binding("G", "last", "Last", show=False, id="export.last"),
    ]


class FileName(Field):
    """The line of the file's name, of which the end is to be seen while it is not typed into."""

    leaving = "screen.leave"

    def render_line(self, y: int) -> Strip:
        """Draw the end of a path that is too long, which says more, while nobody types."""
        width = self.size.width
        if self.has_focus or cell_len(self.value) <= width:
            return super().render_line(y)
        shown = path_within(self.value, width)
        return Strip([Segment(shown, self.rich_style)]).adjust_cell_length(width, self.rich_style)

    def on_focus(self) -> None:
        """Bring the cursor into view, which was put there before the line was laid out."""
        self.scroll_to_region(Region(self._cursor_offset, 0, 1, 1), force=True, animate=False)
        self.refresh()

    def on_blur(self) -> None:
        """Draw the end again."""
        self.refresh()
