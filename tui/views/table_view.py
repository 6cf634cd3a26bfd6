"""The tables of the engine: sorting and filtering their rows, and going from a row to its head or token."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.values.attention import Sentence
from engine.values.display_text import quantity
from engine.values.errors import NotFolded
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head, head_text
from engine.values.table import CHANCE, Cell, Row, Table, left_out_title
from engine.values.views import (
    ABLATION,
    CONTRIBUTIONS,
    HEADS,
    PREDICTIONS,
    VIEWS,
    Scope,
    View,
    explain,
    meaning,
    ring_of,
)
from tui.drawing.facts import brief_notice, distance_text, short_name
from tui.drawing.numbers import brief_number, fit_number, short_number
from tui.drawing.progress import progress_text
from tui.drawing.readout import explain_empty, number_readout, row_name, row_readout
from tui.drawing.text import escape_text, first_fitting, quote_text
from tui.drawing.titles import COMPUTING, Part, Title, fact_part, head_part, mean_part, off_part, pair_part
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tables import TableKey, TableStore, is_swept, table_query
from tui.toolkit.keys import command_binding, key_of
from tui.toolkit.messages import HeadEntered, Notice, PlaceWanted
from tui.views.attention_view import AttentionPane
from tui.views.pane import Pane
from tui.widgets.field import last_word
from tui.widgets.line import Line
from tui.widgets.table_columns import PLACES
from tui.widgets.table_grid import NO_ROWS, TableGrid


def table_title(shown: Shown, view: View, stores: Stores) -> list[Part]:
    """Name what a table is of, and with a second model open, which model."""
    outline, name, is_of_model = stores.outline, shown.selected, view.scope is Scope.MODEL
    parts = []
    if not is_of_model:
        parts.append(Part("all layers", " ") if name is None else head_part(name, outline))
    if shown.off.heads and "text" in view.options:
        if "off" in view.options:
            parts.append(off_part(shown.off, outline.stacks, " " if is_of_model else " · "))
        else:
            parts.append(fact_part("with all heads on", "  " if is_of_model else " · "))
    elif view is ABLATION:
        parts.append(Part("by mean", " ") if shown.off.by_mean else fact_part("by zero", " "))
    is_of_one = is_of_model and "text" in view.needs and (shown.off.heads or "vs" not in view.option_columns)
    if stores.engine.is_comparing and is_of_one:
        parts.append(fact_part(f"of {short_name(outline)}"))
    if "energy" in view.options:
        parts.append(fact_part(f"ε {shown.epsilon:g}"))
    if shown.folds and "fold_norm" in view.options:
        parts.append(fact_part("norms folded in"))
    if "distance" in view.options:
        parts.append(Part(distance_text(shown.distance, outline), " "))
    return parts


def show_missing_table(pane: Pane, title: Sequence[Part], stores: Stores, key: TableKey) -> None:
    """Show an error, that a person stopped the table, or that it is being computed."""
    tables = stores.tables
    found = tables.peek(key)
    if found is None and tables.stopped == key:
        pane.show_message(title, how_to_go_on(pane))
        return
    message = "reading …" if VIEWS[key[0]].grows else f"{COMPUTING} {key_of(pane.app, 'app.leave')} stops"
    pane.show_missing(title, found, is_late=tables.is_late, message=message)


def how_to_go_on(pane: Pane) -> str:
    """Name the key that continues a stopped table."""
    ring = ring_of(pane.view)
    return f"stopped, {key_of(pane.app, f'app.{ring[0] if ring else pane.view}')} goes on"


def head_of(row: Row, columns: Sequence[str]) -> Head | None:
    """Give the head or whole layer of a row; of two heads, the one that feeds the other; None where it has none.

    Examples
    --------
    >>> str(head_of(("decoder", 1, "3", 0.5), ("stack", "layer", "head", "value")))
    'L1H3'
    """
    cells = dict(zip(columns, row, strict=False))
    of = "from_" if "from_head" in cells else ""
    layer, head = cells.get(f"{of}layer"), cells.get(f"{of}head")
    if not isinstance(layer, int) or head is None:
        return None
    return Head(str(cells["stack"]), layer, -1 if head == "all" else int(str(head)))


ALL = "all, with chance"
"""The name of the set of all columns."""

FOOT_KEYS = {
    "heads": {"table.choose": "Go in", "table.filter": "Filter", "app.switch": "Off", "app.overview": "Map"},
    "predictions": {"table.token": "What makes it", "app.predictions": "Lens", "table.against": "Difference"},
    "contributions": {"app.predictions": "Predictions"},
    "ablation": {"table.filter": "Filter", "app.switch": "Off"},
}
"""The keys of some tables that the line at the foot begins with."""


class TablePane(Pane):
    """One view's table, which a filter narrows with each letter of it, and what the column under the cursor holds.

    The cursor starts on the selected head's row; in a ranked table, at the top.

    Attributes
    ----------
    shown : the table on screen; None while a message stands in its place.
    columns : that the filter can name.
    set_shown : the name of the set of columns on screen; empty for the first one.
    current_filter : the filter; None while it is empty.
    struck : heads that are off, whose rows are struck out.
    """

    asks = ("tables",)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "screen.filter", "Filter", id="table.filter"),
        Binding("escape", "step_back", "All rows again", id="table.all_rows"),
        Binding("full_stop", "position(1)", "Next token's predictions", show=False, id="table.next_token"),
        Binding("comma", "position(-1)", "Previous token's predictions", show=False, id="table.token_before"),
        Binding("D", "against", "Logit difference from this row's token", show=False, id="table.against"),
        command_binding("table.fold", "fold", "Fold the norms' gains in, or leave them out"),
        Binding("r", "columns", "Other columns; then all, with chance", show=False, id="table.columns"),
    ]

    def __init__(self, view: View) -> None:
        self.view = view.name
        self.grid = TableGrid()
        self.explanation_line = Line(classes="pane-legend")
        super().__init__(self.grid, self.explanation_line)
        self.add_class("-table")
        target = _row_target(view)
        self.grid.leads = lambda: target
        self.shown: Table | None = None
        self.columns = view.columns
        self.set_shown = ""
        self.struck: frozenset[Head] = frozenset()
        self._kind = view
        self._selected: Head | None = None
        self._title: tuple[Sequence[Part], Sequence[str]] = ((), ())
        self._said: Sequence[str] = ()
        self._pair: Sequence[Part] = ()
        self._agreeing: frozenset[str] = frozenset()
        self.current_filter: Filter | None = None
        self._applied: Filter | None = None
        """The filter that is in use while what is typed is wrong, and after the typed one is given up."""
        self._is_asked = False
        self._is_selected_hidden = False
        """Whether the filter hides the rows of the selected head, so that the cursor stays on another's."""

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The keys of this table, then those of all."""
        own = {"table.choose": "Select", **FOOT_KEYS.get(self.view, {}), "table.columns": "Columns"}
        return {**own, "table.all_rows": "All rows", "table.filter": "Filter", "table.sort": "Sort"}

    # --- drawing

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw as much of the table as is known, or show why there is none."""
        tables, title, off = stores.tables, self._title_of(shown, stores), frozenset(shown.off.heads)
        if off != self.struck:
            self.struck = off
            self.grid.strikes = (lambda row: self._head_of(row) in off) if self.has_heads else None
            self.grid.refresh()
            self.read_out()
        query = table_query(shown, self._kind, self._cell, is_comparing=stores.engine.is_comparing)
        if "text" in self._kind.needs and not shown.text:
            self.show_no_sentence(title, shown, stores)
        elif query is None:
            self._show_no_place(title, shown.selected)
        elif isinstance(found := tables.get(key := (self.view, query)), Table):
            self.show(title, found, shown.selected, () if tables.is_complete(key) else self._state(key, tables))
        elif isinstance(found, NotFolded):
            title = self._title_of(replace(shown, folds=False), stores)
            self.show_message(title, f"{found.what}; {key_of(self.app, 'table.fold')} unfolds norms")
        else:
            show_missing_table(self, title, stores, key)
        self.refresh_bindings()

    def _title_of(self, shown: Shown, stores: Stores) -> list[Part]:
        return table_title(shown, self._kind, stores)

    @property
    def _cell(self) -> tuple[int, int] | None:
        """The query and the key of a table about one cell of the map."""
        return None

    def _show_no_place(self, title: Sequence[Part], selected: Head | None) -> None:
        self.show_message(title, f"choose {self._kind.scope.value}")

    def _state(self, key: TableKey, tables: TableStore) -> Sequence[str]:
        """Say how far a table is, and which key stops it or continues it; then in fewer words."""
        progress = tables.progress.get(key)
        if not is_swept(key):
            said = "" if progress is None or progress.finished else f" {progress_text(progress)}"
            return f"{COMPUTING}{said}", COMPUTING
        done = ""
        if progress is not None and not progress.finished:
            done = f"{progress.done} of {quantity(progress.total, 'layer')}, "
        if tables.stopped == key:
            return f"{done}{how_to_go_on(self)}", how_to_go_on(self), "stopped"
        return f"{done}{key_of(self.app, 'app.leave')} stops", done.removesuffix(", ")

    def show(self, title: Sequence[Part], table: Table, selected: Head | None, state: Sequence[str]) -> None:
        """Draw a table, with the cursor on the selected head's row if it has one; the state says how far it is."""
        is_new = table is not self.shown
        is_first_part = is_new and (self.shown is None or not self.is_unfinished)
        has_other_head = selected != self._selected
        self._selected, self.is_unfinished = selected, bool(state)
        starts_at_top = bool(self._kind.ranked_by)
        follows = (has_other_head and not is_new) if starts_at_top else (has_other_head or is_first_part)
        place = self._place_of(selected, table) if selected is not None and follows else None
        if place is not None or is_first_part:
            self.grid.is_moved = False
        if is_new:
            self._show_table(table, place)
        elif place is not None:
            self.grid.go_to(place)
        lacking = " ".join(filter(None, (left_out_title(table.left_out), *map(brief_notice, table.lacking))))
        without = fact_part(lacking) if title else Part(lacking, " ")  # cut to fit where the title is empty
        self.show_drawn([*title, *self._pair, without, *map(fact_part, self._said)], state)
        if has_other_head and place is not None and selected is not None:
            self._is_selected_hidden = place not in self.grid.order
            if self._is_selected_hidden and not self.is_unfinished:
                name = head_text(selected, self.known.outline.stacks)
                self.post_message(Notice(f"the filter hides the rows of {name}"))
        self.read_out()

    def _place_of(self, selected: Head, table: Table) -> int | None:
        if "head" not in self._kind.places or "head" not in table.columns:
            return None
        name = (selected.stack, selected.layer, selected.label)
        return next((place for place, row in enumerate(table.rows) if row[:3] == name), None)

    def _show_table(self, table: Table, place: int | None) -> None:
        """Show another table, with the cursor on a row if one is given.

        A column in which all rows agree is left out; the title has its value. So are a column of heads off that names
        each row's own head, and a column of notes without a note.
        """
        self.shown, rows, said = table, table.rows, dict(self._kind.title_columns)
        if table.columns != self.columns:
            self.columns = table.columns
            try:
                kept = self._filter_of("" if self.current_filter is None else self.current_filter.text)
            except FilterError:
                kept = None
            self.current_filter = self._applied = kept
        named = {*self._kind.places, *said}
        agreeing = {name for name in named.intersection(table.columns) if table.frame[name].n_unique() <= 1}
        if "off" in table.columns:
            off = table.columns.index("off")
            if rows and all(str(row[off]).rpartition(".")[2] == str(self._head_of(row)) for row in rows):
                agreeing.add("off")
        if "note" in table.columns and table.frame["note"].null_count() == len(rows):
            agreeing.add("note")
        self._agreeing = frozenset(agreeing)
        first = table.frame.row(0, named=True) if rows else {}
        names = [name for name in said if name in agreeing and first.get(name) is not None]
        self._pair = ()
        if "against" in names:
            difference = next((_spell_cell(first[name]) for name in names if said[name] == "="), "")
            self._pair = [pair_part(str(first.get("chosen", first["token"])), str(first["against"]), difference)]
            names = [name for name in names if name not in ("chosen", "token", "against") and said[name] != "="]
        self._said = [f"{said[name]} {_spell_cell(first[name])}" for name in names]
        self._show_rows(table, place)
        if not rows:
            self.grid.show_message(self._kind.empty)

    @property
    def _sets(self) -> dict[str, tuple[str, ...]]:
        """The sets of columns by their names: the one the table opens with, the view's own, and all with chance."""
        columns = () if self.shown is None else self.shown.columns
        said = tuple(name for name in (*self._kind.places, "label") if name in columns)
        named = {name: (*said, *of_set) for name, of_set in self._kind.sets.items()}
        sets = {"": self._kind.default_columns or columns, **named}
        shown = {name: tuple(each for each in own if not each.endswith(CHANCE)) for name, own in sets.items()}
        return shown if shown[""] == columns else {**shown, ALL: columns}

    @property
    def _own_columns(self) -> tuple[str, ...]:
        """The columns of the set that is shown, and those that the filter compares."""
        own = self._sets.get(self.set_shown, ())
        compared = self.current_filter.columns if self.current_filter is not None and self.shown is not None else ()
        return (*own, *(name for name in compared if name in self.columns and name not in own))

    def _show_rows(self, table: Table, place: int | None = None) -> None:
        order = self._kind.on_screen(self._own_columns)
        kept = tuple(table.columns.index(name) for name in order if name not in self._agreeing)
        frozen = sum(table.columns[number] in self._kind.places for number in kept)
        self.grid.show(table.columns, table.rows, frozen, self.current_filter, kept, place=place)

    def replace_by(self, message: str) -> None:
        """Show why there is no table, or none yet; the message stays for a moment too."""
        self.is_unfinished = self.is_blank = False
        self.shown = None
        self.grid.show_message(message)

    @property
    def subject(self) -> Head | None:
        """The head or layer that the table is of; None for the model."""
        selected, scope = self.session.shown.selected, self._kind.scope
        if selected is None or scope is Scope.MODEL:
            return None
        return selected.whole_layer if scope is Scope.LAYER else selected

    def table_on_screen(self) -> Table:
        """Give the rows and columns on screen, as they are sorted."""
        if self.shown is None:
            raise self.nothing_drawn
        columns = self._own_columns if self.set_shown or self._kind.default_columns else self.shown.columns
        return self.shown.with_frame(self.shown.frame[list(self.grid.order)].select(columns))

    # --- what the rows are of

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows match the filter, and of how many."""
        return (0, 0) if self.shown is None else (len(self.grid.order), len(self.grid.rows))

    @property
    def has_heads(self) -> bool:
        """Whether each row is of a head of its own."""
        return self.grid.leads() == "head"

    @property
    def head_here(self) -> Head | None:
        """The head or whole layer of the row under the cursor; of a row of two heads, the one that feeds the other."""
        row = self.grid.whole_row
        return None if self.shown is None or row is None else self._head_of(row)

    def _head_of(self, row: Row) -> Head | None:
        return head_of(row, self._kind.columns)

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person moved to the row, or filtered, in a table that is not about heads that feed another."""
        is_filtered = self.current_filter is not None and not self._is_selected_hidden
        return "from_head" not in self._kind.columns and (self.grid.is_moved or is_filtered)

    def heads_on_screen(self) -> tuple[Head, ...]:
        """List the heads of the rows on screen, each once."""
        heads = (self._head_of(self.grid.rows[place]) for place in self.grid.order)
        return tuple(dict.fromkeys(head for head in heads if head is not None and not head.is_layer))

    @property
    def why_no_head(self) -> str:
        """Why the row under the cursor has no head."""
        left, rows = self.counts
        if left:
            return "this row has no head; select one in the tree"
        return self._why_none if rows else NO_ROWS

    # --- above and below the table

    def show_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Show what the rows are of, how far they are, how many match, and how many columns are to the right."""
        self._title = title, state
        left, rows = self.counts
        self.grid.why_none = self._why_none if rows and not left else ""
        kept = self.current_filter
        self.title_line.show_title(
            Title.of(
                self.view,
                [*title, fact_part(self.set_shown)] if title else title,
                state=state,
                count=(f"{left} of {rows}{self._so_far}", f"{left}/{rows}") if kept is not None and rows else (),
                words="" if kept is None else escape_text(kept.text.strip()),
                columns=self.grid.columns_beyond,
            )
        )

    @on(TableGrid.ColumnsScrolled)
    @on(TableGrid.Arranged)
    def _refresh_title(self) -> None:
        """Write the title again, with the counts and the room of now."""
        self.show_title(*self._title)

    @property
    def _so_far(self) -> str:
        return " so far" if self.is_unfinished else ""

    @property
    def _why_none(self) -> str:
        """That no row matches, and the keys that help."""
        back = f"{key_of(self.app, 'prompt.leave')} goes back"
        if not self.is_filtering:
            keys = key_of(self.app, "table.filter"), key_of(self.app, "table.all_rows")
            back = f"{keys[0]} changes the filter, {keys[1]} shows all rows"
        return f"no row matches{self._so_far}; {back}"

    @property
    def _row(self) -> dict[str, Cell]:
        """The row under the cursor, by column; empty where there is none."""
        return dict(zip(self.grid.all_columns, self.grid.whole_row or (), strict=False))

    @on(TableGrid.Moved)
    def read_out(self) -> None:
        """Explain the column under the cursor, unless a filter is being typed, and show the whole text of the cell."""
        row, explanation, readout = self._row, "", ""
        if self.shown is not None and row:
            column = self.grid.column
            said = explain(column, self.view)
            if self.view == HEADS.name or cell_len(said) > self.explanation_line.size.width:
                said = meaning(column, self.session.shown.epsilon) or said
            explanation, readout = self._lines(column, row[column], said)
        if not self.is_filtering:
            self.explanation_line.show(explanation)
        self.readout_line.show(readout)

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Explain the column; below that name the row, and give its cell with chance or say why the cell is empty."""
        row = self._row
        named = {name: each for name, each in row.items() if name != "stack" or name not in self._agreeing}
        width, chance = self.readout_line.size.width, row.get(f"{column}{CHANCE}")
        name = PLACES.get(column, column)

        def say(width: int) -> str:
            if cell is None and row:
                return f"{name} is empty: {explain_empty(column, row, is_growing=self.is_unfinished)}"
            if isinstance(cell, int | float):
                return number_readout(name, cell, None if isinstance(chance, str) else chance, width)
            return f"{name} {escape_text(cell or '')}"

        off = [f"{row_name(named)} off  {say(width)}"] if self.head_here in self.struck else []
        return explanation, first_fitting(width, *off, row_readout(named, name, say, width))

    # --- the filter

    def _filter_of(self, text: str) -> Filter | None:
        return parse_filter(text, self.columns) if text.strip() else None

    def filter_by(self, text: str) -> None:
        """Filter as if a person had typed a text; one that is wrong stays in the open line."""
        self.call_later(self.run_action, f"screen.filter({text!r})")

    @property
    def is_filtering(self) -> bool:
        """Whether a filter is being typed."""
        return self._is_asked and isinstance(self.screen.focused, Input)

    def begin_filter(self) -> str:
        """Keep the filter for as long as what is typed is wrong, and give its text."""
        self._applied, self._is_asked = self.current_filter, True
        return "" if self.current_filter is None else self.current_filter.text

    def _use(self, wanted: Filter | None) -> None:
        self.current_filter, self._is_selected_hidden = wanted, False
        self.refresh_bindings()
        if self.shown is not None:
            if not set(self._own_columns) <= {*self.grid.columns, *self._agreeing}:
                self._show_rows(self.shown)
            self.grid.narrow(wanted)

    def try_filter(self, text: str) -> None:
        """Filter by what is typed; while it is wrong, show why and keep the last one."""
        column, word = text.strip(), last_word(text)
        completes = f"{key_of(self.app, 'prompt.complete')} completes columns"
        said = "" if column else f"{completes}; a column's name alone goes to it"
        try:
            self._use(self._filter_of(text))
        except FilterError as error:
            if self.current_filter is not self._applied:
                self._use(self._applied)
            said = f"{word}: {explain(word, self.view)}" if word in self.columns else str(error)
            if column in self.columns:
                said = f"{key_of(self.app, 'prompt.answer')} goes to {said}"
        self.explanation_line.show(said)

    def finish_filter(self, text: str) -> None:
        """Keep the filter, or go to a column that is named; `FilterError` when it is neither."""
        if (column := text.strip()) in self.columns:
            self._use(self._applied)
            if self.shown is not None and column not in self._own_columns:
                self._show_set(ALL)
            self.grid.go_to_column(column)
        else:
            self._use(self._filter_of(text))
        self._is_asked = False
        self.read_out()

    def leave_filter(self) -> None:
        """Go back to the filter that was in use before another was typed."""
        self._is_asked = False
        self._use(self._applied)
        self.read_out()

    def step_back(self) -> bool:
        """Show all rows again, if there is a filter."""
        if self.current_filter is None:
            return False
        self._use(None)
        self.read_out()
        self.focus_view()
        return True

    # --- keys

    @on(TableGrid.Chosen)
    def _chosen(self) -> None:
        self.go_to_row()

    def go_to_row(self) -> None:
        """Go to the head of a row, or choose its token; the table of all heads goes into the head, as the map does."""
        row = self._row
        if self.shown is None or not row:
            return
        if (name := self.head_here) is not None:
            if self.view == HEADS.name:
                self.post_message(HeadEntered(name))
            elif name == self.session.shown.selected:
                self.post_message(Notice(f"{head_text(name, self.known.outline.stacks)} is already selected"))
            else:
                self.post_message(PlaceWanted(name))
        elif isinstance(token := row.get("token_id"), int) and "part" not in row:
            self.session.measure_token(f"#{token}")
            self.post_message(PlaceWanted(CONTRIBUTIONS.name))
        else:
            self.post_message(Notice(self.why_no_head))

    def action_columns(self) -> None:
        """Show the next set of columns."""
        sets = [*self._sets]
        self._show_set(sets[(sets.index(self.set_shown) + 1) % len(sets)] if self.set_shown in sets else "")

    def _show_set(self, name: str) -> None:
        self.set_shown = name
        if self.shown is not None and self.grid.columns:
            self._show_rows(self.shown)
            self._refresh_title()

    def action_against(self) -> None:
        """Show the logit difference from this row's token, or end it where it is shown already."""
        row, session = self._row, self.session
        if self.shown is None or not row:
            return
        token = f"#{row['token_id']}"
        if token == session.shown.against:
            session.change(against=None)
        elif token == session.shown.token or (session.shown.token is None and row["rank"] == 1):
            self.post_message(Notice("this is the token itself; on another row the key shows the logit difference"))
        else:
            session.change(against=token)

    def action_position(self, step: int) -> None:
        """Predict after another token, so many from the one of the row under the cursor."""
        shown, stores = self.session.shown, self.stores
        sentence = None if stores is None else stores.maps.sentence(shown)
        tokens, here = len(sentence.ids) if isinstance(sentence, Sentence) else 0, shown.position
        if here is None:
            said = self._row.get("position")
            here = said if isinstance(said, int) else tokens - 1
        if tokens and not 0 <= here + step < tokens:
            self.post_message(Notice(f"this is the {'last' if step > 0 else 'first'} of {quantity(tokens, 'token')}"))
        elif tokens:
            self.session.change(position=here + step, token=None)

    def action_fold(self) -> None:
        """Fold the gains of norms in, or leave them out."""
        self.session.change(folds=not self.session.shown.folds)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that change something in this table; a table of a cell has that cell's token."""
        match action:
            case "step_back":
                return self.current_filter is not None
            case "columns":
                return len(self._sets) > 1
            case "against":
                return self.view == PREDICTIONS.name and self.shown is not None
            case "position":
                return "position" in self._kind.options and self._kind.scope is not Scope.CELL
            case "fold":
                return "fold_norm" in self._kind.options
        return super().check_action(action, parameters)


class CellPane(TablePane):
    """The terms of one score; the table follows the map's cursor.

    Enter goes to the cell on the head's own map, escape back to the map that was on screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Without this one, the next binding would hide the table's.
        Binding("escape", "step_back", "All rows again", id="explain.all_rows"),
        Binding("escape", "screen.stop_or_view('attention')", "Back to the map", show=False, id="explain.back"),
        Binding("enter", "to_map", "To its cell on the head's map", show=False, id="explain.enter"),
    ]

    is_beside_map = True
    follows_cursor = True

    def __init__(self, view: View, attention: AttentionPane) -> None:
        super().__init__(view)
        self._attention = attention

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The keys to the cell, out of the filter, and back to the map."""
        back = {"table.all_rows": "All rows", "explain.all_rows": "All rows", "explain.back": "Map"}
        return {"explain.enter": "Its cell", **back, **super().foot_keys}

    @property
    def _cell(self) -> tuple[int, int] | None:
        return self._attention.cell

    def drawing_key(self, shown: Shown, stores: Stores) -> Hashable:
        """Add the map and the cell under its cursor."""
        map = self._attention
        return super().drawing_key(shown, stores), map.shown_query, map.cell, map.message, map.is_waiting

    def _title_of(self, shown: Shown, stores: Stores) -> list[Part]:
        """Add the cell under the map's cursor; it is the selected head's, even if the map is a mean."""
        title, name = super()._title_of(shown, stores), self._attention.shown_name
        cell = self._attention.cell_name
        if shown.selected is None or cell is None or name is None:
            return title
        return [*title, replace(mean_part(name, cell), gap=" " if len(title) == 1 else " · ")]

    def _show_no_place(self, title: Sequence[Part], selected: Head | None) -> None:
        if selected is None or selected.is_layer:
            super()._show_no_place(title, selected)
            return
        message = self._attention.message
        is_waiting = self._attention.is_waiting or not message
        self.show_message(title, COMPUTING if is_waiting else message, is_waiting=is_waiting)

    def go_to_row(self) -> None:
        """Go to the cell on the map."""
        self.app.call_later(self.action_to_map)

    async def action_to_map(self) -> None:
        """Go to the cell on the head's map, from which escape leads back; without terms, just show the map."""
        await self.run_action("views.view('attention')" if self.shown is None else f"views.open_map('{self.view}')")

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Give the cell and explain its column; below compare the sum of the terms with the model's score.

        In a narrow pane the model's score and the remainder go before the weight, which is the cell of the map.
        """
        assert self.shown is not None
        said = dict(self.shown.frame.select("kind", "value").iter_rows())
        numbers = [said[name] for name in ("total", "model", "unexplained", "weight")]
        width = self.readout_line.size.width
        text = self._number(column, cell, width) if isinstance(cell, int | float) else escape_text(cell or "")
        total, model, _, weight = map(short_number, numbers)
        unexplained = f" · unexplained {brief_number(abs(numbers[2]), 2)}"
        between = (f" · model {model}{unexplained}", unexplained, "")
        ways = [f"sum {total}{words} · weight {weight}" for words in between]
        ways += [
            f"sum {fit_number(numbers[0], digits)} · weight {fit_number(numbers[-1], digits)}" for digits in (5, 4)
        ]
        return f"{text}  {explanation}", first_fitting(width, *ways, f"sum {total}")

    def _number(self, column: str, value: float, width: int) -> str:
        """Write a number with its chance, briefly, as the column's explanation follows on the same line."""
        chance = self._row.get(f"{column}{CHANCE}")
        beside = None if isinstance(chance, str) else chance
        brief = short_number(value) if beside is None else f"{short_number(value)}  chance {short_number(beside)}"
        return first_fitting(width, brief, number_readout(column, value, beside, width))


def _row_target(view: View) -> str:
    """Name what Enter goes to from a row; from the rows of one head, nowhere."""
    if "head" not in view.columns:
        return "token" if "token_id" in view.columns else ""
    if view.scope is Scope.CELL:
        return "cell"
    return "" if view.scope is Scope.HEAD else "head"


def _spell_cell(cell: Cell) -> str:
    return short_number(cell) if isinstance(cell, int | float) else quote_text(cell or "")
