"""The attention layers of a module that no library wrote: ``nn.MultiheadAttention``, and what computes alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from engine.models.attending import Attending, Attention, Call
from engine.models.beyond import marks_beyond
from engine.models.example import Example, examples
from engine.models.tracing import Traced, trace
from engine.values.errors import EngineError

ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""PyTorch's own modules in which tokens look both ways."""

ALONE = "self"
"""What an attention module is called that is the whole model."""


@dataclass(frozen=True)
class Part:
    """One of a layer's matrices, or its bias: how it is taken out of the module's parameters, each time anew."""

    shape: tuple[int, ...]
    dtype: str
    take: Callable[[], Tensor]


@dataclass(frozen=True)
class Found:
    """One attention module of somebody else's.

    Attributes
    ----------
    path : its dotted name in the model.
    module : itself.
    weights, biases : by matrix; heads one after the other, keys and values by key/value head.
    heads, key_value_heads : how many there are.
    looks_back_only : whether no token looks at a later one, or None where it has not been seen to compute.
    reads_elsewhere : whether keys and values come from another sequence than the queries.
    marks : what changes its circuits.
    """

    path: str
    module: nn.Module
    weights: Mapping[str, Part]
    biases: Mapping[str, Part]
    heads: int
    key_value_heads: int
    looks_back_only: bool | None
    reads_elsewhere: bool
    marks: tuple[str, ...] = ()


@dataclass
class Search:
    """What was found in a module.

    Attributes
    ----------
    found : its attention layers, in the order in which they are registered or computed.
    example : what it was called with, where it was called.
    reasons : why attention that was seen is not among them.
    """

    found: list[Found] = field(default_factory=list)
    example: Example | None = None
    reasons: list[str] = field(default_factory=list)


def search(module: nn.Module, given: Example | None) -> Search:
    """Find every attention layer of a module.

    Parameters
    ----------
    module : in the state in which it computes and not learns.
    given : what to call it with; made up where it is None.

    Raises
    ------
    EngineError : when there is none that can be followed, saying what was tried.
    """
    result = Search()
    encoders = [path for path, part in module.named_modules() if isinstance(part, ENCODERS)]
    for path, part in module.named_modules():
        if isinstance(part, nn.MultiheadAttention):
            is_encoder = any(path.startswith(f"{each}." if each else "") for each in encoders)
            result.found.append(_pytorch_attention(path or ALONE, part, is_encoder))
    result.example, seen, failure = _watched(module, given, any(result.found))
    paths = {part: path or ALONE for path, part in module.named_modules()}
    done: set[nn.Module] = set()
    for attention in seen:
        try:
            found = _followed(attention, paths)
        except EngineError as error:
            result.reasons.append(str(error))
            continue
        if found.module not in done:
            done.add(found.module)
            result.found.append(found)
    if not result.found:
        name = type(module).__name__
        if result.reasons:
            raise EngineError(result.reasons[0])
        if result.example is None:
            raise EngineError(f"{name} cannot be called by itself ({failure}); give example=, what to call it with")
        raise EngineError(f"{name} computes no softmax attention that attn-tui can see: no softmax over scores")
    return result


def _watched(
    module: nn.Module, given: Example | None, may_see_nothing: bool
) -> tuple[Example | None, list[Attention], str]:
    """Call a module until a call goes through and attention is seen in it."""
    failure, called = "nothing to call it with was found", None
    for example in [given] if given is not None else examples(module):
        attending = Attending()
        try:
            with torch.no_grad(), attending.watching(module):
                module(*example.args, **example.kwargs)
        except Exception as error:  # whatever a person's own code raises
            failure = " ".join(str(error).split())[:200] or type(error).__name__
            continue
        called = called or example
        if attending.seen or may_see_nothing:
            return example, attending.seen, ""
    return called, [], failure


def _followed(attention: Attention, paths: Mapping[nn.Module, str]) -> Found:
    """Follow one computation of attention to its projections, from the innermost module outwards."""
    reason: EngineError | None = None
    for call in reversed(attention.calls):
        if call.module not in paths or sum(each.ndim == 2 for each in call.module.parameters()) == 0:
            continue
        try:
            return _as_found(paths[call.module], call, trace(call.module, call.again, paths[call.module]))
        except EngineError as error:
            reason = reason or error
    raise reason or EngineError("attention is computed outside of any module that has parameters")


def _as_found(path: str, call: Call, traced: Traced) -> Found:
    """Name what was traced."""
    weights, biases = {}, {}
    for matrix, rows in (("Q", traced.query), ("K", traced.key), ("V", traced.value), ("O", traced.output)):
        parts = [(each.weight, places) for each, places in zip(rows.projections, rows.places, strict=True)]
        weights[matrix] = _part(partial(_taken_together, parts, int(matrix == "O")))
        own = [each.bias for each in rows.projections]
        if matrix == "O" and own[0] is not None:
            biases[matrix] = _part(own[0].detach)
        elif all(bias is not None for bias in own):
            leaning = [(bias, places) for bias, places in zip(own, rows.places, strict=True) if bias is not None]
            biases[matrix] = _part(partial(_taken_together, leaning, 0))
    later = traced.weights.triu(1) if traced.weights.shape[-1] == traced.weights.shape[-2] else traced.weights
    marks = marks_beyond(traced) + (("query/key bias",) if {"Q", "K"} & biases.keys() else ())
    return Found(
        path, call.module, weights, biases,
        len(traced.query.places), len(traced.key.places),
        not bool(later.any()),
        _reads_elsewhere(call, traced),
        marks,
    )  # fmt: skip


def _pytorch_attention(path: str, module: nn.MultiheadAttention, is_encoder: bool) -> Found:
    """Take PyTorch's own multi-head attention apart, which keeps its projections fused unless their widths differ."""
    width, heads = module.embed_dim, module.num_heads
    weights, biases = {}, {}
    for order, (matrix, name) in enumerate((("Q", "q"), ("K", "k"), ("V", "v"))):
        places = torch.arange(order * width, (order + 1) * width)
        separate = getattr(module, f"{name}_proj_weight", None)
        fused = partial(_taken, module.in_proj_weight, 0, places)
        weights[matrix] = _part(fused if separate is None else separate.detach)
        if module.in_proj_bias is not None:
            biases[matrix] = _part(partial(_taken, module.in_proj_bias, 0, places))
    weights["O"] = _part(module.out_proj.weight.detach)
    if module.out_proj.bias is not None:
        biases["O"] = _part(module.out_proj.bias.detach)
    extra: tuple[str, ...] = ("query/key bias",) if "Q" in biases else ()
    extra += ("added key and value",) if module.bias_k is not None or module.add_zero_attn else ()
    is_cross = path.endswith("multihead_attn")  # what PyTorch's own decoder layer calls its second attention
    return Found(path, module, weights, biases, heads, heads, False if is_encoder else None, is_cross, extra)


def _reads_elsewhere(call: Call, traced: Traced) -> bool:
    """Say whether keys are of another sequence than queries: of another length, or of another argument."""
    read, other = traced.query.read, traced.key.read
    if read.shape[0] != other.shape[0]:
        return True
    given = [each for each in (*call.args, *call.kwargs.values()) if isinstance(each, Tensor) and each.ndim > 1]
    sequences = {id(each) for each in given if each.is_floating_point() and each.shape[-1] == other.shape[-1]}
    return len(sequences) > 1 and (read.shape != other.shape or not torch.allclose(read, other))


def _taken_together(parts: list[tuple[Tensor, Tensor]], dim: int) -> Tensor:
    """Take every head's rows or columns and put them one after the other."""
    if all(parameter is parts[0][0] for parameter, _ in parts):
        return _taken(parts[0][0], dim, torch.cat([places for _, places in parts]))
    return torch.cat([_taken(parameter, dim, places) for parameter, places in parts], dim)


def _taken(parameter: Tensor, dim: int, places: Tensor) -> Tensor:
    """Take rows or columns out of a parameter as it is now."""
    return parameter.detach().index_select(dim, places.to(parameter.device))


def _part(take: Callable[[], Tensor]) -> Part:
    """Describe a matrix or bias by what it is now."""
    now = take()
    return Part(tuple(now.shape), str(now.dtype).removeprefix("torch."), take)


def layer_numbers(paths: list[str]) -> Iterator[int]:
    """Give each layer the number in its name, where every name has one of its own, else its place in the order."""
    numbers = [re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path) for path in paths]
    firsts = [int(each[0]) if each else -1 for each in numbers]
    yield from firsts if len(set(firsts)) == len(firsts) and -1 not in firsts else range(len(paths))
