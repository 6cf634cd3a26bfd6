"""The ranks view: one measure by matrix, for every head of a layer or every layer of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import BindingType

from engine.analysis.ranks import rank_rows_beside_chance
from engine.values.heads import DELTA, MATRICES, Head
from engine.values.table import RANK_COLUMNS, RANKS_BESIDE_CHANCE_COLUMNS, Cell, LargeTable
from engine.values.views import OF_SPECTRA, OVERVIEW, meaning
from tui.drawing.facts import distance_text
from tui.drawing.numbers import fit_number, rough_number
from tui.drawing.text import first_fitting
from tui.drawing.titles import Part, Title, layer_part
from tui.state.overview_measures import MEASURES, RANKS, epsilon_after, next_group, overview_fields
from tui.state.session import Shown
from tui.state.spectra_store import measure_named
from tui.state.stores import Stores
from tui.toolkit.keys import MEASURING, key_of, shared_key
from tui.toolkit.messages import Notice
from tui.views.pane import Pane
from tui.widgets.line import Line
from tui.widgets.table_columns import Columns
from tui.widgets.table_grid import TableGrid

NAME_WIDTH, VALUE_WIDTH = 6, 7
"""Cells of a line's name and of each number; a line fits beside the tree on 80 columns."""

NONE = "×"
"""Stands for a number that cannot be computed."""

COLUMNS = Columns.of_numbers(("name", *MATRICES), NAME_WIDTH, VALUE_WIDTH - 1, gap=1)
"""A line's name and its number for each matrix, of one width for all measures."""


class RanksTable(TableGrid):
    """The table; a row is a head or a layer."""

    selects = True

    def text(self, cell: Cell) -> str:
        """Write one cell; a number has as many digits as fit."""
        if isinstance(cell, int | float):
            return fit_number(cell, VALUE_WIDTH - 1)
        return cell or "…"


class RanksPane(Pane):
    """Heads × matrices of a layer, or layers × matrices of the model, and below them chance."""

    view = "ranks"
    uses = ("selected", "distance", "epsilon", "measure", "off")
    asks = ("spectra",)
    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("next_measure", "m", "measure(1)", "Next measure", MEASURING),
        shared_key("previous_measure", "", "measure(-1)", "Previous measure", MEASURING),
        shared_key("next_matrix", "M", "matrix", "Next matrix of the overview", MEASURING),
        shared_key("more", "plus,equals_sign", "epsilon(1)", "Larger ε", MEASURING),
        shared_key("less", "minus", "epsilon(-1)", "Smaller ε", MEASURING),
    ]

    foot_keys: ClassVar[Mapping[str, str]] = {"app.next_measure": "Measure", "app.more": "ε", "table.sort": "Sort"}

    def __init__(self) -> None:
        self.grid = RanksTable(name="ranks")
        self.chance_line = Line(classes="pane-chance")
        super().__init__(self.grid, self.chance_line)
        self.grid.leads = lambda: "" if self.head_here in (None, self.session.shown.selected) else "head"
        self.grid.strikes = lambda row: row[0] in self._struck
        self.measure = measure_named(Shown().measure)
        self._names: Sequence[Head] = ()
        self._troubles: Mapping[Head, str] = {}
        self._struck: frozenset[str] = frozenset()
        self._chance: Sequence[Cell] = ("",) * len(COLUMNS.names)
        self._title: tuple[Sequence[Part], Sequence[str]] = ((), ())
        self._place: int | None = None
        """The line from which a person's moves start."""

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
        self._names, self.measure = names, measure_named(shown.measure)
        self._troubles = {name: why for name in names if (why := spectra.why_not(name))}
        self.is_waiting = not measures and not self._troubles
        self.is_unfinished = len(measures.keys() | self._troubles.keys()) < len(names)
        place, lines = RANK_COLUMNS.index(shown.measure), []
        for name in names:
            rows, missing = measures.get(name, {}), NONE if name in self._troubles else ""
            lines.append((_label(name, names), *(rows[each][place] if each in rows else missing for each in MATRICES)))
        struck = frozenset(_label(name, names) for name in names if name in shown.off.heads)
        if struck != self._struck:
            self._struck = struck
            self.grid.refresh()
        line = names.index(selected) if selected in names else None
        if tuple(lines) != self.grid.rows:
            self.grid.show(COLUMNS.names, tuple(lines), COLUMNS.frozen, columns=COLUMNS, place=line)
        elif line is not None:
            self.grid.go_to(line)
        self._place = self.grid.place if line is None else line
        self.fit_height()
        missing = NONE if selected in self._troubles or names[0].stack.endswith(DELTA) else "…"  # changes have none
        chance = spectra.chance(selected or names[0], shown.measure, shown.epsilon)
        self._chance = ("chance", *(chance.get(matrix, missing) for matrix in MATRICES))
        of = f", ε {shown.epsilon:g}" if shown.measure == "energy_rank" else f" (energy ε {shown.epsilon:g})"
        said = self.measure.title
        self._title = title, (f"{said}{of}", said, "")
        self._write_lines()

    def action_measure(self, step: int) -> None:
        """Show the next or previous measure; in the overview, of that."""
        shown = self.session.shown
        if shown.view == OVERVIEW:
            self.session.change(**overview_fields(MEASURES[(MEASURES.index(shown.overview) + step) % len(MEASURES)]))
        else:
            self.session.change(measure=RANKS[(RANKS.index(shown.measure) + step) % len(RANKS)])

    def action_matrix(self) -> None:
        """Show the same measure of the next matrix in the overview, or the first of patterns or circuits."""
        shown = self.session.shown
        if shown.view == OVERVIEW:
            self.session.change(**overview_fields(next_group(shown.overview)))
        else:
            self.post_message(Notice(f"the overview shows one matrix; {key_of(self, 'app.overview')} goes there"))

    def action_epsilon(self, step: int) -> None:
        """Change ε to the next larger or smaller one."""
        before = self.session.shown.epsilon
        if (epsilon := epsilon_after(before, step)) is None:
            end = "largest" if step > 0 else "smallest"
            self.post_message(Notice(f"ε {before:g} is the {end} that the keys go to"))
        else:
            self.session.change(epsilon=epsilon)

    @on(TableGrid.ColumnsScrolled)
    def _write_lines(self) -> None:
        """Write the title, chance below the columns in view, and the readout."""
        title, state = self._title
        self.title_line.show_title(Title.of(self.view, title, state=state, columns=self.grid.columns_beyond))
        self.chance_line.show(Text(self.grid.format_line(self._chance, _spell_chance)))
        self._read_out()

    def _read_out(self) -> None:
        """Explain the measure, or say why the line under the cursor has no numbers."""
        said = meaning(self.measure.name, self.session.shown.epsilon)
        ways = f"{said}  ·  {OF_SPECTRA[self.measure.name]}", said, said.partition(": ")[2]
        trouble = "" if self.head_here is None else self._troubles.get(self.head_here, "")
        self.readout_line.show(trouble or first_fitting(self.readout_line.content_size.width, *ways))

    @property
    def head_here(self) -> Head | None:
        """The head or layer of the line under the cursor."""
        return None if self.grid.place is None else self._names[self.grid.place]

    @property
    def subject(self) -> Head | None:
        """The layer, or None for the model."""
        selected = self.session.shown.selected
        return selected and selected.whole_layer

    def table_on_screen(self) -> LargeTable:
        """Give the rows of the ``ranks`` table, beside chance."""
        shown, spectra = self.session.shown, self.known.spectra
        distance = None if shown.selected is None else shown.distance
        names = [self._names[place] for place in self.grid.order]  # as they are sorted
        if not (found := [each for name in names for each in spectra.listed(name, distance)]):
            raise self.nothing_drawn
        return LargeTable(self.view, RANKS_BESIDE_CHANCE_COLUMNS, rank_rows_beside_chance(found, shown.epsilon))

    def fit_height(self) -> None:
        """Below the spectra, take only the lines that the rows need."""
        lines = len(self._names) + self.grid.head + 2  # with chance and the explanation
        self.styles.height = lines + self.gutter.height if self.has_class("-below") else "1fr"

    @property
    def under_cursor(self) -> tuple[Head, str, Cell] | None:
        """The head under the cursor, the matrix (empty on the name) and the number; None where there is no line."""
        row, column = self.grid.row, self.grid.cursor[1]
        if row is None or self.head_here is None:
            return None
        return self.head_here, self.grid.column if column else "", row[column]

    @on(TableGrid.Moved)
    def _moved(self) -> None:
        """Select the head under the cursor if a person moved it."""
        self._read_out()
        if self.grid.has_focus and self.grid.place not in (None, self._place):
            self._select()

    @on(TableGrid.Chosen)
    def _select(self) -> None:
        self._place = self.grid.place
        self.session.change(selected=self.head_here)


def _label(name: Head, names: Sequence[Head]) -> str:
    """Name a line: a head by its number, a whole layer as ``all`` below its heads, else by its number."""
    if not name.is_layer:
        return f"H{name.head}"
    if not names[0].is_layer:
        return "all"
    return str(name) if len({each.stack for each in names}) == 1 else f"{name.stack[0]}{name}"


def _spell_chance(cell: Cell) -> str:
    return rough_number(cell) if isinstance(cell, int | float) else cell or ""
