"""The types that the tests take apart: which stacks each has, and how it turns queries and keys into scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import transformers

ENCODER, DECODER = ("encoder",), ("decoder",)
ENCODER_DECODER = ("encoder", "decoder", "cross")


class Scores(Enum):
    """What the softmax over the keys is taken of; rotations, all equal at one and the same position, cancel."""

    PLAIN = "scale · q kᵀ"
    NORMED = "scale · norm(q) norm(k)ᵀ, with the attention module's own norms"
    BIASED = "scale · q kᵀ, plus a bias of the positions that is the same for every sentence"
    CAPPED = "cap · tanh(scale · q kᵀ / cap)"
    SINKING = "scale · q kᵀ, beside a learned score of nothing at all"


@dataclass(frozen=True)
class Architecture:
    """A type as the tests expect it.

    Attributes
    ----------
    stacks : in reading order.
    scores : which form of identity (b) holds.
    grouped : whether heads can share key/value heads.
    scale : what q kᵀ is multiplied by: a number, or a setting's name; None is ``1/√head_dim``.
    marks : what every one of its layers must be marked with.
    """

    stacks: tuple[str, ...]
    scores: Scores = Scores.PLAIN
    grouped: bool = False
    scale: float | str | None = None
    marks: tuple[str, ...] = field(default=())


def _many(names: str, architecture: Architecture) -> dict[str, Architecture]:
    return dict.fromkeys(names.split(), architecture)


NORMED = Architecture(DECODER, Scores.NORMED, grouped=True, marks=("query/key norm",))

ARCHITECTURES: Mapping[str, Architecture] = {
    **_many("gpt2 gpt-sw3 openai-gpt gptj gpt_neox opt biogpt", Architecture(DECODER)),
    **_many("gpt_neo", Architecture(DECODER, scale=1.0)),
    **_many("bloom mpt", Architecture(DECODER, Scores.BIASED)),
    **_many(
        "llama mistral ministral mixtral qwen2 qwen2_moe gemma phi phi3 phimoe stablelm starcoder2 cohere cohere2 olmo "
        "nemotron glm glm4 helium smollm3 seed_oss arcee ernie4_5 ernie4_5_moe hyperclovax jais2 cwm",
        Architecture(DECODER, grouped=True),
    ),
    **_many("granite granitemoe granitemoeshared", Architecture(DECODER, grouped=True, scale="attention_multiplier")),
    **_many("qwen3 qwen3_moe olmo2 olmo3 olmoe flex_olmo apertus exaone4 hunyuan_v1_dense minimax_m2", NORMED),
    **_many("gemma3_text", Architecture(DECODER, Scores.NORMED, True, "query_pre_attn_scalar", ("query/key norm",))),
    **_many("gemma2 vaultgemma", Architecture(DECODER, Scores.CAPPED, True, "query_pre_attn_scalar")),
    **_many("gpt_oss", Architecture(DECODER, Scores.SINKING, True, marks=("attention sink",))),
    **_many(
        "bert roberta xlm-roberta xlm-roberta-xl roberta-prelayernorm camembert data2vec-text electra distilbert ernie "
        "megatron-bert rembert modernbert xlm flaubert bert-generation layoutlm esm",
        Architecture(ENCODER),
    ),
    **_many("eurobert", Architecture(ENCODER, grouped=True)),
    **_many("mpnet", Architecture(ENCODER, Scores.BIASED)),
    **_many("t5 mt5 umt5 switch_transformers", Architecture(ENCODER_DECODER, Scores.BIASED, scale=1.0)),
    **_many(
        "bart mbart marian pegasus blenderbot blenderbot-small m2m_100 nllb-moe mvp plbart",
        Architecture(ENCODER_DECODER),
    ),
}
"""Every type that is taken apart and put together again."""


def settings_of(model_type: str) -> dict[str, Any]:
    """Give the settings of a type, with other counts than the usual ones where its configuration knows them."""
    known = transformers.AutoConfig.for_model(model_type).to_dict()
    settings: dict[str, Any] = {"num_attention_heads": 6, "hidden_size": 48, "tie_word_embeddings": False}
    if model_type == "esm":
        settings["position_embedding_type"] = "absolute"
    if ARCHITECTURES[model_type].grouped:
        settings["num_key_value_heads"] = 3
    if "head_dim" in known and model_type != "helium":  # whose output projection is square whatever it says
        settings["head_dim"] = 10
    if "decoder_attention_heads" in known:
        settings["decoder_attention_heads"] = 3
    if "attention_bias" in known:
        settings["attention_bias"] = True
    if model_type == "gpt_neo":
        settings |= {"num_hidden_layers": 4, "attention_types": [[["global", "local"], 2]]}
    return settings


def expected_counts(model_type: str, settings: Mapping[str, Any], stack: str) -> tuple[int, int, int, int]:
    """Say how many layers, heads, key/value heads and rows per head a stack of a type with these settings has."""
    tiny = {"num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "hidden_size": 32}
    given = {**tiny, **settings}
    layers, heads = given["num_hidden_layers"], given["num_attention_heads"]
    if len(ARCHITECTURES[model_type].stacks) > 1 and stack != "encoder":
        layers, heads = 3, given.get("decoder_attention_heads", heads)
    shared = given["num_key_value_heads"] if ARCHITECTURES[model_type].grouped else heads
    return layers, heads, shared, given.get("head_dim", given["hidden_size"] // heads)
