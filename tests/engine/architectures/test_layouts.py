"""Known types with unusual settings, and rare layouts, are cut into the right heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from engine.values.heads import Head
from tests.opening import open_folder, open_reader, prove_layers, refusal
from tests.own_maps import eager_maps
from tests.tiny_configurations import is_newest, save_tiny

HYBRID = ["linear_attention", "full_attention"]

SLIDING = ["sliding_attention", "full_attention"]

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"num_key_value_heads": 1}),
    ("llama", {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": True}),
    ("falcon", {"multi_query": False, "new_decoder_architecture": False, "num_kv_heads": 4, "alibi": True,
                "parallel_attn": False}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 4, "num_attention_heads": 8, "bias": True}),
    ("gpt_neox", {"num_attention_heads": 2, "use_parallel_residual": False}),
    ("opt", {"num_attention_heads": 8, "enable_bias": False}),
    ("stablelm", {"num_key_value_heads": 1, "qk_layernorm": True}),
    ("cohere", {"use_qk_norm": True, "num_key_value_heads": 1, "head_dim": 8}),
    ("deepseek_v2", {"num_attention_heads": 2, "num_key_value_heads": 2, "v_head_dim": 4, "qk_nope_head_dim": 16,
                     "attention_bias": True}),
    ("deepseek_v3", {"q_lora_rank": None, "v_head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 8}),
    ("deepseek_v3", {"q_lora_rank": 12, "attention_bias": True}),
    ("minicpm3", {"v_head_dim": 6, "qk_nope_head_dim": 12}),
    ("afmoe", {"num_key_value_heads": 1, "head_dim": 16}),
    ("laguna", {"num_attention_heads_per_layer": [8, 2], "num_key_value_heads": 1, "head_dim": 8}),
    ("mimo_v2_flash", {"head_dim": 12, "v_head_dim": 8}),
    ("gemma4_text", {"num_key_value_heads": 1}),
    ("albert", {"num_attention_heads": 8}),
    ("deberta", {"num_attention_heads": 8}),
    ("deberta-v2", {"num_attention_heads": 2}),
    ("convbert", {"head_ratio": 8, "num_attention_heads": 4}),
    ("squeezebert", {"q_groups": 1, "k_groups": 2, "v_groups": 8, "post_attention_groups": 4}),
    ("mobilebert", {"intra_bottleneck_size": 16, "true_hidden_size": 16, "embedding_size": 32}),
    ("mobilebert", {"use_bottleneck_attention": True, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    ("xlnet", {"n_head": 2, "d_head": 16}),
    ("funnel", {"block_sizes": [1, 3], "block_repeats": [1, 2], "num_decoder_layers": 2,
                "architectures": ["FunnelModel"]}),
    ("recurrent_gemma", {"block_types": ["recurrent", "attention"], "num_key_value_heads": 1}),
    ("kimi_linear", {"layer_types": HYBRID, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("bailing_hybrid", {"layer_types": HYBRID, "num_local_experts": 4, "n_group": 2, "topk_group": 1,
                        "num_experts_per_tok": 2}),
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
    ("bigbird_pegasus", {"encoder_attention_heads": 2}),
    ("granite_swa", {"num_key_value_heads": 1}),
    ("diffllama", {"num_attention_heads": 8, "num_key_value_heads": 4}),
    ("roformer", {"num_attention_heads": 8}),
    ("fsmt", {"encoder_attention_heads": 2, "decoder_attention_heads": 8}),
    ("whisper", {"encoder_attention_heads": 2, "max_source_positions": 12}),
    ("zamba", {"num_hidden_layers": 3, "layer_types": ["hybrid", "linear_attention", "hybrid"], "n_mamba_heads": 2}),
    ("zamba2", {"num_hidden_layers": 4, "layers_block_type": ["hybrid", "mamba", "hybrid", "hybrid"],
                "num_mem_blocks": 2, "n_mamba_heads": 4, "mamba_headdim": 16}),
]  # fmt: skip


FORMS: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("falcon", {"multi_query": True, "new_decoder_architecture": False}, (4, 1)),
    ("falcon", {"multi_query": False, "new_decoder_architecture": False, "num_kv_heads": 4}, (4, 4)),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}, (4, 2)),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 1, "num_attention_heads": 8}, (8, 1)),
    ("gpt_bigcode", {"multi_query": True}, (4, 1)),
    ("gpt_bigcode", {"multi_query": False}, (4, 4)),
    ("codegen", {"n_head": 8, "n_embd": 64}, (8, 8)),
    ("persimmon", {}, (4, 4)),
    ("qwen3_next", {"layer_types": HYBRID, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
                    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_key_value_heads": 1, "head_dim": 16},
     (4, 1)),
    ("longcat_flash", {"ffn_hidden_size": 32, "expert_ffn_hidden_size": 16, "n_routed_experts": 4, "num_layers": 2,
                       "zero_expert_num": 1, "moe_topk": 2}, (4, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "settings", "heads"), [*((*each, None) for each in VARIANTS), *FORMS])
def test_heads_are_cut_as_the_settings_say_and_every_layer_is_proven(
    model_type: str, settings: dict[str, Any], heads: tuple[int, int] | None, tmp_path: Path
) -> None:
    folder = save_tiny(model_type, tmp_path, **settings)
    for layer in open_folder(folder)[2].outline.layers:
        assert heads in (None, (layer.heads, layer.key_value_heads))
    for proof in prove_layers(folder).values():
        if proof.output.holds is None and not is_newest():
            pytest.skip(f"{model_type} in transformers {transformers.__version__}: {proof.output.note}")
        assert proof.output.holds, proof
        assert proof.scores.holds, proof


@pytest.mark.parametrize("heads", [1, 2])
def test_fewer_than_four_heads_are_not_cut_out_of_quarters(heads: int, tmp_path: Path) -> None:
    assert f"cannot be cut into {heads} head" in refusal(save_tiny("codegen", tmp_path, n_head=heads))


@pytest.mark.parametrize(
    ("layers", "groups", "inner", "modules"),
    [(5, 2, 1, [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0)]), (2, 1, 2, [(0, 0), (0, 1), (0, 0), (0, 1)])],
)
def test_layers_that_share_weights_are_separate_layers(
    layers: int, groups: int, inner: int, modules: list[tuple[int, int]], tmp_path: Path
) -> None:
    settings = {"num_hidden_layers": layers, "num_hidden_groups": groups, "inner_group_num": inner}
    folder = save_tiny("albert", tmp_path, **settings)
    outline = open_folder(folder)[2].outline
    assert [layer.name for layer in outline.layers] == [Head("encoder", number) for number in range(len(modules))]
    for layer, (group, place) in zip(outline.layers, modules, strict=True):
        assert f"albert_layer_groups.{group}.albert_layers.{place}." in layer.module
        assert "weights shared by layers" in layer.marks
        assert (layer.heads, layer.key_value_heads) == (4, 4)
    reader = open_reader(folder)
    for proof in prove_layers(folder, reader).values():
        assert proof.output.holds, proof
        assert proof.scores.holds, proof
    own = eager_maps(folder, reader.read("the cat sat on the mat", lambda: None).ids)[""]
    for layer, expected in zip(outline.layers, own, strict=True):
        np.testing.assert_allclose(reader.layer_maps(layer.name).weights, expected, rtol=0, atol=1e-5)
