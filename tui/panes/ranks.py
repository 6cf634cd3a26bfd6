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
from engine.values.tables import RANK_COLUMNS, Cell
from tui.messages import HeadPicked
from tui.numbers import rough, short
from tui.panes.line import Line
from tui.panes.pane import Pane

NAME_WIDTH, VALUE_WIDTH = 6, 8
"""Cells of a line's name and of each of its numbers; together they fit beside the tree on 80 columns."""


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


class RanksPane(Pane):
    """Heads × matrices of a layer, or layers × matrices of the model; below them what chance gives."""

    view = "ranks"

    def __init__(self) -> None:
        super().__init__()
        self.table = RanksTable(name="ranks", cursor_type="row", zebra_stripes=False, cell_padding=0)
        self.chance_line = Line(classes="pane-chance")
        self._names: tuple[Head, ...] = ()
        self._cells: list[list[str]] = []

    def compose(self) -> ComposeResult:
        """Stack the title, the table, the line of chance and the line that explains the measure."""
        yield self.title_line
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
        place = RANK_COLUMNS.index(measure.name)
        values = {(row[0], row[1], row[2], row[3]): row[place] for row in rows}
        cells = [
            [
                _label(name, names),
                *(_number(values.get((name.stack, name.layer, name.label, matrix))) for matrix in MATRICES),
            ]
            for name in names
        ]
        self._fill(tuple(names), cells)
        if selected in self._names:
            self.table.move_cursor(row=self._names.index(selected), animate=False)
        shown = f", ε {epsilon:g}" if measure.name == "energy_rank" else f" (energy ε {epsilon:g})"
        self.title_line.show(Text.assemble(("ranks ", "bold"), f"{title}  {measure.title}{shown}"))
        numbers = "".join(f"{rough(chance[matrix]) if matrix in chance else '…':>{VALUE_WIDTH}}" for matrix in MATRICES)
        self.chance_line.show(Text(f"{'chance':<{NAME_WIDTH}}{numbers}"))
        self.readout_line.show(measure.formula)

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


def _number(value: Cell | None) -> str:
    """Write a value, or that it is still being computed."""
    return "…" if value is None or isinstance(value, str) else short(value)


def _right(cell: str) -> Text:
    """Align a cell to the right."""
    return Text(cell, justify="right")
