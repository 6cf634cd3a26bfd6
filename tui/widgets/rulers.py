"""Edges under a canvas that bound what repainting a part of it costs."""

from __future__ import annotations

from textual.containers import Horizontal
from textual.widget import Widget

from tui.drawing.axes import CELL_WIDTH


class Rulers(Horizontal):
    """Lies unseen under the canvas and bounds what a repaint costs.

    Textual repaints a changed region from the nearest edge of a widget on its left. The edges of these widgets are
    there for nothing else: a cursor far to the right then costs a few cells, not the whole row. Every edge costs a
    line of the whole screen some 30 bytes, so they are not closer together.
    """

    PITCH = 8 * CELL_WIDTH
    DEFAULT_CSS = f"""
    Rulers {{ width: 0; height: 100%; overflow: hidden hidden; }}
    Rulers > Widget {{ width: {PITCH}; height: 100%; margin-right: {PITCH}; }}
    """

    def __init__(self) -> None:
        super().__init__(*(Widget() for _ in range(6)))

    def span(self, left: int, right: int) -> None:
        """Have edges between two columns, from the left one on.

        Wide characters must not straddle an edge, so the left one is where the cells begin.
        """
        self.styles.padding = (0, 0, 0, left)
        self.styles.width = right
