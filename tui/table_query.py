"""What a worked-out table is of: what is asked of the engine for it, and its title."""

from __future__ import annotations

from dataclasses import replace

from engine.values.outline import ModelOutline
from engine.values.views import Query, Scope, View
from tui.drawing.facts import short_name
from tui.state.session import Shown
from tui.views.attention_view import AttentionPane

WORDS = 4
"""Tokens that stand for a side of a term."""


FOLDED = "  norms folded in"
"""Stands in a title where the gains of norms are folded in."""


def title_of(shown: Shown, view: View, outline: ModelOutline, attention: AttentionPane, *, is_beside: bool) -> str:
    """Say what a table is of, of which of two models too; what there is besides stands behind two blanks.

    What heads are off, and a cell behind that, stand behind a dot and a head's name, as over a map.
    """
    name = shown.selected
    at = shown.position if "position" in view.options and "position" not in dict(view.said) else None
    where = f"  position {at}" if at is not None and view.scope is Scope.MODEL else ""
    if shown.off.heads and "text" in view.options:
        where += "  with " if view.scope is Scope.MODEL else " · with "
        where += f"{shown.off}" if "off" in view.options else "all heads on"
    if is_beside and view.scope is Scope.MODEL and "text" in view.needs and not view.beside:
        where += f"  of {short_name(outline)}"
    if "energy" in view.options:
        where += f"  ε {shown.epsilon:g}"
    if shown.folds and "fold_norm" in view.options:
        where += FOLDED
    if view.scope is Scope.MODEL:
        return where
    if name is None:
        return f"all layers{where}"
    stack = name.stack if len(outline.stacks) > 1 else ""
    named = " ".join(filter(None, (stack, str(name)))) + where
    cell = _cell(attention) if view.scope is Scope.CELL else ""  # the longest, so that it comes last
    return (" · " if where else " ").join(filter(None, (named, cell)))


def query_of(shown: Shown, view: View, cell: tuple[int, int] | None) -> Query | None:
    """Say what to ask for, or None where nothing is selected that the table could be of.

    Parameters
    ----------
    shown : what a person has chosen.
    view : of which table.
    cell : the query and the key under the map's cursor.
    """
    name = shown.selected
    asked = Query(
        distance=shown.distance if "distance" in view.options else None,
        fold_norm=shown.folds and "fold_norm" in view.options,
    )
    if "text" in view.options:
        given = ((option, getattr(shown, option)) for option in ("position", "token") if option in view.options)
        asked = replace(asked, text=shown.text or None, top=view.top, **dict(given))
        if "off" in view.options:
            asked = replace(asked, off=shown.off.heads, by_mean=shown.off.by_mean)
    if "energy" in view.options:
        asked = replace(asked, epsilon=shown.epsilon)
    if view.scope is Scope.MODEL:
        return replace(asked, norms="norms" in view.options)
    if view.scope is Scope.LAYER:
        is_of_layer = view.has_whole_layers and name is not None and name.is_layer
        layer = None if name is None else name.whole_layer
        return replace(asked, layer=layer, whole_layers=is_of_layer, eigenvalues=is_of_layer)
    if name is None or (name.is_layer and view.scope is Scope.HEAD):
        return None
    asked = replace(asked, layer=name.whole_layer, head=None if name.is_layer else name.head)
    if view.scope is not Scope.CELL:
        return asked
    return None if cell is None or name.is_layer else replace(asked, position=cell[0], key=cell[1], top=WORDS)


def _cell(attention: AttentionPane) -> str:
    """Name what is under the map's cursor, as that of one head, whatever the map is of."""
    name = attention.shown_name
    if name is None or (name.layer is not None and name.head is not None):
        return attention.cell_name
    return f"not the {'rollout' if name.is_rollout else 'mean'}: {attention.cell_name}"
