"""Scores of queries and keys: how positions rotate them, and one score as a sum of pairs, biases and positions.

A head's query is ``q = A x_q + a`` and its key ``k = B x_k + c``, where x is what the projections read. A, B, a and c
include everything that the model does to queries and keys on the way: a rotation by the position, a gain, a norm whose
size is held fixed. The score is ``s · q·k`` plus terms that do not depend on x. With ``s AᵀB = Σ σ_i u_i v_iᵀ``

``s · q·k = Σ σ_i (x_q·u_i)(v_i·x_k) + s · a·(B x_k) + s · (A x_q)·c + s · a·c``

exactly (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", for the first of these sums).

Rotary positions (Su et al. 2021, RoFormer) rotate queries and keys, ``q_i → R_i q_i`` and ``k_j → R_j k_j``, so that
the score of a query at i and a key at j is ``x_iᵀ W_Qᵀ R_{j−i} W_K x_j``. For a key Δ tokens before the query AᵀB is
``W_Qᵀ R_{−Δ} W_K``: the product of W_Q and of W_K with rotated rows, which can be measured like QK. A factor on all
scores, as some kinds of scaling have, is left out.

Chance is the root mean square of the terms for an x_q and an x_k of the same norms in random directions: for a random
direction x in d dimensions ``E (w·x)² = ‖w‖²‖x‖²/d``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.mathematics.factored_matrices import factor_matrices, product
from engine.mathematics.measures import product_noise
from engine.values.errors import EngineError


@dataclass(frozen=True)
class Rotation:
    """How a model rotates a head's queries and keys.

    Attributes
    ----------
    frequencies : (pairs,) radians per token; ``2 · pairs`` dimensions of a head are rotated, the rest is not.
    is_interleaved : whether a pair is two neighbours (GPT-J), not one of each half (GPT-NeoX's "rotate half").
    start : the first dimension that is rotated; in latent attention those without positions come before it.
    longest : tokens of the longest sentence for which the frequencies hold; None if they hold for every length.
    """

    frequencies: Tensor
    is_interleaved: bool
    start: int = 0
    longest: int | None = None


def rotate_keys(rows: Tensor, rotation: Rotation, distance: int) -> Tensor:
    """Rotate the rows of W_K, or keys, (heads, head_dim, n) by the distance to a query: ``R_{−Δ} W_K`` in float64.

    Raises `EngineError` when the distance is longer than any sentence for which the frequencies hold.
    """
    if rotation.longest is not None and distance >= rotation.longest:
        raise EngineError(
            f"frequencies change in sentences of more than {rotation.longest} tokens; "
            f"Δ can be {rotation.longest - 1} at the most"
        )
    rotated = rows.double().clone()
    pairs, start = len(rotation.frequencies), rotation.start
    end = start + 2 * pairs
    angles = -float(distance) * rotation.frequencies.double()[:, None]
    if rotation.is_interleaved:
        first, second = slice(start, end, 2), slice(start + 1, end, 2)
    else:
        first, second = slice(start, start + pairs), slice(start + pairs, end)
    one, other = rows[:, first].double(), rows[:, second].double()
    rotated[:, first] = one * torch.cos(angles) - other * torch.sin(angles)
    rotated[:, second] = other * torch.cos(angles) + one * torch.sin(angles)
    return rotated


@dataclass(frozen=True)
class ScoreSide:
    """A query or a key as an affine function of what its projection reads.

    Attributes
    ----------
    read, weight : (d,) and (r, d) float64, x and A or B.
    rest : (r,) float64, a or c.
    epsilon : the distance between neighbouring numbers of the stored weight, relative to the numbers.
    """

    read: Tensor
    weight: Tensor
    rest: Tensor
    epsilon: float = 0.0


@dataclass(frozen=True)
class ScoreTerms:
    """The terms of ``s · q·k``.

    Attributes
    ----------
    values : (r,) σ_i (x_q·u_i)(v_i·x_k), largest σ_i first.
    sigma : (r,) the singular values of ``s AᵀB``.
    noise : a singular value up to it may be the rounding of stored weights.
    left, right : (d_q, r) and (d_k, r), u and v; the largest number of u_i in size is positive.
    query, key : (r,) x_q·u_i and x_k·v_i.
    rests : the three terms with a, with c, and with both.
    chance : (r,) of ``values``, ``σ_i ‖x_q‖‖x_k‖/√(d_q d_k)``.
    rests_chance : ``s‖Bᵀa‖‖x_k‖/√d_k`` and ``s‖Aᵀc‖‖x_q‖/√d_q``; the third term does not depend on x.
    sizes : the chance of ``query`` and ``key``, ``‖x_q‖/√d_q`` and ``‖x_k‖/√d_k``.
    """

    values: Tensor
    sigma: Tensor
    noise: float
    left: Tensor
    right: Tensor
    query: Tensor
    key: Tensor
    rests: tuple[float, float, float]
    chance: Tensor
    rests_chance: tuple[float, float]
    sizes: tuple[float, float]


def score_terms(query: ScoreSide, key: ScoreSide, scale: float) -> ScoreTerms:
    """Split ``scale · q·k`` into its terms."""
    factors = factor_matrices(query.weight[None]), factor_matrices(key.weight[None])
    left, sigma, right = product(*factors).singular_triples()
    stored = (factor.stored_size(side.epsilon) for factor, side in zip(factors, (query, key), strict=True))
    noise = abs(scale) * float(product_noise(*stored)[0])
    if scale < 0:
        right = -right
    sigma, left, right = abs(scale) * sigma[0], left[0], right[0]
    x_query, x_key = query.read.double(), key.read.double()
    on_left, on_right = left.mT @ x_query, right.mT @ x_key
    of_query, of_key = query.weight.double(), key.weight.double()
    a, c = query.rest.double(), key.rest.double()
    rests = torch.dot(a, of_key @ x_key), torch.dot(of_query @ x_query, c), torch.dot(a, c)
    sizes = float(x_query.norm()) / math.sqrt(len(x_query)), float(x_key.norm()) / math.sqrt(len(x_key))
    from_query, from_key = (abs(scale) * float(each.norm()) for each in (of_key.mT @ a, of_query.mT @ c))
    return ScoreTerms(
        sigma * on_left * on_right,
        sigma,
        noise,
        left,
        right,
        on_left,
        on_right,
        (scale * float(rests[0]), scale * float(rests[1]), scale * float(rests[2])),
        sigma * sizes[0] * sizes[1],
        (from_query * sizes[1], from_key * sizes[0]),
        sizes,
    )


def fit_scale(products: Tensor, logarithms: Tensor, counted: Tensor) -> float:
    """Fit by least squares the scale that turns differences of products along a row into those of log-probabilities.

    All are (..., queries, keys). Only what is ``counted`` takes part; a constant added to a row changes nothing.

    Examples
    --------
    >>> products = torch.tensor([[1.0, 3.0, 5.0, 9.0]])
    >>> fit_scale(products, 0.5 * products - 7.0, products < 9)
    0.5
    """
    count = counted.sum(-1, keepdim=True).clamp_min(1)
    rise, run = (
        (each - each.where(counted, 0.0).sum(-1, keepdim=True) / count).where(counted, 0.0)
        for each in (logarithms, products)
    )
    return float((rise * run).sum() / run.square().sum().clamp_min(1e-30))
