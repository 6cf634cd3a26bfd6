"""The tables that the engine works out: their rows sorted and filtered as a person likes, and where rows lead."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from engine.values.attention import Sentence
from engine.values.display_text import quantity
from engine.values.errors import EngineError, NotFolded
from engine.values.filters import HEAD_COLUMNS, FilterError, parse_filter
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import CHANCE, Cell, Row, Table, left_out_title
from engine.values.views import CONTRIBUTIONS, HEADS, LENS, PREDICTIONS, Scope, View, explain, meaning, ring_of
from tui.drawing.facts import at_distance, short_name
from tui.drawing.numbers import short, within
from tui.drawing.progress import describe, how_far
from tui.drawing.readout import of_number, of_row, why_empty
from tui.drawing.text import first_fitting, harmless, quoted
from tui.drawing.titles import COMPUTING, Part, fact, head_part, not_of, off_part, pair_part
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tables import TableKey, is_swept, table_query
from tui.toolkit.keys import command, key_of
from tui.toolkit.messages import HeadEntered, PlaceWanted, Told
from tui.views.attention_view import AttentionPane
from tui.views.rows import RowsPane
from tui.views.sentence_view import no_sentence
from tui.widgets.line import Line
from tui.widgets.table_grid import TableGrid


def table_title(shown: Shown, view: View, outline: ModelOutline, *, is_comparing: bool) -> list[Part]:
    """Say what a table is of, of which of two models too."""
    name, is_of_model = shown.selected, view.scope is Scope.MODEL
    is_of_token = "position" in view.options and "position" not in dict(view.said) and view is not LENS
    at = shown.position if is_of_token else None
    parts = []
    if not is_of_model:
        parts.append(Part("all layers", " ") if name is None else head_part(name, outline))
    elif at is not None:
        parts.append(fact(f"position {at}"))
    if shown.off.heads and "text" in view.options:
        if "off" in view.options:
            parts.append(off_part(shown.off, " · " if not is_of_model else "  " if parts else " "))
        else:
            parts.append(fact("with all heads on", "  " if is_of_model else " · "))
    if is_comparing and is_of_model and "text" in view.needs and (shown.off.heads or "vs" not in view.beside):
        parts.append(fact(f"of {short_name(outline)}"))
    if "energy" in view.options:
        parts.append(fact(f"ε {shown.epsilon:g}"))
    if shown.folds and "fold_norm" in view.options:
        parts.append(fact("norms folded in"))
    if "distance" in view.options:
        parts.append(Part(at_distance(shown.distance, outline), " "))
    return parts


class RowHeads:
    """Reads the heads of rows of a table with some columns.

    Attributes
    ----------
    are_feeding : whether the heads are those that feed another, which the table is about.

    Examples
    --------
    >>> str(RowHeads(("stack", "layer", "head", "value")).of(("decoder", 1, "3", 0.5)))
    'L1H3'
    """

    def __init__(self, columns: Sequence[str]) -> None:
        found = next((each for each in reversed(HEAD_COLUMNS) if {"stack", *each} <= set(columns)), ())
        self.are_feeding = found == HEAD_COLUMNS[-1]  # which comes first, where rows are of two
        self._places = tuple(map(columns.index, ("stack", *found) if found else ()))

    def of(self, row: Row) -> Head | None:
        """Give the head, or whole layer, that a row is of; None where it is of none."""
        if not self._places:
            return None
        stack, layer, head = (row[place] for place in self._places)
        if not isinstance(layer, int) or head is None:
            return None
        return Head(str(stack), layer, -1 if head == "all" else int(str(head)))


ALL = "all, with chance"
"""The set of all columns."""

FOOT_KEYS = {
    "heads": {"table.choose": "Go in", "table.filter": "Filter", "app.switch": "Off", "app.overview": "Map"},
    "predictions": {"table.token": "What makes it", "app.predictions": "Lens", "table.against": "Difference"},
    "contributions": {"app.predictions": "Predictions"},
    "ablation": {"table.filter": "Filter", "app.switch": "Off"},
}
"""The keys of some tables that the line at the foot begins with."""


class TablePane(RowsPane):
    """Shows one view's table, and explains the column under the cursor.

    The cursor is on the selected head's row; of a table that is sorted it begins at the top.

    Parameters
    ----------
    view : which table.

    Attributes
    ----------
    shown : what is drawn; None before there is anything, and where a message says why there is not.
    is_folded : whether that has the gains of norms folded in.
    """

    asks = ("tables",)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "position(1)", "Next token's predictions", show=False, id="table.next_token"),
        Binding("comma", "position(-1)", "Previous token's predictions", show=False, id="table.token_before"),
        Binding("D", "against", "Logit difference from this row's token", show=False, id="table.against"),
        command("table.fold", "fold", "Fold the norms' gains in, or leave them out"),
        Binding("r", "columns", "Other columns; then all, with chance", show=False, id="table.columns"),
    ]

    def __init__(self, view: View) -> None:
        self.view = view.name
        super().__init__(view.columns, TableGrid(), Line(classes="pane-legend"))
        self.add_class("-table")
        leads = _leads(view)
        self.grid.leads = lambda: leads
        self.shown: Table | None = None
        self.is_folded = False
        self._kind = view
        self._heads = RowHeads(view.columns)
        self._drawn: object = None
        self._selected: Head | None = None
        self._said: Sequence[str] = ()
        self._pair: Sequence[Part] = ()
        self._is_stoppable = False
        self._agreeing: frozenset[str] = frozenset()

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """What this table's rows lead to, then how they are found."""
        own = {"table.choose": "Select", **FOOT_KEYS.get(self.view, {}), "table.columns": "Columns"}
        return {**own, **super().foot_keys}

    def compose(self) -> ComposeResult:
        """Stack the title, the filter, the table, the explanation and the readout."""
        yield self.title_line
        yield self.filter_input
        yield self.grid
        yield self.explanation_line
        yield self.readout_line

    # --- drawing

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the table of what is shown, as far as it is known, or say why there is none."""
        tables, is_comparing = stores.tables, stores.engine.is_comparing
        title = self._titled(shown, stores.outline, is_comparing=is_comparing)
        self.strike(frozenset(shown.off.heads))
        if "text" in self._kind.needs and not shown.text:
            message, is_waiting = no_sentence(self.app, stores.outline, shown)
            self.show_message(title, message, is_waiting=is_waiting)
            return
        query = table_query(shown, self._kind, self._cell, is_comparing=is_comparing)
        if query is None:
            message, is_waiting = self._no_place(shown.selected)
            self.show_message(title, message, is_waiting=is_waiting)
            return
        key = (self.view, query)
        found = tables.get(key)
        self.is_stopped = tables.is_stopped(key)
        is_stoppable = tables.stoppable is not None
        if isinstance(found, NotFolded):
            leave_out = f"{key_of(self.app, 'table.fold')} unfolds norms"
            title = self._titled(replace(shown, folds=False), stores.outline, is_comparing=is_comparing)
            self.show_message(title, f"{found.what}; {leave_out}")
        elif isinstance(found, EngineError):
            self.show_message(title, str(found))
        elif found is not None:
            self.is_folded = query.fold_norm
            is_complete = tables.is_complete(key)
            state = () if is_complete else self._state(key, tables.progress.get(key))
            self.show(title, found, shown.selected, state, is_growing=not is_complete)
        elif self.is_stopped:
            self.show_message(title, self._how_to_go_on)
        elif tables.is_late(key) or (self.shown is None and not self.grid.message):
            said = "reading …" if self._kind.grows else COMPUTING
            if tables.told is not None and not self._kind.grows:
                said = f"{tables.told.activity}: {how_far(tables.told)}; {key_of(self.app, 'app.leave')} stops"
            self.show_message(title, said, is_waiting=True)
        else:
            self.is_waiting = True
        if is_stoppable != self._is_stoppable:  # escape stops it, before it shows all rows again
            self._is_stoppable = is_stoppable
            self.refresh_bindings()

    def _titled(self, shown: Shown, outline: ModelOutline, *, is_comparing: bool) -> list[Part]:
        """Say what the table is of."""
        return table_title(shown, self._kind, outline, is_comparing=is_comparing)

    @property
    def _cell(self) -> tuple[int, int] | None:
        """The query and the key that the table is of, where it is of a cell of the map."""
        return None

    def _no_place(self, selected: Head | None) -> tuple[str, bool]:
        """Say what to choose for a table; and whether that is to come."""
        return f"choose {self._kind.scope.value}", False

    @property
    def _how_to_go_on(self) -> str:
        """Say that the table was stopped, and which key has it go on."""
        ring = ring_of(self.view)
        return f"stopped, {key_of(self.app, f'app.{ring[0] if ring else self.view}')} goes on"

    def _state(self, key: TableKey, progress: Progress | None) -> Sequence[str]:
        """Say how much of a table there is, and which key stops it or has it go on; then in fewer words."""
        if not is_swept(key):
            said = "" if progress is None or progress.finished else f" {describe(progress)}"
            return f"{COMPUTING}{said}", COMPUTING
        done = "" if progress is None else f"{progress.done} of {quantity(progress.total, 'layer')}, "
        if self.is_stopped:
            return f"{done}{self._how_to_go_on}", self._how_to_go_on, "stopped"
        return f"{done}{key_of(self.app, 'app.leave')} stops", done.removesuffix(", ")

    def show(
        self,
        title: Sequence[Part],
        table: Table,
        selected: Head | None,
        state: Sequence[str] = (),
        *,
        is_growing: bool = False,
    ) -> None:
        """Draw a table, with the cursor on the selected head's row where it has one; the state says how far it is."""
        drawn = (title, table, selected, tuple(state), is_growing)
        if drawn == self._drawn:
            return
        was_growing, could = self.shown is not None and self.is_unfinished, self._what_keys_need
        self._drawn, self.is_waiting, self.is_unfinished = drawn, False, is_growing
        had_one, has_moved, self._selected = self._selected is not None, selected != self._selected, selected
        is_new = table is not self.shown
        begins_at_top, grows_on = bool(self._kind.ranked_by), is_new and was_growing
        follows = (has_moved and not is_new) if begins_at_top else has_moved or (is_new and not grows_on)
        place = self._place_of(selected, table) if selected is not None and follows else None
        if place is not None or (is_new and not grows_on):
            self.grid.is_moved = False
        if is_new:
            self._take(table, place)
        elif place is not None:
            self.grid.go_to(place)
        lacking = " ".join(filter(None, (left_out_title(table.left_out), *table.lacking)))
        without = fact(lacking) if title else Part(lacking, " ")  # which is cut where there is nothing else to say
        self.set_title([*title, *self._pair, without, *map(fact, self._said)], state)
        if has_moved and had_one and place is not None and selected is not None:
            self.pass_by(selected, is_left=place in self.grid.order)
        self.read_out()
        if self._what_keys_need != could:
            self.refresh_bindings()

    @property
    def _what_keys_need(self) -> tuple[bool, bool]:
        """Whether the row has no head, and whether the columns have sets: some keys are offered only where they do."""
        return self.is_on_row_of_no_head, len(self._sets) > 1

    def _place_of(self, selected: Head, table: Table) -> int | None:
        """Find the row of a head, of a table whose rows are of heads."""
        if "head" not in self._kind.places or "head" not in table.columns:
            return None
        name = (selected.stack, selected.layer, selected.label)
        return next((place for place, row in enumerate(table.rows) if row[:3] == name), None)

    def _take(self, table: Table, place: int | None) -> None:
        """Show another table, with the cursor on one of its rows where that is given.

        Columns in which all rows agree are said in the title, or by what is selected; so is a column of heads that are
        off, where it is each row's own. Nothing is said of notes where there are none.
        """
        self.shown, rows, said = table, table.rows, dict(self._kind.said)
        if table.columns != self._columns:
            self._columns = self.filter_input.columns = table.columns
            try:
                self._filter = self._applied = parse_filter(self._filter.text, table.columns)
            except FilterError:
                self._filter = self._applied = parse_filter("", ())
        agreeing = {
            name for number, name in enumerate(table.columns)
            if name in (*self._kind.places, *said) and all(row[number] == rows[0][number] for row in rows)
        }  # fmt: skip
        if "off" in table.columns:
            off = table.columns.index("off")
            if rows and all(str(row[off]).rpartition(".")[2] == str(self._heads.of(row)) for row in rows):
                agreeing.add("off")
        if "note" in table.columns and not any(row[table.columns.index("note")] for row in rows):
            agreeing.add("note")
        self._agreeing = frozenset(agreeing)
        first = dict(zip(table.columns, rows[0], strict=True)) if rows else {}
        names = [name for name in said if name in agreeing and first.get(name) is not None]
        self._pair = ()
        if "against" in names:
            is_of_pair = {name: name in ("chosen", "token", "against") or said[name] == "=" for name in names}
            difference = next((_said(first[name]) for name in names if said[name] == "="), "")
            self._pair = [pair_part(str(first.get("chosen", first["token"])), str(first["against"]), difference)]
            names = [name for name in names if not is_of_pair[name]]
        self._said = [f"{said[name]} {_said(first[name])}" for name in names]
        self._show_rows(table, place)
        if not rows:
            self.grid.show_message(self._kind.empty)

    @property
    def _sets(self) -> dict[str, tuple[str, ...]]:
        """The columns that can be shown together: those the table opens with, others by name, and all with chance."""
        columns = () if self.shown is None else self.shown.columns
        said = tuple(name for name in (*self._kind.places, "label") if name in columns)
        named = {name: (*said, *of_set) for name, of_set in self._kind.sets.items()}
        sets = {"": self._kind.opens_with or columns, **named}
        shown = {name: tuple(each for each in own if not each.endswith(CHANCE)) for name, own in sets.items()}
        return shown if shown[""] == columns else {**shown, ALL: columns}

    @property
    def _own_columns(self) -> tuple[str, ...]:
        """The columns that are shown where rows differ in them: of a set, and what is filtered by."""
        own = self._sets.get(self.set_shown, ())
        compared = self.narrowing.columns if self.narrowing is not None and self.shown is not None else ()
        return (*own, *(name for name in compared if name in self._columns and name not in own))

    def _show_rows(self, table: Table, place: int | None = None) -> None:
        """Have the grid show the rows under the columns that are shown."""
        order = self._kind.on_screen(self._own_columns)
        kept = tuple(table.columns.index(name) for name in order if name not in self._agreeing)
        frozen = sum(table.columns[number] in self._kind.places for number in kept)
        self.grid.show(table.columns, table.rows, frozen, self.narrowing, kept, place=place)

    def show_message(self, title: Sequence[Part], message: str, *, is_waiting: bool = False) -> None:
        """Say why there is no table, or none yet."""
        self.is_waiting, self.is_unfinished = is_waiting, False
        self._drawn = self.shown = None
        self.set_title(title)
        self.grid.show_message(message)
        self.explanation_line.show("")
        self.readout_line.show("")

    def table_on_screen(self) -> Table:
        """Give the table with the rows that are shown, as they are sorted.

        Raises
        ------
        EngineError : when it shows nothing yet.
        """
        if self.shown is None:
            raise EngineError(f"{self.view} is still empty; nothing was written")
        columns = self._own_columns if self.set_shown or self._kind.opens_with else self.shown.columns
        return self.shown.with_frame(self.shown.frame[list(self.grid.order)].select(columns))

    def narrow(self) -> None:
        """Show the rows that the filter leaves, if there is a table."""
        if self.shown is None:
            return
        if not set(self._own_columns) <= {*self.grid.columns, *self._agreeing}:
            self._show_rows(self.shown)
        self.grid.narrow(self.narrowing)

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the rows of heads, where rows are of heads that differ."""
        if heads != self.struck:
            self.struck = heads
            self.grid.strikes = (lambda row: self._heads.of(row) in heads) if heads and self.has_heads else None
            self.grid.refresh()
            self.read_out()

    # --- what the rows are of

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows the filter leaves, and of how many."""
        return (0, 0) if self.shown is None else (len(self.grid.order), len(self.grid.rows))

    @property
    def has_heads(self) -> bool:
        """Whether rows are of heads that differ."""
        return self.grid.leads() == "head"

    @property
    def head_here(self) -> Head | None:
        """The head, or whole layer, that the row under the cursor is of: the one that feeds where it says one."""
        row = self.grid.whole_row
        return None if self.shown is None or row is None else self._heads.of(row)

    @property
    def is_on_row_of_no_head(self) -> bool:
        """Whether there is a row under the cursor, and it is of no head."""
        return self.grid.row is not None and self.head_here is None

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person has moved to the row, or filtered; heads that feed another are not what a table is about."""
        return not self._heads.are_feeding and (self.grid.is_moved or super().is_on_chosen_row)

    def heads_left(self) -> tuple[Head, ...]:
        """List the heads that the rows on screen are of, each once."""
        heads = (self._heads.of(self.grid.rows[place]) for place in self.grid.order)
        return tuple(dict.fromkeys(head for head in heads if head is not None and not head.is_layer))

    # --- below the table

    def go_to_column(self, column: str) -> None:
        """Put the cursor on a column that was named by itself, with all others where it is hidden."""
        if self.shown is not None and column not in self._own_columns:
            self._show_set(ALL)
        self.grid.go_to_column(column)

    def explained(self, column: str) -> str:
        """Say what a column holds."""
        return explain(column, self.view)

    @on(TableGrid.Moved)
    def read_out(self) -> None:
        """Explain the column under the cursor, unless a filter is typed of which it is said how far it goes.

        The text of a cell is written in full, as the cursor may be on another row with every letter of the filter.
        """
        self.refresh_title()
        row = self.grid.whole_row
        explanation = readout = ""
        if self.shown is not None and row is not None:
            column = self.grid.column
            cell = row[self.grid.all_columns.index(column)]
            said = meaning(column) if self.view == HEADS.name else ""
            explanation, readout = self._lines(column, cell, said or explain(column, self.view))
        if not self.filter_input.display:
            self.explanation_line.show(explanation)
        self.readout_line.show(readout)

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Say what stands below the table: what the column is, and the row and its cell, or why that is empty.

        With a measure comes what chance gives for it, which may be farther to the right, or in the title.
        """
        row = dict(zip(self.grid.all_columns, self.grid.whole_row or (), strict=False))
        width, chance = self.readout_line.size.width, row.get(f"{column}{CHANCE}")

        def say(width: int) -> str:
            if cell is None and row:
                return f"{column} is empty: {why_empty(column, row, is_growing=self.is_unfinished)}"
            if isinstance(cell, int | float):
                return of_number(column, cell, None if isinstance(chance, str) else chance, width)
            return f"{column} {harmless(cell or '')}"

        off = [f"{self.head_here} off  {say(width)}"] if self.head_here in self.struck else []
        return explanation, first_fitting(width, *off, of_row(row, column, say, width))

    # --- keys

    @on(TableGrid.Chosen)
    def _chosen(self) -> None:
        self.go_to_row()

    def go_to_row(self) -> None:
        """Go to the head that a row is about, the one that feeds where it says one; of a token, choose that.

        The table of all heads leads into the head, as their map does.
        """
        whole = self.grid.whole_row
        if self.shown is None or whole is None:
            return
        row = dict(zip(self.grid.all_columns, whole, strict=True))
        if (name := self._heads.of(whole)) is not None:
            if self.view == HEADS.name:
                self.post_message(HeadEntered(name))
            elif name == self.session.shown.selected:
                self.post_message(Told(f"{name} is already selected"))
            else:
                self.post_message(PlaceWanted(name))
        elif isinstance(token := row.get("token_id"), int) and "part" not in row:
            self.session.change(token=f"#{token}")  # switching heads off is of that token from then on too
            self.post_message(PlaceWanted(CONTRIBUTIONS.name))
        else:
            self.post_message(Told(self.why_no_head))

    def action_columns(self) -> None:
        """Show the next set of columns."""
        sets = [*self._sets]
        self._show_set(sets[(sets.index(self.set_shown) + 1) % len(sets)] if self.set_shown in sets else "")

    def _show_set(self, name: str) -> None:
        """Show a set of columns, and say which."""
        self.set_shown = name
        if self.shown is not None and self.grid.columns:
            self._show_rows(self.shown)
            self.refresh_title()

    def action_against(self) -> None:
        """Hold the token that is looked at against this row's, or against none where it is that already."""
        whole, session = self.grid.whole_row, self.session
        if self.shown is None or whole is None:
            return
        row = dict(zip(self.grid.all_columns, whole, strict=True))
        token = f"#{row['token_id']}"
        if token == session.shown.against:
            session.change(against=None)
        elif token == session.shown.token or (session.shown.token is None and row["rank"] == 1):
            self.post_message(Told("this is the token itself; on another row the key shows the logit difference"))
        else:
            session.change(against=token)

    def action_position(self, step: int) -> None:
        """Predict at another token, counted from that of the first row; say so where there is none."""
        shown, stores, table = self.session.shown, self.stores, self.shown
        sentence = None if stores is None else stores.maps.sentence(shown)
        tokens, here = len(sentence.ids) if isinstance(sentence, Sentence) else 0, shown.position
        if here is None:
            is_said = table is not None and "position" in table.columns and table.rows
            said = table.rows[0][table.columns.index("position")] if table is not None and is_said else None
            here = said if isinstance(said, int) else tokens - 1
        if tokens and not 0 <= here + step < tokens:
            self.post_message(Told(f"this is the {'last' if step > 0 else 'first'} of {quantity(tokens, 'token')}"))
        elif tokens:
            self.session.change(position=here + step, token=None)

    def action_fold(self) -> None:
        """Have the gains of norms folded in, or not."""
        self.session.change(folds=not self.session.shown.folds)
        self.refresh_bindings()  # a key that can only lead back is offered for that alone

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Have keys where a table has what they change: another token not where the cell of the map says which."""
        if action == "columns":
            return len(self._sets) > 1
        if action == "against":
            return self.view == PREDICTIONS.name
        if action == "position":
            return "position" in self._kind.options and self._kind.scope is not Scope.CELL
        if action == "fold":
            return "fold_norm" in self._kind.options
        return super().check_action(action, parameters)


class CellPane(TablePane):
    """Shows the terms of one score, and follows the map's cursor.

    Enter goes to the cell that they are of, on the map of the head itself; escape back to the map, whatever it shows.

    Parameters
    ----------
    view : which table.
    attention : the map.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "step_back", "All rows again", id="explain.all_rows"),  # else the next hides the table's
        Binding("escape", "screen.stop_or_view('attention')", "Back to the map", show=False, id="explain.back"),
        Binding("enter", "apply", "Filter", id="explain.apply", priority=True),
        Binding("enter", "to_map", "To its cell on the head's map", show=False, id="explain.enter"),
    ]

    is_beside_map = True
    follows_cursor = True

    def __init__(self, view: View, attention: AttentionPane) -> None:
        super().__init__(view)
        self._attention = attention

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """Where a row's cell is, how to take a filter away, and the way back."""
        own = {"explain.enter": "Its cell"} if self.view == "explain" else {}
        first = {"table.all_rows": "All rows", "explain.all_rows": "All rows", "explain.back": "Map"}
        return {**own, **first, **super().foot_keys}

    @property
    def _cell(self) -> tuple[int, int] | None:
        """The query and the key under the map's cursor."""
        return self._attention.cell

    def drawn_of(self, shown: Shown, stores: Stores) -> Hashable:
        """Add what the map shows, and the cell under its cursor."""
        map = self._attention
        return super().drawn_of(shown, stores), map.shown_query, map.cell, map.message, map.is_waiting

    def _titled(self, shown: Shown, outline: ModelOutline, *, is_comparing: bool) -> list[Part]:
        """Name what is under the map's cursor too, as that of one head, whatever the map is of."""
        title, name = super()._titled(shown, outline, is_comparing=is_comparing), self._attention.shown_name
        cell = self._attention.cell_name
        if shown.selected is None or cell is None or name is None:
            return title
        return [*title, replace(not_of(name, cell), gap=" " if len(title) == 1 else " · ")]

    def _no_place(self, selected: Head | None) -> tuple[str, bool]:
        """Say what to choose, or what the map says whose cell it is of."""
        if selected is None or selected.is_layer:
            return super()._no_place(selected)
        message = self._attention.message
        is_waiting = self._attention.is_waiting or not message
        return COMPUTING if is_waiting else message, is_waiting

    def go_to_row(self) -> None:
        """Go to the cell on the map."""
        self.app.call_later(self.action_to_map)

    async def action_to_map(self) -> None:
        """Go to the cell on the head's map, from where escape leads back; without terms, to where a map will be."""
        await self.run_action("views.view('attention')" if self.shown is None else f"views.open_map('{self.view}')")

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


def _leads(view: View) -> str:
    """Say what rows lead to: the terms of a cell to that; all rows of one head are about it, and parameters of none."""
    if "head" not in view.columns:
        return "token" if "token_id" in view.columns else ""
    if view.scope is Scope.CELL:
        return "cell"
    return "" if view.scope is Scope.HEAD else "head"


def _said(cell: Cell) -> str:
    """Write a cell as a title has it."""
    return short(cell) if isinstance(cell, int | float) else quoted(cell or "")
