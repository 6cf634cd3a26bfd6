"""Changing what a loaded model's modules read: switching heads off, and replacing the residual stream.

A head's output enters the output projection in columns of its own: head h has the columns ``h · value_head_dim`` to
``(h + 1) · value_head_dim`` of what that module reads, as `engine.architectures.heads` cuts W_O. At zero, the head
writes nothing; at their mean over the sentence's tokens, it writes the same at every token (mean ablation, Wang et al.
2023, arXiv 2211.00593).

The residual stream is replaced between blocks, which a model calls one after the other. Whatever follows the last block
(a norm, a head, a cap) runs in the model's own code. A norm whose scale is held fixed is linear in what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from engine.architectures.outline import AttentionModule
from engine.models.devices import widen
from engine.models.loaded_model import LoadedModules
from engine.values.errors import EngineError
from engine.values.heads import Head

TOKENS_AT_ONCE = 2048
"""Tokens per run while heads are switched off one by one, over all copies of the sentence."""

LARGE = 1e3
"""Size of the numbers that probe a norm, far above the epsilon that it adds to a variance."""

NORM_SLACK = 1e-3
"""How far a norm's output may be from that of the held norm, relative to its largest number."""

Change = Callable[[Head, Tensor], Tensor]
"""Maps a layer and what its output projection reads, (sentences, tokens, width), to what it reads instead."""


class OutputProjections:
    """The output projections of a loaded model of transformers, by layer, and changes to what they read."""

    def __init__(self, model: nn.Module, modules: Mapping[Head, AttentionModule]) -> None:
        self._model = model
        self._modules = {name: module for name, module in modules.items() if module.change_of is None}

    def module(self, layer: Head) -> nn.Module:
        """Give the module of a layer's output projection; `EngineError` where there is none."""
        found = self.layers.get(layer.whole_layer)
        if found is None:
            raise EngineError(
                f"the heads of {layer.stack} {layer.whole_layer} reach the residual stream through no module that "
                "attn-tui can change; this layer's heads cannot be switched off"
            )
        return found

    @cached_property
    def layers(self) -> dict[Head, nn.Module]:
        """The modules by layer, for the layers that have one."""
        loaded = LoadedModules(self._model)
        found = {
            name: loaded.beside(module, "O", lambda rule: rule.output_first or rule.output)
            for name, module in self._modules.items()
        }
        return {name: module for name, module in found.items() if module is not None}

    def columns(self, head: Head) -> slice:
        """Give a head's columns of what its layer's output projection reads."""
        width = self._modules[head.whole_layer].outline.value_head_dim
        return slice(head.head * width, (head.head + 1) * width)

    @contextmanager
    def changing(self, layers: Sequence[Head], sentences: int, change: Change) -> Iterator[None]:
        """Change what some layers' output projections read while the model runs once, on so many sentences.

        Raises `EngineError` at the end, when one of them was not called.
        """
        wanted = {layer.whole_layer for layer in layers}
        sharing: dict[nn.Module, list[Head]] = {}
        for layer, module in self.layers.items():
            sharing.setdefault(module, []).append(layer)
        done: set[Head] = set()

        def changer(names: list[Head]) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...] | None]:
            waiting = iter(names)  # layers that share a module call it in turn

            def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
                layer = next(waiting, None)
                if layer not in wanted or layer is None:
                    return None
                read, restore = split_sentences(args[0], sentences, isinstance(module, nn.Conv1d))
                outline = self._modules[layer].outline
                if read.shape[-1] < outline.heads * outline.value_head_dim:
                    return None  # it reads a few heads at a time, whose columns are elsewhere
                done.add(layer)
                return (restore(change(layer, read)), *args[1:])

            return hook

        with ExitStack() as stack:
            for module, names in sharing.items():
                if not wanted.isdisjoint(names):
                    stack.enter_context(module.register_forward_pre_hook(changer(names)))
            for layer in wanted:
                self.module(layer)
            yield
        if missed := wanted - done:
            layer = min(missed)
            raise EngineError(
                f"the output projection of {layer.stack} {layer} is not called as a module that reads all heads; "
                "they cannot be switched off"
            )

    def switching(
        self, heads: Sequence[Head], means: Mapping[Head, Tensor] | None, *, one_by_one: bool = False
    ) -> AbstractContextManager[None]:
        """Set heads to their layers' means, (width,), or to zero without means, while the model runs.

        All are off in one sentence, or the n-th is off in the n-th copy of it with ``one_by_one``.
        """

        def change(layer: Head, read: Tensor) -> Tensor:
            read = read.clone()
            for row, head in enumerate(heads):
                if head.whole_layer == layer:
                    columns, sentences = self.columns(head), slice(row, row + 1) if one_by_one else slice(None)
                    read[sentences, ..., columns] = 0 if means is None else means[layer][columns].to(read)
            return read

        return self.changing(heads, len(heads) if one_by_one else 1, change)

    def keeping_means(self, layers: Sequence[Head], means: dict[Head, Tensor]) -> AbstractContextManager[None]:
        """Keep the mean over the tokens of what output projections read, while the model runs on one sentence."""

        def change(layer: Head, read: Tensor) -> Tensor:
            means[layer] = read.flatten(0, -2).float().mean(0)
            return read

        return self.changing(layers, 1, change)


def split_sentences(x: Tensor, sentences: int, has_tokens_last: bool) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Give what a projection reads as (sentences, tokens, width), and the function that restores its layout.

    The tokens of all sentences may follow each other, or be the first axis, or the last one before a convolution.
    """
    if has_tokens_last:
        return x.mT, lambda each: each.mT
    if x.ndim == 2:
        return x.unflatten(0, (sentences, -1)), lambda each: each.flatten(0, 1)
    if x.shape[0] != sentences == x.shape[1]:
        return x.transpose(0, 1), lambda each: each.transpose(0, 1)
    return x, lambda each: each


def heads_per_run(heads: Sequence[Head], tokens: int) -> Iterator[list[Head]]:
    """Split heads into runs, each head with its own copy of a sentence of so many tokens."""
    left = list(heads)
    while left:
        count = min(max(1, TOKENS_AT_ONCE // tokens), len(left))
        if count == tokens > 1:
            count -= 1  # else sentences and tokens would be axes of one length
        some, left = left[:count], left[count:]
        yield some


Before = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[nn.Module, tuple[Any, ...], Any], Any]


def blocks_around(named: Mapping[str, nn.Module], paths: list[str]) -> tuple[nn.Module, ...]:
    """Find the blocks of a stack, with attention or without: all in the lists that hold the modules at ``paths``."""
    lists = [found[1] for path in paths if (found := re.match(r"(.*?)\.?\b\d+(\.|$)", path))]
    return tuple(block for name in dict.fromkeys(lists) for block in named[name].children())


def states_at_token(x: Any, position: int | None, tokens: int) -> Tensor | None:
    """Copy one token's state, (1, width), or without a position all tokens', (tokens, width), from a module's tensor.

    The tensor may be (1, tokens, width), (tokens, 1, width) or (tokens, width); gives None for any other.
    """
    if not isinstance(x, Tensor) or x.ndim not in (2, 3) or x.numel() != tokens * x.shape[-1]:
        return None
    places = slice(None) if position is None else slice(position, position + 1)
    return x.detach().reshape(tokens, -1)[places].clone()  # some models add to it in place


def first_tensor(result: Any) -> Any:
    """Give what a block returns, or the first of several things that it returns."""
    return result[0] if isinstance(result, (tuple, list)) and result else result


def replace_states(result: Any, states: Tensor, sentences: int | None = None) -> Any:
    """Replace the states in what a module returns by others, (sentences, width), the same at each token.

    With ``sentences`` they may be of more sentences than the module was given.
    """
    whole = first_tensor(result)
    each = states.to(whole).reshape(-1, *[1] * (whole.ndim - 2), states.shape[-1])
    new = each.expand(sentences or len(whole), *whole.shape[1:]).clone()  # some models add to it in place
    return type(result)((new, *result[1:])) if isinstance(result, (tuple, list)) else new


class ResidualStream:
    """The residual stream of the stack that a model predicts from, read and replaced at its blocks' calls."""

    def __init__(self, blocks: tuple[nn.Module, ...]) -> None:
        self.blocks = tuple(dict.fromkeys(blocks))

    @contextmanager
    def watching(self, position: int | None, tokens: int, seen: list[Tensor]) -> Iterator[None]:
        """Append the states before the first block and after each call of a block, as `states_at_token` gives them.

        Raises `EngineError` when the blocks pass on something else than one state for each token.
        """
        is_lost = False

        def keep(x: Any) -> None:
            nonlocal is_lost
            state = states_at_token(x, position, tokens)
            is_lost = is_lost or state is None
            if state is not None:
                seen.append(state)

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not seen:
                keep(args[0] if args else kwargs.get("hidden_states"))

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            keep(first_tensor(result))

        with self._hooked(before, after):
            yield
        if is_lost or len(seen) < 2 or len({state.shape for state in seen}) > 1:
            raise EngineError("this model's blocks pass on more than one residual stream, so attn-tui cannot follow it")

    @contextmanager
    def ending_with(self, calls: int, states: Tensor) -> Iterator[None]:
        """Replace what the last of so many calls of blocks returns by states, (sentences, width).

        The blocks themselves may run on fewer sentences.
        """
        call = 0

        def after(block: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            nonlocal call
            call += 1
            return replace_states(result, states, len(states)) if call == calls else None

        with self._hooked(None, after):
            yield

    @contextmanager
    def beginning_with(self, state: Tensor) -> Iterator[None]:
        """Replace what the first block reads by a state, (1, width), in every sentence."""
        is_first = True

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal is_first
            if not is_first:
                return None
            is_first = False
            if args:
                return (replace_states(args[0], state), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": replace_states(kwargs["hidden_states"], state)}

        with self._hooked(before, None):
            yield

    @contextmanager
    def _hooked(self, before: Before | None, after: After | None) -> Iterator[None]:
        with ExitStack() as stack:
            for block in self.blocks:
                if before is not None:
                    stack.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
                if after is not None:
                    stack.enter_context(block.register_forward_hook(after))
            yield


@dataclass(frozen=True)
class HeldNorm:
    """A norm with the scales of some tokens: ``x → scale · gain ⊙ (x − mean(x)) + bias``, or without the mean.

    Attributes
    ----------
    gain, bias : (..., width)
    scale : (..., 1) one over the standard deviation, or the root mean square, of each token.
    is_centred : whether the mean is subtracted.
    """

    gain: Tensor
    bias: Tensor
    scale: Tensor
    is_centred: bool

    @classmethod
    @torch.no_grad()
    def of(cls, norm: nn.Module, read: Tensor, written: Tensor) -> HeldNorm | None:
        """Probe a norm, and take its scales from what it read and wrote, (..., width).

        Finds a LayerNorm or an RMSNorm, with a gain counted from zero or one, or without one; None for anything else.
        """
        read = read.to(written.device)  # another device may have made it
        if read.shape[-1] % 2 or written.shape != read.shape:
            return None
        signs = torch.ones_like(read)
        signs[..., 1::2] = -1  # of mean zero and variance one
        zero, alternating, constant = (
            widen(norm.forward(probe)) for probe in (torch.zeros_like(signs), LARGE * signs, LARGE * signs.abs())
        )
        gain, bias = (alternating - zero) * widen(signs), zero
        is_centred = bool((constant - zero).abs().max() < 0.1 * gain.abs().max())
        plain, made = _centre(widen(read), is_centred) * gain, widen(written)
        scale = ((made - bias) * plain).sum(-1, keepdim=True) / plain.square().sum(-1, keepdim=True).clamp_min(1e-30)
        held = cls(gain, bias, scale, is_centred)
        slack = NORM_SLACK if read.dtype in (torch.float32, torch.float64) else 40 * NORM_SLACK
        return held if bool((held(read) - made).abs().max() <= slack * made.abs().max()) else None

    def __call__(self, x: Tensor) -> Tensor:
        """Norm other numbers, (..., width), in a wider dtype."""
        return self.scale * self.gain * _centre(widen(x.to(self.gain.device)), self.is_centred) + self.bias


def _centre(x: Tensor, is_centred: bool) -> Tensor:
    return x - x.mean(-1, keepdim=True) if is_centred else x


def is_norm(module: nn.Module) -> bool:
    """Say whether a module is a norm, by the name of its class; a module with parts is not."""
    return "norm" in type(module).__name__.lower() and not any(True for _ in module.children())
