"""The lens: what the model would predict after each block, at every token of the sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual import on

from engine.values.table import Table
from engine.values.views import CONTRIBUTIONS, LENS
from tui.drawing.numbers import brief_number
from tui.drawing.text import first_fitting, quote_text
from tui.drawing.titles import Part, pair_part
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tables import table_query
from tui.toolkit.messages import PlaceWanted
from tui.views.pane import Pane
from tui.views.table_view import show_missing_table, table_title
from tui.widgets.lens_grid import LensGrid, LensMap
from tui.widgets.line import Line


class LensPane(Pane):
    """The likeliest token after each block, coloured by its probability or by a logit difference.

    The likeliest tokens of the cell under the cursor stand below; Enter shows what makes the first of them.

    Attributes
    ----------
    shown : what is drawn; None before there is anything.
    """

    view = LENS.name
    subject: ClassVar[None] = None
    is_of_sentence = True
    asks = ("tables",)
    uses = ("text", "waiting_text", "off", "position", "token", "against")
    foot_keys: ClassVar[Mapping[str, str]] = {"lens.choose": "What makes it", "app.predictions": "Contributions"}

    def __init__(self) -> None:
        self.grid = LensGrid()
        self.legend_line = Line(classes="pane-legend")
        super().__init__(self.grid, self.legend_line)
        self.add_class("-table")
        self.shown: LensMap | None = None
        self._position: int | None = None

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the lens of the sentence, or show why there is none."""
        title = table_title(shown, LENS, stores)
        if not shown.text:
            self.show_no_sentence(title, shown, stores)
            return
        query = table_query(shown, LENS, None, is_comparing=stores.engine.is_comparing)
        assert query is not None  # only queries of a head can be missing
        found = stores.tables.get((LENS.name, query))
        if isinstance(found, Table):
            self._show(found, title, shown.position)
        else:
            show_missing_table(self, title, stores, (LENS.name, query))

    def _show(self, table: Table, title: list[Part], position: int | None) -> None:
        """Draw a table; the cursor follows a change of the position at which the model predicts."""
        if self.shown is None or self.shown.table is not table:
            self.shown = LensMap(table)
            self.grid.show(self.shown, position)
        if position is not None and position != self._position:
            self.grid.put(self.grid.cursor[0], position)
        self._position = position
        if (pair := self.shown.pair) is not None:
            title = [*title, pair_part(*pair)]
        self.show_drawn(title)
        self.read_out()

    def replace_by(self, message: str) -> None:
        """Show why there is no lens, or none yet."""
        self.shown = None
        self.grid.show_message(message)

    @on(LensGrid.Moved)
    def read_out(self) -> None:
        """Show as many of the likeliest tokens at the cursor as fit, and above them what the colours mean."""
        if self.shown is None:
            return
        map, (layer, token) = self.shown, self.grid.cursor
        where = f"{map.layers[layer]} after {quote_text(map.tokens[token])}"
        if map.is_signed:
            where = f"{where}: {brief_number(float(map.values[layer, token]), 3)}"
        said = [f"{quote_text(text)} {brief_number(share, 2)}" for _, text, share in map.choices_at(layer, token)]
        ways = ["  ".join([f"{where} →", *said[:count]]) for count in range(len(said), 0, -1)]
        self.readout_line.show(first_fitting(self.room, *ways, said[0]))
        words = "logit difference " if map.is_signed else "probability "
        self.legend_line.show(Text.assemble(words, self.grid.legend(), no_wrap=True))

    @on(LensGrid.Chosen)
    def _choose(self) -> None:
        if self.shown is not None:
            (number, *_), *_ = self.shown.choices_at(*self.grid.cursor)
            self._position = self.grid.cursor[1]
            self.session.measure_token(f"#{number}", position=self._position)
            self.post_message(PlaceWanted(CONTRIBUTIONS.name))

    def table_on_screen(self) -> Table:
        """Give the rows of all cells."""
        if self.shown is None:
            raise self.nothing_drawn
        return self.shown.table

    def cell_on_screen(self) -> Table:
        """Give the rows of the cell under the cursor, the likeliest token first; errors as for `table_on_screen`."""
        self.table_on_screen()
        assert self.shown is not None
        return self.shown.cell(*self.grid.cursor)
