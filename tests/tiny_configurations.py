"""A tiny configuration of any type of transformers, made from what its configuration calls its sizes."""

from __future__ import annotations

from typing import Any

import transformers

from tests.tiny_models import OWN_SIZES

SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size"), 320),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "attn_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers"), 3),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
         "num_encoder_attention_heads", "num_decoder_attention_heads", "attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "num_query_groups"), 2),
    **dict.fromkeys(
        ("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "n_inner",
         "ffn_hidden_size", "dim_ff", "moe_intermediate_size", "shared_expert_intermediate_size", "d_inner"), 48),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"), 64),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "dim_head", "index_head_dim", "attention_head_dim"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "index_topk"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "index_n_heads"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "n_shared_experts"), 1),
    "q_lora_rank": 12, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
    "pad_token_id": 2, "bos_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
    "sliding_window": 8, "window_size": 8, "local_attention": 8, "rotary_dim": 4,
}  # fmt: skip
"""What configurations call their sizes, and values that are small and fit each other."""

OWN: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 16, "attn_layer_indices": [1]},
    "codegen": {"n_ctx": 64, "rotary_dim": 4},
    "cpmant": {"prompt_length": 4, "segment_types": 4},
    "convbert": {"head_ratio": 1, "embedding_size": 32},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48},
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9, "expert_layer_offset": 8},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "esmc": {"num_key_value_heads": 4},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "n_head": 4, "d_head": 8, "d_inner": 48},
    "prophetnet": {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4},
    "xlnet": {"d_head": 8},
}
"""What a type needs besides."""


def tiny_configuration(model_type: str, **settings: Any) -> transformers.PretrainedConfig:
    """Make a tiny configuration; ``settings`` overrule everything."""
    config_class: Any = type(transformers.AutoConfig.for_model(model_type))
    wanted = _settings(config_class, model_type)
    config: transformers.PretrainedConfig = config_class(**wanted | settings)
    return config


def _settings(config_class: Any, model_type: str) -> dict[str, Any]:
    """Choose the settings of a configuration, and of those that are inside it."""
    renamed: dict[str, str] = config_class.attribute_map
    default = config_class()
    known = default.to_dict()
    wanted = {name: value for name, value in SIZES.items() if name in known and name not in renamed}
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
    kinds = known.get("layer_types") or ()
    if kinds and not any("attention" in kind and "linear" not in kind for kind in kinds[:2]):  # one layer of each kind
        wanted |= {"layer_types": list(dict.fromkeys(kinds)), "num_hidden_layers": len(set(kinds))}
    own = {renamed.get(name, name): value for name, value in OWN_SIZES.get(model_type, {}).items()}
    return wanted | own | OWN.get(model_type, {})
