"""Steps from one head, or one layer, to the next."""

from __future__ import annotations

from engine.values.heads import Head
from engine.values.model import ModelOutline


def head_after(outline: ModelOutline, here: Head | None, step: int) -> Head | None:
    """Find the head a step away, across layers; from a whole layer its first, or the last of the one before.

    None stands for the model as a whole, and for the end of the way.
    """
    heads = [head for layer in outline.layers for head in layer.head_names()]
    if here is None:
        return heads[0] if step > 0 else None
    if here in heads:
        place = heads.index(here) + step
    else:
        first = next(place for place, head in enumerate(heads) if head.whole_layer == here)
        place = first if step > 0 else first - 1
    return heads[place] if 0 <= place < len(heads) else None


def layer_after(outline: ModelOutline, here: Head | None, step: int) -> Head:
    """Find the same head of the layer a step away, or that layer as a whole; the first and last layer are the ends."""
    layers = [layer.name for layer in outline.layers]
    if here is None:
        return layers[0] if step > 0 else layers[-1]
    layer = layers[max(0, min(layers.index(here.whole_layer) + step, len(layers) - 1))]
    return Head(layer.stack, layer.layer, min(here.head, outline.layer(layer).heads - 1))
