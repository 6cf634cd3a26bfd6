"""The tensors that turn tokens into the residual stream and back, and the gains of the norms on the way.

They are found by the names that they have in transformers. What is not found by name, or has another width than the
heads read, is left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.architectures.rules import sibling
from engine.architectures.tensors import TensorEntry, Tensors, describe_not_finite
from engine.values.errors import NotFinite, NotFolded
from engine.values.outline import LayerOutline, ModelOutline

EMBEDDINGS = (
    "wte", "embed_tokens", "word_embeddings", "embed_in", "tokens_embed", "tok_embeddings", "embeddings", "shared",
)  # fmt: skip
"""The last component of a token embedding's name."""

UNEMBEDDINGS = (
    "lm_head", "embed_out", "output_projection", "lm_head.decoder", "cls.predictions.decoder", "generator_lm_head",
    "vocab_projector", "pred_layer.proj",
)  # fmt: skip
"""The ends of an unembedding's name."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tensors between one stack's heads and tokens, each (tokens, d), or None if there is none.

    They are the embedding that queries read, the one that keys and values read, which is another one in attention
    across stacks, and the unembedding, which turns the stack's residual stream into logits.
    """

    queries: str | None
    source: str | None
    unembedding: str | None


def vocabulary(
    outline: ModelOutline, stack: str, entries: Mapping[str, TensorEntry], setting: Callable[[str], Any]
) -> Vocabulary:
    """Find a stack's embeddings and unembedding by name.

    An unembedding that is not stored is the embedding if the configuration ties them (``tie_word_embeddings``). The
    encoder of a model that also has a decoder has no unembedding.

    Parameters
    ----------
    setting : gives a setting of the model's configuration by its name.
    """
    has_two_sides = "cross" in outline.stacks
    own_side = "encoder" if stack == "encoder" else "decoder"
    sides = (own_side, "encoder" if stack == "cross" else own_side) if has_two_sides else ("", "")
    queries, source = (_embedding(entries, side) for side in sides)
    is_of_two_sides = has_two_sides or queries == "shared.weight"  # an encoder may be saved alone
    if is_of_two_sides and stack == "encoder":
        return Vocabulary(queries, source, None)
    stored = _single(
        name for name in _modules_beside_layers(entries, 2)
        if name in ("decoder", "output") or any(f".{name}".endswith(f".{each}") for each in UNEMBEDDINGS)
    )  # fmt: skip
    unembedding = None if stored is None else f"{stored}.weight"
    if unembedding is None and setting("tie_word_embeddings") is True:
        unembedding = queries
    return Vocabulary(queries, source, unembedding)


def _modules_beside_layers(entries: Mapping[str, TensorEntry], axes: int) -> list[str]:
    """Name the modules in no layer whose weight has so many axes."""
    return [
        name.removesuffix(".weight")
        for name, entry in entries.items()
        if len(entry.shape) == axes and name.endswith(".weight") and not any(map(str.isdigit, name.split(".")))
    ]


def _single(names: Iterable[str]) -> str | None:
    """Return the only name, or None if there are none or several."""
    found = list(names)
    return found[0] if len(found) == 1 else None


def _of_side(names: Sequence[str], side: str) -> str | None:
    """Return the only name of one side of a model, or else the only one of neither side."""
    own = [name for name in names if side in name.split(".")]
    shared = [name for name in names if {"encoder", "decoder"}.isdisjoint(name.split("."))]
    return _single(own) or _single(shared)


def _embedding(entries: Mapping[str, TensorEntry], side: str) -> str | None:
    """Find the token embedding of one side of a model, or of a model with one side."""
    found = [name for name in _modules_beside_layers(entries, 2) if name.rpartition(".")[2] in EMBEDDINGS]
    name = _of_side(found, side) if side else _single(found)
    return None if name is None else f"{name}.weight"


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


NORMS_BEFORE = {
    "../ln_1": _types("gpt2 gpt-sw3 gptj"),
    "../../ln_1": _types("gpt_neo"),
    "../input_layernorm": _types(
        "llama mistral ministral mixtral qwen2 qwen2_moe gemma phi3 phimoe stablelm starcoder2 nemotron glm helium "
        "smollm3 seed_oss arcee ernie4_5 ernie4_5_moe jais2 cwm granite granitemoe granitemoeshared gpt_oss "
        "eurobert gpt_neox bloom phi cohere cohere2 glm4 hyperclovax qwen3 qwen3_moe olmoe minimax_m2 "
        "hunyuan_v1_dense gemma2 gemma3_text vaultgemma internlm3 iquestcoder"
    ),
    "../attention_layernorm": _types("apertus"),
    "../norm_1": _types("mpt"),
    "../self_attn_layer_norm": _types("biogpt mbart pegasus blenderbot m2m_100 nllb-moe"),
    "../layer_norm": _types("t5 mt5 umt5 switch_transformers"),
}
"""Types by the name, relative to the attention module, of the norm that a layer's attention reads through.

In other types the same name is that of the norm after the attention, so every type is listed.
"""

FINAL_NORMS = (
    "ln_f", "norm", "norm_f", "final_layer_norm", "final_layernorm", "layer_norm",
)  # fmt: skip
"""The last component of the name of the norm before the unembedding, in types of `NORMS_BEFORE`."""

GAINS_FROM_ZERO = _types("gemma gemma2 gemma3_text vaultgemma nemotron")
"""Types whose norms multiply by the stored number plus one."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of a norm: its tensor, and the number that is added to it."""

    name: str
    offset: float


def gain_before(outline: ModelOutline, layer: LayerOutline, entries: Mapping[str, TensorEntry]) -> Gain:
    """Find the gain of the norm that a layer's attention reads through; `NotFolded` when none is known by name."""
    for beside, types in NORMS_BEFORE.items():
        name = f"{sibling(layer.module, beside)}.weight"
        if outline.model_type in types and layer.stack != "cross" and name in entries:
            return _gain(name, layer.d_model, outline, entries)
    across = "attention across stacks reads the encoder through no norm" if layer.stack == "cross" else "it has none"
    raise NotFolded(
        f"no norm before {layer.stack}.{layer.name} is known by name ({across} that attn-tui knows for type "
        f"'{outline.model_type}')"
    )


def final_gain(outline: ModelOutline, layer: LayerOutline, entries: Mapping[str, TensorEntry]) -> Gain:
    """Find the gain of the norm before the unembedding; `NotFolded` when none is known by name."""
    names = [name for name in _modules_beside_layers(entries, 1) if name.rpartition(".")[2] in FINAL_NORMS]
    is_known = any(outline.model_type in types for types in NORMS_BEFORE.values())
    name = _of_side(names, layer.stack) if is_known else None
    if name is None:
        raise NotFolded(f"the norm before the unembedding is not known by name for type '{outline.model_type}'")
    return _gain(f"{name}.weight", layer.d_output, outline, entries)


def _gain(name: str, d: int, outline: ModelOutline, entries: Mapping[str, TensorEntry]) -> Gain:
    if entries[name].shape != (d,):
        raise NotFolded(f"{name} has shape {list(entries[name].shape)}, not [{d}]")
    return Gain(name, 1.0 if outline.model_type in GAINS_FROM_ZERO else 0.0)


def read_gain(tensors: Tensors, gain: Gain) -> Any:
    """Read the gain of a norm, (d,) float64; `NotFinite` when it holds NaN or infinite numbers."""
    stored = tensors.read(gain.name)
    if what := describe_not_finite({gain.name: (stored,)}):
        raise NotFinite(what)
    return stored.double() + gain.offset
