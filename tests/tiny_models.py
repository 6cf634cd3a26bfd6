"""Tiny models with random weights, of the types and in the file layout that people have, made in a few milliseconds.

Every parameter is random, biases and norm gains too, so that a wrong slice or a forgotten bias shows in the numbers;
the weights are large enough that attention is far from uniform.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

from tests.tiny_classes import base_class

VOCABULARY = 320
"""Rows of the embeddings, a few more than the tokenizers have tokens."""

CONTEXT = 64
"""The longest sentence where a configuration can say so."""

LINES = (
    "The cat sat on the mat, and the dog sat on the cat.",
    "When Mary and John went to the store, John gave a drink to Mary.",
    "def attend(query, key): return softmax(query @ key.T)\n",
)
"""What the tokenizers are trained on."""

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": CONTEXT,
}
"""What nearly every configuration calls its sizes, or knows by another name of its own; where not, it has none."""

ENCODER_DECODER_SIZES = {
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
T5_SIZES = {"num_decoder_layers": 3, "d_kv": 8, "d_ff": 48, "decoder_start_token_id": 0}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}

OWN_SIZES: dict[str, dict[str, Any]] = {
    "bart": ENCODER_DECODER_SIZES,
    "blenderbot": ENCODER_DECODER_SIZES,
    "blenderbot-small": ENCODER_DECODER_SIZES,
    "distilbert": {"hidden_dim": 48},
    "cwm": {"head_dim": 8, "sliding_window": 4},
    "electra": {"embedding_size": 24},
    "ernie4_5": {"head_dim": 8},
    "ernie4_5_moe": EXPERTS | {"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1},
    "flaubert": {"n_langs": 1},
    "flex_olmo": EXPERTS,
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "query_pre_attn_scalar": 7, "attn_logit_softcapping": 3.0, "sliding_window": 32},
    "gemma3_text": {"head_dim": 8, "query_pre_attn_scalar": 7, "sliding_window": 32},
    "glm": {"head_dim": 8},
    "glm4": {"head_dim": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gpt_oss": {"head_dim": 8, **EXPERTS, "sliding_window": 4, "rope_parameters": {"rope_type": "default"}},
    "gptj": {"rotary_dim": 4},
    "granite": {"attention_multiplier": 0.3},
    "granitemoe": {"attention_multiplier": 0.3, **EXPERTS},
    "helium": {"head_dim": 8},
    "hunyuan_v1_dense": {"head_dim": 8},
    "m2m_100": ENCODER_DECODER_SIZES,
    "marian": ENCODER_DECODER_SIZES | {"decoder_vocab_size": VOCABULARY},
    "mbart": ENCODER_DECODER_SIZES,
    "minimax_m2": EXPERTS | {"head_dim": 8},
    "ministral": {"head_dim": 8, "sliding_window": 4},
    "mistral": {"sliding_window": 4},
    "mixtral": EXPERTS,
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "mpnet": {"pad_token_id": 1},  # as its positions take for granted
    "mpt": {"max_seq_len": CONTEXT},
    "mt5": T5_SIZES,
    "mvp": ENCODER_DECODER_SIZES,
    "nllb-moe": ENCODER_DECODER_SIZES | {"num_experts": 4},
    "olmoe": EXPERTS,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "pegasus": ENCODER_DECODER_SIZES,
    "phimoe": EXPERTS,
    "plbart": ENCODER_DECODER_SIZES,
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 16},
    "qwen3": {"head_dim": 8},
    "qwen3_moe": EXPERTS | {"head_dim": 8},
    "seed_oss": {"head_dim": 8},
    "rembert": {"input_embedding_size": 24, "output_embedding_size": 24},
    "switch_transformers": T5_SIZES | {"num_experts": 2, "d_kv": 8},
    "t5": T5_SIZES,
    "umt5": T5_SIZES,
    "vaultgemma": {
        "head_dim": 8,
        "query_pre_attn_scalar": 7,
        "attn_logit_softcapping": 3.0,
        "sliding_window": 32,
    },
    "xlm": {"n_langs": 1},
}
"""What a type's configuration needs beyond the usual sizes to be tiny, valid, and telling in its attention."""

WORD_PIECE_TYPES = frozenset({"bert", "distilbert", "electra", "ernie", "megatron-bert", "rembert"})
"""Types that get a WordPiece tokenizer with its special tokens; the others get a byte-level one."""


def configuration(model_type: str, **settings: Any) -> transformers.PretrainedConfig:
    """Make a tiny configuration of a type; ``settings`` have the usual names and overrule everything."""
    config_class: Any = type(transformers.AutoConfig.for_model(model_type))
    own_names: dict[str, str] = config_class.attribute_map
    known = config_class().to_dict()
    # The byte-level tokenizer's special tokens, or WordPiece's, whose first token is the padding.
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0 if model_type in WORD_PIECE_TYPES else 2}
    sizes = {name: value for name, value in SIZES.items() if own_names.get(name, name) in known}
    wanted = sizes | special | OWN_SIZES.get(model_type, {}) | settings
    silenced = {name: 0.0 for name, value in known.items() if _is_dropout(name) and value}
    named = {own_names.get(name, name): value for name, value in (silenced | wanted).items()}
    config: transformers.PretrainedConfig = config_class(**named)
    return config


def _is_dropout(name: str) -> bool:
    """Say whether a setting drops numbers at random; ESM's ``token_dropout`` does not."""
    return name.endswith(("dropout", "pdrop")) and name != "token_dropout"


def build(config: transformers.PretrainedConfig, with_head: bool = False, seed: int = 0) -> Any:
    """Build a model with random weights: its base class, or the class with a language-modelling head."""
    if with_head:
        mapping: Any = next(
            auto
            for auto in (
                transformers.AutoModelForSeq2SeqLM,
                transformers.AutoModelForCausalLM,
                transformers.AutoModelForMaskedLM,
            )
            if type(config) in auto._model_mapping
        )
        model: Any = mapping.from_config(config, attn_implementation="eager").eval()
    else:
        model = base_class(config)._from_config(config, attn_implementation="eager").eval()
    randomise(model, seed)
    return model


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Draw every parameter anew: matrices wide enough to make attention pick, biases, and gains around one."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if not parameter.requires_grad:
                continue  # positions that the model computes and does not save
            if id(parameter) in embeddings:
                parameter.copy_(noise)
            elif parameter.ndim > 1:
                parameter.copy_(1.6 * noise / min(parameter.shape) ** 0.5)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(1 + 0.3 * noise)


def save(model: Any, directory: Path) -> Path:
    """Write a model and its tokenizer as `save_pretrained` does."""
    model.save_pretrained(directory)
    model_type = model.config.model_type
    tokenizer = word_piece_tokenizer() if model_type in WORD_PIECE_TYPES else byte_level_tokenizer()
    tokenizer.save_pretrained(directory)
    return directory


@cache
def byte_level_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Train a GPT-2-like tokenizer: every byte is a token, frequent words are too, nothing is added to a sentence."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 4,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


@cache
def word_piece_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Train a BERT-like tokenizer: lower case, word pieces, and ``[CLS]`` and ``[SEP]`` around a sentence."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
