"""The tables that are worked out on an open model, each described as data: columns, range and options."""

from __future__ import annotations

from engine.values.heads import MATRICES
from engine.values.tables import RANK_COLUMNS, ROLLOUT_COLUMNS
from engine.values.view import Scope, View


def _with_chance(*names: str) -> tuple[str, ...]:
    """Put beside each column the one that holds what chance gives."""
    return tuple(column for name in names for column in (name, f"{name}_chance"))


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
    "Composition: who feeds this head",
    "who feeds a head: earlier heads, by how much it reads of them",
    (*_HEAD, "kind", "from_layer", "from_head", "composition", "chance"),
    scope=Scope.HEAD_OR_LAYER,
    leading=("from_layer", "from_head", "composition", "chance"),
    empty="no earlier layer feeds this one",
)

DIRECTIONS = View(
    "directions",
    "6",
    "Directions: singular directions in words",
    "the tokens that the singular directions of QK and OV stand for",
    (
        *_HEAD,
        "matrix", "index", "side", "end", "place", "token", *_with_chance("projection", "singular_value"), "token_id",
        "note",
    ),
    options=frozenset({"layer", "head", "stack", "matrix", "top", "first", "fold_norm", "distance"}),
    scope=Scope.HEAD,
    places=(*_HEAD, "token"),
    leading=_with_chance("projection"),
)  # fmt: skip

WEIGHTS = View(
    "weights",
    "0",
    "Weights",
    "every parameter: shape, dtype, size, what is tied; its norm",
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
    "Explain the cell of the map",
    "the score of one query and key, as terms that add up to it",
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
)  # fmt: skip

PATTERNS = View(
    "patterns",
    "7",
    "Patterns: what heads do in a sentence",
    "where heads look: entropy, previous token, induction; labels",
    (
        *_HEAD, "label",
        *_with_chance("entropy", "to_first", "to_self", "to_previous", "to_next", "mean_distance", "to_none"),
        *_with_chance("duplicate", "induction"),
        "note",
    ),
    options=frozenset({"layer", "head", "stack", "text"}),
)  # fmt: skip

RANK_MEASURES = tuple(f"{matrix.lower()}.{measure}" for matrix in MATRICES for measure in RANK_COLUMNS[6:])
"""The measures of every matrix, as the table of all heads calls them."""

HEAD_PARTS = {
    "ranks": _with_chance(*RANK_MEASURES),
    "patterns": PATTERNS.columns[4:-1],
    "circuits": CIRCUITS.columns[3:],
}
"""What the table of all heads is put together from, by the table that each part comes of; in the order of the work."""

HEADS = View(
    "heads",
    "",
    "Table of all heads",
    "a row for each head: its ranks, patterns and circuits together",
    (*_HEAD, "label", *(column for part in HEAD_PARTS.values() for column in part), "note"),
    has_changes=True,
    options=frozenset({"layer", "head", "stack", "text", "energy"}),
    scope=Scope.MODEL,
    grows=True,
)

ROLLOUT = View(
    "rollout",
    "",
    "Attention rollout",
    "which tokens are mixed into which, through all layers of a stack",
    ROLLOUT_COLUMNS,
    is_by_layer=False,
    options=frozenset({"text"}),
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
)

_SENTENCE = frozenset({"text", "position"})
_CHOICES = ("token_id", "token", *_with_chance("logit", "probability"))

PREDICTIONS = View(
    "predictions",
    "8",
    "Predictions",
    "the tokens expected after one of --text; with --vs both models'",
    ("position", "at", "rank", *_CHOICES),
    is_by_layer=False,
    options=_SENTENCE | {"top", "vs"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=("rank", "token", "probability", "probability_other", "difference", "rank_other", "logit", "logit_other"),
    top=20,
    said=(("position", "position"), ("at", "at"), ("probability_chance", "chance"), ("logit_chance", "logit chance")),
    beside=("rank_other", *_with_chance("logit_other", "probability_other"), "difference"),
)

LENS = View(
    "lens",
    "",
    "Logit lens",
    "what it would predict after each block, and the stream's norm",
    ("stack", "layer", "place", *_CHOICES, *_with_chance("norm")),
    is_by_layer=False,
    options=_SENTENCE | {"top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=("token", "probability", "place", *_with_chance("logit", "norm")),
    top=3,
    said=(("probability_chance", "chance"),),
)

CONTRIBUTIONS = View(
    "contributions",
    "",
    "Direct contributions",
    "what each head adds to the logit of --token by itself",
    (*_HEAD, "part", "token_id", "token", *_with_chance("contribution"), "logit", "note"),
    is_by_layer=False,
    options=_SENTENCE | {"token"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=_with_chance("contribution"),
    ranked_by="contribution",
    said=(("token", "token"), ("logit", "logit"), ("note", "note"), ("token_id", "id")),
)

ABLATION = View(
    "ablation",
    "9",
    "Ablation: heads switched off",
    "what switching off does: each head alone, or --off together",
    (
        *_HEAD, "token_id", "token", "probability_before", "probability_after", *_with_chance("change"),
        "logit_before", "logit_after", *_with_chance("logit_change"), "off",
    ),
    options=_SENTENCE | {"layer", "head", "stack", "token", "off", "by_mean", "top"},
    needs=frozenset({"text"}),
    scope=Scope.MODEL,
    leading=("token", *_with_chance("change"), "probability_before", "probability_after"),
    ranked_by="change",
    said=(("token", "token"), ("probability_before", "p before"), ("logit_before", "logit"), ("token_id", "id")),
)  # fmt: skip

OVERVIEW = "overview"
"""The view that draws one column of the table of all heads as a map of layers × heads."""

RINGS = (("predictions", "lens", "contributions"), (OVERVIEW, HEADS.name))
"""Views that share a key, which goes on from each to the next when it is pressed where one is looked at already."""


def ring_of(view: str) -> tuple[str, ...]:
    """Give the views that share a key with one, itself among them; none where it has its key alone.

    Examples
    --------
    >>> ring_of("overview"), ring_of("circuits")
    (('overview', 'heads'), ())
    """
    return next((each for each in RINGS if view in each), ())


def view_after(active: str, wanted: str) -> str:
    """Say which view a key leads to that stands for one, where another, or the same, is looked at.

    Examples
    --------
    >>> view_after("spectra", "predictions"), view_after("predictions", "predictions")
    ('predictions', 'lens')
    """
    ring = ring_of(wanted)
    return ring[(ring.index(active) + 1) % len(ring)] if active in ring else wanted


_CIRCUITS_FIRST = ("qk", "ov", "q", "k", "v", "o")
_ANGLES = ("angle_smallest", "angle_mean", "angle_largest", "overlap")

CIRCUIT_MEASURES = tuple(
    name for name in CIRCUITS.columns[3:] if not name.startswith("rank_") and not name.endswith(("_chance", "_floor"))
)
"""What is measured of circuits; their ranks are measures of the matrices, too, and floors follow from those."""

CHANGES = View(
    "changes",
    "v",
    "Changes in the other model",
    "what is different in the model --vs, most changed heads first",
    (
        *_HEAD, *_with_chance("change", *(f"{matrix}_distance" for matrix in _CIRCUITS_FIRST)),
        *_with_chance(*(f"{matrix}_{name}" for matrix in "qkvo" for name in _ANGLES)),
        *(f"{name}_change" for name in CIRCUIT_MEASURES),
        *(f"{matrix}_{name}_change" for name in RANK_COLUMNS[6:] for matrix in _CIRCUITS_FIRST),
        *_with_chance(*(f"b_{matrix}_distance" for matrix in "qkvo")),
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
        HEADS,
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

NEEDS = {"attention": frozenset({"text"}), **{view.name: view.needs for view in VIEWS.values()}}
"""Which options a table cannot do without."""
