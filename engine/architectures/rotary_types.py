"""Which types of transformers rotate queries and keys by their positions, and how: a type is a row, nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RotaryType:
    """How a type rotates queries and keys: unless more is said, the first half against the second.

    Attributes
    ----------
    is_interleaved : whether neighbouring dimensions are rotated against each other.
    is_reordered : whether neighbours are first put apart, into two halves, of queries and of keys, unless
        ``rope_interleave`` is false: in the order of W_K's rows it is neighbours that are rotated.
    is_latent : whether attention is by way of a latent, where heads' last dimensions are rotated, and not the first.
    is_sliding_alone : whether nothing is rotated in the layers that attend to the whole sentence.
    is_backwards : whether queries and keys are rotated the other way.
    is_rotated : false for a part of such a model that rotates nothing itself.
    width : the setting of the number w of rotated dimensions, where the frequencies are no module's but 10000^(−2i/w).
        Empty where w is a head's width; None where a module of the type's own has the frequencies.
    learned : the end of the name of the tensor whose exponential the frequencies take, where that is learned.
    chosen : a setting, and what it says where something is rotated at all.
    refused : why circuits at a distance of so many tokens are not products of the projections, where they are not.
    """

    is_interleaved: bool = False
    is_reordered: bool = False
    is_latent: bool = False
    is_sliding_alone: bool = False
    is_backwards: bool = False
    is_rotated: bool = True
    width: str | None = None
    learned: str = ""
    chosen: tuple[str, str | bool] | None = None
    refused: str = ""


_HALVES = dict.fromkeys(
    (
        "apertus", "arcee", "aria_text", "bamba", "beam", "bitnet", "chameleon", "cohere_compass_text",
        "cosmos3_edge_text", "csm", "csm_depth_decoder_model", "cwm", "dbrx", "deepseek_ocr2_text", "dia_decoder",
        "dia_encoder", "diffllama", "diffusion_gemma_text", "doge", "dots1", "embedding_gemma2_text", "emu3_text_model",
        "esmc", "eurobert", "evolla", "falcon_h1", "flex_olmo", "gemma", "gemma2", "gemma3_text", "gemma3n_text",
        "gemma4_text", "gemma4_unified_text", "glm4_moe", "glm4v_moe_text", "glm_image_text", "gpt_neox",
        "gpt_neox_japanese", "gpt_oss", "gradium_phonon_tts", "granite", "granite4_vision_text", "granite_docling_text",
        "granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared", "gte", "higgs_audio_v2", "hunyuan_v1_dense",
        "hunyuan_v1_moe", "hunyuan_vl_text", "hy_v3", "hyperclovax", "idefics", "internlm3", "iquestcoder", "jais2",
        "jina_embeddings_v3", "kyutai_speech_to_text", "laguna", "lfm2", "lfm2_moe", "lfm3", "llama", "mellum",
        "mimo_v2_flash", "minimax", "minimax_m2", "minimax_m3_vl_text", "ministral", "ministral3", "mistral", "mixtral",
        "mllama_text_model", "modernbert", "modernbert-decoder", "molmo2_text", "moshi", "muse_glimmer_text",
        "muse_spark_text", "nemotron", "neomme", "nomic_bert", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe",
        "paddleocr_vl_text", "persimmon", "phi", "phi3", "phi4_multimodal", "phimoe", "pocket_tts", "qwen2",
        "qwen2_5_omni_talker", "qwen2_5_omni_text", "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl_text", "qwen3",
        "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_omni_moe_talker_code_predictor",
        "qwen3_omni_moe_talker_text", "qwen3_omni_moe_text", "qwen3_vl_moe_text", "qwen3_vl_text", "qwen4_exp_text",
        "recurrent_gemma", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2", "step3p5", "t5_gemma_module",
        "t5gemma2_decoder", "t5gemma2_text", "ultrabert", "unlimited_ocr_text", "vaultgemma", "voxtral_realtime_text",
    ),
    RotaryType(),
)  # fmt: skip
_NEIGHBOURS = dict.fromkeys(
    (
        "blt_local_decoder", "blt_local_encoder", "blt_patcher", "cohere", "ernie4_5", "ernie4_5_moe",
        "ernie4_5_vl_moe_text", "glm", "glm4", "glm4v_text", "glm_ocr_text", "helium", "llama4_text", "moonshine",
        "moonshine_streaming", "openai_privacy_filter",
    ),
    RotaryType(is_interleaved=True),
)  # fmt: skip
_REORDERED = dict.fromkeys(
    (
        "axk1", "bailing_hybrid", "deepseek_v3", "deepseek_v32", "dots3_note_text", "glm4_moe_lite", "glm_moe_dsa",
        "longcat_flash", "mistral4", "youtu",
    ),
    RotaryType(is_reordered=True, is_latent=True),
)  # fmt: skip
_SLIDING_ALONE = dict.fromkeys(
    ("afmoe", "exaone4", "exaone_moe", "flint", "kolibri1"), RotaryType(is_sliding_alone=True)
)

ROTARY_TYPES: Mapping[str, RotaryType] = {
    **_HALVES, **_NEIGHBOURS, **_REORDERED, **_SLIDING_ALONE,
    "blt": RotaryType(refused="attends from patch to patch of bytes, whose distances are not those of tokens"),
    "clvp_encoder": RotaryType(refused="turns values by their positions too, so that its OV is no one matrix"),
    "codegen": RotaryType(is_interleaved=True, width="rotary_dim"),
    "cohere2": RotaryType(is_interleaved=True, is_sliding_alone=True),
    "cohere2_moe": RotaryType(is_interleaved=True, is_sliding_alone=True),
    "deepseek_v2": RotaryType(is_interleaved=True, is_latent=True),
    "deepseek_v4": RotaryType(
        refused="turns values as it does keys, and keys of several tokens together: its OV depends on distances too"
    ),
    "esm": RotaryType(chosen=("position_embedding_type", "rotary")),
    "falcon": RotaryType(chosen=("alibi", False)),
    "gptj": RotaryType(is_interleaved=True, width="rotary_dim"),
    "granitemoehybrid": RotaryType(chosen=("position_embedding_type", "rope")),
    "hy_v4": RotaryType(is_latent=True),
    "minicpm3": RotaryType(is_latent=True),
    "mistral_large4_text": RotaryType(is_reordered=True, is_latent=True, learned="rotary_emb.alpha"),
    "moonshine_streaming_encoder": RotaryType(is_rotated=False),
    "nanochat": RotaryType(is_backwards=True),
    "roformer": RotaryType(is_interleaved=True, width=""),
    "zamba2": RotaryType(chosen=("use_mem_rope", True)),
}  # fmt: skip
"""All that are known, by the ``model_type`` of the part that attends."""

PARTS = {
    ("evolla", "encoder"): ("protein_encoder_config", "EvollaSaProtRotaryEmbedding"),
    ("evolla", "decoder"): ("", "EvollaRotaryEmbedding"),
}
"""By type and stack, where several are rotated in one model: the setting that holds the stack's own configuration, and
the class that computes its frequencies."""


def why_not_rotated(model_type: str, rotary: RotaryType | None) -> str:
    """Say why there is no QK at a distance of a type; nothing where there may be."""
    if rotary is None:
        return f"type '{model_type}' has no rotary positions that attn-tui knows; there is no QK at a distance"
    return f"type '{model_type}' {rotary.refused}; there is no QK at a distance" if rotary.refused else ""


def why_never_rotated(model_type: str, config: Mapping[str, Any]) -> str:
    """Say of a model whose configuration was just read why there is no QK at a distance; nothing where that is open.

    It is where a part of the model has a type of its own, or may have, and where a setting decides.
    """
    has_parts = any(isinstance(each, Mapping) and "model_type" in each for each in config.values())
    is_of_parts = has_parts or any(whole == model_type for whole, _ in PARTS)
    return "" if is_of_parts else why_not_rotated(model_type, ROTARY_TYPES.get(model_type))
