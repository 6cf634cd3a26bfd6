"""Models as they are known before any weight is read: where they were found, stacks, layers, heads and marks.

Also what two models have in common, and what a check of a model has found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from engine.values.display_text import plural, quantity, span
from engine.values.errors import EngineError
from engine.values.heads import DELTA, Head, join_stacks, no_attention, parse_head

LARGE_LAYER = 2**24
"""A layer is large if its four projections hold more numbers than this."""

BATCH = 2**25
"""Numbers in the projections of the heads that are computed together; 256 MiB as float64."""


@dataclass(frozen=True, slots=True)
class LayerOutline:
    """One layer's attention, as its own tensors say.

    Attributes
    ----------
    stack, layer : its place, as in `Head`.
    heads : number of query heads.
    key_value_heads : number of key/value heads; query head h uses key/value head ``h // (heads / key_value_heads)``.
    d_model : width of what the queries read.
    d_source : width of what the keys read; differs from d_model mostly in cross-attention.
    d_values : width of what the values read; differs from d_source if keys come through a bottleneck.
    d_output : width of what the output writes; differs from d_model if queries read two states side by side.
    head_dim, value_head_dim : rows of a head's W_Q and W_K, and of its W_V.
    module : the attention module's dotted name in the checkpoint.
    marks : what changes the head's circuit beyond its matrices, in words (``query/key norm``).
    """

    stack: str
    layer: int
    heads: int
    key_value_heads: int
    d_model: int
    d_source: int
    d_values: int
    d_output: int
    head_dim: int
    value_head_dim: int
    module: str
    marks: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether it is an adapter's change of a layer, which has no attention of its own."""
        return self.stack.endswith(DELTA)

    @property
    def name(self) -> Head:
        """The layer's name."""
        return Head(self.stack, self.layer)

    def shape(self, matrix: str, whole_layer: bool) -> tuple[int, int]:
        """Return the shape of a head's matrix, or of the whole layer's, as PyTorch stores it."""
        own, shared = (self.heads, self.key_value_heads) if whole_layer else (1, 1)
        return {
            "Q": (own * self.head_dim, self.d_model),
            "K": (shared * self.head_dim, self.d_source),
            "V": (shared * self.value_head_dim, self.d_values),
            "O": (self.d_output, own * self.value_head_dim),
            "QK": (self.d_model, self.d_source),
            "OV": (self.d_values, self.d_output),
        }[matrix]

    def numbers(self, heads: int) -> int:
        """Count the numbers in the projections of so many heads, shared keys and values once."""
        shared = -(-heads * self.key_value_heads // self.heads)
        own = self.head_dim * self.d_model + self.d_output * self.value_head_dim
        return heads * own + shared * (self.head_dim * self.d_source + self.value_head_dim * self.d_values)

    @property
    def is_large(self) -> bool:
        """Whether the selected head, or one matrix, is computed before the others."""
        return self.numbers(self.heads) > LARGE_LAYER

    def batches(self) -> tuple[range, ...]:
        """Split the heads into batches as large as `BATCH` allows, so that heads that share a key split evenly.

        Examples
        --------
        >>> LayerOutline("decoder", 0, 8, 2, 16384, 16384, 16384, 16384, 256, 256, "").batches()
        (range(0, 2), range(2, 4), range(4, 6), range(6, 8))
        """
        group = self.heads // self.key_value_heads
        sizes = [size for size in range(self.heads, 0, -1) if size % group == 0 or group % size == 0]
        size = next((size for size in sizes if self.numbers(size) <= BATCH), 1)
        return tuple(range(first, min(first + size, self.heads)) for first in range(0, self.heads, size))

    def head_names(self) -> Iterator[Head]:
        """Yield the names of the layer's heads in order."""
        for head in range(self.heads):
            yield Head(self.stack, self.layer, head)


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """A model as its configuration and the headers of its weight files describe it.

    Attributes
    ----------
    name : what the person typed.
    directory : the folder of the files.
    model_type : as in ``config.json``.
    layers : every layer that has attention, by stack and number.
    dtype : of the stored attention weights, as NumPy and torch call it.
    parameters, stored_bytes : of the whole checkpoint.
    context : the longest sentence in tokens, or None without a limit.
    notes : what the person should know about this model, one sentence each.
    unreadable : why no sentence can be read, if a weight file is missing or damaged.
    no_rotation : why there is no QK at a distance, if the model's type says so.
    """

    name: str
    directory: str
    model_type: str
    layers: tuple[LayerOutline, ...]
    dtype: str
    parameters: int
    stored_bytes: int
    context: int | None
    notes: tuple[str, ...] = ()
    unreadable: str = ""
    no_rotation: str = ""

    @property
    def stacks(self) -> tuple[str, ...]:
        """The model's stacks, in reading order."""
        return tuple(dict.fromkeys(layer.stack for layer in self.layers))

    @property
    def attending_layers(self) -> tuple[LayerOutline, ...]:
        """The layers with attention maps: all but an adapter's changes."""
        return tuple(layer for layer in self.layers if not layer.is_change)

    def past_context(self, distance: int | None) -> str:
        """Say that a distance of two tokens exceeds the context; empty if it does not."""
        if distance is None or self.context is None or distance < self.context:
            return ""
        return f"past the context of {self.context} tokens"

    def layer(self, name: Head) -> LayerOutline:
        """Find the layer of a head's or layer's name; raise `EngineError` if the model has no such head or layer."""
        for layer in self.layers:
            if (layer.stack, layer.layer) == (name.stack, name.layer):
                if name.head >= layer.heads:
                    numbered = f"{plural('head', layer.heads)} {span(0, layer.heads - 1)}"
                    raise EngineError(f"there is no head {name}: the layer has {numbered}")
                return layer
        if name.stack not in self.stacks:
            raise EngineError(f"there is no stack '{name.stack}'; choose from {', '.join(self.stacks)}")
        numbers = [layer.layer for layer in self.stack_layers(name.stack)]
        which = f"{quantity(len(numbers), 'layer')}, {span(numbers[0], numbers[-1])}"
        raise EngineError(f"no attention in layer {name.layer}; {name.stack} has it in {which}")

    def stack_layers(self, stack: str) -> tuple[LayerOutline, ...]:
        """List the layers of one stack in order."""
        return tuple(layer for layer in self.layers if layer.stack == stack)


class Origin(Enum):
    """Where a model that can be opened was found, in the order of the list."""

    MEMORY = "in memory"
    DEMO = "demo"
    RECENT = "recent"
    HUB = "Hub cache"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that can be opened by its name.

    Attributes
    ----------
    name : a Hub id, the full path of a folder or file, or ``demo``.
    origin : where it was found.
    size : on disk, in bytes; 0 if unknown.
    model_type : as in ``config.json``; empty if unknown.
    layers, heads : of its first stack; 0 if unknown.
    missing : why it cannot be opened as it is; empty if it can.
    """

    name: str
    origin: Origin
    size: int = 0
    model_type: str = ""
    layers: int = 0
    heads: int = 0
    missing: str = ""


GONE = "it is gone"
"""Why a model whose folder was removed cannot be opened."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor of a checkpoint, or a name that the model ties to one.

    Attributes
    ----------
    name, shape, dtype : as stored; of packed tensors, as used.
    stored_bytes : its size; 0 for a name without a tensor of its own.
    tied_to : the name of the tensor it is tied to, if any.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    stored_bytes: int
    tied_to: str = ""

    @property
    def layer(self) -> int | None:
        """The number of its layer, the first number in its name, or None."""
        return next((int(part) for part in self.name.split(".") if part.isdigit()), None)

    @property
    def parameters(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


ALL_HEADS = "all"
"""The word for all heads of the model."""


def heads_named(text: str, outline: ModelOutline, here: Head | None = None) -> tuple[Head, ...]:
    """Read names of heads, separated by blanks or commas, each head once; a layer stands for all of its heads.

    Raises `EngineError` if a word names nothing that can be switched off in this model.
    """
    named = dict.fromkeys(
        head for word in join_stacks(text).replace(",", " ").split() for head in _heads_of_word(word, outline, here)
    )
    return tuple(named)


def _heads_of_word(word: str, outline: ModelOutline, here: Head | None) -> Iterator[Head]:
    if word.lower() == ALL_HEADS:
        for layer in outline.attending_layers:
            yield from layer.head_names()
        return
    if word.isdecimal():
        raise EngineError(f"'{word}' could be a layer or a head; write L{word} for the layer, {word}.0 for a head")
    stack_here = None if here is None else replace(here, stack=here.stack.removesuffix(DELTA))
    head = parse_head(word, outline.stacks, stack_here)
    layer = outline.layer(head)
    if layer.is_change:
        raise EngineError(no_attention(head.stack))
    if head.is_layer:
        yield from layer.head_names()
    else:
        yield head


MARKS = {
    "ALiBi": "a penalty that grows with the distance of query and key is added to the scores",
    "added key and value": "one extra key and value, learned or zero, takes its share of every row",
    "attention sink": "a learned number takes part in the softmax, so a row of the map sums to less than 1",
    "compressed keys": "keys far away are pooled before they are looked at",
    "convolution beside the heads": "part of the output comes from a convolution, not from a head",
    "differential pairs": "heads come in pairs, and the map of one is subtracted from that of the other",
    "dynamic mask": "which keys are seen depends on the values",
    "hashed attention": "queries look only at keys that fall into the same bucket",
    "keys and values of another layer": "W_K and W_V are those of an earlier layer, which this layer uses again",
    "landmarks": "attention is approximated through a few averages of the tokens",
    "latent norm": "keys and values come from a latent whose norm depends on the token",
    "low-rank adapters": "matrices of low rank are added where a block is used again; W_Q, W_K, W_V are without them",
    "output gate": "a head's output is multiplied by a gate that depends on the token, so OV does too",
    "output norm": "the heads' outputs are normed together before W_O, so OV depends on the token",
    "output scaled by a sink": "a head's output is scaled by its attention to tokens rather than to a sink",
    "outputs beyond OV": "a head's output depends on more than its values: a gate, a norm or a factor",
    "query/key bias": "b_Q and b_K add terms to the scores that QK leaves out",
    "query/key norm": "queries and keys are normed before they meet, so the scores are QK's only up to that norm",
    "relative position bias": "a learned number for each distance of query and key is added to the scores",
    "relative position terms": "terms of content with position are added to the scores; QK is that of content alone",
    "residual convolution": "a convolution of the values is added to what the heads write",
    "scale for each head": "each head multiplies its scores by a learned number",
    "scores beyond QK": "scores depend on more than queries and keys: positions, a norm, a cap or a bias",
    "short convolution": "keys or values are mixed with those of the tokens just before",
    "soft cap": "a hyperbolic tangent keeps scores below a limit",
    "terms beside the heads": "terms outside the heads' matrices change their output",
    "value norm": "values are normed, so OV depends on the token",
    "value scale": "values are multiplied by a number that is not in W_V",
    "weights shared by layers": "other layers share these matrices",
}
"""Every mark, and what it says about a head."""

HOW_TO_COMPARE = "only one model is open; start with --vs OTHER to compare with a second"
"""The answer to a request that needs a second model."""

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
"""The sizes that must agree in two layers, and their names."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What can be compared in two models.

    Attributes
    ----------
    first, other : the model that was opened, and the second one.
    layers : those that both have, of the same sizes.
    note : what is left out, in a sentence; empty if nothing is.
    """

    first: ModelOutline
    other: ModelOutline
    layers: frozenset[Head]
    note: str

    def check(self, layer: Head) -> None:
        """Raise an `EngineError` that names the difference if a layer cannot be compared."""
        if layer.whole_layer not in self.layers:
            own = self.first.layer(layer.whole_layer)
            if own.is_change:
                raise EngineError(f"{own.stack} holds changes of weights; choose another stack to compare")
            raise EngineError(f"{self.first.name} and {self.other.name} differ: {_difference(own, self.other)}")

    def check_stack(self, stack: str) -> None:
        """Raise an `EngineError` that names the difference if a stack's means over layers cannot be compared."""
        own, theirs = ([layer.name for layer in outline.stack_layers(stack)] for outline in (self.first, self.other))
        if own != theirs:
            raise EngineError(
                f"{self.first.name} and {self.other.name} have {len(own)} and {quantity(len(theirs), 'layer')} "
                f"in their {stack}, "
                "so their means over layers cannot be compared; compare single layers"
            )
        for layer in own:
            self.check(layer)


def compare_outlines(first: ModelOutline, other: ModelOutline) -> Comparison:
    """Find the layers that two models have in the same sizes, by stack and number, without an adapter's changes.

    Raises `EngineError` if there are none, naming the difference.
    """
    own, theirs = ({layer.name: layer for layer in each.attending_layers} for each in (first, other))
    left = [layer for layer in own.values() if _difference(layer, other)]
    layers = own.keys() - {layer.name for layer in left}
    more = [name for name in theirs if name not in own]
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
    return Comparison(first, other, frozenset(layers), "; ".join(notes))


def _named(layer: LayerOutline) -> str:
    return f"{layer.stack} {layer.name}"


def _difference(own: LayerOutline, other: ModelOutline) -> str:
    """Say how a layer differs in another model; empty if it has the same sizes."""
    match = next((layer for layer in other.attending_layers if layer.name == own.name), None)
    if match is None:
        if own.stack not in other.stacks:
            return f"{other.name} has no {own.stack}, it has {', '.join(other.stacks)}"
        return f"{other.name} has no {_named(own)}"
    sizes = [
        f"{getattr(own, field)} against {getattr(match, field)} {words}"
        for field, words in SIZES.items()
        if getattr(own, field) != getattr(match, field)
    ]
    return f"{_named(own)} has {', '.join(sizes[:3])}" if sizes else ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether one identity holds for one layer.

    Attributes
    ----------
    holds : whether it does; None if it could not be checked.
    residual : the largest difference between its two sides, relative to the largest number; NaN if not checked.
    note : what the model does beside the plain formula, or why nothing could be checked.
    """

    holds: bool | None
    residual: float
    note: str

    @property
    def verdict(self) -> str:
        """The finding in a word or two."""
        if self.holds is None:
            return "not verifiable"
        return "verified" if self.holds else "WRONG"


@dataclass(frozen=True, slots=True)
class LayerProof:
    """The findings for one layer.

    Attributes
    ----------
    layer : the layer's name.
    output : identity (a), what the heads write: ``Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out``.
    scores : identity (b), where they look: ``softmax(scale · (x W_Qᵀ + b_Q)(x W_Kᵀ + b_K)ᵀ + mask) = A_h``.
    """

    layer: Head
    output: Finding
    scores: Finding
