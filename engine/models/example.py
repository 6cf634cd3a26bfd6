"""What a module that somebody else wrote can be called with, to watch it compute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

LENGTH = 11
"""Tokens of an example; few sizes of models are equal to it."""


@dataclass(frozen=True)
class Example:
    """Arguments of a module, for one sentence."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def reads_tokens(self) -> bool:
        """Whether a sentence of token ids can be put into it."""
        return any(_is_ids(each) for each in (*self.args, *self.kwargs.values()))

    def with_ids(self, ids: Tensor) -> Example:
        """Put other token ids, (1, tokens), in the place of all there are."""

        def put(value: Any) -> Any:
            return ids.to(value.device) if _is_ids(value) else value

        return replace(
            self, args=tuple(map(put, self.args)), kwargs={name: put(value) for name, value in self.kwargs.items()}
        )


def _is_ids(value: Any) -> bool:
    """Say whether a value can be the ids of one sentence."""
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32) and value.ndim == 2


def examples(module: nn.Module) -> Iterator[Example]:
    """Make up arguments: token ids for what looks words up, else vectors of the widths that its parts read."""
    generator = torch.Generator().manual_seed(0)
    if isinstance(module, nn.MultiheadAttention):
        yield _of_attention(module, generator)
    first = next(module.parameters(), torch.zeros(1))
    required = max(1, _required(module))
    for table in dict.fromkeys(each.num_embeddings for each in module.modules() if isinstance(each, nn.Embedding)):
        ids = torch.randint(table, (1, LENGTH), generator=generator).to(first.device)
        yield Example((ids,) * required, {})
    for width in dict.fromkeys(_widths(module)):
        x = torch.randn(1, LENGTH, width, generator=generator).to(first)
        for form in (x, x.transpose(0, 1))[:: -1 if _puts_tokens_first(module) else 1]:
            yield Example((form,) * required, {})


def _of_attention(module: nn.MultiheadAttention, generator: torch.Generator) -> Example:
    """Make up queries, keys and values of the widths that they have."""
    reads = [
        torch.randn(1, LENGTH, width, generator=generator).to(module.out_proj.weight)
        for width in (module.embed_dim, module.kdim, module.vdim)
    ]
    same = module.kdim == module.vdim == module.embed_dim
    reads = [reads[0]] * 3 if same else [reads[0], reads[1], reads[1] if module.kdim == module.vdim else reads[2]]
    return Example(tuple(each if module.batch_first else each.transpose(0, 1) for each in reads), {})


def _puts_tokens_first(module: nn.Module) -> bool:
    """Say whether a module's attention has tokens along the first axis and sentences along the second."""
    return any(isinstance(each, nn.MultiheadAttention) and not each.batch_first for each in module.modules())


def _required(module: nn.Module) -> int:
    """Count the arguments that a module cannot do without."""
    taken = inspect.signature(module.forward).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.default is each.empty and each.kind in positional for each in taken)


def _widths(module: nn.Module) -> Iterator[int]:
    """Give the widths that a module's parts read, in their order."""
    for part in module.modules():
        for name in ("embed_dim", "in_features"):
            if isinstance(width := getattr(part, name, None), int):
                yield width
        if isinstance(shape := getattr(part, "normalized_shape", None), tuple) and shape:
            yield int(shape[-1])
    for parameter in module.parameters():
        yield from parameter.shape
