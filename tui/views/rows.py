"""A pane of rows, each of which may be of a head, with a line above them for a filter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.values.display_text import quantity
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head
from tui.drawing.text import escape_text
from tui.drawing.titles import Part, Title, fact_part
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Notice
from tui.views.pane import Pane
from tui.widgets.field import FilterInput
from tui.widgets.line import Line
from tui.widgets.table_grid import TableGrid


class RowsPane(Pane):
    """Rows that a filter narrows with each letter of it.

    Parameters
    ----------
    columns : that a filter can name.
    grid : draws the rows.
    explanation_line : shows how many rows match, or what is wrong with the filter; the readout unless given.

    Attributes
    ----------
    struck : heads that are off, whose rows are struck out.
    set_shown : the name of the set of columns on screen; empty for the first one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, so that keys typed fast after them reach the widget that they give the focus to.
        Binding("slash", "filter", "Filter", id="table.filter", priority=True),
        Binding("enter", "apply", "Filter", id="filter.apply", priority=True),
        Binding("escape", "step_back", "All rows again", id="table.all_rows"),
    ]

    def __init__(self, columns: Sequence[str], grid: TableGrid, explanation_line: Line | None = None) -> None:
        super().__init__()
        self.grid = grid
        self.struck: frozenset[Head] = frozenset()
        self.set_shown = ""
        self.filter_input = FilterInput()
        self.filter_input.display = False
        self._columns = self.filter_input.columns = tuple(columns)
        self.explanation_line = explanation_line or self.readout_line
        self._filter = self._applied = parse_filter("", ())
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

    def set_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Show what the rows are of, how far they are, how many match, and how many columns are to the right."""
        self._title = title, state
        left, rows = self.counts
        self.grid.explain_none(self.why_none if rows and not left else "")
        has_filter, beyond = self.current_filter is not None, self.grid.columns_beyond
        self.title_line.show_title(
            Title.of(
                self.view,
                [*title, fact_part(self.set_shown)] if title else title,
                state=state,
                count=(f"{left} of {rows}{self._so_far}", f"{left}/{rows}") if has_filter and rows else (),
                words=escape_text(self._filter.text.strip()) if has_filter else "",
                hints=(f"→ {quantity(beyond, 'more column')}", f"→ {beyond} more") if beyond else (),
            )
        )

    @on(TableGrid.ColumnsScrolled)
    def refresh_title(self) -> None:
        """Write the title again, with the counts and the room of now."""
        self.set_title(*self._title)

    def on_resize(self) -> None:
        """Write as much in the lines as fits, once they have their new width."""
        self.call_after_refresh(self.refresh_title)
        self.call_after_refresh(self.read_out)

    @on(TableGrid.Arranged)
    def refresh_counts(self) -> None:
        """Show how many rows match now."""
        self.refresh_title()
        if self.filter_input.display and self.filter_input.value == self._filter.text:
            self._show_count()

    @property
    def _so_far(self) -> str:
        return " so far" if self.is_unfinished else ""

    @property
    def why_none(self) -> str:
        """That no row matches, and the keys that help."""
        everything = f"{key_of(self.app, 'filter.clear')} shows all rows"
        if not self.filter_input.display:
            everything = f"{key_of(self.app, 'table.filter')} changes the filter, {everything}"
        return f"no row matches{self._so_far}; {everything}"

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
            self.post_message(Notice(f"the filter hides the rows of {head}"))

    def filter_by(self, text: str) -> None:
        """Filter as if a person had typed a text; one that is wrong stays in the open line."""
        self.action_filter()
        with self.prevent(Input.Changed):
            self.filter_input.value = text
        self.action_apply()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the filter's key or the table's, whichever has the focus, and escape where the filter hides rows."""
        is_typing = self.screen.focused is self.filter_input  # has_focus changes only with the next message
        if action == "step_back":
            return self.current_filter is not None and not is_typing
        return action not in ("filter", "apply") or (action == "apply") == is_typing

    def action_filter(self) -> None:
        """Open the filter line."""
        self._applied = self._filter
        self.filter_input.display = True
        self.refresh_title()
        self.screen.set_focus(self.filter_input)
        self.filter_input.offer_to_replace()
        self._explain_filter()

    def action_apply(self) -> None:
        """Go back to the table, and finish the filter once all that was typed is in the line."""
        self.focus_view()
        self.filter_input.finish()

    def _use(self, wanted: Filter) -> None:
        """Narrow the rows by a filter."""
        self._filter, self._is_selected_hidden = wanted, False
        self.refresh_bindings()
        self.narrow()
        self.refresh_title()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.filter_input.display:
            self._explain_filter()

    def _explain_filter(self) -> FilterError | None:
        """Filter by what is typed and show how many rows match; while it is wrong, show why and keep the last one."""
        text = self.filter_input.value
        try:
            wanted = parse_filter(text, self._columns)
        except FilterError as error:
            if self._filter is not self._applied:
                self._use(self._applied)
            named = text.strip() if text.strip() in self._columns else ""
            column = named or self.filter_input.completed
            meaning = f"{column}: {self.explain_column(column)}" if column else str(error)
            self.explanation_line.show(f"{key_of(self.app, 'filter.apply')} goes to {meaning}" if named else meaning)
            return error
        self._use(wanted)
        self._show_count()
        return None

    def _show_count(self) -> None:
        """Show how many rows match; while nothing is typed, what can be."""
        left, rows = self.counts
        if not left:
            self.readout_line.show("")
        self.explanation_line.show(
            f"{left} of {quantity(rows, 'row')}{self._so_far}" if self.filter_input.value
            else f"{key_of(self.app, 'filter.complete')} completes columns; one by itself goes there"
        )  # fmt: skip

    @on(FilterInput.Finished)
    def _finished(self) -> None:
        """Keep the filter, or go to a column that is named; leave a wrong filter in the open line."""
        column = self.filter_input.value.strip()
        if column in self._columns:
            self._use(self._applied)
            self.go_to_column(column)
        elif self._explain_filter() is not None and all(each.display for each in self.ancestors_with_self):
            self.screen.set_focus(self.filter_input)
            return
        self._close()
        if self.current_filter is not None:
            self.show_compared(self.current_filter.columns)

    @on(FilterInput.Cleared)
    def _clear(self) -> None:
        self._use(parse_filter("", ()))
        self._close()
        self.focus_view()

    def step_back(self) -> bool:
        """Show all rows again, if there is a filter."""
        if self.current_filter is None:
            return False
        self._clear()
        return True

    def _close(self) -> None:
        self.filter_input.display = False
        self.filter_input.value = self._filter.text
        self.refresh_title()
        self.read_out()
