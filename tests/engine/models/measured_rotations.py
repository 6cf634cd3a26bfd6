"""How types of transformers rotate queries and keys, measured on tiny models.

Attention reads the same vector at every token, so that queries and keys differ by their positions alone: the rotation
takes the first ones to the others, whatever norms come before it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.architectures.heads import LayerWeights, read_layer
from engine.architectures.rules import ROTARY_TYPES
from engine.mathematics.scores import Rotation, rotate_keys
from engine.models.loaded_model import LoadedModules
from engine.models.proof import inputs_at_position_zero
from engine.models.rotations import is_reordered, rotation_of
from engine.models.score_formula import ScoreWatch
from engine.values.heads import Head
from tests import tiny_models
from tests.opening import open_folder
from tests.tiny_configurations import tiny_configuration

TOKENS = 7
SENTENCE_TOKENS = (7, 11, 20, 33, 41, 60, 77, 90)
"""Tokens of the sentences, each of one token alone."""

LAYERS = 8
"""Layers of a model, so many that every kind of layer is among them."""


def longer_configuration(model_type: str) -> Any:
    """Make a tiny configuration of eight layers of the kinds that the type chooses; a shorter one if fixed."""
    short = tiny_configuration(model_type)
    chosen = {"layer_types", "no_rope_layers", "mlp_layer_types", "num_hidden_layers"}
    if "mrope_section" not in (getattr(short, "rope_parameters", None) or {}):
        chosen.add("rope_parameters")
    kept = {
        name: value
        for name, value in short.to_dict().items()
        if name not in chosen | {"transformers_version", "model_type"} and not name.startswith("_")
    }
    if bases := kept.get("layer_rope_theta"):
        kept["layer_rope_theta"] = (bases * LAYERS)[:LAYERS]
    try:
        config: Any = type(short)(**{**kept, "num_hidden_layers": LAYERS})
        tiny_models.build(config)
    except Exception:  # whatever a configuration's own code raises: the short one holds
        return short
    missing = set(getattr(short, "layer_types", None) or ()) - set(getattr(config, "layer_types", None) or ())
    return short if missing else config


NORMED_AFTER = ("query_layernorm", "key_layernorm", "q_layer_norm", "k_layer_norm")
"""Norms of queries and keys after the rotation; with gains of one they only change lengths."""


def inputs_of(model: Any, token: int) -> dict[str, Any]:
    """Make a model's inputs for a sentence of one token repeated."""
    inputs = inputs_at_position_zero(model, torch.full((1, TOKENS), token))
    if model.config.model_type == "moonshine_streaming":  # as much sound as makes a state for each token
        inputs["input_values"] = inputs["input_values"].roll(token, 1)[:, :2080]  # a different one for each token
        inputs["attention_mask"] = inputs["attention_mask"][:, :2080]
    return inputs


def queries_and_keys(
    model: Any, layers: dict[Head, tuple[nn.Module, int, int]], token: int
) -> dict[Head, tuple[ScoreWatch, Tensor]]:
    """Run a sentence of one token repeated; give each layer's queries and keys, and the vector that it read.

    ``layers`` holds each layer's module, number of heads, and width of its keys' source.
    """
    watches, read, hooks = dict[Head, Any](), dict[Head, Tensor](), list[Any]()

    def follow(name: Head, module: nn.Module, heads: int, width: int) -> None:
        watch: Any = ScoreWatch((heads, TOKENS, TOKENS))
        watches[name] = watch

        def alike(value: Any) -> Any:
            if not isinstance(value, Tensor) or value.ndim != 3 or not value.is_floating_point():
                return value
            is_stream = value.shape == (1, TOKENS, width)
            if is_stream and (name not in read or name.stack == "cross"):  # its keys are made of the second input
                read[name] = value[0, 0].double()
            return value[:, :1].expand_as(value).contiguous() if is_stream or name.stack == "cross" else value

        def enter(module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            given = tuple(map(alike, args)), {key: alike(each) for key, each in named.items()}
            watch.__enter__()
            return given

        hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        hooks.append(module.register_forward_hook(lambda *_: watch.__exit__(None, None, None)))

    for name, layer in layers.items():
        follow(name, *layer)
    inputs = inputs_of(model, token)
    with torch.no_grad():
        model(**{name: value for name, value in inputs.items() if "position" not in name})
    for hook in hooks:
        hook.remove()
    return {name: (watch, read[name]) for name, watch in watches.items()}


def difference(config: Any) -> str:
    """Compare the keys of a model of a configuration with `rotation_of`; empty where all are the same."""
    torch.manual_seed(0)
    model = tiny_models.build(config)
    for name, module in model.named_modules():
        if name.endswith(NORMED_AFTER):
            nn.init.ones_(module.weight)
    of_learned = tuple(each.learned for each in ROTARY_TYPES.values() if each.learned)
    for name, learned in model.named_buffers():
        if name.endswith(of_learned):
            nn.init.normal_(learned, std=0.3)
    with tempfile.TemporaryDirectory() as folder:
        tiny_models.save(model, Path(folder))
        source, tensors, anatomy = open_folder(Path(folder))
        outline = anatomy.outline
        weights = {name: read_layer(tensors, module) for name, module in anatomy.modules.items()}
        rotations = {layer.name: rotation_of(outline, layer, source.settings(), tensors) for layer in outline.layers}
    modules = LoadedModules(model).attention(anatomy)
    layers = {layer.name: (modules[layer.name], layer.heads, layer.d_source) for layer in outline.layers}
    seen = [queries_and_keys(model, layers, token) for token in SENTENCE_TOKENS]
    known = list[Tensor]()
    for name, (noted, _) in seen[0].items():
        if not noted.key.numel():
            return f"{name}: no product of queries and keys was seen"
        back = _order_of_rows(
            rotations[name], noted.key.shape[-1], is_reordered(getattr(config, "text_config", config))
        )
        rows = noted.key[..., back].double()
        for place in range(TOKENS):  # R_p = R_{−Δ} for Δ = −p
            expected = rotate_keys(rows[:, 0, :, None], rotations[name], -place)[..., 0]
            off = float((rows[:, place] - expected).abs().max() / rows.abs().max())
            if off > 1e-4:
                return f"{name}: keys at position {place} are rotated differently, by {off:.2g}"
        met = torch.stack([each[name][0].key[:, 0, back].double() for each in seen])
        is_another_layers = any(each.shape == met.shape and torch.allclose(each, met) for each in known)
        known.append(met)
        projected = torch.stack([_keys(weights[name], each[name][1]) for each in seen])
        if not is_another_layers and not _in_order(
            met, projected.repeat_interleave(weights[name].group, 1), rotations[name].start
        ):
            return f"{name}: keys have another order than the rows of W_K"
    return ""


def _order_of_rows(rotation: Rotation, head_dim: int, is_reordered: bool) -> list[int]:
    """Give the place of each row of W_K among the key's dimensions; reordered types put neighbours into two halves."""
    order = list(range(head_dim))
    if is_reordered:
        start, pairs = rotation.start, len(rotation.frequencies)
        order[start : start + 2 * pairs : 2] = range(start, start + pairs)
        order[start + 1 : start + 2 * pairs : 2] = range(start + pairs, start + 2 * pairs)
    return order


def _keys(weights: LayerWeights, read: Tensor) -> Tensor:
    """Compute the keys of a vector: (key/value heads, head_dim)."""
    keys = weights.key.double() @ read
    return keys if weights.key_bias is None else keys + weights.key_bias.double()


def _in_order(met: Tensor, projected: Tensor, start: int) -> bool:
    """Say whether keys, (tokens, heads, head_dim), have the order of the projected ones.

    A norm may follow the projection, over each head or over all heads; its gain and bias then act on each dimension
    alone. In latent attention the norm is inside the projection, and divides the dimensions before the first rotated
    one by one number per token.
    """
    if start:
        alike = torch.cosine_similarity(met[..., :start], projected[..., :start], dim=-1)
        return bool((alike > 0.999).all()) and _in_order(met[..., start:], projected[..., start:], 0)
    ways = [projected]
    for over in ((-1,), (-2, -1)):
        centred = projected - projected.mean(over, keepdim=True)
        ways += [each / each.square().mean(over, keepdim=True).sqrt() for each in (projected, centred)]

    def standard(values: Tensor) -> Tensor:
        centred = values - values.mean(0)
        unit: Tensor = centred / torch.linalg.vector_norm(centred, dim=0)
        return unit

    return any(bool(((standard(met) * standard(each)).sum(0).abs() > 0.999).all()) for each in ways)
