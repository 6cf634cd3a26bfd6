"""The views: the columns, options and place on screen of each table, and the meanings of columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral

from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head, parse_matrix
from engine.values.table import CHANCE, RANK_COLUMNS, ROLLOUT_COLUMNS, Cell


class Scope(Enum):
    """What a table on screen covers, given the selection in the tree."""

    HEAD = "a head"
    HEAD_OR_LAYER = "a head or a layer"
    LAYER = "a layer"
    """The selected head's layer, so that its heads stand together; all layers if the model is selected."""
    MODEL = "the model"
    CELL = "a head and a cell of its map"


DEFAULT_TOP = 10
"""Tokens listed at each end of a direction, or as predictions, by default."""


@dataclass(frozen=True, slots=True)
class View:
    """A table that is computed from an open model.

    Attributes
    ----------
    name : its name on the command line.
    key : the key that shows it in the explorer; empty if it has none of its own.
    title : its title in the explorer.
    summary : what it holds, in a line.
    columns : the names, in order.
    is_by_layer : whether it is computed layer by layer, so that one layer can be asked for.
    has_whole_layers : whether it may have rows with the head ``all``.
    has_changes : whether it has rows of an adapter's changes, which do not attend.
    options : the options that narrow or shape it, by their names on the command line.
    needs : the options that it requires, such as ``text``, the sentence, or ``vs``, a second model.
    scope : how much of a model is on screen at once.
    places : the columns that name a row; they stay at the left.
    leading : the columns that follow these on screen; files keep the order of ``columns``.
    grows : whether its rows come at once and some of their cells later.
    ranked_by : the column that orders complete rows, largest size first; of several, the first that the table has;
        empty for no order.
    top : how many tokens a list on screen has, if it lists tokens.
    title_columns : the columns that the title on screen names if all rows agree in them, each with its name there, the
        most important first.
    empty : the message for no rows.
    option_columns : the columns that options add at the end, by the options' names on the command line, with spaces
        between them: ``vs`` adds a second model's.
    default_columns : the columns that are shown and written by default; empty for all.
    sets : sets of further columns that are shown together, by name.
    """

    name: str
    key: str
    title: str
    summary: str
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
    ranked_by: tuple[str, ...] = ()
    top: int = DEFAULT_TOP
    title_columns: tuple[tuple[str, str], ...] = ()
    empty: str = "this table has no rows here"
    option_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    default_columns: tuple[str, ...] = ()
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def columns_with(self, options: Collection[str]) -> tuple[str, ...]:
        """Return the columns of the table with some options."""
        return (*self.columns, *added_columns(self.option_columns, options))

    def on_screen(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Put columns of this table in the order of the screen."""
        order = {name: number for number, name in enumerate(self.leading)} | dict.fromkeys(self.places, -1)
        return tuple(sorted(columns, key=lambda name: order.get(name, len(order))))

    def sort_rows(self, rows: Iterable[Sequence[Cell]], columns: Sequence[str]) -> list[Sequence[Cell]]:
        """Sort rows by the size of `ranked_by`, the largest first and empty cells last."""
        place = next((columns.index(name) for name in self.ranked_by if name in columns), 0)

        def size(row: Sequence[Cell]) -> float:
            cell = row[place]
            return -abs(cell) if isinstance(cell, int | float) else math.inf

        return sorted(rows, key=size) if self.ranked_by else list(rows)


def added_columns(option_columns: Mapping[str, tuple[str, ...]], options: Collection[str]) -> tuple[str, ...]:
    """Return the columns that some options add."""
    return tuple(
        name for given, names in option_columns.items() if set(given.split()) <= set(options) for name in names
    )


DEFAULT_FIRST = 10
"""Directions of a matrix, by default."""


@dataclass(frozen=True, slots=True)
class Query:
    """The part of a table that is asked for; by default all of it.

    Attributes
    ----------
    layer : one layer, or None for several.
    layers : of several, which; empty for all of the model.
    head : a head's number, -1 for whole layers alone, None for all heads.
    whole_layers : whether whole layers follow their heads, in a table that has them.
    layer_mean, head_mean : whether maps are averaged over a stack's layers, or over a layer's heads.
    matrix : the only matrix to compute, or None for all of the table's.
    top : how many tokens to list at each end of a direction, or as predictions.
    first : how many directions of a matrix, the strongest first.
    fold_norm : whether the gains of norms are folded into the weights.
    distance : how many tokens a key is before the query, for QK with rotary positions; None leaves positions out.
    text : the sentence, if one is read.
    position : position of a token, or of the query, from 0; None for the last one.
    all_positions : whether all positions of the sentence are listed (the lens).
    key : position of the key, from 0; None for the one with the largest weight.
    token : the token whose logit is meant: its text, or ``#`` and its id; None for the likeliest.
    against : another token, given in the same way, whose logit is subtracted; None for the logit itself.
    off : the heads that are switched off.
    norms : whether parameters are read for their norms.
    by_mean : whether the output of a head that is off becomes its mean over the sentence's tokens instead of zero.
    eigenvalues : whether eigenvalues of whole layers are computed even if they are wide.
    epsilon : the share of the energy that the energy rank leaves out; None for the default.
    parts : the parts of the table of heads to compute; None for all.
    with_other : whether a second model's numbers stand beside, in a table that does not require one.

    Raises
    ------
    EngineError : if there is no such matrix, a number is out of its range, or the sentence is no text.
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
    all_positions: bool = False
    key: int | None = None
    token: str | None = None
    against: str | None = None
    off: tuple[Head, ...] = ()
    norms: bool = False
    by_mean: bool = False
    eigenvalues: bool = False
    epsilon: float | None = None
    parts: tuple[str, ...] | None = None
    with_other: bool = False

    def __post_init__(self) -> None:
        if self.matrix is not None:
            object.__setattr__(self, "matrix", parse_matrix(self.matrix))
        if self.epsilon is not None and not 0 < self.epsilon < 1:
            raise EngineError("ε is the share of the energy left out: between 0 and 1, such as 0.01")
        for name, least in (("top", 1), ("first", 1), ("distance", 0)):
            count = getattr(self, name)
            if count is not None and (not isinstance(count, Integral) or count < least):
                raise EngineError(f"{name} is {count!r}; give a whole number from {least}")
        if not isinstance(self.text, str | None):
            raise EngineError(f"a sentence is one string; this is of type {type(self.text).__name__}")

    @property
    def column_options(self) -> tuple[str, ...]:
        """The given options that may add columns to a table."""
        is_given = {"vs": self.with_other, "off": bool(self.off), "against": self.against is not None}
        return tuple(name for name, is_so in is_given.items() if is_so)

    def wants(self, head: int) -> bool:
        """Whether rows of a head, or of the whole layer (-1), are asked for."""
        return self.head == head or (self.head is None and (head >= 0 or self.whole_layers))


def _with_chance(*names: str) -> tuple[str, ...]:
    return tuple(column for name in names for column in (name, f"{name}{CHANCE}"))


_HEAD = ("stack", "layer", "head")

CIRCUITS = View(
    "circuits",
    "4",
    "Circuits",
    "what QK and OV do as maps: symmetry, copying, ranks, subspaces",
    (
        *_HEAD,
        *_with_chance("qk_symmetry", "ov_copying", "ov_copying_residual", "qk_identity_distance"), "qk_identity_floor",
        *_with_chance("qk_symmetric_energy", "qk_antisymmetric_energy", "qk_symmetric_identity_distance"),
        "qk_symmetric_identity_floor",
        *_with_chance("qk_positive_mass", "qk_negative_mass"),
        *_with_chance("rank_q", "rank_k", "rank_qk", "rank_v", "rank_o", "rank_ov"),
        *_with_chance("qk_image_in_kernel", "ov_image_in_kernel", "qk_factors_lost", "ov_factors_lost"),
        *_with_chance("qk_angle_smallest", "qk_angle_largest", "qk_angle_mean", "qk_overlap"),
        *_with_chance("ov_angle_smallest", "ov_angle_largest", "ov_angle_mean", "ov_overlap"),
    ),
    has_whole_layers=True,
    options=frozenset({"layer", "head", "stack", "distance", "eigenvalues", "fold_norm"}),
)  # fmt: skip

COMPOSITION = View(
    "composition",
    "5",
    "Composition: which heads feed this one",
    "which earlier heads feed a head, and how strongly",
    (*_HEAD, "kind", "from_layer", "from_head", "composition", "chance"),
    scope=Scope.HEAD_OR_LAYER,
    places=(*_HEAD, "from_layer", "from_head"),
    leading=("composition", "chance"),
    title_columns=(("from_layer", "from layer"), ("from_head", "from head")),
    empty="no earlier layer feeds this one",
)

DIRECTIONS = View(
    "directions",
    "6",
    "Directions: singular directions as tokens",
    "the tokens that the singular directions of QK and OV stand for",
    (
        *_HEAD,
        "matrix", "index", "side", "extreme", "place", "token", *_with_chance("projection", "singular_value"),
        "token_id", "note",
    ),
    options=frozenset({"layer", "head", "stack", "matrix", "top", "first", "fold_norm", "distance"}),
    scope=Scope.HEAD,
    places=(*_HEAD, "token"),
    leading=_with_chance("projection"),
)  # fmt: skip

WEIGHTS = View(
    "weights",
    "",
    "Weights",
    "every parameter: shape, dtype, size, ties, norm",
    ("name", "shape", "dtype", "parameters", "tied_to", "bytes", "norm", "note"),
    is_by_layer=False,
    options=frozenset({"layer", "norms"}),
    scope=Scope.MODEL,
    places=("name",),
    leading=("bytes", "norm"),
    grows=True,
)

EXPLAIN = View(
    "explain",
    "x",
    "Explain: the score of one cell, term by term",
    "the score of one query and key, split into terms that add up to it",
    (
        *_HEAD,
        "term", *_with_chance("value"), "cumulative",
        "query_tokens", "key_tokens", *_with_chance("query_projection", "key_projection"),
        *_with_chance("singular_value"), "index", "last_index",
        "kind", "note", "query", "key", "query_token", "key_token",
    ),
    options=frozenset({"layer", "head", "stack", "text", "position", "key", "top", "first"}),
    needs=frozenset({"text"}),
    scope=Scope.CELL,
    places=(*_HEAD, "term"),
    leading=(*_with_chance("value"), "query_tokens", "key_tokens"),
)  # fmt: skip

PATTERNS = View(
    "patterns",
    "7",
    "Patterns: where heads look",
    "where heads look: entropy, previous token, induction; labels",
    (
        *_HEAD, "label",
        *_with_chance("entropy", "to_first", "to_self", "to_previous", "to_next", "mean_distance", "to_none"),
        *_with_chance("duplicate", "induction"),
        "note",
    ),
    options=frozenset({"layer", "head", "stack", "text"}),
    leading=("label", *_with_chance("induction", "to_previous", "duplicate", "entropy")),
)  # fmt: skip

RANK_MEASURES = {
    f"{matrix.lower()}_{measure}": (matrix, measure) for matrix in MATRICES for measure in RANK_COLUMNS[6:]
}
"""The measures of every matrix by their names in the table of heads: the matrix and the measure."""

HEAD_PARTS = {
    "ranks": _with_chance(*RANK_MEASURES),
    "patterns": PATTERNS.columns[4:-1],
    "circuits": CIRCUITS.columns[3:],
}
"""The parts of the table of heads: the columns of each, by the view they come from, the cheapest first."""

HEADS = View(
    "heads",
    "",
    "Heads: a table of all heads",
    "a row for each head: ranks, patterns and circuits",
    (*_HEAD, "label", *(column for part in HEAD_PARTS.values() for column in part), "note"),
    has_changes=True,
    options=frozenset({"layer", "head", "stack", "text", "energy"}),
    scope=Scope.MODEL,
    grows=True,
    default_columns=(
        *_HEAD, "label",
        "qk_stable_rank", "ov_stable_rank", "qk_energy_rank", "ov_energy_rank",
        "entropy", "induction", "to_previous", "qk_positive_mass", "ov_copying", "note",
    ),
    sets=HEAD_PARTS,
)  # fmt: skip


def parts_of(columns: Collection[str]) -> tuple[str, ...]:
    """Name the parts of the table of heads that hold some columns."""
    wanted = set(columns)
    return tuple(
        part
        for part, own in HEAD_PARTS.items()
        if not wanted.isdisjoint(own) or (part == "patterns" and "label" in wanted)
    )


ROLLOUT = View(
    "rollout",
    "",
    "Rollout: attention followed through all layers",
    "how much of each token reaches each other, through all layers",
    ROLLOUT_COLUMNS,
    is_by_layer=False,
    options=frozenset({"text"}),
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
)

_SENTENCE = frozenset({"text", "position"})
_CHOICES = ("token_id", "token", *_with_chance("logit", "probability"))
_DIFFERENCE = ("chosen", "against", *_with_chance("logit_difference"))

PREDICTIONS = View(
    "predictions",
    "8",
    "Predictions",
    "the likeliest next tokens; --vs, --off: before and after",
    ("position", "at", "rank", *_CHOICES),
    is_by_layer=False,
    options=_SENTENCE | {"top", "vs", "off", "by_mean", "token", "against"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    places=("rank", "token"),
    leading=(
        "probability", "probability_other", "probability_after", "difference", "change",
        "rank_other", "rank_after", "logit", "logit_other", "logit_after",
    ),
    top=20,
    title_columns=(
        ("chosen", "of"), ("against", "less"), ("logit_difference", "="),
        ("logit_difference_other", "the other"), ("logit_difference_after", "after"),
        ("position", "position"), ("at", "at"), ("probability_chance", "chance"), ("logit_chance", "logit chance"),
    ),
    option_columns={
        "vs": ("rank_other", *_with_chance("logit_other", "probability_other"), "difference"),
        "off": ("rank_after", *_with_chance("logit_after", "probability_after", "change")),
        "against": _DIFFERENCE,
        "vs against": _with_chance("logit_difference_other"),
        "off against": _with_chance("logit_difference_after"),
    },
)  # fmt: skip

LENS = View(
    "lens",
    "",
    "Lens: what each layer would predict",
    "what it would predict after each block, and the stream's norm",
    ("stack", "layer", "position", "at", "place", *_CHOICES, *_with_chance("norm")),
    is_by_layer=False,
    options=_SENTENCE | {"top", "token", "against"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=("token", "probability", "place", *_with_chance("logit", "norm")),
    top=5,
    title_columns=(("probability_chance", "chance"),),
    option_columns={"against": _DIFFERENCE},
)

CONTRIBUTIONS = View(
    "contributions",
    "",
    "Contributions: what each head adds to a logit",
    "what each head, MLP and bias adds to the logit of --token",
    (*_HEAD, "part", "token_id", "token", *_with_chance("contribution"), "logit", "note", "position", "at"),
    is_by_layer=False,
    options=_SENTENCE | {"token", "against"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=_with_chance("contribution"),
    ranked_by=("contribution",),
    title_columns=(
        ("token", "token"), ("against", "less"), ("logit_difference", "="), ("logit", "logit"),
        ("note", "note"), ("position", "position"), ("at", "at"), ("token_id", "id"),
    ),
    option_columns={"against": ("against", "logit_difference")},
)  # fmt: skip

ABLATION = View(
    "ablation",
    "9",
    "Ablation: heads switched off",
    "what changes with heads off: each alone, or --off together",
    (
        *_HEAD, "token_id", "token", "probability_before", "probability_after", *_with_chance("change"),
        "logit_before", "logit_after", *_with_chance("logit_change"), "off", "position", "at",
    ),
    options=_SENTENCE | {"layer", "head", "stack", "token", "against", "off", "by_mean", "top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=(
        "token", *_with_chance("logit_difference_change"), "logit_difference_before", "logit_difference_after",
        *_with_chance("change"), "probability_before", "probability_after",
    ),
    ranked_by=("logit_difference_change", "change"),
    title_columns=(
        ("token", "token"), ("against", "less"), ("logit_difference_before", "="),
        ("probability_before", "p before"), ("position", "position"), ("at", "at"), ("logit_before", "logit"),
        ("token_id", "id"),
    ),
    option_columns={
        "against": (
            "against", "logit_difference_before", "logit_difference_after", *_with_chance("logit_difference_change"),
        ),
    },
)  # fmt: skip

OVERVIEW = "overview"
"""The view that draws one column of the table of heads as a map of layers × heads."""

RINGS = (("predictions", "lens", "contributions"), (OVERVIEW, HEADS.name))
"""Views that share a key; pressed again, it shows the next one."""


def ring_of(view: str) -> tuple[str, ...]:
    """Return the views that share a view's key, itself among them; empty if it has a key of its own."""
    return next((each for each in RINGS if view in each), ())


def view_after(active: str, wanted: str) -> str:
    """Return the view that the key of ``wanted`` shows while another view is active."""
    ring = ring_of(wanted)
    return ring[(ring.index(active) + 1) % len(ring)] if active in ring else wanted


_CIRCUITS_FIRST = ("qk", "ov", "q", "k", "v", "o")
_ANGLES_SAID = {
    "angle_smallest": "smallest angle between {}, degrees",
    "angle_mean": "mean angle between {}, degrees",
    "angle_largest": "largest angle between {}, degrees",
    "overlap": "mean cos² of the angles between {}",
}

CIRCUIT_MEASURES = tuple(
    name for name in CIRCUITS.columns[3:] if not name.startswith("rank_") and not name.endswith(("_chance", "_floor"))
)
"""The measures of circuits, without ranks, which are measures of matrices, and floors, which follow from ranks."""

CHANGES = View(
    "changes",
    "",
    "Changes: how the other model differs",
    "how the model of --vs differs, most changed heads first",
    (
        *_HEAD, *_with_chance("change", *(f"{matrix}_distance" for matrix in _CIRCUITS_FIRST)),
        *_with_chance(*(f"{matrix}_{name}" for matrix in "qkvo" for name in _ANGLES_SAID)),
        *(f"{name}_change" for name in CIRCUIT_MEASURES),
        *(f"{matrix}_{name}_change" for name in RANK_COLUMNS[6:] for matrix in _CIRCUITS_FIRST),
        *_with_chance(*(f"b_{matrix}_distance" for matrix in "qkvo")),
    ),
    has_whole_layers=True,
    options=frozenset({"layer", "head", "stack", "vs"}),
    needs=frozenset({"vs"}),
    scope=Scope.MODEL,
    ranked_by=("change",),
)  # fmt: skip

VIEWS = {
    view.name: view
    for view in (
        CIRCUITS, COMPOSITION, DIRECTIONS, PATTERNS, HEADS, ROLLOUT, PREDICTIONS, LENS, CONTRIBUTIONS, ABLATION,
        EXPLAIN, CHANGES, WEIGHTS,
    )
}  # fmt: skip
"""Every view, by name."""

NEEDS = {"attention": frozenset({"text"}), **{view.name: view.needs for view in VIEWS.values()}}
"""The options that a table requires."""

_IMAGES = {"q": "im W_Qᵀ", "k": "im W_Kᵀ", "v": "im W_Vᵀ", "o": "im W_O"}

OF_SPECTRA = {
    "energy_rank": "fewest σ² that make up 1−ε of Σσ²",
    "numerical_rank": "number of σ above rounding noise",
    "effective_rank": "exp(entropy of σ/Σσ)",
    "stable_rank": "Σσ² / σ₁²",
    "participation_ratio": "(Σσ²)² / Σσ⁴",
    "spectral_norm": "σ₁",
    "frobenius_norm": "√Σσ²",
    "nuclear_norm": "Σσ",
    "condition_number": "σ₁ / σᵣ, r the structural rank",
}
"""The definitions of measures of singular values, by name."""

MEANINGS = {
    "energy_rank": "directions that carry {energy} of the energy",
    "numerical_rank": "directions above rounding noise",
    "effective_rank": "how many directions, weighed by strength",
    "stable_rank": "how many directions share the strength",
    "participation_ratio": "how many directions share the energy",
    "spectral_norm": "the strongest direction's gain",
    "frobenius_norm": "overall size of the matrix",
    "nuclear_norm": "all directions' gains together",
    "condition_number": "strongest direction over the weakest",
    "qk_symmetry": "1: attention goes both ways; −1: one way",
    "qk_identity_distance": "0: looks for its own content",
    "qk_identity_floor": "the least distance its rank allows",
    "qk_symmetric_energy": "share that goes both ways",
    "qk_antisymmetric_energy": "share that goes one way",
    "qk_symmetric_identity_distance": "0: symmetric part looks for its own",
    "qk_symmetric_identity_floor": "the least distance its rank allows",
    "qk_positive_mass": "share that attracts its own content",
    "qk_negative_mass": "share that avoids its own content",
    "ov_copying": "1: copies tokens; −1: suppresses them",
    "ov_copying_residual": "1: keeps directions; −1: reverses them",
    "qk_image_in_kernel": "directions lost when applied twice",
    "ov_image_in_kernel": "directions lost when applied twice",
    "qk_factors_lost": "directions lost between K and Q",
    "ov_factors_lost": "directions lost between V and O",
    **{f"rank_{matrix.lower()}": "directions above rounding noise" for matrix in MATRICES},
    **{
        f"{circuit}_{name}": meaning.format(subspaces)
        for circuit, subspaces in (("qk", "query and key"), ("ov", "value and output"))
        for name, meaning in {
            "angle_smallest": "least angle between {} space",
            "angle_mean": "mean angle between {} space",
            "angle_largest": "largest angle between {} space",
            "overlap": "how much {} space coincide",
        }.items()
    },
    "entropy": "how widely a token looks",
    "to_first": "attention to the first token",
    "to_self": "attention to the token itself",
    "to_previous": "attention to the token before",
    "to_next": "attention to the token after",
    "mean_distance": "how far away a token looks",
    "to_none": "attention to no token at all",
    "duplicate": "attention to the same token before",
    "induction": "attention to what followed it before",
}
"""The meanings of measures in about six words, by name; those of singular values without their matrix."""


def meaning(measure: str, epsilon: float = 0.01) -> str:
    """Name a measure and say what it means in a few words; empty for any other column.

    Examples
    --------
    >>> meaning("qk_stable_rank")
    'stable rank of QK: how many directions share the strength'
    >>> meaning("energy_rank", 0.1)
    'energy rank: directions that carry 90 % of the energy'
    """
    matrix, name = RANK_MEASURES.get(measure, ("", measure))
    if name not in MEANINGS:
        return ""
    said = MEANINGS[name].format(energy=f"{100 * (1 - epsilon):g} %")
    return f"{name.replace('_', ' ')}{f' of {matrix}' * bool(matrix)}: {said}"


def _beside_chance(chance: str, said: Mapping[str, str]) -> dict[str, str]:
    return {**said, **{f"{name}{CHANCE}": f"chance, {chance}: {each}" for name, each in said.items()}}


COLUMNS = {
    "qk_symmetry": "tr(M²)/‖M‖² of M = QK: 1 symmetric, −1 antisymmetric",
    "qk_identity_distance": "√(1 − tr(M)²/(d‖M‖²)) of M = QK: 0 for a multiple of the identity",
    "qk_identity_floor": "√(1 − r/d): the smallest distance that QK's rank allows",
    "qk_symmetric_energy": "share of ‖QK‖² in its symmetric part",
    "qk_antisymmetric_energy": "share of ‖QK‖² in its antisymmetric part",
    "qk_symmetric_identity_distance": "identity distance of QK's symmetric part",
    "qk_symmetric_identity_floor": "the smallest distance that the symmetric part's rank allows",
    "qk_positive_mass": "Σ max(Re λ, 0)/Σ|λ| over QK's eigenvalues",
    "qk_negative_mass": "Σ max(−Re λ, 0)/Σ|λ| over QK's eigenvalues",
    "ov_copying": "Σλ/Σ|λ| of embedding · OV · unembedding: 1 for a head that copies tokens",
    "ov_copying_residual": "Σλ/Σ|λ| of OV alone: 1 for a head that copies directions of the residual stream",
    "qk_image_in_kernel": "dim(im QK ∩ ker QK) = rank(QK) − rank(QK²)",
    "ov_image_in_kernel": "dim(im OV ∩ ker OV) = rank(OV) − rank(OV²)",
    "qk_factors_lost": "dim(im W_K ∩ ker W_Qᵀ) = rank(W_K) − rank(QK)",
    "ov_factors_lost": "dim(im W_V ∩ ker W_O) = rank(W_V) − rank(OV)",
    "kind": "read as this head's query (Q), key (K) or value (V)",
    "from_layer": "the layer of the head that feeds this one",
    "from_head": "the head that feeds this one; Enter goes to it",
    "composition": "share it reads of that head's output: ‖AB‖/(‖A‖‖B‖)",
    "chance": "the composition of random heads, 1/√d",
    "matrix": "the circuit",
    "index": "which singular direction, 1 for the strongest",
    "singular_value": "singular value of the direction",
    "side": "whether the head reads or writes the direction",
    "extreme": "tokens with the largest or the smallest projections",
    "place": "place in the list, 1 for the most extreme or likeliest",
    "singular_value_chance": "chance, Gaussian factors of the same shapes and norms",
    "token_id": "id of the token in the vocabulary",
    "token": "the token",
    "projection": "projection of the token on the direction",
    "directions.projection_chance": "chance, random directions: mean of the projection at this place",
    "name": "name of the parameter in the model",
    "shape": "shape in the file; of packed weights, the shape in use",
    "dtype": "dtype in the file",
    "parameters": "how many numbers the parameter holds",
    "tied_to": "the parameter that it shares its numbers with",
    "bytes": "bytes in the file; 0 where another parameter has them",
    "weights.norm": "Frobenius norm √Σw², computed for rows on screen",
    "explain.term": "singular pairs of QK at the tokens' distance, or biases",
    "explain.value": "pair N: the Nth singular pair of QK",
    "explain.value_chance": "chance, x_q and x_k turned at random: root mean square",
    "explain.cumulative": "sum up to this term, before sorting",
    "explain.query_tokens": "tokens at the end of u that the query points to",
    "explain.key_tokens": "tokens at the end of v that the key points to",
    "explain.query_projection": "x_q·u, where x_q is what W_Q reads, after the norm",
    "explain.key_projection": "v·x_k, where x_k is what W_K reads, after the norm",
    "explain.query_projection_chance": "chance, x_q of the same norm in random directions: ‖x_q‖/√d",
    "explain.key_projection_chance": "chance, x_k of the same norm in random directions: ‖x_k‖/√d",
    "explain.singular_value": "σ of QK, times the scale of the scores",
    "explain.singular_value_chance": "chance, Gaussian factors of the same shapes and norms, times that scale",
    "explain.index": "which singular pair, 1 for the strongest",
    "explain.last_index": "the last pair of the group",
    "explain.kind": "content, bias, cap or position; then the model's rows",
    "explain.note": "what the term holds, or why it has no tokens",
    "label": "what the head clearly does on repeated random tokens",
    "to_none": "share of attention on a sink that is no token: 1 − the row's sum",
    "to_none_chance": "chance, a sink that is one more key: mean of 1/(keys + 1); 0 where there is none",
    "position": "position of the token before the prediction, from 0",
    "at": "the token there, or the one that the mask replaces",
    "rank": "place in the list: 1 for the likeliest token",
    "logit": "logit of the token, before the softmax",
    "probability": "probability of the token: softmax over the vocabulary",
    "rank_other": "place of the token in the other model's list",
    "logit_other": "logit in the other model, before the softmax",
    "logit_other_chance": "chance, a token drawn at random: the mean of the other model's logits",
    "probability_other": "probability in the other model; the larger sorts rows",
    "probability_other_chance": "chance, a token drawn at random: 1/vocabulary of the other model",
    "predictions.difference": "probability in the other model less that in this one",
    "predictions.probability_after": "probability with the heads off; the larger sorts rows",
    "rank_after": "place of the token in the list with the heads off",
    "logit_after_chance": "chance, a token drawn at random: the mean of the logits with the heads off",
    "probability_after_chance": "chance, a token drawn at random: 1/vocabulary",
    "chosen": "the compared token: --token, or the likeliest",
    "against": "the token whose logit is subtracted: --against",
    "logit_difference": "logit of the chosen token less that of the other",
    "logit_difference_chance": "chance, two tokens drawn at random: root mean square of the difference",
    "logit_difference_other": "the same difference in the other model",
    "logit_difference_other_chance": "chance, two tokens drawn at random, in the other model",
    "logit_difference_before": "logit less that of --against, with all heads on",
    "logit_difference_after": "the same difference with the head or heads off",
    "logit_difference_after_chance": "chance, two tokens drawn at random, with the heads off",
    "logit_difference_change": "change of the logit difference",
    "logit_difference_change_chance": "chance, two tokens drawn at random: root mean square of the change",
    "logit_chance": "chance, a token drawn at random: the mean over the vocabulary",
    "probability_chance": "chance, a token drawn at random: 1/vocabulary",
    "norm": "‖x‖ of the residual stream at this place",
    "norm_chance": "chance, what the block adds at a right angle to the stream before: √(‖x‖² + ‖added‖²)",
    "part": "a head, the embedding, an MLP, or all biases",
    "contribution": "direct effect; rows add up to the logit (norms fixed)",
    "contribution_chance": "chance, tokens drawn at random: the root mean square of what it adds to their logits",
    "probability_before": "probability of the token with all heads on",
    "probability_after": "probability of the token with the head or heads off",
    "change": "change of the token's probability",
    "change_chance": "chance, the changes of all logits shuffled among tokens: root mean square",
    "logit_before": "logit of the token with all heads on",
    "logit_after": "logit of the token with the head or heads off",
    "off": "the heads that are off in this row",
    "logit_change": "change of the token's logit",
    "logit_change_chance": "chance, tokens drawn at random: the root mean square of their logits' changes",
    **{f"rank_{matrix.lower()}": f"numerical rank of {'W_' * (len(matrix) == 1)}{matrix}" for matrix in MATRICES},
    **{
        f"{circuit}_{name}": said.format(images)
        for circuit, images in (("qk", "im W_Qᵀ and im W_Kᵀ"), ("ov", "im W_Vᵀ and im W_O"))
        for name, said in _ANGLES_SAID.items()
    },
    **{
        name: f"{measure.replace('_', ' ')} of {matrix}: {OF_SPECTRA[measure]}"
        for name, (matrix, measure) in RANK_MEASURES.items()
    },
    "note": "a remark on this row, or why it is empty",
    **_beside_chance(
        "uniform attention to the visible keys",
        {
            "entropy": "−Σ p ln p of a query's attention, in nats",
            "to_first": "share of attention on the first token",
            "to_self": "share of attention on the token itself",
            "to_previous": "share of attention on the previous token",
            "to_next": "share of attention on the next token",
            "mean_distance": "Σ p|i − j| of a query's attention, in tokens",
            "duplicate": "repeated random tokens: share of attention on the token's earlier place",
            "induction": "repeated random tokens: share of attention on the token that followed it earlier",
        },
    ),
    **_beside_chance(
        "unrelated random weights",
        {
            "changes.change": "larger of qk_ and ov_distance: how much it changed",
            **{
                f"changes.{matrix.lower()}_distance": f"‖B − A‖/‖A‖ of {matrix}, A of this model, B of the other"
                for matrix in MATRICES
            },
        },
    ),
    **_beside_chance(
        "unrelated subspaces of the same sizes",
        {
            f"changes.{matrix}_{name}": said.format(f"{image} of both models")
            for matrix, image in _IMAGES.items()
            for name, said in _ANGLES_SAID.items()
        },
    ),
    **_beside_chance(
        "unrelated random biases",
        {
            f"changes.b_{matrix.lower()}_distance": f"‖b′ − b‖/‖b‖ of the bias b_{matrix}, b′ of the other model"
            for matrix in "QKVO"
        },
    ),
    **{
        f"{name}_change": f"{measure.replace('_', ' ')} of {matrix}, other model less this one"
        for name, (matrix, measure) in RANK_MEASURES.items()
    },
    **{f"{name}_change": f"{name}, other model less this one" for name in CIRCUIT_MEASURES},
}
"""What columns hold, by column or by view and column."""


def explain(column: str, view: str = "") -> str:
    """Say what a column of a view holds; empty if its name says it."""
    for name in (f"{view}.{column}", column):
        if name in COLUMNS:
            return COLUMNS[name]
    said = COLUMNS.get(column.removesuffix(CHANCE), "")
    return f"chance, Gaussian factors of the same shapes: {said}" if column.endswith(CHANCE) else said
