"""The table of the active view, for a file or the clipboard, and the name of its file."""

from __future__ import annotations

import re

from engine.analysis.attention import map_table
from engine.analysis.ranks import rank_rows_beside_chance, spectrum_table
from engine.values.attention import AttentionMap
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.table import RANKS_BESIDE_CHANCE_COLUMNS, AnyTable, LargeTable
from engine.values.views import VIEWS, Scope
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.lens_view import LensPane
from tui.views.overview_view import OverviewPane
from tui.views.ranks_view import RanksPane
from tui.views.switcher import Views
from tui.views.table_view import CellPane, TablePane
from tui.views.text_view import TextPane


def table_in_view(views: Views, attention: AttentionMap | None = None) -> tuple[AnyTable, str]:
    """Give the table of the active view, and its subject for the file's name.

    Parameters
    ----------
    views : the views.
    attention : all weights of the map, which the attention view needs.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    shown, pane = views.session.shown, views.active
    if views.stores is None:
        raise EngineError("no model is open yet; nothing was written")
    if isinstance(pane, TablePane):
        view = VIEWS[pane.view]
        distance = shown.distance if "distance" in view.options else None
        of = subject_of(None if view.scope is Scope.MODEL else shown.selected, distance) + "-folded" * pane.is_folded
        cell = views.attention.cell if isinstance(pane, CellPane) else None
        return pane.table_on_screen(), of if cell is None else f"{of}-q{cell[0]}-k{cell[1]}"
    if isinstance(pane, LensPane):
        return pane.table_on_screen(), subject_of(None, None)
    if isinstance(pane, TextPane):
        return pane.table_on_screen(), subject_of(shown.selected, None)
    if isinstance(pane, OverviewPane):
        return pane.table_on_screen(), shown.overview
    table, subject = _table_of_weights(shown, views.stores, attention)
    return pane.matching_rows(table) if isinstance(pane, RanksPane) else table, subject


def name_of_heads(views: Views) -> tuple[str, str] | None:
    """Give the name of the active view's table and its subject; None where it is not of several heads."""
    pane = views.active
    if views.stores is None or not isinstance(pane, ComparePane | HeadsPane):
        return None
    return pane.table_name(views.session.shown, views.stores)


async def table_of_heads(views: Views) -> AnyTable | None:
    """Give the table of the active view; None where it is not of several heads.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    pane = views.active
    if views.stores is None or not isinstance(pane, ComparePane | HeadsPane):
        return None
    return await pane.table_of_heads(views.session.shown, views.stores)


async def whole_map(views: Views) -> AttentionMap:
    """Give all weights of the map on screen.

    Raises
    ------
    EngineError : when there is no map on screen, or it cannot be computed any more.
    """
    if views.stores is None:
        raise EngineError("no model is open yet; nothing was written")
    return await views.attention.whole_map(views.stores)


def _table_of_weights(shown: Shown, stores: Stores, attention: AttentionMap | None) -> tuple[AnyTable, str]:
    """Give the table of spectra, ranks or a map, and its subject; a map's table has every weight.

    Raises
    ------
    EngineError : when the view shows nothing yet.
    """
    view, selected, distance, spectra = shown.view, shown.selected, shown.distance, stores.spectra
    nothing = EngineError(f"{view} is still empty; nothing was written")
    if view == "attention":
        if attention is None:
            raise nothing
        name = attention.name
        return map_table(attention), "" if name.is_rollout else f"L{name.layer_label}H{name.head_label}"
    if view == "ranks":
        distance = None if selected is None else distance
        names = [layer.name for layer in stores.outline.layers]
        if selected is not None:
            names = [*stores.outline.layer(selected).head_names(), selected.whole_layer]
        found = [each for name in names for each in spectra.listed(name, distance)]
        if not found:
            raise nothing
        rows = rank_rows_beside_chance(found, shown.epsilon)
        return LargeTable("ranks", RANKS_BESIDE_CHANCE_COLUMNS, rows), subject_of(
            selected and selected.whole_layer, distance
        )
    if selected is None:
        raise EngineError("the whole model has no spectra; nothing was written. Choose a layer or a head")
    own, other = (spectra.listed(selected, distance, is_other=is_other) for is_other in (False, True))
    if isinstance(known := spectra.known(selected, distance), EngineError):
        raise known
    if not own:
        raise nothing
    if other and [each.matrix for each in other] != [each.matrix for each in own]:
        raise EngineError(f"one of the models lacks some matrices of {selected}; nothing was written")
    subject = subject_of(selected, distance)
    return spectrum_table(own, other), subject


def subject_of(name: Head | None, distance: int | None) -> str:
    """Write a table's subject for a file's name: the head, layer or model, and the distance of QK if there is one."""
    subject = "model" if name is None else str(name)
    return subject if distance is None else f"{subject}-distance{distance}"


def file_stem(outline: ModelOutline, stack: str | None, subject: str, view: str) -> str:
    """Compose a file's name of characters that are safe in a shell, such as ``gpt2-L5H1-spectrum``.

    It names the stack if the model has several.
    """
    last = outline.name.rstrip("/").rpartition("/")[2]
    model = re.sub(r"[^\w.-]+", "-", last).strip("-.") or "model"
    parts = (model, stack if len(outline.stacks) > 1 else None, subject, view)
    return "-".join(part for part in parts if part)
