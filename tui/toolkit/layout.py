"""What the toolkit's layout does not tell: widgets that they are shown, and scrollbars how far they are."""

from __future__ import annotations

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.geometry import Size
from textual.widget import Widget


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


class PlacedBars(Widget):
    """A widget whose scrollbars know where it is once they are shown; the toolkit tells them only while they are."""

    def watch_show_vertical_scrollbar(self) -> None:
        """Tell the bar how far down it is, where it has been scrolled, or has not room for less, meanwhile."""
        self.vertical_scrollbar.position = self.scroll_y

    def watch_show_horizontal_scrollbar(self) -> None:
        """Tell the bar how far to the right it is."""
        self.horizontal_scrollbar.position = self.scroll_x
