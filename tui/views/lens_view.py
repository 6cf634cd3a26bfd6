"""The lens: what the model would predict after each block, at every token of the sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult

from engine.values.errors import EngineError
from engine.values.table import Table
from engine.values.views import CONTRIBUTIONS, LENS, ring_of
from tui.drawing.lens_map import LensMap
from tui.drawing.numbers import brief
from tui.drawing.progress import how_far
from tui.drawing.text import first_fitting, fit, quoted
from tui.drawing.titles import COMPUTING, Part, Title, pair_part
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tables import table_query
from tui.toolkit.keys import key_of
from tui.toolkit.messages import PlaceWanted
from tui.views.pane import Pane
from tui.views.sentence_view import no_sentence
from tui.views.table_view import table_title
from tui.widgets.lens_grid import LensGrid
from tui.widgets.line import Line

MOST_BAR = 40
"""Columns that the bar of a probability of 1 takes at most."""


class LensPane(Pane):
    """Shows the likeliest token after each block, coloured by its probability, or by a logit difference.

    Below are the likeliest tokens of the cell under the cursor; the one at the top leads to what makes it.

    Attributes
    ----------
    shown : what is drawn; None before there is anything.
    """

    view = LENS.name
    is_of_sentence = True
    asks = ("tables",)
    uses = ("text", "waiting_text", "off", "position", "token", "against")
    foot_keys: ClassVar[Mapping[str, str]] = {"lens.choose": "What makes it", "app.predictions": "Contributions"}

    def __init__(self) -> None:
        super().__init__()
        self.add_class("-table")
        self.grid = LensGrid()
        self.legend_line = Line(classes="pane-legend")
        self.choice_lines = [Line(classes="pane-readout") for _ in range(LENS.top)]
        self.shown: LensMap | None = None
        self._position: int | None = None

    def compose(self) -> ComposeResult:
        """Stack the title, the grid, its legend and the likeliest tokens: each on a line of its own, or all on one."""
        yield self.title_line
        yield self.grid
        yield self.legend_line
        yield from self.choice_lines
        yield self.readout_line

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the lens of the sentence, or say why there is none."""
        tables, title = stores.tables, table_title(shown, LENS, stores.outline, is_comparing=stores.engine.is_comparing)
        if not shown.text:
            message, is_waiting = no_sentence(self.app, stores.outline, shown)
            self._show_message(title, message, is_waiting=is_waiting)
            return
        query = table_query(shown, LENS, None, is_comparing=False)
        assert query is not None  # it is of the whole model
        key = (LENS.name, query)
        found = tables.get(key)
        self.is_stopped = tables.is_stopped(key)
        if isinstance(found, EngineError):
            self._show_message(title, str(found))
        elif found is not None:
            self._show(found, title, shown.position)
        elif self.is_stopped:
            ring = key_of(self.app, f"app.{ring_of(LENS.name)[0]}")
            self._show_message(title, f"stopped, {ring} goes on")
        elif tables.is_late(key) or self.shown is None:
            told = tables.told
            leave = key_of(self.app, "app.leave")
            said = COMPUTING if told is None else f"{told.activity}: {how_far(told)}; {leave} stops"
            self._show_message(title, said, is_waiting=True)
        else:
            self.is_waiting = True

    def _show(self, table: Table, title: list[Part], position: int | None) -> None:
        """Draw a table; where another position is predicted at than before, the cursor goes there."""
        self.is_waiting = False
        if self.shown is None or self.shown.table is not table:
            self.shown = LensMap(table)
            self.grid.show(self.shown, position)
        if position is not None and position != self._position:
            self.grid.put(self.grid.cursor[0], position)
        self._position = position
        if (pair := self.shown.pair) is not None:
            title = [*title, pair_part(*pair)]
        self.title_line.show_title(Title.of(self.view, title))
        self.read_out()

    def _show_message(self, title: list[Part], message: str, *, is_waiting: bool = False) -> None:
        """Say why there is no lens, or none yet."""
        self.is_waiting, self.shown = is_waiting, None
        self.title_line.show_title(Title.of(self.view, title))
        self.grid.show_message(message)
        self.legend_line.show("")
        self.readout_line.show("")

    @on(LensGrid.Moved)
    def read_out(self) -> None:
        """Say which tokens are the likeliest at the cursor, as many as there is room for; above, what colours mean."""
        if self.shown is None:
            return
        map, (layer, token) = self.shown, self.grid.cursor
        where = f"{map.layers[layer]} after {quoted(map.tokens[token])}"
        if map.is_signed:
            where = f"{where}: {brief(float(map.values[layer, token]), 3)}"
        choices = [(quoted(text), share) for _, text, share in map.choices_at(layer, token)]
        has_lines = self.size.height >= self.grid.lines + len(choices) + 4
        for line in self.choice_lines:
            line.display = has_lines
        self.readout_line.display = not has_lines
        if has_lines:
            self._show_choices(where, choices)
        else:
            said = [f"{text} {brief(share, 2)}" for text, share in choices]
            ways = ["  ".join([f"{where} →", *said[:count]]) for count in range(len(said), 0, -1)]
            self.readout_line.show(first_fitting(self.room, *ways, said[0]))
        words = "logit difference " if map.is_signed else "probability "
        legend = Text.assemble(words, *((each.text, each.style or "") for each in self.grid.legend()), no_wrap=True)
        self.legend_line.show(legend)

    def _show_choices(self, where: str, choices: Sequence[tuple[str, float]]) -> None:
        """Write each of the likeliest tokens on a line of its own, its probability as a bar."""
        begin, width = cell_len(where) + 2, max(cell_len(text) for text, _ in choices) + 2
        room = min(MOST_BAR, self.room - begin - width - 7)
        for number, line in enumerate(self.choice_lines):
            if number < len(choices):
                text, share = choices[number]
                before = where if number == 0 else ""
                bar = "█" * max(0, round(share * room))
                line.show(Text.assemble(f"{fit(before, begin)}{fit(text, width)}{share:.3f}  ", (bar, "dim")))
            else:
                line.show("")

    def on_resize(self) -> None:
        """Have the lines say as much as they have room for."""
        self.read_out()

    def focus_view(self) -> None:
        """Put the focus on the grid."""
        self.screen.set_focus(self.grid)

    @on(LensGrid.Chosen)
    def _choose(self) -> None:
        """Show what makes the likeliest token under the cursor, at the token that it follows."""
        if self.shown is not None:
            (number, *_), *_ = self.shown.choices_at(*self.grid.cursor)
            self._position = self.grid.cursor[1]
            self.session.change(token=f"#{number}", position=self._position)
            self.post_message(PlaceWanted(CONTRIBUTIONS.name))

    def table_on_screen(self) -> Table:
        """Give the rows of all cells.

        Raises
        ------
        EngineError : when it shows nothing yet.
        """
        if self.shown is None:
            raise EngineError("the lens view shows nothing yet; nothing was written")
        return self.shown.table

    def cell_on_screen(self) -> Table:
        """Give the rows of the cell under the cursor, the likeliest token first; errors as for `table_on_screen`."""
        self.table_on_screen()
        assert self.shown is not None
        return self.shown.cell(*self.grid.cursor)
