"""A model's facts in words."""

from __future__ import annotations

from rich.text import Text

from engine.values.marks import MARKS
from engine.values.memory import size
from engine.values.model import LayerOutline, ModelOutline


def short_name(outline: ModelOutline) -> str:
    """Give a model's name without the folders or the organisation it is in."""
    return outline.name.rstrip("/").rpartition("/")[2] or outline.name


def _counts(values: list[int]) -> str:
    """Write one number, or the range of several."""
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)}–{max(values)}"


def _heads(layers: tuple[LayerOutline, ...]) -> str:
    """Write how many heads there are, and how many share their keys and values."""
    heads = _counts([layer.heads for layer in layers])
    shared = _counts([layer.key_value_heads for layer in layers])
    return f"{heads} heads" if heads == shared else f"{heads} heads ({shared} key/value)"


def model_line(outline: ModelOutline) -> Text:
    """Write a model's facts on one line, the most telling first."""
    layers = outline.layers
    counts = [f"{len(outline.stack_layers(stack))} {stack}" for stack in outline.stacks]
    facts = (
        outline.model_type,
        f"{' + '.join(counts) if len(counts) > 1 else len(layers)} layers × {_heads(layers)}",
        f"d_model {_counts([layer.d_model for layer in layers])}",
        f"head_dim {_counts([layer.head_dim for layer in layers])}",
        outline.dtype,
    )
    return Text.assemble((short_name(outline), "bold"), "  ", " · ".join(facts))


def model_facts(outline: ModelOutline) -> str:
    """Write a model's facts one below the other."""
    lines = [f"{outline.name} is a {outline.model_type}"]
    for stack in outline.stacks:
        layers = outline.stack_layers(stack)
        lines.append(f"{stack}: {len(layers)} layers with {_heads(layers)}")
    lines += [
        f"{mark}: {MARKS[mark]}" for mark in dict.fromkeys(mark for each in outline.layers for mark in each.marks)
    ]
    lines += [
        f"{outline.parameters:,} parameters, {size(outline.stored_bytes)} as {outline.dtype}",
        f"context {outline.context} tokens" if outline.context else "no limit to the sentence's length",
        outline.directory,
        *outline.notes,
    ]
    return "\n".join(lines)
