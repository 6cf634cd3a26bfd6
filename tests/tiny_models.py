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

WORD_PIECE_TYPES = frozenset({"bert", "distilbert", "electra", "ernie", "megatron-bert", "rembert"})
"""Types that get a WordPiece tokenizer with its special tokens; the others get a byte-level one."""


def build(config: transformers.PretrainedConfig, with_head: bool = False, seed: int = 0) -> Any:
    """Build a model with random weights: its base class, or the class with a language-modelling head."""
    if with_head:
        autos = (getattr(transformers, f"AutoModelFor{kind}") for kind in ("Seq2SeqLM", "CausalLM", "MaskedLM"))
        make: Any = next(auto for auto in autos if type(config) in auto._model_mapping).from_config
    else:
        make = base_class(config)._from_config
    model = make(config, attn_implementation="eager").eval()
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
        vocab_size=VOCABULARY - 4, special_tokens=["<s>", "</s>", "<pad>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
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
