"""``config.json``: the fields that this program uses, with their types, and what a list of models says of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.architectures.configuration import (
    CONTEXT_KEYS,
    HEAD_COUNT_KEYS,
    HEAD_DIM_KEYS,
    LAYER_COUNT_KEYS,
    SLIDING_HEAD_COUNT_KEYS,
    head_count,
    layer_count,
)
from engine.checkpoints.json_files import (
    COUNT,
    FLAG,
    LAYERS,
    NUMBER,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Kind,
    read_object,
)
from engine.values.errors import EngineError
from engine.values.heads import Head

_COUNTS = (
    *HEAD_COUNT_KEYS, *SLIDING_HEAD_COUNT_KEYS, "cross_num_attention_heads",
    *(name for side in ("encoder", "decoder")
      for name in (f"{side}_attention_heads", f"num_{side}_attention_heads", f"{side}_num_attention_heads")),
)  # fmt: skip

FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys((*_COUNTS, *(f"{name}_per_layer" for name in _COUNTS), *HEAD_DIM_KEYS), COUNT),
    **dict.fromkeys(LAYER_COUNT_KEYS, LAYERS),
    **dict.fromkeys((*CONTEXT_KEYS, "original_max_position_embeddings"), NUMBER),
    "num_hidden_groups": WHOLE,
    **dict.fromkeys(("num_kv_shared_layers", "num_nextn_predict_layers", "num_mtp_layers", "head_ratio"), WHOLE),
    **dict.fromkeys(("q_groups", "k_groups", "v_groups", "post_attention_groups", "o_groups"), WHOLE),
    **dict.fromkeys(("pad_token_id", "decoder_start_token_id", "bits"), WHOLE),
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "tie_word_embeddings"), FLAG),
    **dict.fromkeys(("model_type", "rope_type", "quant_method", "version", "checkpoint_format"), TEXT),
    **dict.fromkeys(("architectures", "layer_types", "layers_block_type"), TEXTS),
    **dict.fromkeys(("text_config", "quantization_config", "rope_parameters", "rope_scaling"), OBJECT),
    "per_layer_config": OBJECTS,
    "weight_block_size": WHOLES,
}  # fmt: skip
"""What the fields of ``config.json`` that this program uses hold, in it and in the configurations inside it."""


def read_config(directory: Path) -> dict[str, Any]:
    """Read ``config.json``; a text model inside a larger one is taken from its ``text_config``.

    Raises
    ------
    EngineError : when it is not a JSON object, or one of its `FIELDS` is of another type.
    """
    config = read_object(directory / "config.json", FIELDS)
    return {**config, **(config.get("text_config") or {})}


def settings_of(directory: Path) -> tuple[str, int, int]:
    """Read a model's type and how many layers and heads it has from its ``config.json``; what is not there is empty."""
    try:
        config = read_config(directory)
    except EngineError:
        return "", 0, 0
    return config.get("model_type") or "", layer_count(config, *LAYER_COUNT_KEYS), _heads(config)


def _heads(config: Mapping[str, Any]) -> int:
    """Read the number of the first layer's heads."""
    try:
        return head_count(config, Head("decoder", 0))
    except EngineError:
        return 0
