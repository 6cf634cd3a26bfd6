"""Two models side by side: which of their layers can be compared, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline, ModelOutline

HOW_TO_COMPARE = "one model is open; to see it beside another, start with --vs: attn-tui MODEL --vs OTHER"
"""Said where a second model would be needed."""

SIZES = {
    "heads": "heads",
    "key_value_heads": "key/value heads",
    "head_dim": "head_dim",
    "value_head_dim": "value head_dim",
    "d_model": "d_model",
    "d_source": "width of keys",
    "d_values": "width of values",
    "d_output": "width of outputs",
}
"""What must agree in two layers, and what it is called."""

NAMED = 3
"""Sizes that are named where more differ."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What can be compared of two models.

    Attributes
    ----------
    first, other : the model that was opened, and the one beside it.
    layers : those that both have, of the same sizes.
    note : what is left out, in a sentence; empty where nothing is.
    """

    first: ModelOutline
    other: ModelOutline
    layers: frozenset[Head]
    note: str

    def check(self, layer: Head) -> None:
        """Refuse a layer that cannot be compared.

        Raises
        ------
        EngineError : naming what differs.
        """
        if layer.whole_layer not in self.layers:
            own = self.first.layer(layer.whole_layer)
            if own.is_change:
                raise EngineError(f"{own.stack} holds changes of weights alone; other stacks are compared")
            raise EngineError(f"{self.first.name} and {self.other.name} differ: {_difference(own, self.other)}")

    def check_stack(self, stack: str) -> None:
        """Refuse the means over a stack's layers where it has other layers in both models.

        Raises
        ------
        EngineError : naming what differs.
        """
        own, theirs = ([layer.name for layer in outline.stack_layers(stack)] for outline in (self.first, self.other))
        if own != theirs:
            raise EngineError(
                f"{self.first.name} and {self.other.name} have {len(own)} and {quantity(len(theirs), 'layer')} "
                f"in their {stack}, "
                "so their means over layers are of other things; compare single layers"
            )
        for layer in own:
            self.check(layer)


def compare_outlines(first: ModelOutline, other: ModelOutline) -> Comparison:
    """Find the layers that two models have in the same sizes, by stack and number; changes of adapters stay out.

    Raises
    ------
    EngineError : when there are none, naming what differs.
    """
    theirs = {layer.name: layer for layer in other.attending_layers}
    layers = frozenset(
        layer.name
        for layer in first.attending_layers
        if layer.name in theirs and not any(_other_sizes(layer, theirs[layer.name]))
    )
    left = [layer for layer in first.attending_layers if layer.name not in layers]
    more = [name for name in theirs if name not in {layer.name for layer in first.attending_layers}]
    if not layers:
        raise EngineError(f"{first.name} and {other.name} cannot be compared: {_difference(left[0], other)}")
    notes = []
    if left:
        rest = len(left) - 1
        others = f", nor {'is' if rest == 1 else 'are'} {quantity(rest, 'more layer')}" if rest else ""
        notes.append(f"{_named(left[0])} is not compared{others}: {_difference(left[0], other)}")
    if more:
        count = f"{len(more)} layers" if len(more) > 1 else "one layer"
        notes.append(f"{other.name} has {count} that {first.name} has not, such as {more[0].stack} {more[0]}")
    return Comparison(first, other, layers, "; ".join(notes))


def _named(layer: LayerOutline) -> str:
    return f"{layer.stack} {layer.name}"


def _other_sizes(own: LayerOutline, theirs: LayerOutline) -> Iterator[tuple[str, int, int]]:
    for field, words in SIZES.items():
        one, other = getattr(own, field), getattr(theirs, field)
        if one != other:
            yield words, one, other


def _difference(own: LayerOutline, other: ModelOutline) -> str:
    match = next((layer for layer in other.attending_layers if layer.name == own.name), None)
    if match is None:
        if own.stack not in other.stacks:
            return f"{other.name} has no {own.stack}, it has {', '.join(other.stacks)}"
        return f"{other.name} has no {_named(own)}"
    sizes = [f"{one} against {there} {words}" for words, one, there in _other_sizes(own, match)]
    return f"{_named(own)} has {', '.join(sizes[:NAMED])}"
