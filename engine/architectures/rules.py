"""Tables of where each family of checkpoints keeps its attention projections, and how it rotates queries and keys.

A rule names the projections of an attention module and says how a fused one is laid out. Names are relative to the
module: ``../output.dense`` goes one level up first. Layouts and names are those of the models in transformers.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Layout(Enum):
    """How the rows of the projections belong to the heads."""

    SEPARATE = "three projections, the heads' rows one after the other in each"
    BLOCKS = "one projection: all queries, then all keys, then all values"
    GROUPED = "one projection: for each key/value head the queries that share it, its key and its value"
    QUARTERS = "one projection in four parts: a quarter of the queries, of the values, of the keys"
    PAIRED = "queries apart, and one projection of all keys, then all values"
    LATENT = "keys and values by way of a latent: for each head the part of its key without positions and its value"


@dataclass(frozen=True, slots=True)
class Latent:
    """A projection in two steps with a norm between them: the first step, the norm's gain, and the first step's bias.

    A rule has names relative to the attention module, and no bias; a checkpoint's module has the names of the tensors.
    """

    down: str
    norm: str
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of storing an attention module's projections.

    Attributes
    ----------
    query, key, value, output : names relative to the attention module; the same name three times if fused.
    layout : how the rows belong to the heads.
    stored_transposed : whether weights are ``[in, out]``, as in transformers' Conv1D.
    model_types : the types that it is for; empty for any type.
    settings : the values that settings must have, each with the default of a setting that is left out.
    latents, output_first : the first steps of projections with two steps, those of queries, keys and values by matrix.
    output_groups : the setting with the number of groups of such an output; each group reads its own heads.
    biases : names of biases that differ from their projections'.
    is_by_head : whether all four are parameters ``[d_model, heads, head_dim]``, as in XLNet.
    head_ratio : the setting that the configured number of heads is divided by, if any.
    has_tail : whether the output projection has further columns after those of the heads.
    """

    query: str
    key: str
    value: str
    output: str
    layout: Layout = Layout.SEPARATE
    stored_transposed: bool = False
    model_types: frozenset[str] = frozenset()
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    latents: Mapping[str, Latent] = field(default_factory=dict)
    biases: Mapping[str, str] = field(default_factory=dict)
    is_by_head: bool = False
    head_ratio: str = ""
    output_first: str = ""
    output_groups: str = ""
    has_tail: bool = False

    @property
    def projections(self) -> dict[str, str]:
        """The names by matrix."""
        return {"Q": self.query, "K": self.key, "V": self.value, "O": self.output}

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of everything that must exist for the rule to fit."""
        steps = (*(latent.down for latent in self.latents.values()), *filter(None, [self.output_first]))
        return tuple(dict.fromkeys((*self.projections.values(), *steps)))

    def first_step(self, matrix: str) -> str:
        """Return the name of what reads the residual stream for a matrix: its projection, or the first of two steps."""
        return self.latents[matrix].down if matrix in self.latents else self.projections[matrix]

    def suits(self, model_type: str, config: Mapping[str, Any]) -> bool:
        """Return whether the rule is for a model of this type and configuration."""
        inner = [config.get(side) for side in ("encoder", "decoder")]
        types = {model_type, *(each.get("model_type") or "" for each in inner if isinstance(each, dict))}
        return (not self.model_types or not types.isdisjoint(self.model_types)) and all(
            config.get(name, otherwise) == wanted for name, (wanted, otherwise) in self.settings.items()
        )


def fused_places(layout: Layout, heads: int, key_value_heads: int) -> dict[str, list[int]]:
    """Return the places of each head's query, key and value in a fused projection, in blocks of a head's rows.

    Examples
    --------
    >>> fused_places(Layout.GROUPED, 4, 2)
    {'Q': [0, 1, 4, 5], 'K': [2, 6], 'V': [3, 7]}
    """
    if layout is Layout.PAIRED:
        order = "K" * key_value_heads + "V" * key_value_heads
    elif layout is Layout.BLOCKS:
        order = "Q" * heads + "K" * key_value_heads + "V" * key_value_heads
    elif layout is Layout.GROUPED:
        order = ("Q" * (heads // key_value_heads) + "KV") * key_value_heads
    else:
        order = ("Q" * (heads // 4) + "V" * (key_value_heads // 4) + "K" * (key_value_heads // 4)) * 4
    return {matrix: [place for place, part in enumerate(order) if part == matrix] for matrix in "QKV"}


def _fused_rule(
    name: str, output: str, layout: Layout, *model_types: str, transposed: bool = False, **settings: tuple[Any, Any]
) -> Rule:
    return Rule(name, name, name, output, layout, transposed, frozenset(model_types), settings)


_COMPRESSED = dict.fromkeys("KV", Latent("kv_a_proj_with_mqa", "kv_a_layernorm"))
_ALL_COMPRESSED = {"Q": Latent("q_a_proj", "q_a_layernorm"), **_COMPRESSED}

SEPARATE_NAMES = (
    ("q_proj", "k_proj", "v_proj"),                # llama and most since; bart, opt, phi
    ("query", "key", "value"),                     # bert and its kin, albert
    ("query_proj", "key_proj", "value_proj"),      # deberta-v2, prophetnet
    ("q_lin", "k_lin", "v_lin"),                   # distilbert, xlm, flaubert
    ("q", "k", "v"),                               # t5 and its kin
    ("Wq", "Wk", "Wv"), ("wq", "wk", "wv"),        # ctrl
    ("W_q", "W_k", "W_v"), ("w_q", "w_k", "w_v"),
    ("project_q", "project_k", "project_v"),       # cpmant
    ("q_head", "k_head", "v_head"),                # funnel
    ("wq_du", "wk_dv", "wv_dv"),                   # inkling
    ("W_query", "W_key", "W_value"),
    ("to_q", "to_k", "to_v"), ("proj_q", "proj_k", "proj_v"),
    ("linear_q", "linear_k", "linear_v"), ("q_linear", "k_linear", "v_linear"),
)  # fmt: skip
"""Names of separate projections; any of them may go with any of `OUTPUT_NAMES`."""

FUSED_NAMES = {
    "qkv_proj": Layout.BLOCKS, "Wqkv": Layout.BLOCKS, "wqkv": Layout.BLOCKS, "qkv": Layout.BLOCKS,
    "att_proj": Layout.BLOCKS, "W_pack": Layout.BLOCKS, "to_qkv": Layout.BLOCKS, "qkv_linear": Layout.BLOCKS,
    "query_key_value": Layout.GROUPED,
}  # fmt: skip
"""Names of fused projections, and their usual layouts; rules for single types come before them."""

OUTPUT_NAMES = (
    "o_proj", "out_proj", "output_proj", "dense", "Wo", "wo", "W_o", "w_o", "o", "out_lin", "out_linear", "linear_out",
    "to_out", "to_out.0", "attention_out", "attn_out", "post_proj", "wo_ud", "proj_o", "project_o", "proj", "c_proj",
    "output_projection.o_proj", "output", "../output.dense", "../post_attention", "../output",
)  # fmt: skip
"""Names of output projections."""

RULES: tuple[Rule, ...] = (
    Rule("q_proj", "kv_b_proj", "kv_b_proj", "o_proj", Layout.LATENT, latents=_COMPRESSED),
    Rule("q_proj", "kv_b_proj", "kv_b_proj", "dense", Layout.LATENT, latents=_COMPRESSED),  # bailing_hybrid
    Rule("q_b_proj", "kv_b_proj", "kv_b_proj", "o_proj", Layout.LATENT, latents=_ALL_COMPRESSED),  # deepseek
    Rule("q_b_proj", "kv_b_proj", "kv_b_proj", "dense", Layout.LATENT, latents=_ALL_COMPRESSED),
    Rule("wq_b", "wkv", "wkv", "wo_b", latents={"Q": Latent("wq_a", "q_norm")},
         output_first="wo_a", output_groups="o_groups"),  # deepseek_v4
    Rule("q_b_proj", "kv_proj", "kv_proj", "o_b_proj", latents={"Q": Latent("q_a_proj", "q_a_norm")},
         output_first="o_a_proj", output_groups="o_groups"),  # the same with transformers' names
    Rule("q_attn", "c_attn", "c_attn", "c_proj", Layout.PAIRED, True, frozenset({"gpt2", "decision_transformer"})),
    Rule("q_attn", "c_attn", "c_attn", "c_proj", Layout.PAIRED),  # gpt_bigcode's attention to an encoder
    _fused_rule("c_attn", "c_proj", Layout.BLOCKS, "gpt_bigcode", multi_query=(True, True)),
    _fused_rule("c_attn", "c_proj", Layout.GROUPED, "gpt_bigcode", multi_query=(False, True)),
    _fused_rule("c_attn", "c_proj", Layout.BLOCKS, "qwen"),
    _fused_rule("c_attn", "c_proj", Layout.BLOCKS, transposed=True),  # gpt2
    _fused_rule("qkv_proj", "out_proj", Layout.QUARTERS, "codegen"),
    _fused_rule("query_key_value", "dense", Layout.GROUPED, "falcon", new_decoder_architecture=(True, False)),
    _fused_rule("query_key_value", "dense", Layout.BLOCKS, "falcon", multi_query=(True, True)),
    _fused_rule("query_key_value", "dense", Layout.BLOCKS, "chatglm", "bailing_moe"),
    _fused_rule("wqkv", "wo", Layout.GROUPED, "internlm2"),
    Rule("in_proj", "in_proj", "in_proj", "../output.dense", Layout.GROUPED, biases={"Q": "q_bias", "V": "v_bias"},
         model_types=frozenset({"deberta"})),
    Rule("in_proj_weight", "in_proj_weight", "in_proj_weight", "out_proj", Layout.BLOCKS,
         biases=dict.fromkeys("QKV", "in_proj_bias")),  # torch.nn.MultiheadAttention
    Rule("q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj",
         biases=dict.fromkeys("QKV", "in_proj_bias")),  # the same if keys and values have other widths
    Rule("q", "k", "v", "o", is_by_head=True, biases={"Q": "r_w_bias"}, model_types=frozenset({"xlnet"})),
    Rule("query", "key", "value", "../output.dense", model_types=frozenset({"convbert"}), head_ratio="head_ratio",
         has_tail=True),
    Rule("q_head", "k_head", "v_head", "post_proj", biases={"Q": "r_w_bias"}, model_types=frozenset({"funnel"})),
    Rule("query_key", "query_key", "value", "../output.dense", model_types=frozenset({"reformer"})),
    Rule("linears.0", "linears.1", "linears.2", "linears.3"),  # modules after The Annotated Transformer
    Rule("query_net", "key_net", "value_net", "out_projection"),  # the decoder of cohere_asr
    Rule("q_proj", "k_proj", "v_proj", "o_proj"),
    Rule("q_proj", "k_proj", "k_proj", "o_proj", model_types=frozenset(
        {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text", "gemma4_assistant"})),  # attention_k_eq_v
    *(Rule(*names, output) for output, names in itertools.product(OUTPUT_NAMES, SEPARATE_NAMES)),
    *(Rule("q_proj", "kv_proj", "kv_proj", output, Layout.PAIRED) for output in OUTPUT_NAMES),
    *(_fused_rule(name, output, FUSED_NAMES[name]) for output, name in itertools.product(OUTPUT_NAMES, FUSED_NAMES)),
)  # fmt: skip
"""The first that fits a module's names, and suits the type and its configuration, is used."""

ENDINGS = (".weight", ".linear.weight", ".conv1d.weight", ".base_layer.weight", "")
"""What follows a projection's name in its tensor's: a parameter of it, or of the one module inside it, or nothing."""

SHARING_TYPES = {"albert": "num_hidden_groups"}
"""Types whose layers share modules, and the setting with the number of groups."""

CONVOLUTION_GROUPS = {"Q": "q_groups", "K": "k_groups", "V": "v_groups", "O": "post_attention_groups"}
"""By matrix, the setting with the number of groups of a projection that is a convolution over one token."""

TYPES_WITHOUT_ONE_MATRIX = {
    "jetmoe": "queries and outputs that experts make, chosen for every token, so that no head has one W_Q and one W_O",
    "zaya": "queries and keys that convolutions over several tokens make, so that no head has one W_Q and one W_K",
    "axk2": "queries that read one latent twice, with its norm and without, so that no head has one W_Q",
    "hrm_text": "two stacks that alternate, without a common order of layers",
}  # fmt: skip
"""Types whose attention cannot be cut into heads, and what they have instead."""

LATENT_TENSORS = ("kv_a_proj_with_mqa", "kv_b_proj")
"""Projections of multi-head latent attention, where no rule fits."""

NEIGHBOUR_MARKS = {
    "q_norm": "query/key norm", "k_norm": "query/key norm",
    "q_layernorm": "query/key norm", "k_layernorm": "query/key norm",
    "query_layernorm": "query/key norm", "key_layernorm": "query/key norm",
    "kv_norm": "query/key norm", "compressor": "compressed keys",
    "sinks": "attention sink", "attn_sink": "attention sink", "gate_proj": "output gate", "g_proj": "output gate",
    "relative_attention_bias": "relative position bias",
    "q_a_layernorm": "latent norm", "kv_a_layernorm": "latent norm",
    "attn_sub_norm": "output norm", "inner_attn_ln": "output norm", "o_norm": "output norm",
    "emb_rel_k": "relative position terms", "softmax_scaling": "scale for each head",
    "pos_proj": "relative position terms", "pos_q_proj": "relative position terms",
    "linear_pos": "relative position terms", "relative_k_proj": "relative position terms",
    "r_kernel": "relative position terms", "r_r_bias": "relative position terms",
    "k_sconv": "short convolution", "v_sconv": "short convolution", "conv": "residual convolution",
    "conv_kernel_layer": "convolution beside the heads", "linear_q_adapter_list": "low-rank adapters",
    "lambda_q1": "differential pairs",
}  # fmt: skip
"""Tensors beside the projections that change the circuit, and the mark that the heads get."""

TYPE_MARKS = {
    "bloom": "ALiBi", "mpt": "ALiBi",
    "mpnet": "relative position bias", "t5": "relative position bias", "mt5": "relative position bias",
    "umt5": "relative position bias", "switch_transformers": "relative position bias",
    "diffllama": "differential pairs", "doge": "dynamic mask", "llama4_text": "query/key norm",
    "mimo_v2_flash": "value scale", "nanochat": "query/key norm", "nystromformer": "landmarks",
    "granite_swa": "output scaled by a sink", "granitemoe_swa": "output scaled by a sink",
    "reformer": "hashed attention", "neomme": "terms beside the heads",
}  # fmt: skip
"""The mark of every layer's heads, by type, for what no tensor beside the projections tells."""

SETTING_MARKS = {
    "attn_logit_softcapping": "soft cap", "relative_attention": "relative position terms",
    "attention_value_scale": "value scale",
}  # fmt: skip
"""Settings that change the circuits of every layer, and the mark that the heads get."""


def sibling(module: str, name: str) -> str:
    """Join a module's dotted name and a name relative to it.

    Examples
    --------
    >>> sibling("layer.0.attention.self", "../output.dense")
    'layer.0.attention.output.dense'
    """
    while name.startswith("../"):
        module, name = module.rpartition(".")[0], name[3:]
    return f"{module}.{name}" if module else name


def tensor_of(tensors: Container[str], module: str, name: str) -> str | None:
    """Find the tensor of a module's projection, or of the one module inside the projection."""
    path = sibling(module, name)
    return next((path + ending for ending in ENDINGS if path + ending in tensors), None)


@dataclass(frozen=True, slots=True)
class RotaryType:
    """How a type rotates queries and keys; by default the first half of a head's dimensions against the second.

    Attributes
    ----------
    is_interleaved : whether neighbouring dimensions are rotated against each other.
    is_reordered : whether neighbours are first moved into two halves, unless ``rope_interleave`` is false; in the order
        of W_K's rows, neighbours are rotated.
    is_latent : whether attention is latent, so that the last dimensions of a head are rotated instead of the first.
    is_sliding_alone : whether layers that attend to the whole sentence rotate nothing.
    is_backwards : whether queries and keys are rotated in the opposite direction.
    is_rotated : false for a part of such a model that rotates nothing.
    width : the setting with the number w of rotated dimensions, if the frequencies are 10000^(−2i/w). Empty if w is a
        head's width; None if a module of the type computes the frequencies.
    learned : the end of the name of the tensor whose exponential multiplies the frequencies, if that is learned.
    chosen : a setting, and its value when positions are rotary.
    refused : why circuits at a distance are not products of the projections, if they are not.
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


_HALVES = """
    apertus arcee aria_text bamba beam bitnet chameleon cohere_compass_text cosmos3_edge_text csm
    csm_depth_decoder_model cwm dbrx deepseek_ocr2_text dia_decoder dia_encoder diffllama diffusion_gemma_text doge
    dots1 embedding_gemma2_text emu3_text_model esmc eurobert evolla falcon_h1 flex_olmo gemma gemma2 gemma3_text
    gemma3n_text gemma4_text gemma4_unified_text glm4_moe glm4v_moe_text glm_image_text gpt_neox gpt_neox_japanese
    gpt_oss gradium_phonon_tts granite granite4_vision_text granite_docling_text granite_swa granitemoe
    granitemoe_swa granitemoeshared gte higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text hy_v3
    hyperclovax idefics internlm3 iquestcoder jais2 jina_embeddings_v3 kyutai_speech_to_text laguna lfm2 lfm2_moe
    lfm3 llama mellum mimo_v2_flash minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mixtral
    mllama_text_model modernbert modernbert-decoder molmo2_text moshi muse_glimmer_text muse_spark_text nemotron
    neomme nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe paddleocr_vl_text persimmon phi phi3 phi4_multimodal phimoe
    pocket_tts qwen2 qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3
    qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor
    qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text qwen4_exp_text recurrent_gemma
    seed_oss smollm3 solar_open stablelm starcoder2 step3p5 t5_gemma_module t5gemma2_decoder t5gemma2_text ultrabert
    unlimited_ocr_text vaultgemma voxtral_realtime_text
"""
_NEIGHBOURS = """
    blt_local_decoder blt_local_encoder blt_patcher cohere ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text glm glm4
    glm4v_text glm_ocr_text helium llama4_text moonshine moonshine_streaming openai_privacy_filter
"""
_REORDERED = """
    axk1 bailing_hybrid deepseek_v3 deepseek_v32 dots3_note_text glm4_moe_lite glm_moe_dsa longcat_flash mistral4
    youtu
"""
_SLIDING_ALONE = "afmoe exaone4 exaone_moe flint kolibri1"

ROTARY_TYPES: Mapping[str, RotaryType] = {
    **dict.fromkeys(_HALVES.split(), RotaryType()),
    **dict.fromkeys(_NEIGHBOURS.split(), RotaryType(is_interleaved=True)),
    **dict.fromkeys(_REORDERED.split(), RotaryType(is_reordered=True, is_latent=True)),
    **dict.fromkeys(_SLIDING_ALONE.split(), RotaryType(is_sliding_alone=True)),
    "blt": RotaryType(refused="attends between patches of bytes, whose distances are not those of tokens"),
    "clvp_encoder": RotaryType(refused="rotates values by position too, so OV is not one matrix"),
    "codegen": RotaryType(is_interleaved=True, width="rotary_dim"),
    "cohere2": RotaryType(is_interleaved=True, is_sliding_alone=True),
    "cohere2_moe": RotaryType(is_interleaved=True, is_sliding_alone=True),
    "deepseek_v2": RotaryType(is_interleaved=True, is_latent=True),
    "deepseek_v4": RotaryType(
        refused="rotates values as it does keys, and pools several keys: OV depends on distances too"
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
"""All known types, by the ``model_type`` of the part that attends."""

PARTS = {
    ("evolla", "encoder"): ("protein_encoder_config", "EvollaSaProtRotaryEmbedding"),
    ("evolla", "decoder"): ("", "EvollaRotaryEmbedding"),
}
"""By type and stack, for models with several rotated stacks: the setting with the stack's own configuration, and the
class that computes its frequencies."""


def why_not_rotated(model_type: str, rotary: RotaryType | None) -> str:
    """Say why a type has no QK at a distance; empty if it may have."""
    if rotary is None:
        return f"type '{model_type}' has no rotary positions that attn-tui knows, so there is no QK at a distance"
    return f"type '{model_type}' {rotary.refused}, so there is no QK at a distance" if rotary.refused else ""


def why_never_rotated(model_type: str, config: Mapping[str, Any]) -> str:
    """Say why a model has no QK at a distance, as far as its configuration tells; empty if it may have.

    The configuration does not tell if a part of the model has, or may have, its own type.
    """
    has_parts = any(isinstance(each, Mapping) and "model_type" in each for each in config.values())
    is_of_parts = has_parts or any(whole == model_type for whole, _ in PARTS)
    return "" if is_of_parts else why_not_rotated(model_type, ROTARY_TYPES.get(model_type))
