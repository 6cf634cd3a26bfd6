"""What a table that is worked out on an open model is, and what can be asked of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.values.heads import Head
from engine.values.tables import Cell


class Scope(Enum):
    """What a table on screen is of, given what is selected in the tree."""

    HEAD = "a head"
    HEAD_OR_LAYER = "a head or a layer"
    LAYER = "a layer"
    """Of the selected head's layer, so that heads stand beside each other; of all layers where the model is chosen."""
    MODEL = "the model"
    CELL = "a head and a cell of its map"


DEFAULT_TOP = 10
"""Tokens that are listed, at each end of a direction or of what is likely, unless the person says otherwise."""


@dataclass(frozen=True, slots=True)
class View:
    """One such table.

    Attributes
    ----------
    name : what it is called on the command line.
    key : what shows it in the explorer; empty where that is a part of another view.
    title : what it is called there.
    says : what it holds, in a line.
    columns : the names, in order.
    is_by_layer : whether it is worked out layer by layer, so that it can be asked for and read on a layer at a time;
        the others are of the whole model.
    has_whole_layers : whether rows with the head ``all`` are among its rows.
    has_changes : whether it has rows of the changes that an adapter makes, which do not attend.
    options : which options narrow or shape it, by their names on the command line.
    needs : which of them it cannot do without, such as ``text``, the sentence, or ``vs``, a second model.
    scope : what of a model is on screen at once.
    places : the columns that say what a row is of; they stay at the left.
    leading : the columns that come first behind these on screen, where little room is for what the table is about;
        files have all columns in their own order.
    grows : whether it is there at once and some of its cells come later.
    ranked_by : the column by whose size the rows are in order once they are all there; empty for their own order.
    top : how many tokens are listed at a time on screen, where tokens are.
    said : columns that the title says on screen where all rows agree in them, each with what it is
        called there; what comes first is seen longest where there is little room.
    empty : what is said where there are no rows.
    beside : columns that a second model adds behind the others, where one is asked for.
    """

    name: str
    key: str
    title: str
    says: str
    columns: tuple[str, ...]
    is_by_layer: bool = True
    has_whole_layers: bool = False
    has_changes: bool = False
    options: frozenset[str] = frozenset({"layer", "head", "stack"})
    needs: frozenset[str] = frozenset()
    scope: Scope = Scope.LAYER
    places: tuple[str, ...] = ("stack", "layer", "head")
    leading: tuple[str, ...] = ()
    grows: bool = False
    ranked_by: str = ""
    top: int = DEFAULT_TOP
    said: tuple[tuple[str, str], ...] = ()
    empty: str = "nothing to show here"
    beside: tuple[str, ...] = ()

    def columns_of(self, *, of_two: bool) -> tuple[str, ...]:
        """Give the columns of one model's table, or of that with a second model's numbers."""
        return (*self.columns, *self.beside) if of_two else self.columns

    def goes_by_layer(self, query: Query) -> bool:
        """Say whether what is asked for is worked out layer by layer; heads switched off together are of no layer."""
        return self.is_by_layer and not query.off

    def on_screen(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Put columns of this table in the order in which a screen shows them.

        Examples
        --------
        >>> View("", "", "", "", (), leading=("change",)).on_screen(("head", "token", "change"))
        ('head', 'change', 'token')
        """
        order = {name: number for number, name in enumerate(self.leading)} | dict.fromkeys(self.places, -1)
        return tuple(sorted(columns, key=lambda name: order.get(name, len(order))))

    def ranked(self, rows: Iterable[Sequence[Cell]]) -> list[Sequence[Cell]]:
        """Put rows in order by the size of the numbers in `ranked_by`, the largest first; what is no number comes last.

        Examples
        --------
        >>> View("", "", "", "", ("head", "change"), ranked_by="change").ranked([("0", 0.1), ("1", -0.2)])
        [('1', -0.2), ('0', 0.1)]
        """
        kept = list(rows)
        if not self.ranked_by:
            return kept
        place = self.columns.index(self.ranked_by)

        def size(row: Sequence[Cell]) -> float:
            cell = row[place]
            return math.inf if isinstance(cell, str) else -abs(cell)

        return sorted(kept, key=size)


DEFAULT_FIRST = 10
"""Directions of a matrix, unless the person says otherwise."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of such a table; what is left out narrows nothing.

    Attributes
    ----------
    layer : the layer it is of, or None for several.
    layers : where it is of several, which; empty for all of the model.
    head : a head's number, -1 for layers as a whole alone, None for all heads.
    whole_layers : whether layers as a whole come behind their heads, of a table that has them.
    layer_mean, head_mean : whether maps are averaged over a stack's layers, or over a layer's heads.
    matrix : one matrix, of which nothing else is computed, or None for all that the table has.
    top : how many tokens at each end of a direction, or of the most likely ones.
    first : how many directions of a matrix, the strongest.
    fold_norm : whether the gains of norms are folded into the weights.
    distance : how many tokens a key is before the query, for QK with rotary positions; None leaves positions out.
    text : the sentence, where one is read.
    position : of a token in the sentence, from 0 and the query's where there is a key too; None for the last one.
    key : position of the key, from 0; None for the one that the query looks at most.
    token : the token that numbers are of: its text, or ``#`` and its id; None for the model's first choice.
    off : the heads that are switched off.
    norms : whether parameters are read for their norms.
    by_mean : whether what such a head gives is its mean over the sentence's tokens, and not zero.
    eigenvalues : whether eigenvalues of whole layers are worked out however wide they are; of narrow ones they are
        anyway.
    epsilon : of the energy rank, the share of the energy that it leaves out; None for the usual one.
    parts : which parts are worked out of a table that is put together from several; None for all of them.
    of_two : whether a second model's numbers stand beside, of a table that can do without.
    """

    layer: Head | None = None
    head: int | None = None
    layers: tuple[Head, ...] = ()
    whole_layers: bool = False
    layer_mean: bool = False
    head_mean: bool = False
    matrix: str | None = None
    top: int = DEFAULT_TOP
    first: int = DEFAULT_FIRST
    fold_norm: bool = False
    distance: int | None = None
    text: str | None = None
    position: int | None = None
    key: int | None = None
    token: str | None = None
    off: tuple[Head, ...] = ()
    norms: bool = False
    by_mean: bool = False
    eigenvalues: bool = False
    epsilon: float | None = None
    parts: tuple[str, ...] | None = None
    of_two: bool = False

    def wants(self, head: int) -> bool:
        """Say whether rows of a head, or of the layer as a whole (-1), are asked for."""
        return self.head == head or (self.head is None and (head >= 0 or self.whole_layers))
