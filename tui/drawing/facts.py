"""Descriptions of a model in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from engine.values.display_text import plural, quantity, size

if TYPE_CHECKING:
    from engine.values.memory import MemoryReport
    from engine.values.outline import Comparison, LayerOutline, ModelOutline


def short_name(outline: ModelOutline) -> str:
    """Return a model's name without its folders or organisation."""
    return outline.name.rstrip("/").rpartition("/")[2] or outline.name


def brief_notice(notice: str) -> str:
    """Shorten for a title that a model reads only the first tokens of a sentence."""
    return notice.removeprefix("the model reads the ")


def distance_text(distance: int | None, outline: ModelOutline) -> str:
    """Describe the distance from the query back to the key; empty where positions are left out."""
    if distance is None:
        return ""
    past = outline.past_context(distance)
    return f"Δ = {distance}{', ' if past else ''}{past}"


def _counts(values: list[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)}–{max(values)}"


def _heads(layers: tuple[LayerOutline, ...]) -> str:
    heads = _counts([layer.heads for layer in layers])
    shared = _counts([layer.key_value_heads for layer in layers])
    said = f"{heads} {'head' if heads == '1' else 'heads'}"
    return said if heads == shared else f"{said} ({shared} key/value)"


def model_line(outline: ModelOutline) -> Text:
    """Describe a model on one line, the most telling facts first."""
    layers = outline.layers
    counts = [f"{len(outline.stack_layers(stack))} {stack}" for stack in outline.stacks]
    facts = (
        outline.model_type,
        f"{' + '.join(counts) if len(counts) > 1 else len(layers)} {plural('layer', len(layers))} × {_heads(layers)}",
        f"d_model {_counts([layer.d_model for layer in layers])}",
        f"head_dim {_counts([layer.head_dim for layer in layers])}",
        f"{outline.dtype} {size(outline.stored_bytes)}",
    )
    return Text.assemble((short_name(outline), "bold"), "  ", " · ".join(facts))


def comparison_line(comparison: Comparison) -> Text:
    """Describe a model on one line, with the name of the model it is compared with."""
    line, name = model_line(comparison.first), short_name(comparison.first)
    other = Text.assemble((name, "bold"), " vs ", (short_name(comparison.other), "bold"))
    return Text.assemble(other, line[len(name) :])


def _memory_lines(memory: MemoryReport | None) -> Iterator[str]:
    from engine.values.memory import ACROSS_DEVICES  # late, so that the first frame does not wait for it

    if memory is None:
        return
    yield f"looking at a layer reads {size(memory.layer_bytes)}"
    if memory.need is None:
        return
    need, placement = memory.need, memory.placement
    needed = f"a sentence of {quantity(need.tokens, 'token')} takes {size(need.weights)} of weights as {need.dtype}"
    needed += f" and {size(need.maps)} for a layer's maps, made and kept"
    if placement is None:
        free = "" if memory.free is None else f"; {size(memory.free)} are free in main memory"
        yield f"{needed}{free}; a GPU's room is checked when a sentence is read"
        return
    where = "GPUs and main memory" if placement.device == ACROSS_DEVICES else placement.device
    yield f"{needed}; {'some' if placement.free is None else size(placement.free)} are free on {where}"
    if placement.refusal or placement.notice:
        yield placement.refusal or placement.notice


def model_facts(outline: ModelOutline, memory: MemoryReport | None = None) -> str:
    """Describe a model, one fact per line, and its need of memory once that is known."""
    from engine.values.outline import MARKS  # late, so that the first frame does not wait for it

    lines = [f"{outline.name} is a {outline.model_type}"]
    for stack in outline.stacks:
        layers = outline.stack_layers(stack)
        lines.append(f"{stack}: {quantity(len(layers), 'layer')} with {_heads(layers)}")
    lines += [
        f"{mark}: {MARKS[mark]}" for mark in dict.fromkeys(mark for each in outline.layers for mark in each.marks)
    ]
    files = f" in {quantity(memory.files, 'file')}" if memory is not None and memory.files else ""
    lines += [
        f"{outline.parameters:,} parameters, {size(outline.stored_bytes)} as {outline.dtype}{files}",
        *_memory_lines(memory),
        f"context {outline.context} tokens" if outline.context else "sentences of any length",
        outline.directory,
        *outline.notes,
    ]
    return "\n".join(lines)
