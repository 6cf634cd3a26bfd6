"""The ranks pane: one measure of every head of a layer, or of every layer of the model, by matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from engine.mathematics.measures import MEASURES, Measure
from engine.values.heads import MATRICES, Head
from engine.values.tables import RANK_COLUMNS, Cell, Table
from tui.messages import HeadPicked, RankMeasureWanted
from tui.numbers import rough, short
from tui.panes.filtered import FilteredPane
from tui.panes.line import Line

NAME_WIDTH, VALUE_WIDTH = 6, 8
"""Cells of a line's name and of each of its numbers; together they fit beside the tree on 80 columns."""

PLACES = {
    "stack": "encoder, decoder or cross", "layer": "from zero", "head": "from zero, or all for the whole layer",
    "matrix": "Q, K, V, O, QK or OV", "rows": "of the matrix", "cols": "columns of the matrix",
}  # fmt: skip
"""What the columns hold that are no measures."""


class RanksTable(DataTable[Text]):
    """The table itself; a row is a head or a layer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "Next head or layer", show=False, id="ranks.down"),
        Binding("k,up", "cursor_up", "Previous head or layer", show=False, id="ranks.up"),
        Binding("pagedown", "page_down", "A page down", show=False, id="ranks.page_down"),
        Binding("pageup", "page_up", "A page up", show=False, id="ranks.page_up"),
        Binding("gg,home", "scroll_top", "First line", show=False, id="ranks.first"),
        Binding("G,end", "scroll_bottom", "Last line", show=False, id="ranks.last"),
    ]


class RanksPane(FilteredPane):
    """Heads × matrices of a layer, or layers × matrices of the model; below them what chance gives.

    A filter is of the rows of the ``ranks`` table, each a line's number for one matrix: the others are left blank.
    """

    view = "ranks"

    def __init__(self) -> None:
        super().__init__(RANK_COLUMNS)
        self.table = RanksTable(name="ranks", cursor_type="row", zebra_stripes=False, cell_padding=0)
        self.chance_line = Line(classes="pane-chance")
        self._names: tuple[Head, ...] = ()
        self._cells: list[list[str]] = []
        self._all_names: tuple[Head, ...] = ()
        self._rows: Sequence[Sequence[Cell]] = ()
        self._counted = (0, 0)
        self._measure = MEASURES[0]
        self._selected: Head | None = None

    def compose(self) -> ComposeResult:
        """Stack the title, the table, the line of chance and the line that explains the measure."""
        yield self.title_line
        yield self.filter_input
        yield self.table
        yield self.chance_line
        yield self.readout_line

    def on_mount(self) -> None:
        """Make the columns."""
        self.table.add_column("", width=NAME_WIDTH, key="name")
        for matrix in MATRICES:
            self.table.add_column(Text(matrix, justify="right"), width=VALUE_WIDTH, key=matrix)

    def show(
        self,
        title: str,
        names: Sequence[Head],
        rows: Sequence[Sequence[Cell]],
        measure: Measure,
        epsilon: float,
        chance: Mapping[str, float],
        selected: Head | None,
    ) -> None:
        """Draw one measure of the rows of a ``ranks`` table.

        Parameters
        ----------
        title : which layer, or the model.
        names : the heads or layers, a line each; those without rows are still being computed.
        rows : rows of the ``ranks`` table.
        chance : by matrix, what chance gives for the line of the cursor.
        selected : the line of the cursor.
        """
        self._all_names, self._rows, self._measure, self._selected = tuple(names), rows, measure, selected
        self.is_waiting = not rows
        self.narrow()
        shown = f", ε {epsilon:g}" if measure.name == "energy_rank" else f" (energy ε {epsilon:g})"
        self.set_title(Text.assemble(("ranks ", "bold"), f"{title}  {measure.title}{shown}"))
        numbers = "".join(f"{rough(chance[matrix]) if matrix in chance else '…':>{VALUE_WIDTH}}" for matrix in MATRICES)
        self.chance_line.show(Text(f"{'chance':<{NAME_WIDTH}}{numbers}"))
        self.read_out()

    def read_out(self) -> None:
        """Say what the measure is."""
        if not self.filter_input.display:
            self.readout_line.show(self._measure.formula)

    def focus_view(self) -> None:
        """Put the focus on the table."""
        self.screen.set_focus(self.table)

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows the filter leaves, and of how many."""
        return self._counted

    def narrowed(self, table: Table) -> Table:
        """Give the rows of a ``ranks`` table that the filter leaves."""
        return Table(table.view, table.columns, tuple(self._filter.rows(table)))

    def narrow(self) -> None:
        """Show the numbers of the rows that the filter leaves, in the lines that have any."""
        place, names, rows = RANK_COLUMNS.index(self._measure.name), self._all_names, self._rows
        is_narrowed = self.narrowing is not None
        if is_narrowed:
            rows = list(self._filter.rows(rows))
            left = {(row[0], row[1], row[2]) for row in rows}
            names = tuple(name for name in names if (name.stack, name.layer, name.label) in left)
        self._counted = len(rows), len(self._rows)
        values = {(row[0], row[1], row[2], row[3]): row[place] for row in rows}
        missing = "" if is_narrowed else "…"
        cells = [
            [
                _label(name, self._all_names),
                *(_number(values.get((name.stack, name.layer, name.label, matrix)), missing) for matrix in MATRICES),
            ]
            for name in names
        ]
        self._fill(names, cells)
        if self._selected in self._names:
            self.table.move_cursor(row=self._names.index(self._selected), animate=False)

    def go_to_column(self, column: str) -> None:
        """Have the measure shown that was named by itself."""
        if any(measure.name == column for measure in MEASURES):
            self.post_message(RankMeasureWanted(column))

    def explained(self, column: str) -> str:
        """Say what a column holds."""
        return next((f"{each.title}: {each.formula}" for each in MEASURES if each.name == column), PLACES[column])

    def _fill(self, names: tuple[Head, ...], cells: list[list[str]]) -> None:
        """Change the cells that differ; make the lines anew only when their number changes."""
        if len(names) != len(self._names):
            self.table.clear()
            for line in cells:
                self.table.add_row(Text(line[0]), *map(_right, line[1:]))
        else:
            for number, (old, new) in enumerate(zip(self._cells, cells, strict=True)):
                for column, (before, after) in enumerate(zip(old, new, strict=True)):
                    if before != after:
                        cell = _right(after) if column else Text(after)
                        self.table.update_cell_at(Coordinate(number, column), cell)
        self._names, self._cells = names, cells

    @on(DataTable.RowHighlighted)
    def _moved(self, event: DataTable.RowHighlighted) -> None:
        """Select what the cursor is on, when a person moved it."""
        if self.table.has_focus and 0 <= event.cursor_row < len(self._names):
            self.post_message(HeadPicked(self._names[event.cursor_row]))


def next_measure(measure: Measure, step: int) -> Measure:
    """Give the measure that follows, or precedes, in the order of the table's columns."""
    return MEASURES[(MEASURES.index(measure) + step) % len(MEASURES)]


def _label(name: Head, names: Sequence[Head]) -> str:
    """Name a line: a head by its number, a whole layer as ``all`` beside heads and by its number beside layers."""
    if not name.is_layer:
        return f"H{name.head}"
    if any(not each.is_layer for each in names):
        return "all"
    return str(name) if len({each.stack for each in names}) == 1 else f"{name.stack[0]}{name}"


def _number(value: Cell | None, missing: str) -> str:
    """Write a value, or what stands where there is none."""
    return missing if value is None or isinstance(value, str) else short(value)


def _right(cell: str) -> Text:
    """Align a cell to the right."""
    return Text(cell, justify="right")
