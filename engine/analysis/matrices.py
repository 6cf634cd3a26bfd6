"""The arrays of ``matrices``: every head's W_Q, W_K, W_V, W_O and biases, for files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from engine.analysis.attention import Arrays
from engine.analysis.layers import over_layers
from engine.analysis.open_model import OpenModel
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Lane
from engine.values.views import Query


def arrays(model: OpenModel, query: Query) -> Arrays:
    """Give the arrays of the heads that a query names, keyed ``L5H1.W_Q``; of several stacks ``encoder.L5H1.W_Q``."""
    return over_layers("matrices", model, query, _arrays_of_layer)


def _arrays_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Arrays:
    yield Lane.WEIGHTS
    prefix = f"{layer.stack}." if len(model.outline.stacks) > 1 else ""
    for head, named in arrays_of(model, layer).items():
        for name, array in named.items():
            if query.wants(head.head) and query.matrix in (None, name.partition("_")[2]):
                yield f"{prefix}{head}.{name}", array


def arrays_of(model: OpenModel, layer: LayerOutline) -> dict[Head, dict[str, np.ndarray[Any, Any]]]:
    """Give every head's W_Q, W_K, W_V, W_O and biases of a layer; bfloat16 becomes float32, exactly."""
    weights = model.layer_weights(layer.name)

    def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return {
        head: {name: array(tensor) for name, tensor in weights.of_head(head.head).items()}
        for head in layer.head_names()
    }
