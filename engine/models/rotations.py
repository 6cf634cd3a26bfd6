"""How a type turns its queries and keys by their positions, with the frequencies that transformers computes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from engine.mathematics.rotary import Rotation
from engine.models.importing import IMPORTING
from engine.models.tokens import silence
from engine.values.errors import EngineError
from engine.values.model import LayerOutline, ModelOutline

HALVES = frozenset(
    {
        "arcee", "cwm", "eurobert", "gemma", "gpt_neox", "granite", "granitemoe", "granitemoeshared", "hyperclovax",
        "jais2", "llama", "ministral", "mistral", "mixtral", "nemotron", "olmo", "phi", "phi3", "phimoe", "qwen2",
        "qwen2_moe", "seed_oss", "stablelm", "starcoder2",
    }
)  # fmt: skip
"""Types that turn the first half of a head's dimensions against the second, in every layer alike."""

NEIGHBOURS = frozenset({"cohere", "ernie4_5", "ernie4_5_moe", "glm", "glm4", "helium"})
"""Types that turn neighbouring dimensions against each other, in every layer alike."""

FIXED = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of scaling whose frequencies do not change with the length of a sentence."""


def rotation_of(outline: ModelOutline, layer: LayerOutline, settings: Mapping[str, Any]) -> Rotation:
    """Find how a layer's keys are turned.

    Raises
    ------
    EngineError : when the type has no rotary positions that are known to be the same in every layer and sentence.
    """
    model_type = outline.model_type
    if model_type not in HALVES | NEIGHBOURS:
        raise EngineError(
            f"type '{model_type}' has no rotary positions that attn-tui knows to be alike in all layers; "
            "there is no QK at a distance"
        )
    kind = str((settings.get("rope_parameters") or {}).get("rope_type", "default"))
    if kind not in FIXED:
        raise EngineError(
            f"{outline.name} scales its rotary positions by '{kind}', which depends on the sentence's length; "
            "there is no QK at a distance"
        )
    silence()
    try:
        with IMPORTING:
            import transformers

            config = transformers.AutoConfig.for_model(**settings)
            module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
        (rotary,) = (each for key, each in vars(module).items() if key.endswith("RotaryEmbedding"))
        with torch.device("cpu"):
            frequencies = rotary(config).inv_freq
    except Exception as error:  # whatever a configuration's own code raises
        raise EngineError(f"the rotary frequencies of {outline.name} cannot be had ({error})") from error
    if 2 * len(frequencies) > layer.head_dim:
        raise EngineError(f"{outline.name} turns {2 * len(frequencies)} dimensions of heads of {layer.head_dim}")
    return Rotation(frequencies, model_type in NEIGHBOURS)
