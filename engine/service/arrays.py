"""A layer's weights as NumPy arrays, for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.values.heads import Head
from engine.values.model import LayerOutline

if TYPE_CHECKING:
    from engine.architectures.heads import LayerWeights


def arrays_of(layer: LayerOutline, weights: LayerWeights) -> dict[Head, dict[str, np.ndarray[Any, Any]]]:
    """Give every head's W_Q, W_K, W_V, W_O and biases; bfloat16 becomes float32, exactly."""

    def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return {
        head: {name: array(tensor) for name, tensor in weights.of_head(head.head).items()}
        for head in layer.head_names()
    }
