"""The ranks view: one measure by matrix, for every head of a layer or every layer of the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import BindingType

from engine.analysis.ranks import rank_rows_beside_chance
from engine.mathematics.measures import MEASURES
from engine.values.heads import DELTA, MATRICES, Head
from engine.values.table import RANK_COLUMNS, RANKS_BESIDE_CHANCE_COLUMNS, Cell, LargeTable
from engine.values.views import meaning
from tui.drawing.facts import distance_text, subject_of
from tui.drawing.numbers import fit_number, rough_number
from tui.drawing.text import first_fitting
from tui.drawing.titles import Part, layer_part
from tui.state.overview_measures import epsilon_after, measure_fields, next_measure
from tui.state.session import Shown
from tui.state.spectra_store import measure_named
from tui.state.stores import Stores
from tui.toolkit.keys import MEASURING, shared_key
from tui.toolkit.messages import Notice
from tui.views.rows import RowsPane
from tui.widgets.line import Line
from tui.widgets.table_columns import Columns
from tui.widgets.table_grid import TableGrid

NAME_WIDTH, VALUE_WIDTH = 6, 7
"""Cells of a line's name and of each number; a line fits beside the tree on 80 columns."""

PLACES = {
    "stack": "encoder, decoder or cross", "layer": "from zero", "head": "from zero, or all for the whole layer",
    "matrix": "Q, K, V, O, QK or OV", "rows": "of the matrix", "cols": "columns of the matrix",
}  # fmt: skip
"""What the columns hold that are no measures."""

NONE = "×"
"""Stands for a number that cannot be computed."""


COLUMNS = Columns.of_numbers(("name", *MATRICES), NAME_WIDTH, VALUE_WIDTH - 1, gap=1)
"""A line's name and its number for each matrix, of one width for all measures."""


class RanksTable(TableGrid):
    """The table; a row is a head or a layer.

    Attributes
    ----------
    missing : stands where there is no number.
    """

    missing = "…"
    selects = True

    def text(self, cell: Cell) -> str:
        """Write one cell; a number has as many digits as fit."""
        if isinstance(cell, int | float):
            return fit_number(cell, VALUE_WIDTH - 1)
        return super().text(self.missing if cell == "" else cell)


class RanksPane(RowsPane):
    """Heads × matrices of a layer, or layers × matrices of the model, and below them chance.

    A filter is about rows of the ``ranks`` table, each of which is one number here; the other numbers become blank.
    """

    grid: RanksTable
    view = "ranks"
    uses = ("selected", "distance", "epsilon", "measure", "off")
    asks = ("spectra",)
    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("next_measure", "m", "measure(1)", "Next measure", MEASURING),
        shared_key("previous_measure", "", "measure(-1)", "Previous measure", MEASURING),
        shared_key("more", "plus,equals_sign", "epsilon(1)", "Larger ε", MEASURING),
        shared_key("less", "minus", "epsilon(-1)", "Smaller ε", MEASURING),
    ]

    def __init__(self) -> None:
        self.chance_line = Line(classes="pane-chance")
        super().__init__(RANK_COLUMNS, RanksTable(name="ranks"), self.chance_line)
        self.explanation_line = self.readout_line
        self.grid.leads = self._leads
        self._names: tuple[Head, ...] = ()
        self._troubles: Mapping[Head, str] = {}
        self._all_names: tuple[Head, ...] = ()
        self._rows: Sequence[Sequence[Cell]] = ()
        self._counted = (0, 0)
        self._chance: Sequence[Cell] = ("",) * len(COLUMNS.names)
        self.measure = measure_named(Shown().measure)
        self._selected: Head | None = None
        self._place: int | None = None

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The keys of the measure, then those that find rows."""
        return {"app.next_measure": "Measure", "app.more": "ε", **super().foot_keys}

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw one measure of a layer's heads and of the whole layer, or of the model's layers."""
        selected, spectra, outline = shown.selected, stores.spectra, stores.outline
        names, distance, title = [layer.name for layer in outline.layers], None, [Part("all layers", " ")]
        if selected is not None:
            layer, distance = outline.layer(selected), shown.distance
            names = [*layer.head_names(), layer.name]
            title = [
                layer_part(layer.layer, layer.stack if len(outline.stacks) > 1 else ""),
                Part(distance_text(distance, outline), " "),
            ]
            spectra.get(selected, distance)
            if selected.is_layer:
                spectra.get(names[0], distance)
            elif not layer.is_large:  # the spectra of a large layer as a whole take minutes, so the sweep computes them
                spectra.get(layer.name, distance)
        measures = spectra.measures(names, shown.epsilon, distance)
        if selected is not None and any(name not in measures and spectra.is_known(name) for name in names):
            return  # the numbers are being measured and come all at once
        self._troubles = {name: why for name in names if (why := spectra.why_not(name))}
        self._all_names, self.measure = tuple(names), measure_named(shown.measure)
        self._rows = [row for rows in measures.values() for row in rows.values()]
        before, self._selected = self._selected, selected
        self.is_waiting = not self._rows and not self._troubles
        self.is_unfinished = len(measures.keys() | self._troubles.keys()) < len(names)
        self.narrow()
        if selected != before and selected is not None and before is not None and selected in names:
            self.note_selected(selected, is_on_screen=selected in self._names)
        self.strike(frozenset(shown.off.heads))
        of = f", ε {shown.epsilon:g}" if shown.measure == "energy_rank" else f" (energy ε {shown.epsilon:g})"
        said = self.measure.title
        self.show_title(title, (f"{said}{of}", said, ""))
        has_none = selected is not None and selected.stack.endswith(DELTA)  # changes have no chance
        missing = NONE if has_none or selected in self._troubles else "…"
        chance = spectra.chance(selected or names[0], shown.measure, shown.epsilon)
        self._chance = ("chance", *(chance.get(matrix, missing) for matrix in MATRICES))
        self.show_chance()
        self.read_out()

    def action_measure(self, step: int) -> None:
        """Show the next or previous measure; in the overview, of that."""
        self.session.change(**next_measure(self.session.shown, step))

    def action_epsilon(self, step: int) -> None:
        """Change ε to the next larger or smaller one."""
        before = self.session.shown.epsilon
        if (epsilon := epsilon_after(before, step)) is None:
            end = "largest" if step > 0 else "smallest"
            self.post_message(Notice(f"ε {before:g} is the {end} that the keys go to"))
        else:
            self.session.change(epsilon=epsilon)

    @on(TableGrid.ColumnsScrolled)
    @on(TableGrid.Arranged)
    def show_chance(self) -> None:
        """Write chance below the columns in view."""
        self.chance_line.show(Text(self.grid.format_line(self._chance, _spell_chance)))

    def on_resize(self) -> None:
        """Write chance again once the table has its new width."""
        self.call_after_refresh(self.show_chance)

    def read_out(self) -> None:
        """Explain the measure, or say why the line under the cursor has no numbers."""
        if not self.is_filtering:
            place = self.grid.place
            trouble = "" if place is None else self._troubles.get(self._names[place], "")
            said, formula = meaning(self.measure.name, self.session.shown.epsilon), self.measure.formula
            room = self.readout_line.content_size.width
            short = said.partition(": ")[2]
            self.readout_line.show(trouble or first_fitting(room, f"{said}  ·  {formula}", said, short))

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows match the filter, and of how many."""
        return self._counted

    @property
    def head_here(self) -> Head | None:
        """The head or layer of the line under the cursor."""
        return None if self.grid.place is None else self._names[self.grid.place]

    def heads_on_screen(self) -> tuple[Head, ...]:
        """List the heads of the lines on screen."""
        return tuple(name for name in self._names if not name.is_layer)

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the lines of heads."""
        self.struck = heads
        labels = frozenset(_label(name, self._all_names) for name in heads & set(self._all_names))
        had_some = self.grid.strikes is not None
        self.grid.strikes = (lambda row: row[0] in labels) if labels else None
        if had_some or labels:
            self.grid.refresh()

    def table_subject(self) -> tuple[str | None, str]:
        """Name the layer and the distance, or the model."""
        self.table_on_screen()
        shown, name = self.session.shown, self.session.shown.selected
        distance = None if name is None else shown.distance
        return self.selected_stack, subject_of(name and name.whole_layer, distance)

    def table_on_screen(self) -> LargeTable:
        """Give the rows of the ``ranks`` table that match the filter, beside chance."""
        shown, spectra = self.session.shown, self.known.spectra
        distance = None if shown.selected is None else shown.distance
        if not (found := [each for name in self._all_names for each in spectra.listed(name, distance)]):
            raise self.nothing_drawn
        rows = list(rank_rows_beside_chance(found, shown.epsilon))
        return LargeTable(self.view, RANKS_BESIDE_CHANCE_COLUMNS, self._matching(rows))

    def _matching(self, rows: Sequence[Sequence[Cell]]) -> list[Sequence[Cell]]:
        return [rows[number] for number in self._filter.matches(rows)]

    def narrow(self) -> None:
        """Show the numbers that match the filter, in the lines that have any."""
        place, names, rows = RANK_COLUMNS.index(self.measure.name), self._all_names, self._rows
        is_narrowed = self.current_filter is not None
        if is_narrowed:
            rows = self._matching(rows)
            left = {(row[0], row[1], row[2]) for row in rows}
            names = tuple(name for name in names if (name.stack, name.layer, name.label) in left)
        self._counted = len(rows), len(self._rows)
        values = {(row[0], row[1], row[2], row[3]): row[place] for row in rows}
        self._names, self.grid.missing = names, "" if is_narrowed else "…"
        troubles = {} if is_narrowed else self._troubles
        lines = tuple(
            (
                _label(name, self._all_names),
                *(
                    values.get((name.stack, name.layer, name.label, matrix), NONE if name in troubles else "")
                    for matrix in MATRICES
                ),
            )
            for name in names
        )
        line = names.index(self._selected) if self._selected in names else None
        if lines != self.grid.rows:
            self.grid.show(COLUMNS.names, lines, COLUMNS.frozen, columns=COLUMNS, place=line)
        elif line is not None:
            self.grid.go_to(line)
        self._place = self.grid.place if line is None else line  # a person's moves start from here
        self.fit_height()

    def fit_height(self) -> None:
        """Below the spectra, take only the lines that the rows need."""
        lines = len(self._all_names) + self.grid.head + 2  # with chance and the explanation
        self.styles.height = lines + self.gutter.height if self.has_class("-below") else "1fr"

    @property
    def under_cursor(self) -> tuple[Head, str, Cell] | None:
        """The head under the cursor, the matrix (empty on the name) and the number; None where there is no line."""
        row, place = self.grid.row, self.grid.place
        if row is None or place is None:
            return None
        column = self.grid.cursor[1]
        return self._names[place], self.grid.column if column else "", row[column]

    def go_to_column(self, column: str) -> None:
        """Show the measure that a person named."""
        if any(measure.name == column for measure in MEASURES):
            self.session.change(**measure_fields(self.session.shown, column))

    def explain_column(self, column: str) -> str:
        """Say what a column holds."""
        if column in PLACES:
            return PLACES[column]
        return next(f"{each.title}: {each.formula}" for each in MEASURES if each.name == column)

    def show_compared(self, columns: Collection[str]) -> None:
        """Show the measure that a filter compares, if it compares only one."""
        compared = [each.name for each in MEASURES if each.name in columns]
        if len(compared) == 1 and compared[0] != self.measure.name:
            self.session.change(**measure_fields(self.session.shown, compared[0]))

    def _leads(self) -> str:
        """Offer Enter where the head under the cursor is not selected, as after a filter; moving selects at once."""
        place = self.grid.place
        if place is None:
            return "head" if self.grid.why_none else ""
        return "head" if self._names[place] != self._selected else ""

    @on(TableGrid.Moved)
    def _moved(self) -> None:
        """Select the head under the cursor if a person moved it."""
        self.read_out()
        if self.grid.has_focus and self.grid.place not in (None, self._place):
            self._select()

    @on(TableGrid.Chosen)
    def _select(self) -> None:
        self._place = self.grid.place
        if self._place is not None:
            self.session.change(selected=self._names[self._place])


def _label(name: Head, names: Sequence[Head]) -> str:
    """Name a line: a head by its number, a whole layer as ``all`` below its heads, else by its number."""
    if not name.is_layer:
        return f"H{name.head}"
    if any(not each.is_layer for each in names):
        return "all"
    return str(name) if len({each.stack for each in names}) == 1 else f"{name.stack[0]}{name}"


def _spell_chance(cell: Cell) -> str:
    return rough_number(cell, in_column=True) if isinstance(cell, int | float) else cell or ""
