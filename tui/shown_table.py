"""The table that the active view draws: one value, which is drawn, copied and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.table import AnyTable
from engine.values.views import VIEWS, Scope
from tui.export.view_table import subject_of, table_on_screen
from tui.panes.cell import CellPane
from tui.panes.ranks import RanksPane
from tui.panes.table import TablePane
from tui.panes.text import TextPane

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from tui.overview import Overview
    from tui.state.session import Shown
    from tui.views import Views
    from tui.weights import Weights


def shown_table(
    shown: Shown, views: Views, weights: Weights, overview: Overview, attention: AttentionMap | None
) -> tuple[AnyTable, str]:
    """Give the table that the active view draws, and what it is of.

    Parameters
    ----------
    shown, views, weights, overview : what is on screen, and of what.
    attention : all weights of the map, where that is the view; None where those on screen are all.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    pane, selected = views.active, shown.selected
    if isinstance(pane, TablePane):
        view = VIEWS[pane.view]
        distance = shown.distance if "distance" in view.options else None
        subject = subject_of(None if view.scope is Scope.MODEL else selected, distance) + "-folded" * pane.is_folded
        cell = views.attention.cell if isinstance(pane, CellPane) else None
        return pane.table_on_screen(), subject if cell is None else f"{subject}-q{cell[0]}-k{cell[1]}"
    if isinstance(pane, TextPane):
        return pane.table_on_screen(), subject_of(selected, None)
    if overview.is_active:
        return overview.table()
    attention = attention or views.attention.shown
    table, subject = table_on_screen(
        pane.view, weights.knowledge, selected, shown.epsilon, attention, shown.distance, weights.other
    )
    return pane.narrowed(table) if isinstance(pane, RanksPane) else table, subject
