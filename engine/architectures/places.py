"""Find the modules that hold attention, the stack and layer of each, and those that read no text."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.architectures.configuration import layer_count
from engine.architectures.rules import ENDINGS, RULES, SHARING_TYPES, Rule, tensor_of
from engine.values.errors import EngineError
from engine.values.heads import Head

CROSS_ATTENTION = ("EncDecAttention", "encoder_attn", "crossattention", "encoder_decoder_attention", "second_sub_layer")
"""Path components that mark attention from a decoder to an encoder, besides those with the word ``cross``."""

ENCODER_TYPES = frozenset(
    {"esmc", "eurobert", "ultrabert", "ultravbert", "distilbert", "modernbert", "xlm", "flaubert", "squeezebert",
     "xlnet", "tipsv2_text_model", "gte", "jina_embeddings_v3", "nomic_bert"}
)  # fmt: skip
"""Types whose stack is an encoder, though their tensors' names do not say so."""

TOWER_WORDS = frozenset({
    "vision", "visual", "image", "img", "vit", "video", "audio", "speech", "codec", "vocoder", "t2u", "depth",
    "qformer", "projector", "resampler", "patcher", "mtp", "nextn",
})  # fmt: skip
"""Words of path components that mark stacks which do not read the text as it was typed."""

TOWERS = frozenset({
    "local_encoder", "local_decoder",  # around BLT's global transformer
    "initial_char_encoder", "final_char_encoder",  # around CANINE's encoder
    "r_layers", "x_layers", "cross_modal_text_layers", "cross_modal_image_layers",  # images, with and without text
    "vqmodel",
})  # fmt: skip
"""Path components of stacks beside the one that reads the text."""

LINEAR_NEIGHBOURS = ("A_log", "dt_bias", "q_conv1d", "igate_preact", "fgate_preact", "forget_gate")
"""Tensors beside the projections of attention without a softmax."""

LAYERS = "num_hidden_layers"
"""The setting with the number of layers."""

TURN_TAKING = frozenset({"shared_transf", "shared_transformer"})
"""Path components of blocks that several layers run in turns."""


def turn_of(path: str, layer: int) -> str:
    """Name the module of a block that takes turns for one of the layers that run it.

    Examples
    --------
    >>> turn_of("layers.1.shared_transf.self_attn", 3)
    'layers.3.shared_transf.self_attn'
    """
    if TURN_TAKING.isdisjoint(path.split(".")):
        return path
    return re.sub(r"\d+", str(layer), path, count=1)


@dataclass(frozen=True, slots=True)
class FoundModule:
    """An attention module, the first rule that fits it, and the module whose keys and values it uses, if another."""

    module: str
    rule: Rule
    key_value_owner: str | None = None


def attention_modules(
    tensors: Iterable[str], model_type: str = "", config: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Rule]]:
    """Find every attention module's dotted name and the first rule that fits all of its projections.

    If a configuration is given, rules for other types or settings are skipped.
    """
    names = frozenset(tensors)
    owners = _modules_by_projection(names, ENDINGS)
    found: set[str] = set()
    for rule in RULES:
        if config is not None and not rule.suits(model_type, config):
            continue
        for module in owners.get(rule.query, ()):
            if module not in found and all(tensor_of(names, module, each) for each in rule.needed):
                found.add(module)
                yield module, rule


def unknown_modules(
    tensors: Iterable[str], found: Container[str], model_type: str, config: Mapping[str, Any]
) -> Iterator[str]:
    """Find modules with a query projection that neither fit a rule nor are part of a module that does."""
    owners = _modules_by_projection(frozenset(tensors), [ending for ending in ENDINGS if ending])
    for leaf in dict.fromkeys(rule.query for rule in RULES if rule.suits(model_type, config)):
        for module in owners.get(leaf, ()):
            parts = module.split(".")
            if not any(".".join(parts[: end + 1]) in found for end in range(len(parts))):
                yield module


def _modules_by_projection(names: Iterable[str], endings: Iterable[str]) -> dict[str, dict[str, None]]:
    owners: dict[str, dict[str, None]] = {}
    for name in sorted(names):
        for ending in endings:
            if name.endswith(ending):
                owner, _, leaf = name.removesuffix(ending).rpartition(".")
                owners.setdefault(leaf, {})[owner] = None
    return owners


def tower_of(module: str, model_type: str = "") -> str | None:
    """Return the path down to the component that marks a module as part of a stack that reads no text, if any.

    Examples
    --------
    >>> tower_of("model.vision_tower.layers.0.self_attn")
    'model.vision_tower'
    """
    parts = module.split(".")
    for place, part in enumerate(parts):
        is_own = part.replace("-", "_") == model_type.replace("-", "_")
        if not is_own and (part in TOWERS or not TOWER_WORDS.isdisjoint(part.lower().split("_"))):
            return ".".join(parts[: place + 1])
    return None


def stack_named(module: str) -> str | None:
    """Return the stack that a module's path names, if any.

    Examples
    --------
    >>> stack_named("text_encoder.layers.0.self_attn")
    'encoder'
    """
    parts = module.split(".")
    words = {word for part in parts for word in part.split("_")}
    if "cross" in words or any(part in CROSS_ATTENTION for part in parts):
        return "cross"
    return next((stack for stack in ("decoder", "encoder") if stack in words), None)


def numbers_of(module: str) -> list[int]:
    """Return the numbers in a module's path, in order."""
    return [int(part) for part in module.split(".") if part.isdigit()]


def place_modules(
    tensors: Iterable[str], model_type: str, config: Mapping[str, Any]
) -> tuple[dict[Head, FoundModule], list[str]]:
    """Find the attention module of each layer; layers may share one. Also return notes on what is left out.

    Raises `EngineError` when several modules look like the attention of one layer.
    """
    names = list(tensors)
    linear = {name[: name.rindex(f".{each}")] for each in LINEAR_NEIGHBOURS for name in names if f".{each}" in name}
    layers = layer_count(config, LAYERS)
    # Layers that predict tokens further ahead are numbered after the last layer.
    is_longer = any((config.get(each) or 0) > 0 for each in ("num_nextn_predict_layers", "num_mtp_layers"))
    found: list[FoundModule] = []
    left_out: dict[str, None] = {}
    for module, rule in attention_modules(names, model_type, config):
        if (tower := tower_of(module, model_type)) is not None:
            left_out[tower] = None
        elif is_longer and 0 < layers <= _first_number(module):  # it is not run when a sentence is read
            left_out[module] = None
        elif module not in linear:
            found.append(FoundModule(module, rule))
    notes = [f"only the heads that read text are here; left out: {', '.join(left_out)}"] if left_out else []
    found.sort(key=lambda each: numbers_of(each.module))
    if model_type in SHARING_TYPES:
        groups = config.get(SHARING_TYPES[model_type], 1) or 0
        return _order_shared_modules(found, layers, groups), notes
    stacks: dict[str, list[FoundModule]] = {}
    for each in found:
        stack = stack_named(each.module) or ("encoder" if model_type in ENCODER_TYPES else "decoder")
        own = "decoder" if stack == "encoder" and config.get("is_decoder") else stack
        stacks.setdefault(own, []).append(each)
    placed: dict[Head, FoundModule] = {}
    for stack, modules in stacks.items():
        placed |= _number_modules(stack, modules, model_type)
    kinds = config.get("layer_types") or []
    for place in [each for each in placed if each.layer < len(kinds)]:
        if kinds[place.layer] in ("linear_attention", "lightning_attention"):  # without a softmax
            del placed[place]
    placed |= _place_shared_blocks(list(placed.values()), config)
    placed |= _find_key_sharing_layers(placed, config)
    fitting = {*linear, *left_out, *(each.module for each in (*found, *placed.values()))}
    unknown = dict.fromkeys(
        re.sub(r"\d+", "N", module)
        for module in unknown_modules(names, fitting, model_type, config)
        if tower_of(module, model_type) is None
    )
    if unknown:
        notes.append(f"attention of a form that attn-tui does not know is left out: {', '.join(unknown)}")
    return placed, notes


def _first_number(module: str) -> int:
    return next(iter(numbers_of(module)), 0)


def _number_modules(stack: str, modules: list[FoundModule], model_type: str) -> dict[Head, FoundModule]:
    """Assign layers to a stack's modules by the numbers in their paths, or by order if blocks are numbered apart."""
    layers: dict[int, list[str]] = {}
    for each in modules:
        layers.setdefault(_first_number(each.module), []).append(each.module)
    for number, several in layers.items():
        if len({re.sub(r"\d+", "", module) for module in several}) > 1:
            raise EngineError(
                f"{model_type}: both {several[0]} and {several[1]} look like the attention of "
                f"layer {number}; attn-tui does not know this form"
            )
    is_nested = any(len(several) > 1 for several in layers.values())
    return {Head(stack, order if is_nested else _first_number(each.module)): each for order, each in enumerate(modules)}


def _order_shared_modules(found: list[FoundModule], layers: int, groups: int) -> dict[Head, FoundModule]:
    """Put shared modules in the order in which a model runs them: each layer runs all modules of its group."""
    if not 0 < groups <= min(layers, len(found)):
        raise EngineError("config.json does not say how its layers share their weights")
    inner = len(found) // groups
    run = [each for layer in range(layers) for each in found[layer * groups // layers * inner :][:inner]]
    return {Head("encoder", place): each for place, each in enumerate(run)}


def _place_shared_blocks(blocks: list[FoundModule], config: Mapping[str, Any]) -> dict[Head, FoundModule]:
    """Find the layers that run, in turns, blocks that are stored once, as in Zamba."""
    if not all(TURN_TAKING.intersection(each.module.split(".")) for each in blocks):
        return {}
    kinds = config.get("layers_block_type") or config.get("layer_types") or []
    layers = [layer for layer, kind in enumerate(kinds) if kind == "hybrid"] if blocks else []
    return {Head("decoder", layer): blocks[order % len(blocks)] for order, layer in enumerate(layers)}


def _find_key_sharing_layers(placed: Mapping[Head, FoundModule], config: Mapping[str, Any]) -> dict[Head, FoundModule]:
    """Find the modules of last layers that use the keys and values of an earlier layer of the same kind."""
    count, layers = layer_count(config, "num_kv_shared_layers"), layer_count(config, LAYERS)
    kinds = config.get("layer_types") or []
    sharing: dict[Head, FoundModule] = {}
    for layer in range(layers - count, layers) if count <= layers <= len(kinds) else ():
        own = [Head("decoder", each) for each in range(layers - count) if kinds[each] == kinds[layer]]
        if own and own[-1] in placed:
            owner = placed[own[-1]]
            module = re.sub(r"(^|\.)\d+(\.|$)", rf"\g<1>{layer}\g<2>", owner.module, count=1)
            sharing[Head("decoder", layer)] = FoundModule(module, owner.rule, owner.module)
    return sharing
