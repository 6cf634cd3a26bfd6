"""What the three panes have in common: a title line above, a readout line below."""

from __future__ import annotations

from textual.containers import Vertical

from tui.panes.line import Line


class Pane(Vertical):
    """A view beside the tree.

    Attributes
    ----------
    view : what the view is called.
    is_beside_map : whether it follows the map's cursor, so that a large terminal shows it beside the map.
    """

    view = ""
    is_beside_map = False

    def __init__(self) -> None:
        super().__init__(id=self.view, classes="pane -beside-map" if self.is_beside_map else "pane")
        self.title_line = Line(classes="pane-title")
        self.readout_line = Line(classes="pane-readout")

    def focus_view(self) -> None:
        """Put the focus on what the pane shows."""
        for widget in self.query("*").results():
            if widget.focusable:
                widget.focus()
                return
