"""A pane of rows, each of which may be of a head, with a line above them for a filter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.values.display_text import quantity
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head, head_text
from tui.drawing.text import escape_text
from tui.drawing.titles import Part, Title, fact_part
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Notice
from tui.views.pane import Pane
from tui.widgets.field import last_word
from tui.widgets.line import Line
from tui.widgets.table_grid import TableGrid


class RowsPane(Pane):
    """Rows that a filter narrows with each letter of it.

    Parameters
    ----------
    columns : that a filter can name.
    grid : draws the rows.
    line : stands below them.

    Attributes
    ----------
    columns : that the filter can name.
    explanation_line : shows how many rows match, or what is wrong with the filter.
    struck : heads that are off, whose rows are struck out.
    set_shown : the name of the set of columns on screen; empty for the first one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "screen.filter", "Filter", id="table.filter"),
        Binding("escape", "step_back", "All rows again", id="table.all_rows"),
    ]

    def __init__(self, columns: Sequence[str], grid: TableGrid, line: Line) -> None:
        self.grid, self.explanation_line, self.columns = grid, line, tuple(columns)
        super().__init__(grid, line)
        self.struck: frozenset[Head] = frozenset()
        self.set_shown = ""
        self._filter = self._applied = parse_filter("", ())
        self._is_asked = self._is_wrong = False
        """Whether the filter is asked for, and whether what is typed is none, so that another one is in use."""
        self._title: tuple[Sequence[Part], Sequence[str]] = ((), ())
        self._is_selected_hidden = False
        """Whether the filter hides the rows of the selected head, so that the cursor stays on another's."""

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The keys that find rows."""
        return {"table.all_rows": "All rows", "table.filter": "Filter", "table.sort": "Sort"}

    # --- what the rows are of

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows match the filter, and of how many."""
        raise NotImplementedError

    @property
    def has_heads(self) -> bool:
        """Whether each row is of a head or layer of its own, on which keys can act."""
        return True

    @property
    def head_here(self) -> Head | None:
        """The head or whole layer of the row under the cursor."""
        raise NotImplementedError

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person moved to the row, or filtered, so that keys act on its head."""
        return self.current_filter is not None and not self._is_selected_hidden

    def heads_on_screen(self) -> tuple[Head, ...]:
        """List the heads of the rows on screen, without whole layers."""
        raise NotImplementedError

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the rows of heads."""
        raise NotImplementedError

    def narrow(self) -> None:
        """Show the rows that match the filter, if there are any rows."""
        raise NotImplementedError

    def go_to_column(self, column: str) -> None:
        """Show a column that a person named."""
        raise NotImplementedError

    def explain_column(self, column: str) -> str:
        """Say what a column holds."""
        raise NotImplementedError

    def read_out(self) -> None:
        """Show below the table what is under the cursor."""
        raise NotImplementedError

    def show_compared(self, columns: Collection[str]) -> None:
        """Show the columns that a finished filter compares, where the view shows only some."""

    def focus_view(self) -> None:
        """Put the focus on the table."""
        self.screen.set_focus(self.grid)

    @property
    def why_no_head(self) -> str:
        """Why the row under the cursor has no head."""
        left, rows = self.counts
        if left:
            return "this row has no head; select one in the tree"
        return self.why_none if rows else "no rows yet; wait, then switch a head"

    # --- the title

    def show_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Show what the rows are of, how far they are, how many match, and how many columns are to the right."""
        self._title = title, state
        left, rows = self.counts
        self.grid.explain_none(self.why_none if rows and not left else "")
        has_filter = self.current_filter is not None
        self.title_line.show_title(
            Title.of(
                self.view,
                [*title, fact_part(self.set_shown)] if title else title,
                state=state,
                count=(f"{left} of {rows}{self._so_far}", f"{left}/{rows}") if has_filter and rows else (),
                words=escape_text(self._filter.text.strip()) if has_filter else "",
                columns=self.grid.columns_beyond,
            )
        )

    @on(TableGrid.ColumnsScrolled)
    def refresh_title(self) -> None:
        """Write the title again, with the counts and the room of now."""
        self.show_title(*self._title)

    def on_resize(self) -> None:
        """Write as much in the lines as fits, once they have their new width."""
        self.call_after_refresh(self.refresh_title)
        self.call_after_refresh(self.read_out)

    @on(TableGrid.Arranged)
    def refresh_counts(self) -> None:
        """Show how many rows match now."""
        self.refresh_title()
        if self.is_filtering and not self._is_wrong:
            self._show_count()

    @property
    def _so_far(self) -> str:
        return " so far" if self.is_unfinished else ""

    @property
    def why_none(self) -> str:
        """That no row matches, and the keys that help."""
        back = f"{key_of(self.app, 'prompt.leave')} goes back"
        if not self.is_filtering:
            keys = key_of(self.app, "table.filter"), key_of(self.app, "table.all_rows")
            back = f"{keys[0]} changes the filter, {keys[1]} shows all rows"
        return f"no row matches{self._so_far}; {back}"

    # --- the filter

    @property
    def current_filter(self) -> Filter | None:
        """The filter; None while it is empty."""
        return self._filter if self._filter.text.strip() else None

    def note_selected(self, head: Head, *, is_on_screen: bool) -> None:
        """Note whether the head selected just now has a row on screen; in the active view, say so if it has none."""
        self._is_selected_hidden = not is_on_screen
        is_hidden = not is_on_screen and self.current_filter is not None and not self.is_unfinished
        if is_hidden and self.has_class("-active"):
            self.post_message(Notice(f"the filter hides the rows of {head_text(head, self.known.outline.stacks)}"))

    def filter_by(self, text: str) -> None:
        """Filter as if a person had typed a text; one that is wrong stays in the open line."""
        self.call_later(self.run_action, f"screen.filter({text!r})")

    @property
    def is_filtering(self) -> bool:
        """Whether a filter is being typed."""
        return self._is_asked and isinstance(self.screen.focused, Input)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer escape only where the filter hides rows."""
        return action != "step_back" or self.current_filter is not None

    def begin_filter(self) -> str:
        """Keep the filter for as long as what is typed is wrong, and give its text."""
        self._applied, self._is_asked = self._filter, True
        return self._filter.text

    def _use(self, wanted: Filter) -> None:
        self._filter, self._is_selected_hidden = wanted, False
        self.refresh_bindings()
        self.narrow()
        self.refresh_title()

    def try_filter(self, text: str) -> None:
        """Filter by what is typed and show how many rows match; while it is wrong, show why and keep the last one."""
        column, word = text.strip(), last_word(text)
        try:
            wanted = parse_filter(text, self.columns)
        except FilterError as error:
            self._is_wrong = True
            if self._filter is not self._applied:
                self._use(self._applied)
            said = f"{word}: {self.explain_column(word)}" if word in self.columns else str(error)
            goes = f"{key_of(self.app, 'prompt.answer')} goes to " if column in self.columns else ""
            self.explanation_line.show(goes + said)
            return
        self._is_wrong = False
        self._use(wanted)
        self._show_count()

    def _show_count(self) -> None:
        left, rows = self.counts
        if not left:
            self.readout_line.show("")
        self.explanation_line.show(
            f"{left} of {quantity(rows, 'row')}{self._so_far}" if self._filter.text
            else f"{key_of(self.app, 'prompt.complete')} completes columns; one by itself goes there"
        )  # fmt: skip

    def finish_filter(self, text: str) -> None:
        """Keep the filter, or go to a column that is named; `FilterError` when it is neither."""
        if (column := text.strip()) in self.columns:
            self._use(self._applied)
            self.go_to_column(column)
        else:
            self._use(parse_filter(text, self.columns))
            if self.current_filter is not None:
                self.show_compared(self.current_filter.columns)
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
        self._use(parse_filter("", ()))
        self.read_out()
        self.focus_view()
        return True
