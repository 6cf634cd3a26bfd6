"""What an open model's circuits are products of, keys turned where a distance from the query is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.mathematics.circuit_measures import Factors
from engine.mathematics.rotary import turned
from engine.models.rotations import rotation_of
from engine.values.model import LayerOutline

if TYPE_CHECKING:
    from engine.architectures.heads import LayerWeights
    from engine.service.session import Session


def factors_at(session: Session, layer: LayerOutline, weights: LayerWeights, distance: int | None) -> Factors:
    """Give a layer's W_Q, W_K, W_V and W_O by head, the rows of W_K turned as its positions turn keys.

    Parameters
    ----------
    session : of the open model.
    layer : of which the weights are.
    weights : as they are stored; those of W_K are (key_value_heads, head_dim, d_source).
    distance : by how many tokens the key is before the query; None turns nothing.

    Raises
    ------
    EngineError : when the layer has no rotary positions that are known.
    """
    key = weights.key
    if distance is not None:
        settings, tensors = session.source.settings(), session.source.tensors
        key = turned(key, rotation_of(session.outline, layer, settings, tensors), distance)
    return weights.query, key, weights.value, weights.output
