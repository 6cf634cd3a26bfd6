"""A tiny configuration of any type of transformers, made from what its configuration calls its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.tiny_models import CONTEXT, VOCABULARY, WORD_PIECE_TYPES, build, save

SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size",
                     "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "attn_hidden_size",
                     "d_latents", "audio_hidden_size", "backbone_hidden_size", "adapter_in_dim", "adapter_out_dim",
                     "adapter_input_size", "condition_dim", "text_hidden_size",
                     "out_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers"), 3),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
         "num_encoder_attention_heads", "num_decoder_attention_heads", "attention_heads"), 4),
    **dict.fromkeys(("swa_num_attention_heads", "num_sliding_attention_heads"), 8),
    **dict.fromkeys(("swa_num_key_value_heads", "num_key_value_heads", "num_kv_heads", "num_query_groups"), 2),
    **dict.fromkeys(
        ("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "n_inner",
         "ffn_hidden_size", "dim_ff", "moe_intermediate_size", "shared_expert_intermediate_size", "d_inner",
         "feed_forward_size", "shared_intermediate_size"), 48),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length",
                     "max_sequence_length"), CONTEXT),
    **dict.fromkeys(
        ("head_dim", "swa_head_dim", "d_kv", "d_head", "dim_head", "index_head_dim", "attention_head_dim"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "index_topk"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "index_n_heads"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "n_shared_experts"), 1),
    "q_lora_rank": 12, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
    "hidden_size_global": 32, "pad_token_id": 2, "bos_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
    "sliding_window": 8, "window_size": 8, "local_attention": 8, "rotary_dim": 4,
}  # fmt: skip
"""What configurations call their sizes, and values that are small and fit each other."""

OWN: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 16, "attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 512},
    "bridgetower_vision_model": {"hidden_size": 64},
    "bros": {"hidden_size": 128},
    "chameleon": {"vocabulary_map": {"<image>": 301, "IMGIMGA": 302}},
    "chameleon_vqgan": {"base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1},
    "codegen": {"n_ctx": 64, "rotary_dim": 4},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10000.0}
                            for kind in ("sliding_attention", "full_attention")},
    },
    "cpmant": {"prompt_length": 4, "segment_types": 4},
    "convbert": {"head_ratio": 1, "embedding_size": 32},
    "cwm": {"sliding_window": 4},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48},
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2, "n_group": 1},
    "dia_decoder": {"cross_num_attention_heads": 8, "cross_head_dim": 6, "cross_num_key_value_heads": 4,
                    "cross_hidden_size": 32},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2},
    "dots3_note_text": {  # layers that slide have heads of their own
        "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 12, "swa_kv_lora_rank": 16,
        "swa_head_dim": 12, "swa_qk_nope_head_dim": 8, "swa_v_head_dim": 10,
    },
    "dots3_note_vision_encoder": {"mlp_layer_types": ["dense", "sparse"], "moe_intermediate_size": 48},
    "electra": {"embedding_size": 24},
    "emu3": {"vocabulary_map": {"<image>": 301, "<|extra_200|>": 302, "<|visual token 000001|>": 303}},
    "emu3_vqgan": {"base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "attn_resolutions": []},
    "ernie4_5_vl_moe_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    },
    "esm": {"position_embedding_type": "rotary"},
    "esmc": {"num_key_value_heads": 4},
    "fun_asr_nano": {"adaptor_config": {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 8}},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "n_head": 4, "d_head": 8, "d_inner": 48},
    "gemma2": {"query_pre_attn_scalar": 7, "attn_logit_softcapping": 3.0},
    "gemma3_text": {"query_pre_attn_scalar": 7},
    "gemma3n_text": {  # the last two layers read the keys and values of the first two
        "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4, "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": 320, "hidden_size_per_layer_input": 8, "intermediate_size": 48,
    },
    "glm5_next_text": {"index_kpool": 2, "qk_rope_head_dim": 0},
    "gpt2": {"n_inner": None},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gpt_oss": {"sliding_window": 4, "rope_parameters": {"rope_type": "default"}},
    "granite": {"attention_multiplier": 0.3},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "1/2"},
    "granite_swa": {"layer_rope_theta": [10000.0, 500.0]},
    "granitemoe": {"attention_multiplier": 0.3},
    "granitemoehybrid": {
        "position_embedding_type": "rope", "mamba_n_heads": 4, "layer_types": ["linear_attention", "full_attention"]
    },
    "granitemoe_swa": {"layer_rope_theta": [10000.0, 500.0]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9, "expert_layer_offset": 8},
    "kyutai_speech_to_text": {"codebook_vocab_size": 33, "audio_pad_token_id": 5},
    "laguna": {"layer_types": ["full_attention", "sliding_attention"], "num_attention_heads_per_layer": [4, 8]},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 48},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "mimi": {"upsample_groups": 32},
    "ministral": {"sliding_window": 4},
    "mistral": {"sliding_window": 4},
    "mistral4": {"head_dim": 10},
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "moonshine": {"encoder_num_attention_heads": 4, "encoder_num_hidden_layers": 2, "decoder_num_attention_heads": 4,
                  "decoder_num_hidden_layers": 2, "decoder_num_key_value_heads": 4, "encoder_num_key_value_heads": 4},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "molmo2_adapter": {"vision_feature_layer": [0, 1]},
    "mpnet": {"pad_token_id": 1},  # as its positions take for granted
    "muse_spark_audio": {"num_hidden_layers": 4, "hidden_sizes": [32] * 4},
    "nemotron3_5_transcribe_asr_audio": {"num_key_value_heads": 4},  # saved as a third of one projection each
    "nemotron3_5_transcribe_word_timestamp": {"num_key_value_heads": 4, "blank_token_id": 3},
    "nemotron3_diarization_audio": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16},
    "paddleocr_vl_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    },
    "perceiver": {"num_latents": 8, "num_self_attends_per_block": 2, "num_self_attention_heads": 4,
                  "num_cross_attention_heads": 4},
    "pix2struct_text_model": {"initializer_range": 0.02},  # which it leaves out and its own model asks for
    "plbart": {"decoder_start_token_id": 0},
    "prophetnet": {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 5},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 48},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 5},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4,
                       "indexer_compress_ratio": 2},
    "reformer": {"attn_layers": ["local", "lsh"], "attention_head_size": 8, "axial_pos_shape": [8, 8],
                 "axial_pos_embds_dim": [16, 16], "local_attn_chunk_length": 16, "lsh_attn_chunk_length": 16},
    "rembert": {"input_embedding_size": 24, "output_embedding_size": 24},
    "step3p5": {
        "layer_types": ["full_attention", "sliding_attention"], "num_sliding_attention_heads": 8, "sliding_window": 8
    },
    "switch_transformers": {"decoder_start_token_id": 0, "num_experts": 2},
    "t5": {"decoder_start_token_id": 0},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "unlimited_ocr_text": {"num_key_value_heads": 4},
    "vaultgemma": {"query_pre_attn_scalar": 7, "attn_logit_softcapping": 3.0},
    "vibevoice_acoustic_tokenizer": {"num_filters": 4, "depths": [1] * 7},
    "vibevoice_acoustic_tokenizer_decoder": {"num_filters": 4, "depths": [1] * 7},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 4, "depths": [1] * 7},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "whisper": {"max_source_positions": 12},
    "xlnet": {"d_head": 8},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "layer_types": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4,
        "attention_head_dim": 16, "attention_hidden_size": 64, "num_key_value_heads": 4,
    },
    "zamba2": {"use_mem_rope": True, "attention_head_dim": 16, "num_key_value_heads": 4},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
"""What a type needs besides."""

_ASSISTANT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 2}

INSIDE: dict[str, dict[str, dict[str, Any]]] = {
    "encoder-decoder": {
        "encoder": {"model_type": "bert"},
        "decoder": {"model_type": "bert", "is_decoder": True, "add_cross_attention": True},
    },
    "nemotron_h_omni": {"vision_config": {"model_type": "radio", "video_temporal_patch_size": 2}},
    "granite4_vision": {"vision_config": {"model_type": "siglip_vision_model", "hidden_size": 64, "image_size": 32}},
    "rag": {"question_encoder": {"model_type": "dpr"}, "generator": {"model_type": "bart"}},
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", **_ASSISTANT}},
    "gemma4_unified_assistant": {"text_config": {"model_type": "gemma4_unified_text", **_ASSISTANT}},
}
"""The configurations inside those that leave open which they are, or whose own choice does not hold."""


NEWEST = "5.23"
"""The release of transformers whose types the tests know; older ones lack some, and some of theirs say less."""


def is_newest() -> bool:
    return transformers.__version__.startswith(NEWEST)


def need_type(model_type: str) -> None:
    """Skip a test of a type that the installed transformers does not have yet."""
    if model_type not in transformers.CONFIG_MAPPING and not is_newest():
        pytest.skip(f"transformers {transformers.__version__} has no {model_type}")


def tiny_configuration(model_type: str, **settings: Any) -> transformers.PretrainedConfig:
    """Make a tiny configuration; ``settings`` have the usual names and overrule everything."""
    config_class: Any = transformers.CONFIG_MAPPING[model_type]
    wanted = _settings(config_class, model_type)
    if settings.keys() & {"hidden_size", "num_attention_heads"} and getattr(config_class, "head_dim", None) is None:
        wanted.pop("head_dim", None)  # it follows from them
    wanted |= {config_class.attribute_map.get(name, name): value for name, value in settings.items()}
    config: transformers.PretrainedConfig = config_class(**wanted)
    return config


def save_tiny(model_type: str, folder: Path, **settings: Any) -> Path:
    """Save a tiny model of a type, and a tokenizer beside it; skip a test of a type that is not there yet."""
    need_type(model_type)
    return save(build(tiny_configuration(model_type, **settings)), folder)


def _settings(config_class: Any, model_type: str) -> dict[str, Any]:
    """Choose the settings of a configuration, and of those that are inside it."""
    renamed: dict[str, str] = config_class.attribute_map
    inside = {
        name: _settings(transformers.CONFIG_MAPPING[own["model_type"]], own["model_type"]) | own
        for name, own in INSIDE.get(model_type, {}).items()
    }
    default = config_class(**inside)
    known = default.to_dict()
    wanted = {name: value for name, value in SIZES.items() if name in known and name not in renamed}
    own_names = {renamed[name]: value for name, value in SIZES.items() if name in renamed}
    wanted |= {name: value for name, value in own_names.items() if name in known and name not in SIZES}
    wanted = {name: value for name, value in wanted.items() if known[name] is not None or not name.endswith("window")}
    if "kv_lora_rank" in known:  # a rotation is as wide as the part of a head that it turns
        wanted |= {"head_dim": 4, "num_key_value_heads": 4} if "head_dim" in known else {"num_key_value_heads": 4}
    wanted |= {
        name: 0.0 for name, value in known.items()
        if isinstance(value, float) and name.endswith(("dropout", "pdrop", "drop"))
    }  # fmt: skip
    for name in getattr(config_class, "sub_configs", {}):
        inner = getattr(default, name, None)
        if isinstance(inner, transformers.PretrainedConfig):
            wanted[name] = {"model_type": inner.model_type, **_settings(type(inner), inner.model_type)}
    if "mrope_section" in getattr(config_class, "ignore_keys_at_rope_validation", ()):  # half a head, in three parts
        rope = known.get("rope_parameters") or {"rope_type": "default", "rope_theta": 10000.0}
        wanted["rope_parameters"] = {**rope, "partial_rotary_factor": 1.0, "mrope_section": [2, 1, 1]}
    wanted = {
        name: [value] * len(known[name]) if isinstance(known.get(name), (list, tuple)) and name in SIZES else value
        for name, value in wanted.items()
    }
    wanted |= inside | _one_layer_of_each_kind(known, renamed)
    if model_type in WORD_PIECE_TYPES:
        wanted["pad_token_id"] = 0
    return wanted | {renamed.get(name, name): value for name, value in OWN.get(model_type, {}).items()}


def _one_layer_of_each_kind(known: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Give a model with layers of several kinds one of each, where its first two are not that already."""
    name = renamed.get("layer_types", "layer_types")
    kinds = list(dict.fromkeys(known.get(name) or ()))
    if len(kinds) < 2 or set(known[name][:2]) == set(kinds) or "num_hidden_layers" not in known:
        return {}
    return {name: kinds, "num_hidden_layers": len(kinds)}
