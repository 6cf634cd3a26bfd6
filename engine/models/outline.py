"""From a configuration and a list of tensor names to the outline of a model's attention, without reading a weight."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.models.checkpoint import TensorEntry
from engine.models.configuration import context, head_count
from engine.models.counts import count_heads
from engine.models.proven import PROVEN_TYPES
from engine.models.rules import (
    CROSS_ATTENTION,
    ENCODER_TYPES,
    NEIGHBOUR_MARKS,
    OTHER_TOWERS,
    REFUSED_TENSORS,
    RULES,
    SETTING_MARKS,
    SHARING_TYPES,
    TYPE_MARKS,
    Rule,
)
from engine.values.errors import EngineError
from engine.values.heads import STACKS, Head
from engine.values.model import LayerOutline, ModelOutline


@dataclass(frozen=True, slots=True)
class LatentNames:
    """The tensors of a projection's first step: its weight, its norm's gain, and its bias where it has one."""

    down: str
    norm: str
    bias: str | None


@dataclass(frozen=True, slots=True)
class AttentionModule:
    """One attention module of a checkpoint: its layer, the rule that cuts it, and its tensors' names by matrix.

    Attributes
    ----------
    latents : the first step of projections that take two.
    is_gated : whether a head's query is followed by an output gate.
    change_of : the layer whose change by an adapter this is, or None where it is a layer itself.
    """

    outline: LayerOutline
    rule: Rule
    weights: Mapping[str, str]
    biases: Mapping[str, str]
    latents: Mapping[str, LatentNames]
    is_gated: bool
    change_of: AttentionModule | None = None


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model's outline together with where each layer's tensors are."""

    outline: ModelOutline
    modules: Mapping[Head, AttentionModule]


def _sibling(module: str, name: str) -> str:
    """Join a module's dotted name and a name relative to it."""
    while name.startswith("../"):
        module, name = module.rpartition(".")[0], name[3:]
    return f"{module}.{name}" if module else name


def _modules(
    entries: Mapping[str, TensorEntry], model_type: str, config: Mapping[str, Any]
) -> Iterator[tuple[str, Rule]]:
    """Find every attention module's dotted name and the first rule that fits all of its projections."""
    found: set[str] = set()
    for rule in RULES:
        if not rule.suits(model_type, config):
            continue
        needed = {*rule.projections.values(), *(latent.down for latent in rule.latents.values())}
        ending = f"{rule.query}.weight"
        for name in entries:
            module = name.removesuffix(ending).removesuffix(".")
            if not name.endswith(f".{ending}") or any(part in OTHER_TOWERS for part in module.split(".")):
                continue
            if module not in found and all(f"{_sibling(module, each)}.weight" in entries for each in needed):
                found.add(module)
                yield module, rule


def _placed(
    entries: Mapping[str, TensorEntry], model_type: str, config: Mapping[str, Any]
) -> Iterator[tuple[Head, str, Rule]]:
    """Say which layer of which stack every attention module is; one that layers share is several."""
    found = list(_modules(entries, model_type, config))
    kinds = config.get("layer_types")
    if model_type in SHARING_TYPES:
        found.sort(key=lambda each: [int(number) for number in re.findall(r"\d+", each[0])])
        yield from _shared(found, config.get("num_hidden_layers"), config.get(SHARING_TYPES[model_type], 1))
        return
    layers: dict[Head, list[tuple[str, Rule]]] = {}
    for module, rule in found:
        number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", module)
        place = Head(_stack(module, model_type, config), int(number[1]) if number else 0)
        if isinstance(kinds, list) and place.layer < len(kinds) and kinds[place.layer] == "linear_attention":
            continue
        layers.setdefault(place, []).append((module, rule))
    for place, several in layers.items():
        for order, (module, rule) in enumerate(several):
            if len({re.sub(r"\d+", "", each) for each, _ in several}) > 1:
                raise EngineError(
                    f"{model_type}: both {several[0][0]} and {several[1][0]} look like the attention of "
                    f"layer {place.layer}; attn-tui does not know this form"
                )
            yield Head(place.stack, place.layer * len(several) + order), module, rule


def _shared(found: list[tuple[str, Rule]], layers: object, groups: object) -> Iterator[tuple[Head, str, Rule]]:
    """Lay modules out in the order in which a model runs them: each layer runs all of its group, one by one."""
    if not (isinstance(layers, int) and isinstance(groups, int) and 0 < groups <= min(layers, len(found))):
        raise EngineError("config.json does not say how its layers share their weights")
    inner = len(found) // groups
    place = 0
    for layer in range(layers):
        group = layer * groups // layers
        for module, rule in found[group * inner : (group + 1) * inner]:
            yield Head("encoder", place), module, rule
            place += 1


def _stack(module: str, model_type: str, config: Mapping[str, Any]) -> str:
    """Say which stack a module belongs to, from its path, or from the type where the path is silent."""
    parts = module.split(".")
    if any(part in CROSS_ATTENTION for part in parts):
        return "cross"
    is_decoder = bool(config.get("is_decoder"))
    if "decoder" in parts or (is_decoder and "encoder" in parts):
        return "decoder"
    return "encoder" if "encoder" in parts or model_type in ENCODER_TYPES else "decoder"


def _shapes(module: str, rule: Rule, entries: Mapping[str, TensorEntry]) -> dict[str, tuple[int, ...]]:
    """Collect the shapes of a module's projections and of their first steps, ``[out, in]``, as `count_heads` asks."""
    shapes: dict[str, tuple[int, ...]] = {}
    for matrix, name in rule.projections.items():
        shape = entries[f"{_sibling(module, name)}.weight"].shape
        if len(shape) != 2:
            raise EngineError(f"{_sibling(module, name)}.weight has shape {list(shape)}, not that of a matrix")
        shapes[matrix] = shape[::-1] if rule.stored_transposed else shape
    for matrix, latent in rule.latents.items():
        for part, name in (("down", latent.down), ("norm", latent.norm)):
            tensor = f"{_sibling(module, name)}.weight"
            if tensor not in entries:
                raise EngineError(f"{tensor} is not in the checkpoint; download or save the model again")
            shape = entries[tensor].shape
            if len(shape) != (2 if part == "down" else 1):
                raise EngineError(
                    f"{tensor} has shape {list(shape)}, not that of a {'matrix' if part == 'down' else 'gain'}"
                )
            shapes[f"{part} {matrix}"] = shape
    return shapes


def _marks(module: str, entries: Mapping[str, TensorEntry], config: Mapping[str, Any], is_cross: bool) -> list[str]:
    """Name what changes the circuits of a layer's heads."""
    parent = f"{module}."
    beside = {name[len(parent) :].partition(".")[0] for name in entries if name.startswith(parent)}
    marks = [NEIGHBOUR_MARKS[name] for name in sorted(beside & NEIGHBOUR_MARKS.keys())]
    if not is_cross and str(config.get("model_type")) in TYPE_MARKS:
        marks.append(TYPE_MARKS[str(config.get("model_type"))])
    return [*marks, *(mark for setting, mark in SETTING_MARKS.items() if config.get(setting))]


def _attention(
    module: str, rule: Rule, entries: Mapping[str, TensorEntry], config: Mapping[str, Any], place: Head
) -> AttentionModule:
    """Describe one attention module.

    Raises
    ------
    EngineError : when its shapes do not fit each other or the number of heads.
    """
    shapes = _shapes(module, rule, entries)
    counts = count_heads(module, rule, shapes, head_count(config, place))
    names = {matrix: _sibling(module, name) for matrix, name in rule.projections.items()}
    biases = {matrix: f"{name}.bias" for matrix, name in names.items()}
    biases |= {matrix: _sibling(module, name) for matrix, name in rule.biases.items()}
    biases = {matrix: name for matrix, name in biases.items() if name in entries}
    for matrix, name in biases.items():
        rows = shapes[matrix][0] // (3 if matrix in rule.biases else 1)
        if entries[name].shape != (rows,):
            raise EngineError(f"{name} has shape {list(entries[name].shape)}, not {[rows]}")
    latents = {}
    for matrix, latent in rule.latents.items():
        down = _sibling(module, latent.down)
        bias = f"{down}.bias" if f"{down}.bias" in entries else None
        latents[matrix] = LatentNames(f"{down}.weight", f"{_sibling(module, latent.norm)}.weight", bias)
    marks = _marks(module, entries, config, place.stack == "cross")
    if str(config.get("model_type")) in SHARING_TYPES:
        marks.append("weights shared by layers")
    outline = LayerOutline(
        stack=place.stack,
        layer=place.layer,
        heads=counts.heads,
        key_value_heads=counts.key_value_heads,
        d_model=counts.d_model,
        d_source=counts.d_source,
        head_dim=counts.head_dim,
        value_head_dim=counts.value_head_dim,
        module=module,
        marks=tuple(dict.fromkeys([*marks, *(["output gate"] if counts.is_gated else [])])),
    )
    weights = {matrix: f"{name}.weight" for matrix, name in names.items()}
    return AttentionModule(outline, rule, weights, biases, latents, counts.is_gated)


def read_anatomy(
    name: str, where: str, config: Mapping[str, Any], entries: Mapping[str, TensorEntry], notes: tuple[str, ...] = ()
) -> Anatomy:
    """Find every attention layer among a model's tensors.

    Parameters
    ----------
    name, where : what the person typed, and where it was found.
    config : as ``config.json`` has it.
    entries : the tensors by name.
    notes : what the person should know besides.

    Raises
    ------
    EngineError : when the model has no attention that the rules can cut into heads, naming its type.
    """
    model_type = str(config.get("model_type", "unknown"))
    modules: dict[Head, AttentionModule] = {}
    for place, module, rule in _placed(entries, model_type, config):
        modules[place] = _attention(module, rule, entries, config, place)
    if not modules:
        raise EngineError(_why_none(model_type, entries))
    if model_type not in PROVEN_TYPES:
        notes = (*notes, _unproven(model_type))
    return anatomy_of(name, where, model_type, modules, entries, context(config, model_type), notes)


def anatomy_of(
    name: str,
    where: str,
    model_type: str,
    modules: Mapping[Head, AttentionModule],
    entries: Mapping[str, TensorEntry],
    longest: int | None,
    notes: tuple[str, ...],
    counted: Mapping[str, TensorEntry] | None = None,
) -> Anatomy:
    """Put attention modules in reading order, and say of the whole model what there is to say.

    ``counted`` are the tensors that make up its size, where they are not all ``entries``.
    """
    counted = entries if counted is None else counted
    ordered = dict(sorted(modules.items(), key=lambda item: (STACKS.index(item[0].stack), item[0].layer)))
    first = next(iter(ordered.values()))
    outline = ModelOutline(
        name,
        where,
        model_type,
        tuple(module.outline for module in ordered.values()),
        entries[first.weights["Q"]].dtype,
        sum(entry.parameters for entry in counted.values()),
        sum(entry.stored_bytes for entry in counted.values()),
        longest,
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
