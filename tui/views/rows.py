"""A pane of rows, each of which may be of a head, with a filter that is typed into a line above them."""

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
    """Filters rows while the filter is typed, and says what is wrong with it.

    Parameters
    ----------
    columns : that a filter can name.
    grid : draws the rows.
    explanation_line : where it is said how far the filter goes; below the rows unless given.

    Attributes
    ----------
    struck : heads whose rows are struck out, as they are switched off.
    set_shown : what the columns are called that are shown together; empty for those that it opens with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any widget sees them, so that what is typed after them goes where they lead, however fast it comes.
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
        self._is_passed = False
        """Whether a head was gone to that the filter leaves no row of, while the cursor stays on another's."""

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """How rows are found."""
        return {"table.all_rows": "All rows", "table.filter": "Filter", "table.sort": "Sort"}

    # --- what the rows are of

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows the filter leaves, and of how many."""
        raise NotImplementedError

    @property
    def has_heads(self) -> bool:
        """Whether rows are of heads that differ, so that a key can be about the head of one."""
        raise NotImplementedError

    @property
    def head_here(self) -> Head | None:
        """The head, or whole layer, that the row under the cursor is of."""
        raise NotImplementedError

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person has put the cursor where it is, or filtered, in rows that the table itself is about."""
        return self.narrowing is not None and not self._is_passed

    def heads_left(self) -> tuple[Head, ...]:
        """List the heads that the rows on screen are of; a row of a whole layer is of none."""
        raise NotImplementedError

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the rows of heads."""
        raise NotImplementedError

    def narrow(self) -> None:
        """Show the rows that the filter leaves, if there is a table."""
        raise NotImplementedError

    def go_to_column(self, column: str) -> None:
        """Show a column that was named by itself."""
        raise NotImplementedError

    def explained(self, column: str) -> str:
        """Say what a column holds."""
        raise NotImplementedError

    def read_out(self) -> None:
        """Say below the table what is under the cursor."""
        raise NotImplementedError

    def show_compared(self, columns: Collection[str]) -> None:
        """Show what a filter compares that has been kept, where the view can show something else."""

    def focus_view(self) -> None:
        """Put the focus on the table."""
        self.screen.set_focus(self.grid)

    @property
    def why_no_head(self) -> str:
        """Say why there is no head of a row under the cursor."""
        left, rows = self.counts
        if left:
            return "this row has no head; select one in the tree"
        return self.why_none if rows else "no rows yet; wait, then switch a head"

    # --- the title

    def set_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Say what is shown and how far, how many rows a filter leaves, and how many columns are to the right."""
        self._title = title, state
        left, rows = self.counts
        self.grid.explain_none(self.why_none if rows and not left else "")
        has_filter, beyond = self.narrowing is not None, self.grid.beyond
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
        """Write the title again."""
        self.set_title(*self._title)

    def on_resize(self) -> None:
        """Write as much as there is room for, once all has its width."""
        self.call_after_refresh(self.refresh_title)
        self.call_after_refresh(self.read_out)

    @on(TableGrid.Arranged)
    def say_counts(self) -> None:
        """Say how many rows there are now, where that is said."""
        self.refresh_title()
        if self.filter_input.display and self.filter_input.value == self._filter.text:
            self._say_count()

    @property
    def _so_far(self) -> str:
        """What is said behind a number of rows that is not the last one."""
        return " so far" if self.is_unfinished else ""

    @property
    def why_none(self) -> str:
        """Say that the filter leaves no row, and what to do then."""
        everything = f"{key_of(self.app, 'filter.clear')} shows all rows"
        if not self.filter_input.display:
            everything = f"{key_of(self.app, 'table.filter')} changes the filter, {everything}"
        return f"no row matches{self._so_far}; {everything}"

    # --- the filter

    @property
    def narrowing(self) -> Filter | None:
        """The filter, if it has words."""
        return self._filter if self._filter.text.strip() else None

    def pass_by(self, head: Head, *, is_left: bool) -> None:
        """Take note of another head that is gone to; where keys are for this view and no row is left of it, say so."""
        self._is_passed = not is_left
        if self._is_passed and self.narrowing is not None and not self.is_unfinished and self.has_class("-active"):
            self.post_message(Notice(f"the filter hides the rows of {head}"))

    def filter_by(self, text: str) -> None:
        """Filter as if a text had been typed; where it cannot be read, the line stays open for it."""
        self.action_filter()
        with self.prevent(Input.Changed):
            self.filter_input.value = text
        self.action_apply()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the filter line have its own key and the table its own, escape too where rows are hidden."""
        is_typing = self.screen.focused is self.filter_input  # at once, where has_focus comes with the next message
        if action == "step_back":
            return self.narrowing is not None and not is_typing
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
        """Go back to the table, and filter by what has been typed by now once it is in the line."""
        self.focus_view()
        self.filter_input.finish()

    def _use(self, wanted: Filter) -> None:
        """Show the rows that a filter leaves."""
        self._filter, self._is_passed = wanted, False
        self.refresh_bindings()
        self.narrow()
        self.refresh_title()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Filter while it is typed; while it cannot be read, the filter from before holds."""
        event.stop()
        if self.filter_input.display:
            self._explain_filter()

    def _explain_filter(self) -> FilterError | None:
        """Filter by what is typed, and say how far it goes or what is wrong with it."""
        text = self.filter_input.value
        try:
            wanted = parse_filter(text, self._columns)
        except FilterError as error:
            if self._filter is not self._applied:
                self._use(self._applied)
            named = text.strip() if text.strip() in self._columns else ""
            column = named or self.filter_input.completed
            meaning = f"{column}: {self.explained(column)}" if column else str(error)
            self.explanation_line.show(f"{key_of(self.app, 'filter.apply')} goes to {meaning}" if named else meaning)
            return error
        self._use(wanted)
        self._say_count()
        return None

    def _say_count(self) -> None:
        """Say how many rows the filter leaves; while there is none, what can be typed."""
        left, rows = self.counts
        if not left:
            self.readout_line.show("")
        self.explanation_line.show(
            f"{left} of {quantity(rows, 'row')}{self._so_far}" if self.filter_input.value
            else f"{key_of(self.app, 'filter.complete')} completes columns; one by itself goes there"
        )  # fmt: skip

    @on(FilterInput.Finished)
    def _finished(self) -> None:
        """Keep the filter, or go to the column that is named; with what cannot be read go back to the line."""
        column = self.filter_input.value.strip()
        if column in self._columns:
            self._use(self._applied)
            self.go_to_column(column)
        elif self._explain_filter() is not None and all(each.display for each in self.ancestors_with_self):
            self.screen.set_focus(self.filter_input)
            return
        self._close()
        if self.narrowing is not None:
            self.show_compared(self.narrowing.columns)

    @on(FilterInput.Cleared)
    def _clear(self) -> None:
        """Show all rows again and go back to the table."""
        self._use(parse_filter("", ()))
        self._close()
        self.focus_view()

    def step_back(self) -> bool:
        """Show all rows again, where a filter hides some."""
        if self.narrowing is None:
            return False
        self._clear()
        return True

    def _close(self) -> None:
        """Put the filter line away."""
        self.filter_input.display = False
        self.filter_input.value = self._filter.text
        self.refresh_title()
        self.read_out()
