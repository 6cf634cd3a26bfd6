"""From a configuration and a list of tensor names to the outline of a model's attention, without reading a weight."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.models.checkpoint import Checkpoint, TensorEntry
from engine.models.locate import Location
from engine.models.rules import (
    CROSS_ATTENTION,
    ENCODER_TYPES,
    NEIGHBOUR_MARKS,
    OTHER_TOWERS,
    PROVEN_TYPES,
    REFUSED_TENSORS,
    RULES,
    TYPE_MARKS,
    Layout,
    Rule,
)
from engine.values.errors import EngineError
from engine.values.heads import STACKS, Head
from engine.values.model import LayerOutline, ModelOutline

HEAD_COUNT_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
"""What configurations call the number of query heads."""

CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""What configurations call the longest sentence."""

OFFSET_POSITION_TYPES = frozenset(
    {
        "roberta",
        "camembert",
        "xlm-roberta",
        "xlm-roberta-xl",
        "longformer",
        "mpnet",
        "roberta-prelayernorm",
        "data2vec-text",
        "xmod",
        "ibert",
        "esm",
        "luke",
    }
)
"""Types whose position table counts from after the padding token, so that it holds more rows than positions."""


@dataclass(frozen=True, slots=True)
class AttentionModule:
    """One attention module of a checkpoint: its layer, the rule that cuts it, and its tensors' names by matrix."""

    outline: LayerOutline
    rule: Rule
    weights: Mapping[str, str]
    biases: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's outline together with where each layer's tensors are."""

    outline: ModelOutline
    modules: Mapping[Head, AttentionModule]


def read_config(directory: Path) -> dict[str, Any]:
    """Read ``config.json``; a text model inside a larger one is taken from its ``text_config``.

    Raises
    ------
    EngineError : when it is not a JSON object.
    """
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{path} is not readable JSON ({error}); download or save the model again") from error
    if not isinstance(config, dict):
        raise EngineError(f"{path} holds no JSON object; download or save the model again")
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, dict) else config


def _sibling(module: str, name: str) -> str:
    """Join a module's dotted name and a name relative to it."""
    while name.startswith("../"):
        module, name = module.rpartition(".")[0], name[3:]
    return f"{module}.{name}" if module else name


def _modules(entries: Mapping[str, TensorEntry], model_type: str) -> Iterator[tuple[str, Rule]]:
    """Find every attention module's dotted name and the rule that fits all of its projections."""
    for rule in RULES:
        if rule.model_types and model_type not in rule.model_types:
            continue
        ending = f"{rule.query}.weight"
        for name in entries:
            module = name.removesuffix(ending).removesuffix(".")
            if not name.endswith(f".{ending}") or any(part in OTHER_TOWERS for part in module.split(".")):
                continue
            if all(f"{_sibling(module, each)}.weight" in entries for each in rule.projections.values()):
                yield module, rule


def _stack(module: str, model_type: str, config: Mapping[str, Any]) -> str:
    """Say which stack a module belongs to, from its path, or from the type where the path is silent."""
    parts = module.split(".")
    if any(part in CROSS_ATTENTION for part in parts):
        return "cross"
    is_decoder = bool(config.get("is_decoder"))
    if "decoder" in parts or (is_decoder and "encoder" in parts):
        return "decoder"
    return "encoder" if "encoder" in parts or model_type in ENCODER_TYPES else "decoder"


def _head_count(config: Mapping[str, Any], stack: str) -> int:
    """Read the number of query heads from the configuration."""
    side = "encoder" if stack == "encoder" else "decoder"
    for key in (f"{side}_attention_heads", *HEAD_COUNT_KEYS):
        count = config.get(key)
        if isinstance(count, int) and count > 0:
            return count
    raise EngineError(f"config.json does not say how many heads there are (none of {', '.join(HEAD_COUNT_KEYS)})")


def _layer_outline(
    module: str, rule: Rule, entries: Mapping[str, TensorEntry], config: Mapping[str, Any], place: Head
) -> LayerOutline:
    """Derive a layer's head counts and widths from the shapes of its own projections.

    ``head_dim_v = W_O.in / H``, ``H_kv = W_V.out / head_dim_v``, ``head_dim_k = W_K.out / H_kv``.
    """
    shapes = {}
    for matrix, name in rule.projections.items():
        shape = entries[f"{_sibling(module, name)}.weight"].shape
        if len(shape) != 2:
            raise EngineError(f"{_sibling(module, name)}.weight has shape {list(shape)}, not that of a matrix")
        shapes[matrix] = shape[::-1] if rule.stored_transposed else shape
    heads = _head_count(config, place.stack)
    d_model, output_width = shapes["O"]
    if shapes["Q"][1] != d_model or shapes["K"][1] != shapes["V"][1]:
        raise EngineError(f"{module}: its projections read several widths; attn-tui does not know this form")
    fused = rule.layout is not Layout.SEPARATE
    value_head_dim, rest = divmod(output_width, heads)
    if rest:
        raise EngineError(f"{module}: {heads} heads do not divide the output projection's width {output_width}")
    if fused:
        key_value_heads = (shapes["Q"][0] // value_head_dim - heads) // 2
        head_dim = value_head_dim
        expected = (heads + 2 * key_value_heads) * head_dim
        consistent = expected == shapes["Q"][0]
    else:
        key_value_heads = max(1, shapes["V"][0] // value_head_dim)
        head_dim = shapes["K"][0] // key_value_heads
        consistent = (
            shapes["Q"][0] == heads * head_dim
            and shapes["K"][0] == key_value_heads * head_dim
            and shapes["V"][0] == key_value_heads * value_head_dim
        )
    grouped = key_value_heads > 0 and heads % key_value_heads == 0
    if not consistent or not grouped or (rule.layout is Layout.PER_HEAD and key_value_heads != heads):
        widths = ", ".join(f"{matrix} {shape[0]}×{shape[1]}" for matrix, shape in shapes.items())
        raise EngineError(
            f"{module}: projections of {widths} cannot be cut into {heads} heads; attn-tui does not know this form"
        )
    for matrix, name in rule.projections.items():
        bias = entries.get(f"{_sibling(module, name)}.bias")
        if bias is not None and bias.shape != shapes[matrix][:1]:
            raise EngineError(f"{_sibling(module, name)}.bias has shape {list(bias.shape)}, not {[shapes[matrix][0]]}")
    parent = f"{module}."
    beside = {name[len(parent) :].partition(".")[0] for name in entries if name.startswith(parent)}
    marks = dict.fromkeys(NEIGHBOUR_MARKS[name] for name in sorted(beside & NEIGHBOUR_MARKS.keys()))
    if place.stack != "cross" and str(config.get("model_type")) in TYPE_MARKS:
        marks[TYPE_MARKS[str(config.get("model_type"))]] = None
    if config.get("attn_logit_softcapping"):
        marks["soft cap"] = None
    return LayerOutline(
        stack=place.stack,
        layer=place.layer,
        heads=heads,
        key_value_heads=key_value_heads,
        d_model=d_model,
        d_source=shapes["K"][1],
        head_dim=head_dim,
        value_head_dim=value_head_dim,
        module=module,
        marks=tuple(marks),
    )


def _context(config: Mapping[str, Any], model_type: str) -> int | None:
    """Read the longest sentence that the model's positions allow, in tokens."""
    for key in CONTEXT_KEYS:
        length = config.get(key)
        if isinstance(length, int) and length > 0:
            if model_type in OFFSET_POSITION_TYPES:
                length -= int(config.get("pad_token_id") or 0) + 1
            return length
    return None


def read_anatomy(location: Location, checkpoint: Checkpoint) -> Anatomy:
    """Find every attention layer of a checkpoint.

    Raises
    ------
    EngineError : when the model has no attention that the rules can cut into heads, naming its type.
    """
    config = read_config(location.directory)
    model_type = str(config.get("model_type", "unknown"))
    entries = checkpoint.entries
    modules: dict[Head, AttentionModule] = {}
    for module, rule in _modules(entries, model_type):
        number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", module)
        place = Head(_stack(module, model_type, config), int(number[1]) if number else 0)
        kinds = config.get("layer_types")
        if isinstance(kinds, list) and place.layer < len(kinds) and kinds[place.layer] == "linear_attention":
            continue
        if place in modules:
            raise EngineError(
                f"{model_type}: both {modules[place].outline.module} and {module} look like the attention of "
                f"layer {place.layer}; attn-tui does not know this form"
            )
        names = {matrix: _sibling(module, name) for matrix, name in rule.projections.items()}
        modules[place] = AttentionModule(
            _layer_outline(module, rule, entries, config, place),
            rule,
            {matrix: f"{name}.weight" for matrix, name in names.items()},
            {matrix: f"{name}.bias" for matrix, name in names.items() if f"{name}.bias" in entries},
        )
    if not modules:
        raise EngineError(_why_none(model_type, entries))
    ordered = dict(sorted(modules.items(), key=lambda item: (STACKS.index(item[0].stack), item[0].layer)))
    first = next(iter(ordered.values()))
    notes = () if model_type in PROVEN_TYPES else (_unproven(model_type),)
    outline = ModelOutline(
        location.name,
        str(location.directory),
        model_type,
        tuple(module.outline for module in ordered.values()),
        entries[first.weights["Q"]].dtype,
        checkpoint.parameters,
        checkpoint.stored_bytes,
        _context(config, model_type),
        notes,
    )
    return Anatomy(outline, ordered)


def _unproven(model_type: str) -> str:
    """Say that the heads were found by name alone."""
    return f"heads of type '{model_type}' were found by their names; no test proves this type yet"


def _why_none(model_type: str, entries: Mapping[str, TensorEntry]) -> str:
    """Say why no attention was found."""
    for name, kind in REFUSED_TENSORS.items():
        if any(f"{name}." in entry for entry in entries):
            return f"models of type '{model_type}' use {kind}, which attn-tui cannot cut into heads yet"
    return (
        f"models of type '{model_type}' have no softmax attention that attn-tui knows: "
        "no query, key, value and output projections among their weights"
    )
