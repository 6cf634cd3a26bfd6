"""What the columns of the tables that are worked out say, in a line each."""

from __future__ import annotations

from engine.values.heads import MATRICES
from engine.values.tables import RANK_COLUMNS
from engine.values.views import CIRCUIT_MEASURES

CHANCE = "_chance"
"""What the name of a column ends with that holds what chance gives."""

COLUMNS = {
    "qk_symmetry": "tr(M²)/‖M‖² of M = QK: 1 symmetric, −1 antisymmetric",
    "qk_identity_distance": "√(1 − tr(M)²/(d‖M‖²)) of M = QK: 0 for a multiple of the identity",
    "qk_identity_floor": "√(1 − r/d): the least distance that QK's rank allows",
    "qk_symmetric_energy": "share of ‖QK‖² in its symmetric part",
    "qk_antisymmetric_energy": "share of ‖QK‖² in its antisymmetric part",
    "qk_symmetric_identity_distance": "identity distance of QK's symmetric part",
    "qk_symmetric_identity_floor": "the least distance that the symmetric part's rank allows",
    "qk_positive_mass": "Σ max(Re λ, 0)/Σ|λ| over QK's eigenvalues",
    "qk_negative_mass": "Σ max(−Re λ, 0)/Σ|λ| over QK's eigenvalues",
    "ov_copying": "Σλ/Σ|λ| of embedding · OV · unembedding: 1 for a head that copies tokens",
    "ov_copying_residual": "Σλ/Σ|λ| of OV alone: 1 for a head that copies directions of the residual stream",
    "rank_q": "numerical rank of W_Q",
    "rank_k": "numerical rank of W_K",
    "rank_qk": "numerical rank of QK",
    "rank_v": "numerical rank of W_V",
    "rank_o": "numerical rank of W_O",
    "rank_ov": "numerical rank of OV",
    "qk_image_in_kernel": "dim(im QK ∩ ker QK) = rank(QK) − rank(QK²)",
    "ov_image_in_kernel": "dim(im OV ∩ ker OV) = rank(OV) − rank(OV²)",
    "qk_factors_lost": "dim(im W_K ∩ ker W_Qᵀ) = rank(W_K) − rank(QK)",
    "ov_factors_lost": "dim(im W_V ∩ ker W_O) = rank(W_V) − rank(OV)",
    "qk_angle_smallest": "smallest principal angle between im W_Qᵀ and im W_Kᵀ, in degrees",
    "qk_angle_largest": "largest principal angle between im W_Qᵀ and im W_Kᵀ, in degrees",
    "qk_angle_mean": "mean principal angle between im W_Qᵀ and im W_Kᵀ, in degrees",
    "qk_overlap": "mean squared cosine of the angles between im W_Qᵀ and im W_Kᵀ",
    "ov_angle_smallest": "smallest principal angle between im W_Vᵀ and im W_O, in degrees",
    "ov_angle_largest": "largest principal angle between im W_Vᵀ and im W_O, in degrees",
    "ov_angle_mean": "mean principal angle between im W_Vᵀ and im W_O, in degrees",
    "ov_overlap": "mean squared cosine of the angles between im W_Vᵀ and im W_O",
    "kind": "whether the head reads what is written as its query, key or value",
    "from_layer": "the layer of the head that writes",
    "from_head": "the head that writes; Enter goes to it",
    "composition": "‖AB‖/(‖A‖‖B‖): how much of what that head writes this one reads",
    "chance": "the composition of random heads, 1/√d",
    "matrix": "the circuit",
    "index": "which singular direction, 1 for the strongest",
    "singular_value": "of the direction",
    "side": "where the direction is read or written",
    "end": "the tokens with the largest, or the smallest, projections",
    "place": "1 for the outermost, or the most likely, token",
    "singular_value_chance": "chance, Gaussian factors of the same shapes and norms",
    "token_id": "the token's number",
    "token": "the token",
    "projection": "of the token on the direction",
    "directions.projection_chance": "chance, random directions: mean of the projection at this place",
    "name": "of the parameter, as the model calls it",
    "shape": "as stored, or as the weight is used where it is packed",
    "dtype": "in which it is stored",
    "parameters": "how many numbers it holds",
    "tied_to": "the parameter whose numbers it shares",
    "bytes": "what it takes, scales beside packed numbers left out; 0 where it is not stored by itself",
    "weights.norm": "√Σw², the Frobenius norm; read while it is looked at",
    "explain.term": "pairs are singular pairs of QK at the distance of the two tokens",
    "explain.value": "σ (x_q·u)(v·x_k) of a pair; all terms add up to the score",
    "explain.value_chance": "chance, x_q and x_k of the same norms in random directions: root mean square",
    "explain.cumulative": "this term and all above it, as long as nothing is sorted",
    "explain.query_tokens": "tokens at the end of u that the query is on",
    "explain.key_tokens": "tokens at the end of v that the key is on",
    "explain.query_projection": "x_q·u, x as the query's projection reads it, after the norm",
    "explain.key_projection": "v·x_k, x as the key's projection reads it, after the norm",
    "explain.query_projection_chance": "chance, x_q of the same norm in random directions: ‖x_q‖/√d",
    "explain.key_projection_chance": "chance, x_k of the same norm in random directions: ‖x_k‖/√d",
    "explain.singular_value": "σ of QK times the scale of the scores",
    "explain.singular_value_chance": "chance, Gaussian factors of the same shapes and norms, times that scale",
    "explain.index": "which singular pair, 1 for the strongest",
    "explain.last_index": "the last pair of a group",
    "explain.kind": "content, bias, cap or position; then what the model says",
    "explain.note": "what a term is of, or why it stands for no tokens",
    "label": "what the head clearly does on repeated random tokens",
    "to_none": "share that goes to a sink that is no token: 1 − the row's sum",
    "to_none_chance": "chance, a sink that is one more key: mean of 1/(keys + 1); 0 where there is none",
    "position": "the token at which it is predicted, from 0",
    "at": "that token; of a masked model, what the mask replaces or is",
    "rank": "1 for the most likely token",
    "logit": "of the token, before the softmax",
    "probability": "of the token, softmax over the vocabulary",
    "rank_other": "rank of the token in the other model",
    "logit_other": "of the token in the other model, before the softmax",
    "logit_other_chance": "chance, a token drawn at random: the mean of the other model's logits",
    "probability_other": "of the token in the other model; rows by the larger of both",
    "probability_other_chance": "chance, a token drawn at random: 1/vocabulary of the other model",
    "predictions.difference": "probability in the other model, less that in this",
    "logit_chance": "chance, a token drawn at random: the mean over the vocabulary",
    "probability_chance": "chance, a token drawn at random: 1/vocabulary",
    "norm": "‖x‖ of the residual stream at this place",
    "norm_chance": "chance, what the block adds at a right angle to the stream before: √(‖x‖² + ‖added‖²)",
    "part": "a head, or the rest: embedding, MLPs and biases",
    "contribution": "to the logit, with the scales of norms held: those of all heads and the rest add up to the logit",
    "contribution_chance": "chance, tokens drawn at random: the root mean square of what it adds to their logits",
    "probability_before": "of the token, with all heads on",
    "probability_after": "of the token, with the head or heads off",
    "change": "of the token's probability",
    "change_chance": "chance, the changes of all logits dealt to other tokens: root mean square of the change",
    "logit_before": "of the token, with all heads on",
    "logit_after": "of the token, with the head or heads off",
    "off": "the heads that are switched off for this row",
    "logit_change": "of the token's logit",
    "logit_change_chance": "chance, tokens drawn at random: the root mean square of their logits' changes",
    "note": "what else is to be known of this row, or why there is nothing to say",
}
"""By the column's name, or by the view's and the column's."""

PATTERN_COLUMNS = {
    "entropy": "−Σ p ln p of a query's attention, in nats",
    "to_first": "share that goes to the first token",
    "to_self": "share that goes to the token itself",
    "to_previous": "share that goes to the token before",
    "to_next": "share that goes to the token after",
    "mean_distance": "Σ p|i − j| of a query's attention, in tokens",
    "duplicate": "repeated random tokens: share to where the token was before",
    "induction": "repeated random tokens: share to what came after it before",
}
"""Those of attention, beside which stands what attending to all visible keys alike gives."""

_ANGLES_OF_TWO = {
    "angle_smallest": "smallest principal angle, in degrees",
    "angle_mean": "mean principal angle, in degrees",
    "angle_largest": "largest principal angle, in degrees",
    "overlap": "mean squared cosine of the angles",
}

_PROJECTIONS = {"q": "im W_Qᵀ", "k": "im W_Kᵀ", "v": "im W_Vᵀ", "o": "im W_O"}

OF_SPECTRA = {
    "energy_rank": "smallest k with Σ(i≤k) σᵢ² ≥ (1−ε) Σσ²",
    "numerical_rank": "number of σ above rounding noise",
    "effective_rank": "exp(entropy of σ/Σσ)",
    "stable_rank": "Σσ² / σ₁²",
    "participation_ratio": "(Σσ²)² / Σσ⁴",
    "spectral_norm": "σ₁",
    "frobenius_norm": "√Σσ²",
    "nuclear_norm": "Σσ",
    "condition_number": "σ₁ / σᵣ, r the structural rank",
}
"""The measures of singular values, by name."""

OF_TWO_MODELS = {
    "change": "the larger of qk_distance and ov_distance: how much what the head computes has changed",
    **{
        f"{matrix.lower()}_distance": f"‖B − A‖/‖A‖ of {matrix}, A of this model, B of the other" for matrix in MATRICES
    },
    **{
        f"b_{matrix.lower()}_distance": f"‖b′ − b‖/‖b‖ of the bias b_{matrix}, b of this model, b′ of the other"
        for matrix in "QKVO"
    },
    **{
        f"{matrix}_{name}": f"{words} between {space} of both models"
        for matrix, space in _PROJECTIONS.items()
        for name, words in _ANGLES_OF_TWO.items()
    },
    **{
        f"{matrix.lower()}_{name}_change": f"{name.replace('_', ' ')} of {matrix} in the other model, less that in this"
        for name in RANK_COLUMNS[6:]
        for matrix in MATRICES
    },
    **{f"{name}_change": f"{name} of the other model, less that of this" for name in CIRCUIT_MEASURES},
}
"""The columns of the table of changes, by name."""


def explain(column: str, view: str = "") -> str:
    """Say what a column of a view holds; nothing of one that says it itself."""
    if (own := COLUMNS.get(f"{view}.{column}")) is not None:
        return own
    if view == "changes" and column.removesuffix(CHANCE) in OF_TWO_MODELS:
        said = OF_TWO_MODELS[column.removesuffix(CHANCE)]
        is_of_weights = "_distance" in column or column.startswith("change")
        chance = "biases" if column.startswith("b_") else "weights" if is_of_weights else "subspaces of the same sizes"
        return f"chance, {chance} that have nothing to do with these: {said}" if column.endswith(CHANCE) else said
    matrix, dot, measure = column.partition(".")
    if dot:
        name = measure.removesuffix(CHANCE)
        said = f"{name.replace('_', ' ')} of {matrix.upper()}: {OF_SPECTRA[name]}"
        return f"chance, Gaussian factors of the same shapes: {said}" if name != measure else said
    pattern = PATTERN_COLUMNS.get(column.removesuffix(CHANCE))
    if pattern is not None:
        return f"chance, all visible keys alike: {pattern}" if column.endswith(CHANCE) else pattern
    if column.endswith(CHANCE) and column not in COLUMNS:
        return f"chance, Gaussian factors of the same shapes: {COLUMNS.get(column.removesuffix(CHANCE), '')}"
    return COLUMNS.get(column, "")
