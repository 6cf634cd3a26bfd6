"""Direct logit attribution: what each head's output, added to the residual stream, gives to the logit of a token.

With the scale of norms held fixed, the logit is a sum over what was added to the residual stream (Elhage et al. 2021, A
Mathematical Framework for Transformer Circuits). Here that sum is taken with the model's own code. For the token that
is predicted at, everything but the heads is held as it was: what the first block reads, what MLPs give, the scales of
norms. Then the blocks are run with no head on, with each head on alone, and with all. What a head adds to the logit
when it is on alone is its contribution, through whatever norms, multipliers and projections lie on its way; what there
is with none is the rest: embedding, MLPs and biases. That these add up to the model's own logit is checked, and
where they do not the model is declined: its heads then do not simply add up.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.held_norms import HeldNorm, is_norm, norm_call
from engine.models.logit_parts import Contributions, added, part_of
from engine.models.predictor import CLOSE, Asked, Breathe, Predictor
from engine.models.stream import at_token, first_tensor, replaced
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress_report import TAKING_APART

ROWS_AT_ONCE = 512
"""Heads that are tried at a time, at most."""

LOGITS_AT_ONCE = 1 << 26
"""Logits that are computed at a time, at most: 256 MB."""

AROUND = 4
"""Runs beside those that try heads: on the sentence, with none on, with none and another beginning, with all on."""

ROUNDINGS = 8
"""Roundings of the model's numbers that lie between what the unembedding gives and final logits that follow it."""


@dataclass
class _Held:
    """What a module gave at the token in each of its calls, or the norm that it was."""

    calls: list[Any]
    place: int = 0

    def next(self) -> Any:
        """Give what belongs to the next call."""
        self.place += 1
        return self.calls[self.place - 1] if self.place <= len(self.calls) else None


def contributions(predictor: Predictor, asked: Asked, token: int, vocabulary: int, breathe: Breathe) -> Contributions:
    """Take the logit of a token apart, of as many as the model has.

    Raises
    ------
    EngineError : when the model's logit is no sum over its heads, even with the scales of norms held fixed.
    """
    alone = 1 + sum(layer.heads for layer in _layers(predictor))
    with predictor.told(TAKING_APART, AROUND + math.ceil(alone / _at_once(vocabulary))):
        return _Replay(predictor, asked, breathe).of(token)


def _layers(predictor: Predictor) -> list[LayerOutline]:
    """List the layers whose heads write to the stream that is predicted from."""
    layers = predictor.outline.attending_layers
    return [each for each in layers if each.stack in (predictor.stack, "cross") and predictor.is_run(each.name)]


def _at_once(vocabulary: int) -> int:
    """Say how many heads are tried at a time where there are so many logits."""
    return max(1, min(ROWS_AT_ONCE, LOGITS_AT_ONCE // vocabulary))


class _Replay:
    """One token's pass through a model, kept so that it can be run again with some heads off."""

    def __init__(self, predictor: Predictor, asked: Asked, breathe: Breathe) -> None:
        self._predictor = predictor
        self._asked = asked
        self._breathe = breathe
        outputs = predictor.outputs
        self._layers = _layers(predictor)
        self._heads = [head for layer in self._layers for head in layer.head_names()]
        for layer in self._layers:
            outputs.module(layer.name)
        self._projections = {outputs.module(layer.name) for layer in self._layers}
        norms = [module for module in predictor.model.modules() if is_norm(module)]
        self._held: dict[nn.Module, _Held] = {}
        self._norms: dict[nn.Module, _Held] = {module: _Held([]) for module in norms}
        self._read: dict[Head, Tensor] = {}
        for block in predictor.stream.inside():
            self._hold_parts(block)
        self._record()

    def _hold_parts(self, module: nn.Module) -> None:
        """Note what of a block is held as it was: all that has weights, but for norms and output projections."""
        for part in module.children():
            if part in self._projections or part in self._norms:
                continue
            inner = list(part.modules())
            is_around = any(each in self._projections or each in self._norms for each in inner)
            if is_around or (_takes_several(part) and any(True for _ in part.children())):
                self._hold_parts(part)  # what takes several things may add the stream to what it computes
            elif any(True for _ in part.parameters()):
                self._held[part] = _Held([])

    def _record(self) -> None:
        """Read the sentence, and keep what everything gave at the token."""
        asked, predictor = self._asked, self._predictor
        position, tokens = asked.position, len(asked.tokens)
        probed: set[nn.Module] = set()

        def keep(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self._held[module].calls.append(at_token(first_tensor(result), position, tokens))

        def keep_norm(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if module in probed:
                return  # it is called by its own probing
            probed.add(module)
            read, written = (at_token(each, position, tokens) for each in (norm_call(args, kwargs), result))
            held = None if read is None or written is None else HeldNorm.of(module, read, written)
            self._norms[module].calls.append(held)
            probed.remove(module)

        def keep_read(layer: Head, read: Tensor) -> Tensor:
            self._read[layer] = read[0, position if read.shape[1] == tokens else -1][None].clone()
            return read

        @contextmanager
        def watching() -> Iterator[None]:
            for each in (*self._held.values(), *self._norms.values()):
                each.calls.clear()
            with ExitStack() as stack:
                for module in self._held:
                    stack.callback(module.register_forward_hook(keep).remove)
                for module in self._norms:
                    stack.callback(module.register_forward_hook(keep_norm, with_kwargs=True).remove)
                layers = [layer.name for layer in self._layers]
                stack.enter_context(predictor.outputs.changing(layers, 1, keep_read))
                self._kept = stack.enter_context(predictor.stream.watching(position, tokens))
                yield

        self._logits = predictor.run(asked, self._breathe, watching)

    def _logits_with(self, on: list[Head | None], first: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run with one head on in each row, none (None), or all (a layer's name stands for all).

        Returns
        -------
        logits, before : (rows, vocabulary) the final ones, and those that the unembedding gives before anything
            follows it. ``first`` stands in the place of what the first block reads.
        """
        masks = {layer.name: self._mask(layer.name, on) for layer in self._layers}
        raw: list[Tensor] = []

        def put(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            state = self._held[module].next()
            return None if state is None else replaced(result, state)

        def put_norm(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            held = self._norms[module].next()
            return None if held is None else held(norm_call(args, kwargs)).to(result)

        def put_heads(layer: Head, read: Tensor) -> Tensor:
            return (masks[layer] * self._read[layer]).to(read)[:, None]

        def keep_raw(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            raw.append(result.reshape(len(on), -1).float().cpu())

        @contextmanager
        def replaying() -> Iterator[None]:
            raw.clear()
            for each in (*self._held.values(), *self._norms.values()):
                each.place = 0
            with ExitStack() as stack:
                for module in self._held:
                    stack.callback(module.register_forward_hook(put).remove)
                for module in self._norms:
                    stack.callback(module.register_forward_hook(put_norm, with_kwargs=True).remove)
                stack.callback(self._predictor.unembedding.register_forward_hook(keep_raw).remove)
                layers = [layer.name for layer in self._layers]
                stack.enter_context(self._predictor.outputs.changing(layers, len(on), put_heads))
                stack.enter_context(self._predictor.stream.beginning_with(self._kept[0] if first is None else first))
                yield

        try:
            found = self._predictor.run_tokens(self._asked, len(on), self._breathe, replaying)
        except Superseded:
            raise
        except EngineError as error:
            raise EngineError(self._refusal("it does not run on single tokens put together by hand")) from error
        return found, raw[0] if raw else found

    def _mask(self, layer: Head, on: list[Head | None]) -> Tensor:
        """Say which columns are on in which row: (rows, width); those that are no head's always are."""
        read = self._read[layer]
        outline = self._predictor.outline.layer(layer)
        mask = torch.ones(len(on), read.shape[-1], dtype=read.dtype, device=read.device)
        for row, head in enumerate(on):
            if head is None or not head.is_layer:
                mask[row, : outline.heads * outline.value_head_dim] = 0
            if head is not None and head.whole_layer == layer and not head.is_layer:
                mask[row, self._predictor.outputs.columns(head)] = 1
        return mask

    def of(self, token: int) -> Contributions:
        """Take the logit of a token apart."""
        own = float(self._logits[token])
        nothing, elsewhere = (
            self._logits_with([None], first)[0][0] for first in (None, torch.zeros_like(self._kept[0]))
        )
        if bool((elsewhere == nothing).all()):  # then heads could not be followed to the end either
            raise EngineError(self._refusal("its blocks do not hand on what they read"))
        rest, whole, *alone = self._parts(token)
        parts = torch.stack(alone)
        is_before_cap = not self._follows(*self._logits_with([None, self._layers[0].name]))
        kind = int(is_before_cap)
        slack = CLOSE.get(self._dtype, 4e-2)
        size = max(1.0, float(parts[..., 0].abs().max()), float(self._logits.abs().max()))
        if abs(float(rest[0, 0] + whole[0, 0]) - own) > slack * size:
            raise EngineError(self._refusal("what is between its blocks is no sum that could be taken apart"))
        if abs(float(parts[:, kind, 0].sum() - whole[kind, 0])) > slack * size:
            raise EngineError(self._refusal("what follows its last block is not linear, even with norms' scales held"))
        by_head = {head: part_of(part[kind]) for head, part in zip(self._heads, alone, strict=True)}
        logit = float(rest[kind, 0] + whole[kind, 0]) if is_before_cap else own
        return Contributions(logit, by_head, part_of(rest[kind]), is_before_cap)

    def _follows(self, final: Tensor, raw: Tensor) -> bool:
        """Say whether the final logits gain what the unembedding gives, but for one factor for all tokens.

        A cap is told by this and not by one token's sum, which comes out right where the cap is flat, or hardly bends.
        """
        read, gained = ((rows[1] - rows[0]).double() for rows in (raw, final))
        if read.shape != gained.shape:
            return True  # more than one thing is made of what the unembedding gives
        both = read.isfinite() & gained.isfinite()  # some models rule tokens out by an infinite logit
        read, gained, size = read[both], gained[both], final[final.isfinite()].abs().max()
        factor = (read @ gained) / (read @ read).clamp_min(torch.finfo(read.dtype).tiny)
        return bool((gained - factor * read).abs().max() <= ROUNDINGS * torch.finfo(self._dtype).eps * size)

    @property
    def _dtype(self) -> torch.dtype:
        """The numbers that the model computes in."""
        found: torch.dtype = next(self._predictor.model.parameters()).dtype
        return found

    def _parts(self, token: int) -> Tensor:
        """Give what is there with no head on, what all heads add to it together, and what each adds alone.

        Returns
        -------
        parts : (2 + heads, 2, 2) to the final logits, and to those that the unembedding gives; of these to the token's,
            and the root mean square of what is added to all tokens'.
        """
        asked = [self._layers[0].name, *self._heads]
        count = _at_once(len(self._logits))
        found: list[Tensor] = []
        for first in range(0, len(asked), count):
            self._breathe()
            kinds = [added(each, token) for each in self._logits_with([None, *asked[first : first + count]])]
            found.append(torch.stack(kinds, 1)[1 if first else 0 :])
        return torch.cat(found)

    def _refusal(self, why: str) -> str:
        """Say that a model is declined."""
        return f"{self._predictor.name} has no direct contributions of heads: {why}; its predictions and ablations work"


def _takes_several(module: nn.Module) -> bool:
    """Say whether a module cannot be called with one thing alone."""
    asked = inspect.signature(module.forward).parameters.values()
    return sum(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in asked) > 1
