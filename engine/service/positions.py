"""The keys of an open model's layer at a distance from the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.mathematics.rotary import turned
from engine.models.rotations import rotation_of
from engine.values.model import LayerOutline

if TYPE_CHECKING:
    from torch import Tensor

    from engine.service.session import Session


def keys_at(session: Session, layer: LayerOutline, key: Tensor, distance: int) -> Tensor:
    """Turn the rows of a layer's W_K (key_value_heads, head_dim, d_source) as its positions do.

    Raises
    ------
    EngineError : when the layer has no rotary positions that are known.
    """
    return turned(key, rotation_of(session.outline, layer, session.source.settings(), session.source.tensors), distance)
