"""QK of a model with rotary positions, as a function of how far the key is behind the query (Su et al. 2021, RoFormer).

Queries and keys are rotated by their positions, ``q_i → R_i q_i`` and ``k_j → R_j k_j``, so that the score of a query
at i and a key at j is ``x_iᵀ W_Qᵀ R_{j−i} W_K x_j``. With the key Δ tokens before the query the circuit is
``W_Qᵀ R_{−Δ} W_K``: a product of W_Q and of W_K with its rows rotated, of which everything can be measured that is
measured of QK. A factor on all scores, as some kinds of scaling have, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.values.errors import EngineError


@dataclass(frozen=True)
class Rotation:
    """How a model rotates a head's queries and keys.

    Attributes
    ----------
    frequencies : (pairs,) radians per token; ``2 · pairs`` dimensions of a head are rotated, the rest is not.
    is_interleaved : whether a pair is two neighbours (GPT-J's form), and not one of the first half and one of the
        second (GPT-NeoX's, "rotate half").
    start : the first dimension that is rotated; in latent attention those without positions come before it.
    longest : tokens of the longest sentence in which they are the frequencies; None where they are in every one.
    """

    frequencies: Tensor
    is_interleaved: bool
    start: int = 0
    longest: int | None = None


def rotate_keys(rows: Tensor, rotation: Rotation, distance: int) -> Tensor:
    """Rotate the rows of W_K, or keys, (heads, head_dim, n) by the distance to a query: ``R_{−Δ} W_K`` in float64.

    Raises
    ------
    EngineError : when no sentence in which the frequencies hold is long enough for the distance.
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
