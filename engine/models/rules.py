"""Where each family of checkpoints keeps its attention projections. An architecture is a row, nothing more.

A rule names the projections beside the attention module and says how a fused one is laid out. Names are relative to
the module: ``../output.dense`` goes one level up first. Layouts and names were read off the models of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """How the rows of the projections belong to the heads."""

    SEPARATE = "three projections, the heads' rows one after the other in each"
    BLOCKS = "one projection: all queries, then all keys, then all values"
    PER_HEAD = "one projection: for each head its query, key and value"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of keeping an attention module's projections.

    Attributes
    ----------
    query, key, value, output : names beside the attention module; one name three times when they are fused.
    layout : how the rows belong to the heads.
    stored_transposed : whether weights are ``[in, out]``, as transformers' Conv1D has them.
    model_types : the types that use a fused name in just this way; empty where the names say all there is to say.
    """

    query: str
    key: str
    value: str
    output: str
    layout: Layout = Layout.SEPARATE
    stored_transposed: bool = False
    model_types: frozenset[str] = frozenset()

    @property
    def projections(self) -> dict[str, str]:
        """The names by matrix."""
        return {"Q": self.query, "K": self.key, "V": self.value, "O": self.output}


def _fused(name: str, output: str, layout: Layout, *model_types: str, transposed: bool = False) -> Rule:
    """Write a row for a fused projection."""
    return Rule(name, name, name, output, layout, transposed, frozenset(model_types))


RULES: tuple[Rule, ...] = (
    Rule("q_proj", "k_proj", "v_proj", "o_proj"),            # llama and most decoders since
    Rule("q_proj", "k_proj", "v_proj", "out_proj"),          # bart, opt, gpt_neo, gptj, marian
    Rule("q_proj", "k_proj", "v_proj", "dense"),             # phi
    Rule("query", "key", "value", "../output.dense"),        # bert and its kin: roberta, electra, camembert
    Rule("q_lin", "k_lin", "v_lin", "out_lin"),              # distilbert, xlm, flaubert
    Rule("q", "k", "v", "o"),                                # t5 and its kin
    _fused("c_attn", "c_proj", Layout.BLOCKS, "gpt2", "openai-gpt", "decision_transformer", transposed=True),
    _fused("qkv_proj", "o_proj", Layout.BLOCKS, "phi3"),
    _fused("Wqkv", "Wo", Layout.BLOCKS, "modernbert"),
    _fused("Wqkv", "out_proj", Layout.BLOCKS, "mpt"),
    _fused("query_key_value", "dense", Layout.PER_HEAD, "gpt_neox", "bloom"),
)  # fmt: skip

CROSS_ATTENTION = ("EncDecAttention", "encoder_attn", "crossattention", "cross_attn", "cross_attention")
"""Path components that mark attention from a decoder to an encoder."""

ENCODER_TYPES = frozenset({"eurobert", "distilbert", "modernbert", "xlm", "flaubert"})
"""Types whose tensors do not say in their names that the stack is an encoder."""

OTHER_TOWERS = ("vision_tower", "vision_model", "visual", "audio_tower", "audio_model", "image_encoder")
"""Path components of stacks that read no text."""

REFUSED_TENSORS = {
    "kv_b_proj": "multi-head latent attention",
    "self.in_proj": "a fused projection laid out in a way that it does not know",
    "kv_a_proj_with_mqa": "multi-head latent attention",
}
"""Projections that stand for attention this version cannot cut into heads, and what they are."""

NEIGHBOUR_MARKS = {
    "q_norm": "query/key norm", "k_norm": "query/key norm",
    "q_layernorm": "query/key norm", "k_layernorm": "query/key norm",
    "query_layernorm": "query/key norm", "key_layernorm": "query/key norm",
    "sinks": "attention sink", "gate_proj": "output gate", "g_proj": "output gate",
    "relative_attention_bias": "relative position bias",
}  # fmt: skip
"""Tensors beside the projections that change the circuit, and the mark that the heads then carry."""

TYPE_MARKS = {
    "bloom": "ALiBi", "mpt": "ALiBi",
    "mpnet": "relative position bias", "t5": "relative position bias", "mt5": "relative position bias",
    "umt5": "relative position bias", "switch_transformers": "relative position bias",
}  # fmt: skip
"""What a type adds to the scores of every layer, and no tensor beside the projections tells."""

PROVEN_TYPES = frozenset({
    "apertus", "arcee", "bart", "bert", "bert-generation", "biogpt", "blenderbot", "blenderbot-small", "bloom",
    "camembert", "cohere", "cohere2", "cwm", "data2vec-text", "distilbert", "electra", "ernie", "ernie4_5",
    "ernie4_5_moe", "esm", "eurobert", "exaone4", "flaubert", "flex_olmo", "gemma", "gemma2", "gemma3_text", "glm",
    "glm4", "gpt-sw3", "gpt2", "gpt_neo", "gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe",
    "granitemoeshared", "helium", "hunyuan_v1_dense", "hyperclovax", "jais2", "layoutlm", "llama", "m2m_100",
    "marian", "mbart", "megatron-bert", "minimax_m2", "ministral", "mistral", "mixtral", "modernbert", "mpnet",
    "mpt", "mt5", "mvp", "nemotron", "nllb-moe", "olmo", "olmo2", "olmo3", "olmoe", "openai-gpt", "opt", "pegasus",
    "phi", "phi3", "phimoe", "plbart", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "rembert", "roberta",
    "roberta-prelayernorm", "seed_oss", "smollm3", "stablelm", "starcoder2", "switch_transformers", "t5", "umt5",
    "vaultgemma", "xlm", "xlm-roberta", "xlm-roberta-xl",
})  # fmt: skip
"""Types for which a test takes a model apart by these rules and puts its attention together again."""
