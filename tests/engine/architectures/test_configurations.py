"""Other settings of known types: head counts, widths, groups, gates and layers of their own are cut as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from engine.architectures.heads import read_layer
from engine.models.proof import prove
from tests import tiny_models
from tests.opening import open_folder, open_reader
from tests.tiny_configurations import is_newest, need_type, tiny_configuration

HYBRID = ["linear_attention", "full_attention"]
SLIDING = ["sliding_attention", "full_attention"]

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"num_key_value_heads": 1}),
    ("llama", {"num_key_value_heads": 4}),
    ("llama", {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 6}),
    ("llama", {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": True}),
    ("qwen3", {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}),
    ("qwen3", {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 2}),
    ("qwen2", {"num_key_value_heads": 1}),
    ("mistral", {"num_key_value_heads": 1, "head_dim": 16}),
    ("gemma", {"num_key_value_heads": 1, "head_dim": 16}),
    ("gemma2", {"num_key_value_heads": 1, "head_dim": 12}),
    ("gemma3_text", {"num_key_value_heads": 4, "head_dim": 6, "layer_types": SLIDING}),
    ("falcon", {"multi_query": True, "new_decoder_architecture": False, "num_attention_heads": 8}),
    ("falcon", {"multi_query": False, "new_decoder_architecture": False, "num_kv_heads": 4, "alibi": True,
                "parallel_attn": False}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 4, "num_attention_heads": 8, "bias": True}),
    ("gpt_bigcode", {"multi_query": True, "n_head": 8}),
    ("gpt_bigcode", {"multi_query": False, "n_head": 2}),
    ("gpt_neox", {"attention_bias": False}),
    ("gpt_neox", {"num_attention_heads": 2, "use_parallel_residual": False}),
    ("bloom", {"n_head": 2}),
    ("gpt2", {"n_head": 8}),
    ("gpt2", {"n_head": 1}),
    ("gptj", {"n_head": 2, "rotary_dim": 8}),
    ("codegen", {"n_head": 4, "n_embd": 64}),
    ("phi3", {"num_key_value_heads": 1, "num_attention_heads": 8}),
    ("phi", {"num_key_value_heads": 1}),
    ("mpt", {"n_heads": 8}),
    ("opt", {"num_attention_heads": 8, "enable_bias": False}),
    ("stablelm", {"num_key_value_heads": 1, "qk_layernorm": True}),
    ("cohere", {"use_qk_norm": True, "num_key_value_heads": 1, "head_dim": 8}),
    ("olmo2", {"num_key_value_heads": 1}),
    ("minimax_m2", {"num_key_value_heads": 1, "head_dim": 16}),
    ("t5", {"d_kv": 16}),
    ("t5", {"d_kv": 4, "num_heads": 6}),
    ("mt5", {"d_kv": 16, "num_heads": 6}),
    ("t5gemma2", {}),
    ("bart", {"encoder_attention_heads": 2, "decoder_attention_heads": 8}),
    ("marian", {"encoder_attention_heads": 8, "decoder_attention_heads": 2}),
    ("m2m_100", {"encoder_attention_heads": 2, "decoder_attention_heads": 4}),
    ("deepseek_v2", {"num_attention_heads": 2, "num_key_value_heads": 2, "v_head_dim": 4, "qk_nope_head_dim": 16}),
    ("deepseek_v3", {"q_lora_rank": None, "v_head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 8}),
    ("minicpm3", {"v_head_dim": 6, "qk_nope_head_dim": 12}),
    ("qwen3_next", {"layer_types": HYBRID, "num_key_value_heads": 1, "head_dim": 16}),
    ("afmoe", {"num_key_value_heads": 1, "head_dim": 16}),
    ("laguna", {"num_attention_heads_per_layer": [4, 8], "head_dim": 8}),
    ("laguna", {"num_attention_heads_per_layer": [8, 2], "num_key_value_heads": 1, "head_dim": 8}),
    ("mimo_v2_flash", {"head_dim": 12, "v_head_dim": 8}),
    ("gemma4_text", {"num_key_value_heads": 1}),
    ("bert", {"num_attention_heads": 8}),
    ("bert", {"num_attention_heads": 1}),
    ("albert", {"num_attention_heads": 8}),
    ("deberta", {"num_attention_heads": 8}),
    ("deberta-v2", {"num_attention_heads": 2}),
    ("convbert", {"head_ratio": 2, "num_attention_heads": 8}),
    ("convbert", {"head_ratio": 8, "num_attention_heads": 4}),
    ("squeezebert", {"q_groups": 1, "k_groups": 2, "v_groups": 8, "post_attention_groups": 4}),
    ("mobilebert", {"intra_bottleneck_size": 16, "true_hidden_size": 16, "embedding_size": 32}),
    ("mobilebert", {"use_bottleneck": False, "true_hidden_size": 32, "hidden_size": 32, "embedding_size": 32}),
    ("mobilebert", {"use_bottleneck_attention": True, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    ("xlnet", {"n_head": 2, "d_head": 16}),
    ("funnel", {"block_sizes": [2, 1], "block_repeats": [1, 1], "architectures": ["FunnelModel"]}),
    ("funnel", {"block_sizes": [1, 3], "block_repeats": [1, 2], "num_decoder_layers": 2,
                "architectures": ["FunnelModel"]}),
    ("recurrent_gemma", {"block_types": ["recurrent", "attention"], "num_key_value_heads": 1}),
    ("recurrent_gemma", {"block_types": ["attention"], "num_key_value_heads": 4}),
    ("kimi_linear", {"layer_types": HYBRID, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("bailing_hybrid", {"layer_types": HYBRID, "num_local_experts": 4, "n_group": 2, "topk_group": 1,
                        "num_experts_per_tok": 2}),
    ("distilbert", {"n_heads": 8}),
    ("modernbert", {"num_attention_heads": 2}),
    ("nemotron_h", {}),
    ("moshi", {"num_key_value_heads": 1}),
    ("dbrx", {"n_heads": 8, "attn_config": {"kv_n_heads": 1, "clip_qkv": 2.0, "rope_theta": 1e4}}),
    ("gemma3n_text", {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": SLIDING * 2}),
    ("gemma4_text", {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": SLIDING * 2}),
    ("gemma4_text", {"num_hidden_layers": 2, "attention_k_eq_v": True, "layer_types": SLIDING,
                     "num_global_key_value_heads": 1, "global_head_dim": 16}),
    ("deepseek_v4", {"layer_types": ["heavily_compressed_attention", "sliding_attention"], "o_groups": 2,
                     "o_lora_rank": 6}),
    ("deepseek_v4", {"layer_types": ["sliding_attention"] * 2, "o_groups": 4, "o_lora_rank": 4, "head_dim": 12,
                     "num_attention_heads": 8}),
    ("longformer", {"attention_window": 4}),
    ("led", {"attention_window": 4, "decoder_attention_heads": 2}),
    ("big_bird", {}),
    ("bigbird_pegasus", {"encoder_attention_heads": 2}),
    ("granite_swa", {"num_key_value_heads": 1}),
    ("diffllama", {"num_attention_heads": 8, "num_key_value_heads": 4}),
    ("roformer", {"num_attention_heads": 8}),
    ("fsmt", {"encoder_attention_heads": 2, "decoder_attention_heads": 8}),
    ("moss_transcribe_diarize", {}),
    ("whisper", {"encoder_attention_heads": 2, "max_source_positions": 12}),
    ("moonshine", {}),
    ("dia", {}),
    ("zamba", {"num_hidden_layers": 3, "layer_types": ["hybrid", "linear_attention", "hybrid"], "n_mamba_heads": 2}),
    ("zamba2", {"num_hidden_layers": 4, "layers_block_type": ["hybrid", "mamba", "hybrid", "hybrid"],
                "num_mem_blocks": 2, "n_mamba_heads": 4, "mamba_headdim": 16}),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "settings"), VARIANTS)
def test_heads_are_cut_as_the_settings_say(model_type: str, settings: dict[str, Any], tmp_path: Path) -> None:
    need_type(model_type)
    config = tiny_configuration(model_type, **settings)
    folder = tiny_models.save(tiny_models.build(config), tmp_path / "model")
    _, checkpoint, anatomy = open_folder(folder)
    seen = open_reader(folder).observe(lambda: None)
    for layer, module in anatomy.modules.items():
        proof = prove(module, read_layer(checkpoint, module), seen[layer])
        if proof.output.holds is None and not is_newest():
            pytest.skip(f"{model_type} in transformers {transformers.__version__}: {proof.output.note}")
        assert proof.output.holds, (str(layer), proof.output)
        assert proof.scores.holds, (str(layer), proof.scores)
