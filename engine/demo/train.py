"""Train the demo model: ``python -m engine.demo.train``, about ten minutes on two cores.

A Llama with four layers learns from English that `engine.demo.corpus` writes and collects, and from rows of random
tokens that repeat with some period, from which it learns induction: to attend to what followed the last time.

That is too little training to find the wiring of induction by chance, so the first two layers start with it
(`wire_induction`). Everything else starts from random numbers.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

from engine.demo import MODEL_DIRECTORY
from engine.demo.corpus import english_documents, python_prose, repeated_row

START = "<|start|>"
"""The token at the start of every text; heads that find nothing can rest there."""

CONTEXT, VOCABULARY, D_MODEL, HEAD_DIM, ROTARY_BASE = 512, 2048, 128, 32, 10_000.0
ROW = 128
"""Tokens of a training row."""

ENGLISH_ROWS, REPEATED_ROWS = 12, 8
"""Rows of each kind in a step."""

SHORTEST_PERIOD, FIRST_LONGEST_PERIOD, LAST_LONGEST_PERIOD = 3, 20, 60
"""Periods of repeats; the longest grows during the first half of the training."""

LEARNING_RATE = 2e-3
EMBEDDING_SIZE, WRITTEN_SIZE, MATCH_SIZE, COPIED_SIZE, LOOK_BACK = 0.06, 0.3, 2.0, 1.0, 4.5
"""Scales of the initial embeddings, of what the first layer writes and the second matches and copies, and of biases."""

CHECKPOINTS = 30
"""Steps of the training that are kept where a folder is named for them."""

SLOW = 0.012
"""Rotary planes that turn by fewer radians per position take part in the match."""


def build_tokenizer(texts: Iterator[str]) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE on texts; digits stay single, and every text begins with a start token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[START],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, 0)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=START,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def build_model(*, is_wired: bool = True) -> transformers.LlamaForCausalLM:
    """Build the untrained model: four layers, eight query heads that share four key/value heads.

    Its first layer looks back; ``is_wired`` says whether its second one already uses that for induction.
    """
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=D_MODEL,
            intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=HEAD_DIM,
            rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE},
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            attention_bias=True,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    angles = ROTARY_BASE ** (-torch.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0.0, EMBEDDING_SIZE)
        look_back(model.model.layers[0].self_attn, angles)
    if is_wired:
        wire_induction(model, angles)
    return model


def look_back(attention: transformers.models.llama.modeling_llama.LlamaAttention, angles: Tensor) -> None:
    """Initialise the first head of each pair to attend one, two, three and four positions back.

    Rotary positions turn plane p of a query at position i and a key at j by ``i θ_p`` and ``j θ_p``. A key bias of
    (a, 0) and a query bias of (a cos hθ_p, −a sin hθ_p) in every plane give the score ``Σ_p a² cos((i − j − h) θ_p)``,
    which is largest at ``i − j = h`` (Su et al. 2021).
    """
    width = 2 * len(angles)
    shared_heads = attention.k_proj.bias.numel() // width
    group = attention.q_proj.bias.numel() // attention.k_proj.bias.numel()
    key = torch.cat([torch.ones_like(angles), torch.zeros_like(angles)]) * LOOK_BACK
    attention.k_proj.bias.copy_(key.repeat(shared_heads))
    for shared in range(shared_heads):
        turned = angles * (shared + 1)
        rows = slice(shared * group * width, (shared * group + 1) * width)
        attention.q_proj.bias[rows] = torch.cat([turned.cos(), -turned.sin()]) * LOOK_BACK


def wire_induction(model: transformers.LlamaForCausalLM, angles: Tensor) -> None:
    """Initialise the first two layers with the wiring of induction (Elhage et al. 2021; Olsson et al. 2022).

    The first layer's head 0 reads one subspace of the previous token and writes it into another; the keys of the second
    layer's first head read it there, and its queries read the token itself. So a token's query finds the keys of
    tokens that followed the same token, and copies their values. Only slow rotary planes take part, which distance
    turns little.
    """
    first, second = (model.model.layers[layer].self_attn for layer in (0, 1))
    bases = torch.linalg.qr(torch.randn(D_MODEL, 3 * HEAD_DIM))[0].T  # (3 · head_dim, d_model)
    read, written, copied = bases.split(HEAD_DIM)
    head = slice(0, HEAD_DIM)
    slow = torch.cat([angles < SLOW, angles < SLOW]).float()[:, None]
    with torch.no_grad():
        first.v_proj.weight[head] = read
        first.o_proj.weight[:, head] = WRITTEN_SIZE * written.T
        second.q_proj.weight[head] = MATCH_SIZE * slow * read
        second.k_proj.weight[head] = MATCH_SIZE * slow * written
        second.v_proj.weight[head] = copied
        second.o_proj.weight[:, head] = COPIED_SIZE * copied.T


def english_rows(tokenizer: transformers.PreTrainedTokenizerFast, documents: Iterator[str]) -> Iterator[list[int]]:
    """Cut a stream of tokenized documents into rows."""
    stream = (token for document in documents for token in tokenizer(document, verbose=False)["input_ids"])
    while True:
        yield list(itertools.islice(stream, ROW))


def batches(english: Iterator[list[int]], steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Mix English and repeats: tokens and labels of each step.

    Repeated tokens are learned once they can be predicted; a label of -100 is not learned.
    """
    chooser = random.Random(4)
    for step in range(steps):
        grown = min(1.0, 2 * step / steps)
        longest = round(FIRST_LONGEST_PERIOD + grown * (LAST_LONGEST_PERIOD - FIRST_LONGEST_PERIOD))
        rows = [next(english) for _ in range(ENGLISH_ROWS)]
        labels = [list(row) for row in rows]
        for _ in range(REPEATED_ROWS):
            row, period = repeated_row(ROW - 1, VOCABULARY, SHORTEST_PERIOD, longest, chooser)
            rows.append([0, *row])
            labels.append([-100] * (period + 2) + row[period + 1 :])
        yield torch.tensor(rows), torch.tensor(labels)


def log_spaced_steps(steps: int, count: int = CHECKPOINTS) -> set[int]:
    """Choose steps from 1 on that grow by about the same factor each, and step 0.

    Examples
    --------
    >>> sorted(log_spaced_steps(1000, 6))
    [0, 1, 6, 32, 178, 1000]
    """
    for tried in itertools.count(count):  # the smallest of them round to the same steps
        chosen = {0, *(round(steps ** (number / (tried - 2))) for number in range(tried - 1))}
        if len(chosen) >= min(count, steps + 1):
            return chosen
    raise AssertionError("unreachable")


def train(
    steps: int,
    is_wired: bool,
    keep: Callable[[int, transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerFast], None],
) -> tuple[transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerFast]:
    """Train a tokenizer and a model, printing the progress; ``keep`` is called before the first step and after each."""
    torch.manual_seed(0)
    prose = python_prose()
    tokenizer = build_tokenizer(itertools.islice(english_documents(1, prose), min(12_000, 40 * steps)))
    model = build_model(is_wired=is_wired)
    matrices = [each for each in model.parameters() if each.ndim > 1]
    vectors = [each for each in model.parameters() if each.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    start = time.monotonic()
    rows = english_rows(tokenizer, english_documents(3, prose))
    keep(0, model, tokenizer)
    for step, (tokens, labels) in enumerate(batches(rows, steps), start=1):
        warm, left = min(1.0, step / 100), 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * warm * (0.02 + 0.98 * left)
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        keep(step, model, tokenizer)
        if step % 50 == 0 or step == steps:
            print(f"{step:5d}/{steps}  {time.monotonic() - start:5.0f} s  loss {loss.item():.3f}", flush=True)
    return model.eval(), tokenizer


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the demo model and write it into the package."""
    parser = argparse.ArgumentParser(description="Train the demo model.")
    parser.add_argument("--output", type=Path, default=MODEL_DIRECTORY, help="the folder to write")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--checkpoints", type=Path, help="a folder for checkpoints of the training, log-spaced")
    parser.add_argument("--unwired", action="store_true", help="let the second layer find induction, in 1,500 steps")
    chosen = parser.parse_args(arguments)
    transformers.logging.disable_progress_bar()
    kept = log_spaced_steps(chosen.steps) if chosen.checkpoints is not None else set[int]()

    def keep(step: int, model: transformers.LlamaForCausalLM, tokenizer: transformers.PreTrainedTokenizerFast) -> None:
        if step in kept:
            model.save_pretrained(chosen.checkpoints / f"checkpoint-{step}")
            tokenizer.save_pretrained(chosen.checkpoints / f"checkpoint-{step}")

    model, tokenizer = train(chosen.steps, not chosen.unwired, keep)
    model.save_pretrained(chosen.output)
    tokenizer.save_pretrained(chosen.output)


if __name__ == "__main__":
    main()
