"""The pane that explains the cell under the map's cursor: the terms of its score, and their sum."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.values.table import CHANCE, Cell
from tui.drawing.numbers import short, within
from tui.drawing.readout import of_number
from tui.drawing.text import first_fitting, harmless
from tui.views.table_view import TablePane


class CellPane(TablePane):
    """Shows the terms of one score, and follows the map's cursor.

    Enter goes to the cell that they are of, on the map of the head itself; escape back to the map, whatever it shows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "step_back", "All rows again", id="explain.all_rows"),  # else the next hides the table's
        Binding("escape", "app.stop_or_view('attention')", "Back to the map", show=False, id="explain.back"),
        Binding("enter", "apply", "Filter", id="explain.apply", priority=True),
        Binding("enter", "to_map", "To its cell on the head's map", show=False, id="explain.enter"),
    ]

    is_beside_map = True

    def _leave(self) -> None:
        """Go to the cell on the map."""
        self.app.call_later(self.action_to_map)

    async def action_to_map(self) -> None:
        """Go to the cell on the head's map, from where escape leads back; without terms, to where a map will be."""
        await self.run_action("app.view('attention')" if self.shown is None else f"app.open_map('{self.view}')")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to the line of the filter while that is typed into."""
        if action == "to_map":
            return self.screen.focused is not self.filter_input
        return super().check_action(action, parameters)

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Explain the column behind what its cell holds; below say what the terms add up to and what the model says.

        The weight is what was looked at on the map; what the model says gives way before it, and what is left over.
        """
        assert self.shown is not None
        kind, value = (self.shown.columns.index(name) for name in ("kind", "value"))
        said = {str(row[kind]): float(str(row[value])) for row in self.shown.rows}
        numbers = [said[name] for name in ("total", "model", "unexplained", "weight")]
        width = self.readout_line.size.width
        text = self._number(column, cell, width) if isinstance(cell, int | float) else harmless(cell or "")
        total, model, left, weight = map(short, numbers)
        between = (f" · model {model} · left {left}", f" · left {left}", "")
        ways = [f"sum {total}{words} · weight {weight}" for words in between]
        ways += [f"sum {within(numbers[0], digits)} · weight {within(numbers[-1], digits)}" for digits in (5, 4)]
        return f"{text}  {explanation}", first_fitting(width, *ways, f"sum {total}")

    def _number(self, column: str, value: float, width: int) -> str:
        """Write a number with what chance gives, briefly: what the column is follows on the same line."""
        chance = dict(zip(self.grid.all_columns, self.grid.whole_row or (), strict=False)).get(f"{column}{CHANCE}")
        beside = None if isinstance(chance, str) else chance
        brief = short(value) if beside is None else f"{short(value)}  chance {short(beside)}"
        return first_fitting(width, brief, of_number(column, value, beside, width))
