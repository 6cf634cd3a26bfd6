"""Direct logit attribution: what each head's output adds to the logit of a token.

With the scales of norms held fixed, the logit is a sum over what was added to the residual stream (Elhage et al. 2021,
A Mathematical Framework for Transformer Circuits). This module takes that sum with the model's own code. At the token
that is predicted from, everything but the heads is held fixed: what the first block reads, what MLPs write, the scales
of norms. The blocks then run with no head on, with each head on alone, and with all heads on. A head's contribution is
what it adds to the logit when it is on alone, through all norms, multipliers and projections on its way. The model is
declined where the contributions and the logit without heads do not add up to the model's own logit.

The logit without heads is split in the same way: the contribution of the embedding, or of one block's MLP, is what is
lost without it, and what stays without all of them comes from the biases. Where these do not add up, as in a model that
scales MLPs by the embedding, the part stays whole and is called the rest.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.attention_capture import Check
from engine.models.interventions import HeldNorm, first_tensor, is_norm, replace_states, states_at_token
from engine.models.predictions import LOGIT_SLACK, MeasuredLogit, Predictor, Prompt
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import TAKING_APART

ROWS_AT_ONCE = 512
"""Heads per run, at most."""

LOGITS_AT_ONCE = 1 << 26
"""Logits per run, at most: 256 MB."""

ROUNDINGS = 8
"""Rounding errors, in units of the dtype's epsilon, between the unembedding's logits and final logits equal to them."""

Part = tuple[float, float]
"""What a part adds to the measured logit, and the root mean square of what it adds to that of a random token."""


@dataclass(frozen=True)
class Contributions:
    """The parts of a logit.

    Attributes
    ----------
    logit : of the token; where a cap follows the unembedding, the logit before the cap.
    measured : the sum of the contributions: that logit, or how far it is above another token's.
    heads : in the order of the model.
    others : by name and number of the block, if it is of one: the embedding, MLPs, whole blocks without attention, and
        biases; or the rest, where it cannot be split.
    is_before_cap : whether a cap follows.
    """

    logit: float
    measured: float
    heads: dict[Head, Part]
    others: dict[tuple[str, int | None], Part]
    is_before_cap: bool


def contributions(
    predictor: Predictor, prompt: Prompt, measured: MeasuredLogit, vocabulary: int, check: Check
) -> Contributions:
    """Split a token's logit, or its difference from another's, into the parts that heads and MLPs add.

    Raises `EngineError` when the model's logit is no sum over its heads, even with the scales of norms held fixed.
    """
    at_once = _at_once(vocabulary)
    of_heads = 1 + sum(layer.heads for layer in _layers(predictor))
    of_others = 2 + len(predictor.stream.blocks)
    first_runs = 2  # on the sentence, and with no head on and another input of the first block
    runs = first_runs + math.ceil(of_heads / at_once) + math.ceil(of_others / at_once)
    with predictor.reporting(TAKING_APART, runs):
        return _Replay(predictor, prompt, check).contributions(measured)


def _layers(predictor: Predictor) -> list[LayerOutline]:
    """List the layers whose heads write to the residual stream of the predicting stack."""
    layers = predictor.outline.attending_layers
    return [each for each in layers if each.stack in (predictor.stack, "cross") and predictor.is_run(each.name)]


def _at_once(vocabulary: int) -> int:
    return max(1, min(ROWS_AT_ONCE, LOGITS_AT_ONCE // vocabulary))


def _norm_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return next(iter((*args, *kwargs.values())), None)


class _Replay:
    """One token's pass through a model, recorded so that it can be repeated with some heads off.

    Outputs and norms are recorded by module, in the order of its calls.
    """

    def __init__(self, predictor: Predictor, prompt: Prompt, check: Check) -> None:
        self._predictor, self._prompt, self._check = predictor, prompt, check
        layers = _layers(predictor)
        self._names = [layer.name for layer in layers]
        self._heads = [head for layer in layers for head in layer.head_names()]
        projections = {predictor.outputs.module(layer) for layer in self._names}
        self._attending = {
            number
            for number, block in enumerate(predictor.stream.blocks)
            if not projections.isdisjoint(block.modules())
        }
        self._norms: dict[nn.Module, list[HeldNorm | None]] = {
            module: [] for module in predictor.model.modules() if is_norm(module)
        }
        keep_running = projections | self._norms.keys()
        self._block_of = {
            part: number
            for number, block in enumerate(predictor.stream.blocks)
            for part in _held_parts(block, keep_running)
        }
        self._given: dict[nn.Module, list[Tensor | None]] = {part: [] for part in self._block_of}
        self._read: dict[Head, Tensor] = {}
        self._states: list[Tensor] = []
        [self._logits] = predictor.run(prompt, check, self._recording())
        self._dtype: torch.dtype = next(predictor.model.parameters()).dtype

    @contextmanager
    def _recording(self) -> Iterator[None]:
        predictor, position, tokens = self._predictor, self._prompt.position, len(self._prompt.tokens)

        def keep(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self._given[module].append(states_at_token(first_tensor(result), position, tokens))

        def keep_norm(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            read, written = (states_at_token(each, position, tokens) for each in (_norm_input(args, kwargs), result))
            held = None if read is None or written is None else HeldNorm.of(module, read, written)
            self._norms[module].append(held)

        def keep_read(layer: Head, read: Tensor) -> Tensor:
            self._read[layer] = read[0, position if read.shape[1] == tokens else -1][None].clone()
            return read

        with self._hooked(keep, keep_norm) as stack:
            stack.enter_context(predictor.outputs.changing(self._names, 1, keep_read))
            stack.enter_context(predictor.stream.watching(position, tokens, self._states))
            yield

    @contextmanager
    def _hooked(self, hook: Any, norm_hook: Any) -> Iterator[ExitStack]:
        with ExitStack() as stack:
            for module in self._given:
                stack.enter_context(module.register_forward_hook(hook))
            for module in self._norms:
                stack.enter_context(module.register_forward_hook(norm_hook, with_kwargs=True))
            yield stack

    def _logits_with(
        self, on: Sequence[Head | None], first: Tensor | None = None, without: Sequence[Collection[int]] = ()
    ) -> tuple[Tensor, Tensor]:
        """Run with one head on in each row, none (None), or all (a layer's name).

        ``without`` lists for each row the blocks whose own outputs, such as MLPs', are zero. Gives the final logits,
        (rows, vocabulary), and those of the unembedding before anything follows it.
        """
        masks = {layer: self._mask(layer, on) for layer in self._names}
        predictor = self._predictor
        raw: list[Tensor] = []

        given = {module: iter(calls) for module, calls in self._given.items()}
        norms = {module: iter(calls) for module, calls in self._norms.items()}

        def put(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            state = next(given[module], None)
            if state is not None and without:
                state = torch.cat([state * (self._block_of[module] not in blocks) for blocks in without])
            return None if state is None else replace_states(result, state)

        def put_norm(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            norm = next(norms[module], None)
            return None if norm is None else norm(_norm_input(args, kwargs)).to(result)

        def put_heads(layer: Head, read: Tensor) -> Tensor:
            return (masks[layer] * self._read[layer]).to(read)[:, None]

        def keep_raw(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            raw.append(result.reshape(len(on), -1).float().cpu())

        with self._hooked(put, put_norm) as stack:
            stack.enter_context(predictor.unembedding.register_forward_hook(keep_raw))
            stack.enter_context(predictor.outputs.changing(self._names, len(on), put_heads))
            stack.enter_context(predictor.stream.beginning_with(self._states[0] if first is None else first))
            try:
                found = predictor.run_tokens(self._prompt, len(on), self._check)
            except Superseded:
                raise
            except EngineError as error:
                raise self._refusal("it does not run on separate tokens") from error
        return found, raw[0] if raw else found

    def _mask(self, layer: Head, on: Sequence[Head | None]) -> Tensor:
        """Give one for the columns that are on in each row, (rows, width); columns of no head are always on."""
        read = self._read[layer]
        outline = self._predictor.outline.layer(layer)
        mask = torch.ones(len(on), read.shape[-1], dtype=read.dtype, device=read.device)
        for row, head in enumerate(on):
            if head is None or not head.is_layer:
                mask[row, : outline.heads * outline.value_head_dim] = 0
            if head is not None and head.whole_layer == layer and not head.is_layer:
                mask[row, self._predictor.outputs.columns(head)] = 1
        return mask

    def contributions(self, measured: MeasuredLogit) -> Contributions:
        tried = [self._names[0], *self._heads]
        count = _at_once(len(self._logits))
        final, raw = first = self._logits_with([None, *tried[:count]])
        (elsewhere,), _ = self._logits_with([None], torch.zeros_like(self._states[0]))
        if self._is_same(elsewhere, final[0]):  # so no head would change it either
            raise self._refusal("its blocks do not pass on what they read")
        is_before_cap = not self._follows(final[:2], raw[:2])
        added = [_gains(first[is_before_cap], measured)]
        own = float(measured.of(final[1]))
        logits = raw[1] if is_before_cap else self._logits
        logit, total = float(logits[measured.token]), float(measured.of(logits))
        del first, final, raw, logits
        for start in range(count, len(tried), count):
            self._check()
            several = self._logits_with([None, *tried[start : start + count]])
            added.append(_gains(several[is_before_cap], measured)[1:])
        nothing, whole, *alone = torch.cat(added)
        slack = LOGIT_SLACK.get(self._dtype, 4e-2)
        size = max(1.0, float(torch.stack(alone)[:, 0].abs().max()), float(self._logits.abs().max()))
        if abs(own - float(measured.of(self._logits))) > slack * size:
            raise self._refusal("its blocks do not only add to the residual stream")
        if abs(float(sum(part[0] for part in alone) - whole[0])) > slack * size:
            raise self._refusal("what follows its last block is not linear, even with the norms' scales fixed")
        by_head = {head: _part(part) for head, part in zip(self._heads, alone, strict=True)}
        others = self._others(measured, count, is_before_cap)
        if abs(sum(part for part, _ in others.values()) - float(nothing[0])) > slack * size:
            others = {("rest", None): _part(nothing)}
        return Contributions(logit, total, by_head, others, is_before_cap)

    def _others(self, measured: MeasuredLogit, count: int, is_before_cap: bool) -> dict[tuple[str, int | None], Part]:
        """Give what is lost without the embedding and without each block's MLP, and what stays without them all."""
        blocks = range(len(self._predictor.stream.blocks))
        names: list[tuple[str, int | None]] = [("embedding", None)]
        names += [("MLP" if each in self._attending else "block", each) for each in blocks]
        rows: list[tuple[bool, Collection[int]]] = [(False, ()), *((True, (each,)) for each in blocks), (False, blocks)]
        lost = []
        for start in range(0, len(rows), count):
            self._check()
            some = [(True, ()), *rows[start : start + count]]
            begins = torch.cat([self._states[0] * has_embedding for has_embedding, _ in some])
            logits = self._logits_with([None] * len(some), begins, [without for _, without in some])[is_before_cap]
            lost.append(_gains(logits, measured)[1:])
        found = {name: _part(-part) for name, part in zip(names, torch.cat(lost)[:-1], strict=True)}
        found["biases", None] = _part(_gains(logits[-1:], measured)[0])
        return {name: (value, abs(spread)) for name, (value, spread) in found.items()}

    def _is_same(self, some: Tensor, others: Tensor) -> bool:
        both = some.isfinite() & others.isfinite()  # some models rule tokens out by an infinite logit
        some, others = some[both].double(), others[both].double()
        return bool((some - others).abs().max() <= ROUNDINGS * torch.finfo(self._dtype).eps * others.abs().max())

    def _follows(self, final: Tensor, raw: Tensor) -> bool:
        """Say whether final logits rise as those of the unembedding do, up to one factor for all tokens.

        They do not under a cap. One token's sum would not show it: it comes out right where the cap hardly bends.
        """
        read, gained = ((rows[1] - rows[0]).double() for rows in (raw, final))
        if read.shape != gained.shape:
            return True  # the unembedding has more than one use
        both = read.isfinite() & gained.isfinite()  # some models rule tokens out by an infinite logit
        read, gained, size = read[both], gained[both], final[final.isfinite()].abs().max()
        factor = (read @ gained) / (read @ read).clamp_min(torch.finfo(read.dtype).tiny)
        return bool((gained - factor * read).abs().max() <= ROUNDINGS * torch.finfo(self._dtype).eps * size)

    def _refusal(self, why: str) -> EngineError:
        name = self._predictor.name
        return EngineError(f"{name} has no contributions: {why}; predictions and ablation work")


def _held_parts(module: nn.Module, running: set[nn.Module]) -> Iterator[nn.Module]:
    """Yield the parts of a block that are held fixed: all that have weights but norms and output projections."""
    for part in module.children():
        if part in running:
            continue
        taken = inspect.signature(part.forward).parameters.values()
        required = [each for each in taken if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
        may_add_stream = len(required) > 1 and any(True for _ in part.children())
        if may_add_stream or any(each in running for each in part.modules()):
            yield from _held_parts(part, running)
        elif any(True for _ in part.parameters()):
            yield part


def _gains(logits: Tensor, measured: MeasuredLogit) -> Tensor:
    """Give what each row but the first adds to the first row's logits: (rows, 2), measured and by chance."""
    nothing = logits[0]
    spread = [measured.spread(row - nothing if number else row) for number, row in enumerate(logits)]
    own = measured.of(logits)
    return torch.stack([torch.cat([own[:1], own[1:] - own[0]]), torch.tensor(spread).to(own)], 1)


def _part(pair: Tensor) -> Part:
    return float(pair[0]), float(pair[1])
