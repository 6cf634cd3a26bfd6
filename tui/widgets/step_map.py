"""A map of layers or heads by the checkpoints of a training, with a cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size

from tui.drawing.cells import merged_cells
from tui.drawing.levels import NOT_FINITE, FloatArray, ValueScale, glyphs_of, levels_between
from tui.drawing.numbers import brief_number
from tui.drawing.text import write_apart
from tui.toolkit.keys import paging_bindings
from tui.widgets.scroll_area import CellGrid

_WIDEST, _HIGHEST = 6, 3
"""Columns and lines per cell at most."""

_NOTHING = 1e-6
"""Of the largest value: what is smaller is written as zero in the legend."""


@dataclass(frozen=True, eq=False)
class StepValues:
    """The values of a map.

    Attributes
    ----------
    rows : names of the rows.
    steps : name of each checkpoint: its step, if it has one.
    values : (rows, checkpoints); NaN where unknown.
    scale : turns values into levels, the same for all maps of a screen; None while nothing is known.
    """

    rows: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    values: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    scale: ValueScale | None = None


class StepMap(CellGrid):
    """Shows one value per row and checkpoint.

    Attributes
    ----------
    shown : the values.
    is_spread : whether every checkpoint has a column; otherwise only as many as fit.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Row above", show=False, id="steps.up"),
        Binding("down,j", "move(1, 0)", "Row below", show=False, id="steps.down"),
        Binding("left,h", "move(0, -1)", "Checkpoint before", show=False, id="steps.left"),
        Binding("right,l", "move(0, 1)", "Next checkpoint", show=False, id="steps.right"),
        *paging_bindings("steps", "A page of rows"),
        Binding("home", "edge(False)", "First checkpoint", show=False, id="steps.first_step"),
        Binding("end", "edge(True)", "Last checkpoint", show=False, id="steps.last_step"),
        Binding("gg,ctrl+home", "row_edge(False)", "First row", show=False, id="steps.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last row", show=False, id="steps.last"),
        Binding("enter", "choose", "Open the checkpoint", show=False, id="steps.choose"),
    ]

    DEFAULT_CSS = """
    StepMap {
        padding: 0 0 0 1;
        & > .area--label-cursor { text-style: bold; }
    }
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.shown = StepValues()
        self.is_spread = False
        self._columns: list[int] = []

    def show(self, shown: StepValues, cursor: tuple[int, int], message: str = "") -> None:
        """Draw other values, with the cursor on a row and a checkpoint."""
        self.shown, self.message = shown, message
        self.cursor = self.nearest(*cursor)
        self.lay_out_cells()
        self.refresh()
        self.call_after_refresh(self.reveal)

    @property
    def extent(self) -> tuple[int, int]:
        """Number of rows, and of checkpoints."""
        return len(self.shown.rows), len(self.shown.steps)

    @property
    def is_empty(self) -> bool:
        """Whether there are no values."""
        return not self.shown.rows or self.shown.scale is None

    def column_at(self, place: int) -> int:
        """Return the checkpoint in a column of the screen, or the nearest."""
        return self._columns[max(0, min(place, len(self._columns) - 1))] if self._columns else 0

    def columns_before(self, column: int) -> int:
        """Return the column of the screen nearest to a checkpoint."""
        return int(np.argmin(np.abs(np.array(self._columns) - column))) if self._columns else 0

    def action_spread(self) -> None:
        """Show every checkpoint, or only as many as fit."""
        self.is_spread = not self.is_spread
        self.lay_out_cells()
        self.refresh()
        self.call_after_refresh(self.reveal)

    def lay_out_cells(self) -> None:
        """Choose the visible checkpoints and the size of the cells."""
        rows, checkpoints = self.extent
        self.name_width = 1 + max(map(cell_len, self.shown.rows), default=0)
        room = max(self.size.width - self.name_width, 1)
        count = checkpoints if self.is_spread else min(checkpoints, room)
        self._columns = np.rint(np.linspace(0, checkpoints - 1, count)).astype(int).tolist()  # both ends, evenly spread
        if self.cursor[1] not in self._columns and self._columns:
            self._columns[self.columns_before(self.cursor[1])] = self.cursor[1]
        width = min(room // max(len(self._columns), 1), _WIDEST)
        width = max(width - width % 2, 1)
        lines = self.size.height - 1 - (width * len(self._columns) > room)  # below the heading and above the bar
        height = max(1, min(lines // max(rows, 1), _HIGHEST))
        self.cell = width, height
        self.virtual_size = Size(self.name_width + width * len(self._columns), 1 + height * rows)

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell; give its checkpoint a column if it has none."""
        checkpoint = self.nearest(row, column)[1]
        if checkpoint in self._columns:
            super().put(row, column)
        else:
            self.cursor = self.nearest(row, column)
            self.lay_out_cells()
            self.refresh()

    def row_name(self, line: int) -> str:
        """Return the name of a row, on its first line."""
        row, inner = divmod(line, self.cell[1])
        return "" if inner else self.shown.rows[row]

    def heading(self) -> tuple[str, range]:
        """Write as many steps as stand apart, that of the cursor and the last before others."""
        count, width = len(self._columns), self.cell[0]
        order = self.columns_before(self.cursor[1]), count - 1, *range(count - 1)
        return write_apart(((place * width, self.shown.steps[self._columns[place]]) for place in order), count * width)

    def paint_cells(self, line: int) -> Iterator[Segment]:
        """Paint a line of a row's cells."""
        row, scale, width = line // self.cell[1], self.shown.scale, self.cell[0]
        assert scale is not None
        glyphs, style = self._glyphs(scale, width), self.get_component_rich_style
        levels = scale.levels(self.shown.values[row, self._columns], self.ink, len(glyphs))
        others = {NOT_FINITE: (f"{'·':^{width}}", style("area--label"))}
        cursor = (self.columns_before(self.cursor[1]), style("area--cursor")) if row == self.cursor[0] else None
        return merged_cells(levels, glyphs, self.styles_of_scale(is_signed=scale.is_signed), others, cursor=cursor)

    def legend(self) -> Text:
        """Return the levels between the smallest and the largest value; empty without values."""
        scale = self.shown.scale
        if scale is None:
            return Text()
        low = brief_number(scale.low if abs(scale.low) > _NOTHING * scale.high else 0.0, 3)
        signs, styles = "".join(self._glyphs(scale, 1)), self.styles_of_scale(is_signed=scale.is_signed)
        return levels_between(low, styles, signs, brief_number(scale.high, 3))

    def _glyphs(self, scale: ValueScale, width: int) -> tuple[str, ...]:
        """Return what is written in a cell of each level; without signs the lowest is blank, as no cell is missing."""
        lowest, *others = glyphs_of(self.ink, width, scale.is_signed)
        return (lowest if scale.is_signed else " " * width, *others)
