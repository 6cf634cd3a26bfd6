"""How a type turns its queries and keys by their positions, with the frequencies that transformers computes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from engine.mathematics.rotary import Rotation
from engine.models.importing import IMPORTING
from engine.models.tokens import silence
from engine.values.errors import EngineError
from engine.values.model import LayerOutline, ModelOutline

HALVES = frozenset(
    {
        "afmoe", "apertus", "arcee", "aria_text", "bamba", "bitnet", "chameleon", "cohere_compass_text",
        "cosmos3_edge_text", "cwm", "dbrx", "deepseek_ocr2_text", "diffllama", "dots1", "embedding_gemma2_text",
        "emu3_text_model", "esmc", "eurobert", "exaone4", "exaone_moe", "falcon", "falcon_h1", "flex_olmo", "flint",
        "gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "glm4_moe",
        "glm4v_moe_text", "glm_image_text", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "granite",
        "granite4_vision_text", "granite_docling_text", "granitemoe", "granitemoeshared", "hy_v3", "hyperclovax",
        "jais2", "kolibri1", "laguna", "lfm2",
        "lfm2_moe", "lfm3", "llama", "mellum", "minimax", "minimax_m2", "minimax_m3_vl_text", "ministral", "ministral3",
        "mistral", "mixtral", "modernbert", "modernbert-decoder", "molmo2_text",
        "nemotron", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe", "paddleocr_vl_text", "persimmon", "phi", "phi3",
        "phi4_multimodal", "phimoe", "qwen2", "qwen2_5_omni_text", "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl_text",
        "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_omni_moe_text",
        "qwen3_vl_moe_text", "qwen3_vl_text", "qwen4_exp_text", "recurrent_gemma", "seed_oss", "smollm3", "solar_open",
        "stablelm", "starcoder2", "step3p5", "t5gemma2_text", "ultrabert", "unlimited_ocr_text", "vaultgemma",
    }
)  # fmt: skip
"""Types that turn the first half of the dimensions they turn against the second."""

NEIGHBOURS = frozenset(
    {
        "codegen", "cohere", "cohere2", "cohere2_moe", "ernie4_5", "ernie4_5_moe", "ernie4_5_vl_moe_text", "glm",
        "deepseek_v2",
        "glm4", "glm4v_text", "glm_ocr_text", "gptj", "helium", "llama4_text", "openai_privacy_filter",
    }
)  # fmt: skip
"""Types that turn neighbouring dimensions against each other."""

REORDERING = frozenset(
    {
        "axk1", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "longcat_flash", "mistral4", "youtu",
    }
)  # fmt: skip
"""Types that first put neighbours apart, into two halves, of queries and of keys, unless ``rope_interleave`` is false:
in the order of W_K's rows it is neighbours that are turned."""

LATENT = frozenset({"deepseek_v2", "hy_v4", "minicpm3"}) | REORDERING
"""Types of latent attention, whose heads' last dimensions are turned, and not the first."""

KNOWN = HALVES | NEIGHBOURS | LATENT

SLIDING_ALONE = frozenset(
    {"afmoe", "cohere2", "cohere2_moe", "exaone4", "exaone_moe", "flint", "kolibri1"}
)  # fmt: skip
"""Those of them that turn nothing in the layers that attend to the whole sentence."""

UNNAMED = frozenset({"codegen", "gptj"})
"""Those whose frequencies are no module's: 10000^(−2i/rotary_dim), from their ``create_sinusoidal_positions``."""

FIXED = frozenset({"default", "linear", "llama3", "yarn", "proportional"})
"""Kinds of scaling whose frequencies do not change with the length of a sentence."""


def rotation_of(outline: ModelOutline, layer: LayerOutline, settings: Mapping[str, Any]) -> Rotation:
    """Find how a layer's keys are turned; where its type turns none in it, by no frequency.

    Norms that a type puts on queries and keys before it turns them are left out, as they are of QK.

    Raises
    ------
    EngineError : when the type has no rotary positions that are known, or they depend on the sentence.
    """
    config = _configuration(outline, settings)
    model_type = str(config.model_type)
    if model_type not in KNOWN or len(outline.stacks) > 1 or getattr(config, "alibi", False):
        raise EngineError(
            f"type '{outline.model_type}' has no rotary positions that attn-tui knows; there is no QK at a distance"
        )
    if not _is_turned(config, layer.layer):
        return Rotation(torch.empty(0), False)
    kinds = getattr(config, "layer_types", None)
    frequencies = _frequencies(outline, config, "" if kinds is None else kinds[layer.layer])
    if 2 * len(frequencies) > layer.head_dim:
        raise EngineError(f"{outline.name} turns {2 * len(frequencies)} dimensions of heads of {layer.head_dim}")
    start = layer.head_dim - 2 * len(frequencies) if model_type in LATENT else 0
    is_interleaved = model_type in NEIGHBOURS or is_reordered(config)
    return Rotation(frequencies, is_interleaved, start)


def is_reordered(config: Any) -> bool:
    """Say whether a model puts the dimensions of queries and keys into another order before it turns them."""
    return config.model_type in REORDERING and bool(getattr(config, "rope_interleave", True))


def _configuration(outline: ModelOutline, settings: Mapping[str, Any]) -> Any:
    """Read a model's configuration, or that of its text where it takes more than text."""
    silence()
    try:
        with IMPORTING:
            import transformers

            config: Any = transformers.AutoConfig.for_model(**settings)
    except Exception as error:  # whatever a configuration's own code raises
        raise EngineError(f"the rotary frequencies of {outline.name} cannot be had ({error})") from error
    return config.get_text_config()


def _is_turned(config: Any, layer: int) -> bool:
    """Say whether a layer turns anything: some attend without positions, by their kind or by a list."""
    if config.model_type in SLIDING_ALONE:
        return config.sliding_window is None or config.layer_types[layer] == "sliding_attention"
    flags = getattr(config, "no_rope_layers", None)  # which, despite its name, holds 1 for a layer that turns
    return not flags or bool(flags[layer])


def _frequencies(outline: ModelOutline, config: Any, kind: str) -> Tensor:
    """Compute the frequencies of a layer of a kind: (pairs,) radians per token.

    Raises
    ------
    EngineError : where they depend on the sentence, or the type's own code cannot say them.
    """
    if config.model_type in UNNAMED and config.rotary_dim:
        exponents = torch.arange(0, int(config.rotary_dim), 2, dtype=torch.float64) / int(config.rotary_dim)
        return torch.pow(10000.0, -exponents)
    given = getattr(config, "rope_parameters", None) or {}
    scaling = str(given.get(kind, given).get("rope_type", "default"))
    if scaling not in FIXED:
        raise EngineError(
            f"{outline.name} scales its rotary positions by '{scaling}', which depends on the sentence's length; "
            "there is no QK at a distance"
        )
    try:
        with IMPORTING:
            module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
        made = [
            each(config) for name, each in vars(module).items()
            if name.endswith("RotaryEmbedding") and not name.endswith(("VisionRotaryEmbedding", "AudioRotaryEmbedding"))
        ]  # fmt: skip
        of_kind = [getattr(each, f"{kind}_inv_freq", None) for each in made]
        first, *others = (each.inv_freq if own is None else own for each, own in zip(made, of_kind, strict=True))
    except Exception as error:  # whatever a type's own code raises
        raise EngineError(f"the rotary frequencies of {outline.name} cannot be had ({error})") from error
    if not all(torch.equal(first, each) for each in others):
        raise EngineError(f"{outline.name} has rotary positions of several kinds; there is no QK at a distance")
    frequencies: Tensor = first
    return frequencies
