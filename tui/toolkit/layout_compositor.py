"""Where every widget is, and which of them have to be told that they are somewhere new."""

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
