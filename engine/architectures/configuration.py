"""What ``config.json`` says and shapes do not: how many heads there are, and how long a sentence may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.values.errors import EngineError
from engine.values.heads import Head

HEAD_COUNT_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "num_query_heads")
"""Settings with the number of query heads."""

SLIDING_HEAD_COUNT_KEYS = ("swa_num_attention_heads", "num_sliding_attention_heads")
"""Settings with that of layers with a sliding window, if it differs."""

HEAD_DIM_KEYS = (
    "head_dim", "v_head_dim", "global_head_dim", "swa_head_dim", "swa_v_head_dim", "attention_head_dim",
    "cross_head_dim", "d_kv", "d_head", "dim_head",
)  # fmt: skip
"""Settings with the width of a head, of any part or layer."""

CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""Settings with the length of the longest sentence."""

LAYER_COUNT_KEYS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers", "encoder_layers",
    "decoder_num_hidden_layers",
)  # fmt: skip
"""Settings with the number of layers."""

OFFSET_POSITION_TYPES = frozenset({
    "roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "longformer", "mpnet", "roberta-prelayernorm",
    "data2vec-text", "xmod", "ibert", "esm", "luke",
})  # fmt: skip
"""Types whose position table starts after the padding token, so that it has more rows than positions."""

LENGTH_SCALING = {"dynamic": "max_position_embeddings", "longrope": "original_max_position_embeddings"}
"""Kinds of scaling of rotary positions that begin beyond some length, by the setting of that length."""


def head_count(config: Mapping[str, Any], place: Head, module: str = "", ratio: str = "") -> int:
    """Read the number of a layer's query heads from the module's own part of the configuration.

    A configuration inside another is read if a component of the module's dotted name has its name. ``ratio`` is the
    setting that the number is divided by, if any. Raises `EngineError` when the configuration does not say it.
    """
    side = "encoder" if place.stack == "encoder" else "decoder"
    settings = dict(config)
    for component in dict.fromkeys((side, *module.split("."))):
        for name in (component, f"{component}_config"):
            inner = settings.get(name)
            if isinstance(inner, dict):  # any setting may have a component's name
                settings |= {**inner, **(inner.get("text_config") or {})}
    settings |= _of_layer(settings, place)
    kinds = settings.get("layer_types") or []
    is_sliding = place.layer < len(kinds) and "sliding" in kinds[place.layer]
    of_side = (f"{side}_attention_heads", f"num_{side}_attention_heads", f"{side}_num_attention_heads")
    keys = [*(("cross_num_attention_heads",) if place.stack == "cross" else ()), *of_side, *HEAD_COUNT_KEYS]
    per_layer = [f"{key}_per_layer" for key in keys]
    for key in (*per_layer, *(SLIDING_HEAD_COUNT_KEYS if is_sliding else ()), *keys):
        count = settings.get(key)
        if isinstance(count, list):
            count = count[place.layer] if place.layer < len(count) else None
        if isinstance(count, int) and count > 0:
            divisor = (settings.get(ratio) or 1) if ratio else 1
            return max(1, count // max(1, divisor))
    said = [f"{key} is {settings[key]!r:.40}" for key in keys if settings.get(key) is not None]
    known = f"({', '.join(said)})" if said else f"(none of {', '.join(HEAD_COUNT_KEYS)})"
    raise EngineError(f"config.json does not say how many heads there are {known}; write their number there")


def head_widths(config: Mapping[str, Any], place: Head) -> frozenset[int]:
    """Collect every width of a head that the configuration names; none if it is one of several models."""
    text = config.get("text_config")
    parts = [name for name, value in config.items() if name.endswith("_config") and isinstance(value, dict)]
    several = set(parts) - {"text_config", "quantization_config", "per_layer_config"}
    if not isinstance(text, dict) and (several or isinstance(config.get("encoder"), dict)):
        return frozenset()
    settings = {**(text if isinstance(text, dict) else config), **_of_layer(config, place)}
    return frozenset(settings[name] for name in HEAD_DIM_KEYS if isinstance(settings.get(name), int))


def _of_layer(config: Mapping[str, Any], place: Head) -> dict[str, Any]:
    return (config.get("per_layer_config") or {}).get(str(place.layer)) or {}


def context(config: Mapping[str, Any], model_type: str) -> int | None:
    """Read the longest sentence that the model's positions allow, in tokens."""
    for key in CONTEXT_KEYS:
        length = int(config.get(key) or 0)
        if length > 0:
            return length - ((config.get("pad_token_id") or 0) + 1 if model_type in OFFSET_POSITION_TYPES else 0)
    return None


def unscaled_length(config: Mapping[str, Any], rope: Mapping[str, Any] | None) -> int | None:
    """Read the length in tokens beyond which rotary positions are scaled; None if no length changes them.

    A fixed α, as HunYuan's, applies to all lengths.
    """
    if not rope or rope.get("alpha"):
        return None
    setting = LENGTH_SCALING.get(str(rope.get("rope_type") or rope.get("type")))
    length = None if setting is None else rope.get(setting) or config.get(setting)
    return None if length is None else int(length)


def layer_count(config: Mapping[str, Any], *names: str) -> int:
    """Read the number of layers from the first of some settings; 0 if there is none, or it is not one number."""
    found = next((config[name] for name in names if config.get(name) is not None), 0)
    return found if isinstance(found, int) else 0
