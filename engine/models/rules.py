"""Where each family of checkpoints keeps its attention projections. An architecture is a row, nothing more.

A rule names the projections beside the attention module and says how a fused one is laid out. Names are relative to
the module: ``../output.dense`` goes one level up first. Layouts and names were read off the models of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Layout(Enum):
    """How the rows of the projections belong to the heads."""

    SEPARATE = "three projections, the heads' rows one after the other in each"
    BLOCKS = "one projection: all queries, then all keys, then all values"
    GROUPED = "one projection: for each key/value head the queries that share it, its key and its value"
    QUARTERS = "one projection in four parts: a quarter of the queries, of the values, of the keys"
    LATENT = "keys and values by way of a latent: for each head the part of its key without positions and its value"


@dataclass(frozen=True, slots=True)
class Latent:
    """A projection in two steps with a norm between them.

    Attributes
    ----------
    down, norm : names beside the attention module.
    """

    down: str
    norm: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of keeping an attention module's projections.

    Attributes
    ----------
    query, key, value, output : names beside the attention module; one name three times when they are fused.
    layout : how the rows belong to the heads.
    stored_transposed : whether weights are ``[in, out]``, as transformers' Conv1D has them.
    model_types : the types that it is for; empty where the names say all there is to say.
    settings : of the configuration that it is for: what each must be, beside what it is when left out.
    query_latent, key_value_latent : the first steps of projections that take two.
    biases : names of biases that are not called like their projections.
    """

    query: str
    key: str
    value: str
    output: str
    layout: Layout = Layout.SEPARATE
    stored_transposed: bool = False
    model_types: frozenset[str] = frozenset()
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    query_latent: Latent | None = None
    key_value_latent: Latent | None = None
    biases: Mapping[str, str] = field(default_factory=dict)

    @property
    def projections(self) -> dict[str, str]:
        """The names by matrix."""
        return {"Q": self.query, "K": self.key, "V": self.value, "O": self.output}

    @property
    def latents(self) -> dict[str, Latent]:
        """The first steps by matrix."""
        by_matrix = {"Q": self.query_latent, "K": self.key_value_latent, "V": self.key_value_latent}
        return {matrix: latent for matrix, latent in by_matrix.items() if latent is not None}

    def suits(self, model_type: str, config: Mapping[str, Any]) -> bool:
        """Say whether a model of this type and configuration can follow the rule."""
        return (not self.model_types or model_type in self.model_types) and all(
            config.get(name, otherwise) == wanted for name, (wanted, otherwise) in self.settings.items()
        )


def fused_places(layout: Layout, heads: int, key_value_heads: int) -> dict[str, list[int]]:
    """Say where each head's query, key and value stand in a fused projection, counted in blocks of a head's rows.

    Examples
    --------
    >>> fused_places(Layout.GROUPED, 4, 2)
    {'Q': [0, 1, 4, 5], 'K': [2, 6], 'V': [3, 7]}
    """
    if layout is Layout.BLOCKS:
        order = "Q" * heads + "K" * key_value_heads + "V" * key_value_heads
    elif layout is Layout.GROUPED:
        order = ("Q" * (heads // key_value_heads) + "KV") * key_value_heads
    else:
        order = ("Q" * (heads // 4) + "V" * (key_value_heads // 4) + "K" * (key_value_heads // 4)) * 4
    return {matrix: [place for place, part in enumerate(order) if part == matrix] for matrix in "QKV"}


def _fused(
    name: str, output: str, layout: Layout, *model_types: str, transposed: bool = False, **settings: tuple[Any, Any]
) -> Rule:
    """Write a row for a fused projection; a setting is what it must be, and what it is when left out."""
    return Rule(name, name, name, output, layout, transposed, frozenset(model_types), settings)


_COMPRESSED = Latent("kv_a_proj_with_mqa", "kv_a_layernorm")

RULES: tuple[Rule, ...] = (
    Rule("q_proj", "k_proj", "v_proj", "o_proj"),            # llama and most decoders since
    Rule("q_proj", "k_proj", "v_proj", "out_proj"),          # bart, opt, gpt_neo, gptj, marian
    Rule("q_proj", "k_proj", "v_proj", "dense"),             # phi
    Rule("q_proj", "k_proj", "v_proj", "Wo"),                # modernbert-decoder
    Rule("query", "key", "value", "../output.dense"),        # bert and its kin: roberta, electra, camembert
    Rule("query", "key", "value", "dense"),                  # albert
    Rule("query_proj", "key_proj", "value_proj", "../output.dense"),  # deberta-v2
    Rule("query_proj", "key_proj", "value_proj", "out_proj"),         # prophetnet
    Rule("q_lin", "k_lin", "v_lin", "out_lin"),              # distilbert, xlm, flaubert
    Rule("q", "k", "v", "o"),                                # t5 and its kin
    Rule("Wq", "Wk", "Wv", "dense"),                         # ctrl
    Rule("project_q", "project_k", "project_v", "attention_out"),  # cpmant
    Rule("q_head", "k_head", "v_head", "post_proj"),         # funnel
    Rule("q_proj", "kv_b_proj", "kv_b_proj", "o_proj", Layout.LATENT, key_value_latent=_COMPRESSED),
    Rule("q_b_proj", "kv_b_proj", "kv_b_proj", "o_proj", Layout.LATENT,
         query_latent=Latent("q_a_proj", "q_a_layernorm"), key_value_latent=_COMPRESSED),  # deepseek
    _fused("c_attn", "c_proj", Layout.BLOCKS, "gpt_bigcode", multi_query=(True, True)),
    _fused("c_attn", "c_proj", Layout.GROUPED, "gpt_bigcode", multi_query=(False, True)),
    _fused("c_attn", "c_proj", Layout.BLOCKS, transposed=True),  # gpt2
    _fused("qkv_proj", "out_proj", Layout.QUARTERS, "codegen"),
    _fused("qkv_proj", "o_proj", Layout.BLOCKS),             # phi3
    _fused("Wqkv", "Wo", Layout.BLOCKS),                     # modernbert
    _fused("Wqkv", "out_proj", Layout.BLOCKS),               # mpt, dbrx
    _fused("query_key_value", "dense", Layout.GROUPED, "falcon", new_decoder_architecture=(True, False)),
    _fused("query_key_value", "dense", Layout.BLOCKS, "falcon", multi_query=(True, True)),
    _fused("query_key_value", "dense", Layout.GROUPED),      # gpt_neox, bloom, persimmon
    Rule("in_proj", "in_proj", "in_proj", "../output.dense", Layout.GROUPED, biases={"Q": "q_bias", "V": "v_bias"},
         model_types=frozenset({"deberta"})),
)  # fmt: skip
"""The first that fits a module's names, and suits the type and its configuration, cuts it."""

SHARING_TYPES = {"albert": "num_hidden_groups"}
"""Types whose layers share modules, and the setting that says how many there are to share."""

CROSS_ATTENTION = ("EncDecAttention", "encoder_attn", "crossattention", "cross_attn", "cross_attention")
"""Path components that mark attention from a decoder to an encoder."""

ENCODER_TYPES = frozenset(
    {"esmc", "eurobert", "ultrabert", "ultravbert", "distilbert", "modernbert", "xlm", "flaubert"}
)
"""Types whose tensors do not say in their names that the stack is an encoder."""

OTHER_TOWERS = frozenset({"vision_tower", "vision_model", "visual", "audio_tower", "audio_model", "image_encoder"})
"""Path components of stacks that read no text."""

REFUSED_TENSORS = {"kv_a_proj_with_mqa": "multi-head latent attention", "kv_b_proj": "multi-head latent attention"}
"""Projections that stand for attention that no rule can cut into heads, and what they are."""

NEIGHBOUR_MARKS = {
    "q_norm": "query/key norm", "k_norm": "query/key norm",
    "q_layernorm": "query/key norm", "k_layernorm": "query/key norm",
    "query_layernorm": "query/key norm", "key_layernorm": "query/key norm",
    "sinks": "attention sink", "gate_proj": "output gate", "g_proj": "output gate",
    "relative_attention_bias": "relative position bias",
    "q_a_layernorm": "latent norm", "kv_a_layernorm": "latent norm",
    "attn_sub_norm": "output norm", "pos_proj": "relative position terms", "pos_q_proj": "relative position terms",
    "k_sconv": "short convolution", "v_sconv": "short convolution", "conv": "residual convolution",
    "lambda_q1": "differential pairs",
}  # fmt: skip
"""Tensors beside the projections that change the circuit, and the mark that the heads then carry."""

TYPE_MARKS = {
    "bloom": "ALiBi", "mpt": "ALiBi",
    "mpnet": "relative position bias", "t5": "relative position bias", "mt5": "relative position bias",
    "umt5": "relative position bias", "switch_transformers": "relative position bias",
    "diffllama": "differential pairs", "doge": "dynamic mask", "llama4_text": "query/key norm",
    "mimo_v2_flash": "value scale", "nanochat": "query/key norm", "nystromformer": "landmarks",
    "granite_swa": "output scaled by a sink", "granitemoe_swa": "output scaled by a sink",
    "roformer": "rotary positions that cannot be held still",
}  # fmt: skip
"""What a type adds to the scores of every layer, and no tensor beside the projections tells."""

SETTING_MARKS = {
    "attn_logit_softcapping": "soft cap", "relative_attention": "relative position terms",
    "attention_value_scale": "value scale",
}  # fmt: skip
"""Settings that change the circuits of every layer where they are set, and the mark that the heads then carry."""
