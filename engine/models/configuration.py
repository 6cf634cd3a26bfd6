"""What ``config.json`` says that shapes do not: how many heads there are, and how long a sentence may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.values.errors import EngineError
from engine.values.heads import Head

HEAD_COUNT_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
"""What configurations call the number of query heads."""

CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""What configurations call the longest sentence."""

OFFSET_POSITION_TYPES = frozenset({
    "roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "longformer", "mpnet", "roberta-prelayernorm",
    "data2vec-text", "xmod", "ibert", "esm", "luke",
})  # fmt: skip
"""Types whose position table counts from after the padding token, so that it holds more rows than positions."""


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


def head_count(config: Mapping[str, Any], place: Head) -> int:
    """Read the number of a layer's query heads.

    Raises
    ------
    EngineError : when the configuration does not say it.
    """
    side = "encoder" if place.stack == "encoder" else "decoder"
    own = config.get(side)
    nested = own.get("text_config") if isinstance(own, dict) else None
    settings = {**config, **(own if isinstance(own, dict) else {}), **(nested if isinstance(nested, dict) else {})}
    for key in (f"{side}_attention_heads", f"num_{side}_attention_heads", *HEAD_COUNT_KEYS):
        count = settings.get(key)
        if isinstance(count, list):
            count = count[place.layer] if place.layer < len(count) else None
        if isinstance(count, int) and count > 0:
            return count
    raise EngineError(f"config.json does not say how many heads there are (none of {', '.join(HEAD_COUNT_KEYS)})")


def context(config: Mapping[str, Any], model_type: str) -> int | None:
    """Read the longest sentence that the model's positions allow, in tokens."""
    for key in CONTEXT_KEYS:
        length = config.get(key)
        if isinstance(length, int) and length > 0:
            if model_type in OFFSET_POSITION_TYPES:
                length -= int(config.get("pad_token_id") or 0) + 1
            return length
    return None
