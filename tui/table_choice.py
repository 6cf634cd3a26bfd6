"""What the worked-out tables are to be of: of which head and sentence, and what was chosen besides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.views import Query, Scope, View
from tui.facts import short_name
from tui.panes.attention import AttentionPane

WORDS = 4
"""Tokens that stand for a side of a term."""


FOLDED = "  norms folded in"
"""Stands in a title where the gains of norms are folded in."""


@dataclass(frozen=True)
class TableChoice:
    """What a person has chosen that tables are of.

    Attributes
    ----------
    epsilon : of the energy rank.
    selected : a head, a layer, or the model (None).
    text : the sentence, once there is one.
    distance : by how many tokens the key is before the query; None is without positions.
    folds : whether the gains of norms are folded into directions.
    off : the heads that are switched off.
    asked : the token, and the position in the sentence.
    """

    epsilon: float
    selected: Head | None = None
    text: str | None = None
    distance: int | None = None
    folds: bool = False
    off: Off = NOTHING_OFF
    asked: Query = field(default_factory=Query)

    def title(self, view: View, outline: ModelOutline, attention: AttentionPane, *, is_beside: bool) -> str:
        """Say what a table is of, of which of two models too; what there is besides stands behind two blanks.

        What heads are off, and a cell behind that, stand behind a dot and a head's name, as over a map.
        """
        name = self.selected
        at = self.asked.position if "position" in view.options and "position" not in dict(view.said) else None
        where = f"  position {at}" if at is not None and view.scope is Scope.MODEL else ""
        if self.off.heads and "text" in view.options:
            where += "  with " if view.scope is Scope.MODEL else " · with "
            where += f"{self.off}" if "off" in view.options else "all heads on"
        if is_beside and view.scope is Scope.MODEL and "text" in view.needs and not view.beside:
            where += f"  of {short_name(outline)}"
        if "energy" in view.options:
            where += f"  ε {self.epsilon:g}"
        if self.folds and "fold_norm" in view.options:
            where += FOLDED
        if view.scope is Scope.MODEL:
            return where
        if name is None:
            return f"all layers{where}"
        stack = name.stack if len(outline.stacks) > 1 else ""
        named = " ".join(filter(None, (stack, str(name)))) + where
        cell = _cell(attention) if view.scope is Scope.CELL else ""  # the longest, so that it comes last
        return (" · " if where else " ").join(filter(None, (named, cell)))

    def query(self, view: View, cell: tuple[int, int] | None) -> Query | None:
        """Say what to ask for, or None where nothing is selected that the table could be of.

        Parameters
        ----------
        view : of which table.
        cell : the query and the key under the map's cursor.
        """
        name = self.selected
        asked = Query(
            distance=self.distance if "distance" in view.options else None,
            fold_norm=self.folds and "fold_norm" in view.options,
        )
        if "text" in view.options:
            given = ((name, getattr(self.asked, name)) for name in ("position", "token") if name in view.options)
            asked = replace(asked, text=self.text or None, top=view.top, **dict(given))
            if "off" in view.options:
                asked = replace(asked, off=self.off.heads, by_mean=self.off.by_mean)
        if "energy" in view.options:
            asked = replace(asked, epsilon=self.epsilon)
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
    shown = attention.shown_name
    if shown is None or (shown.layer is not None and shown.head is not None):
        return attention.cell_name
    return f"not the {'rollout' if shown.is_rollout else 'mean'}: {attention.cell_name}"
