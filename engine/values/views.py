"""The tables that are worked out on an open model, each described as data: columns, range and options."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.values.heads import Head
from engine.values.tables import RANK_COLUMNS, ROLLOUT_COLUMNS, Cell


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
    options : which options narrow or shape it, by their names on the command line.
    needs : which of them it cannot do without, such as ``text``, the sentence, or ``vs``, a second model.
    scope : what of a model is on screen at once.
    places : the columns that say what a row is of; they stay at the left.
    grows : whether it is there at once and some of its cells come later.
    ranked_by : the column by whose size the rows are in order once they are all there; empty for their own order.
    top : how many tokens are listed at a time on screen, where tokens are.
    said : columns that the title says on screen where all rows agree in them.
    """

    name: str
    key: str
    title: str
    says: str
    columns: tuple[str, ...]
    is_by_layer: bool = True
    has_whole_layers: bool = False
    options: frozenset[str] = frozenset({"layer", "head", "stack"})
    needs: frozenset[str] = frozenset()
    scope: Scope = Scope.LAYER
    places: tuple[str, ...] = ("stack", "layer", "head")
    grows: bool = False
    ranked_by: str = ""
    top: int = DEFAULT_TOP
    said: tuple[str, ...] = ()

    def goes_by_layer(self, query: Query) -> bool:
        """Say whether what is asked for is worked out layer by layer; heads switched off together are of no layer."""
        return self.is_by_layer and not query.off

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
    layer : the layer it is of, or None for the whole model.
    head : a head's number, -1 for whole layers alone, None for everything.
    matrix : ``QK`` or ``OV``, or None for both.
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
    """

    layer: Head | None = None
    head: int | None = None
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

    def wants(self, head: int) -> bool:
        """Say whether rows of a head, or of the whole layer (-1), are asked for."""
        return self.head is None or self.head == head


def _with_chance(*names: str) -> tuple[str, ...]:
    """Put beside each column the one that holds what chance gives."""
    return tuple(column for name in names for column in (name, f"{name}_chance"))


_HEAD = ("stack", "layer", "head")

CIRCUITS = View(
    "circuits",
    "4",
    "Circuits",
    "what QK and OV do as maps: symmetry, identity, copying, ranks, subspaces",
    (
        *_HEAD,
        *_with_chance("qk_symmetry", "qk_identity_distance"), "qk_identity_floor",
        *_with_chance("qk_symmetric_energy", "qk_antisymmetric_energy", "qk_symmetric_identity_distance"),
        "qk_symmetric_identity_floor",
        *_with_chance("qk_positive_mass", "qk_negative_mass", "ov_copying", "ov_copying_residual"),
        *_with_chance("rank_q", "rank_k", "rank_qk", "rank_v", "rank_o", "rank_ov"),
        *_with_chance("qk_image_in_kernel", "ov_image_in_kernel", "qk_factors_lost", "ov_factors_lost"),
        *_with_chance("qk_angle_smallest", "qk_angle_largest", "qk_angle_mean", "qk_overlap"),
        *_with_chance("ov_angle_smallest", "ov_angle_largest", "ov_angle_mean", "ov_overlap"),
    ),
    has_whole_layers=True,
    options=frozenset({"layer", "head", "stack", "distance"}),
)  # fmt: skip

COMPOSITION = View(
    "composition",
    "5",
    "Who feeds this head",
    "who feeds a head: how much of what earlier heads write it reads as query, key, value",
    (*_HEAD, "kind", "from_layer", "from_head", "composition", "chance"),
    scope=Scope.HEAD_OR_LAYER,
)

DIRECTIONS = View(
    "directions",
    "6",
    "Singular directions in words",
    "the tokens that the singular directions of QK and OV stand for",
    (
        *_HEAD,
        "matrix", "index", "singular_value", "side", "end", "place", "token_id", "token", "projection", "note",
    ),
    options=frozenset({"layer", "head", "stack", "matrix", "top", "first", "fold_norm", "distance"}),
    scope=Scope.HEAD,
)  # fmt: skip

WEIGHTS = View(
    "weights",
    "0",
    "Weights",
    "every parameter: shape, dtype, size, what it is tied to, its norm",
    ("name", "shape", "dtype", "parameters", "tied_to", "bytes", "norm", "note"),
    is_by_layer=False,
    options=frozenset({"layer", "norms"}),
    scope=Scope.MODEL,
    places=("name",),
    grows=True,
)

EXPLAIN = View(
    "explain",
    "x",
    "Explain the cell of the map",
    "the score of one query and one key, split into terms that add up to it",
    (
        *_HEAD,
        "term", "value", "cumulative", "query_tokens", "key_tokens", "query_projection", "key_projection",
        "singular_value", "index", "last_index", "kind", "note", "query", "key", "query_token", "key_token",
    ),
    options=frozenset({"layer", "head", "stack", "text", "position", "key", "top", "first"}),
    needs=frozenset({"text"}),
    scope=Scope.CELL,
    places=(*_HEAD, "term"),
)  # fmt: skip

PATTERNS = View(
    "patterns",
    "7",
    "What heads do in a sentence",
    "where heads look: entropy, previous token, first token, duplicates, induction; labels",
    (
        *_HEAD, "label",
        *_with_chance("entropy", "to_first", "to_self", "to_previous", "to_next", "mean_distance"), "to_none",
        *_with_chance("duplicate", "induction"),
        "note",
    ),
    options=frozenset({"layer", "head", "stack", "text"}),
)  # fmt: skip

ROLLOUT = View(
    "rollout",
    "",
    "Attention rollout",
    "which tokens of the input what is at a query comes from, through all layers of a stack",
    ROLLOUT_COLUMNS,
    is_by_layer=False,
    options=frozenset({"text"}),
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
)

_SENTENCE = frozenset({"text", "position"})
_CHOICES = ("token_id", "token", "logit", "probability")

PREDICTIONS = View(
    "predictions",
    "8",
    "Predictions",
    "the tokens that the model expects after a token of the sentence, or in the place of a mask",
    ("position", "at", "rank", *_CHOICES),
    is_by_layer=False,
    options=_SENTENCE | {"top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    top=20,
    said=("position", "at"),
)

LENS = View(
    "lens",
    "",
    "Logit lens",
    "what the model would predict after each of its blocks, and the norm of its residual stream there",
    ("stack", "layer", "place", *_CHOICES, "norm"),
    is_by_layer=False,
    options=_SENTENCE | {"top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    top=3,
)

CONTRIBUTIONS = View(
    "contributions",
    "",
    "Direct contributions",
    "what each head adds to the logit of a token by itself",
    (*_HEAD, "part", "token_id", "token", "contribution", "logit", "note"),
    is_by_layer=False,
    options=_SENTENCE | {"token"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    ranked_by="contribution",
    said=("token", "logit", "note", "token_id"),
)

ABLATION = View(
    "ablation",
    "9",
    "Heads switched off",
    "how probabilities change when heads are switched off, each alone or with --off together",
    (
        *_HEAD, "token_id", "token", "probability_before", "probability_after", "change",
        "logit_before", "logit_after", "logit_change",
    ),
    options=_SENTENCE | {"layer", "head", "stack", "token", "off", "by_mean", "top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    ranked_by="change",
    said=("token", "probability_before", "logit_before", "token_id"),
)  # fmt: skip

FURTHER = {"predictions": "lens", "lens": "contributions", "contributions": "predictions"}
"""Which view the same key goes on to when it is pressed where a view is looked at already."""

_CIRCUITS_FIRST = ("qk", "ov", "q", "k", "v", "o")
_ANGLES = ("angle_smallest", "angle_mean", "angle_largest", "overlap")

CHANGES = View(
    "changes",
    "v",
    "Changes in the other model",
    "what is different in each head of the model that --vs names, the most changed first",
    (
        *_HEAD, "change", *(f"{matrix}_distance" for matrix in _CIRCUITS_FIRST),
        *_with_chance(*(f"{matrix}_{name}" for matrix in "qkvo" for name in _ANGLES)),
        *(f"{matrix}_{name}_change" for name in RANK_COLUMNS[6:] for matrix in _CIRCUITS_FIRST),
    ),
    has_whole_layers=True,
    options=frozenset({"layer", "head", "stack", "vs"}),
    needs=frozenset({"vs"}),
    scope=Scope.MODEL,
    ranked_by="change",
)  # fmt: skip

VIEWS = {
    view.name: view
    for view in (
        CIRCUITS,
        COMPOSITION,
        DIRECTIONS,
        PATTERNS,
        ROLLOUT,
        PREDICTIONS,
        LENS,
        CONTRIBUTIONS,
        ABLATION,
        EXPLAIN,
        CHANGES,
        WEIGHTS,
    )
}
"""Every such table, by name."""
