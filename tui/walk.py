"""Steps from one head, or one layer, to the next."""

from __future__ import annotations

from engine.values.heads import Head
from engine.values.outline import ModelOutline


def head_after(outline: ModelOutline, here: Head | None, step: int) -> Head | None:
    """Find the head a step away, across layers; from a whole layer its first, or the last of the one before.

    None stands for the model as a whole, and for the end of the way.
    """
    layers = outline.layers
    if here is None:
        return Head(layers[0].stack, layers[0].layer, 0) if step > 0 else None
    row = next(row for row, layer in enumerate(layers) if layer.name == here.whole_layer)
    column = here.head + step
    if here.is_layer:
        column = 0 if step > 0 else -1
    while column < 0 < row:
        row -= 1
        column += layers[row].heads
    while column >= layers[row].heads and row + 1 < len(layers):
        column -= layers[row].heads
        row += 1
    layer = layers[row]
    return Head(layer.stack, layer.layer, column) if 0 <= column < layer.heads else None


def layer_after(outline: ModelOutline, here: Head | None, step: int) -> Head:
    """Find the same head of the layer a step away, or that layer as a whole; the first and last layer are the ends."""
    layers = [layer.name for layer in outline.layers]
    if here is None:
        return layers[0] if step > 0 else layers[-1]
    layer = layers[max(0, min(layers.index(here.whole_layer) + step, len(layers) - 1))]
    return Head(layer.stack, layer.layer, min(here.head, outline.layer(layer).heads - 1))
