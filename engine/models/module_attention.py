"""The attention layers of a module that no library wrote: ``nn.MultiheadAttention``, and what computes alike."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.devices import CheckedLookups
from engine.models.head_tracing import AttentionWatch, HeadRows, ModuleCall, TracedHeads, WatchedAttention, trace_heads
from engine.models.proof import Observation
from engine.values.errors import EngineError

ENCODERS = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""PyTorch's own modules in which tokens look both ways."""

ALONE = "self"
"""What an attention module is called that is the whole model."""

LENGTH = 11
"""Tokens of an example; few sizes of models are equal to it."""


@dataclass(frozen=True)
class Example:
    """Arguments of a module, for one sentence."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def reads_tokens(self) -> bool:
        """Whether a sentence of token ids can be put into it."""
        return any(_is_ids(each) for each in (*self.args, *self.kwargs.values()))

    def with_ids(self, ids: tuple[int, ...]) -> Example:
        """Put a sentence's token ids in the place of all there are."""

        def put(value: Any) -> Any:
            return torch.tensor([ids], device=value.device) if _is_ids(value) else value

        return Example(tuple(map(put, self.args)), {name: put(value) for name, value in self.kwargs.items()})


def _is_ids(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32) and value.ndim == 2


Taker = Callable[[], Tensor]
"""Takes one of a layer's matrices, or its bias, out of the module's parameters as they are now."""


@dataclass(frozen=True)
class FoundAttention:
    """One attention module of somebody else's.

    Attributes
    ----------
    path : its dotted name in the model.
    module : itself.
    takers : of each matrix (``Q``) and bias (``Q.bias``); heads one after the other, keys and values by key/value head.
    heads, key_value_heads : how many there are.
    looks_back_only : whether no token looks at a later one, or None where it has not been seen to compute.
    reads_elsewhere : whether keys and values come from another sequence than the queries.
    marks : what is known to change its circuits.
    observed : what it read and wrote when it was found by watching it; None where it was not.
    """

    path: str
    module: nn.Module
    takers: Mapping[str, Taker]
    heads: int
    key_value_heads: int
    looks_back_only: bool | None
    reads_elsewhere: bool
    marks: tuple[str, ...]
    observed: Observation | None = None


@dataclass
class Search:
    """What was found in a module.

    Attributes
    ----------
    found : its attention layers, in the order in which they are registered or computed.
    example : what it was called with, where it was called.
    reasons : why attention that was seen is not among them.
    """

    found: list[FoundAttention] = field(default_factory=list)
    example: Example | None = None
    reasons: list[str] = field(default_factory=list)


def find_attention(module: nn.Module, given: Example | None) -> Search:
    """Find every attention layer of a module.

    Parameters
    ----------
    module : in the state in which it computes and not learns.
    given : what to call it with; made up where it is None.

    Raises
    ------
    EngineError : when there is none that can be followed, saying what was tried.
    """
    paths = {part: path or ALONE for path, part in module.named_modules()}
    encoders = tuple(f"{path}." if path else "" for path, part in module.named_modules() if isinstance(part, ENCODERS))
    found: dict[nn.Module, FoundAttention] = {
        part: _of_pytorch(path, part, is_encoder=path.startswith(encoders))
        for part, path in paths.items()
        if isinstance(part, nn.MultiheadAttention)
    }
    example, seen, failure = _call_watched(module, given, may_see_nothing=bool(found))
    reasons = []
    for attention in seen:
        try:
            traced = _follow(attention, paths)
            found.setdefault(traced.module, traced)
        except EngineError as error:
            reasons.append(str(error))
    if found:
        return Search(list(found.values()), example, reasons)
    if reasons:
        raise EngineError(reasons[0])
    name = type(module).__name__
    if example is None:
        raise EngineError(f"{name} cannot be called by itself ({failure}); give example=, what to call it with")
    raise EngineError(f"{name} computes no softmax attention that attn-tui can see: no softmax over scores")


def _call_watched(
    module: nn.Module, given: Example | None, *, may_see_nothing: bool
) -> tuple[Example | None, list[WatchedAttention], str]:
    """Call a module until a call goes through and attention is seen in it."""
    failure, called = "nothing to call it with was found", None
    for example in [given] if given is not None else _examples(module):
        try:
            with torch.no_grad(), CheckedLookups(), AttentionWatch().watching(module) as watch:
                module(*example.args, **example.kwargs)
        except Exception as error:  # whatever a person's own code raises
            failure = " ".join(str(error).split())[:200] or type(error).__name__
            continue
        called = called or example
        if watch.seen or may_see_nothing:
            return example, watch.seen, ""
    return called, [], failure


def _follow(attention: WatchedAttention, paths: Mapping[nn.Module, str]) -> FoundAttention:
    """Follow one computation of attention to its projections, from the innermost module outwards."""
    reason: EngineError | None = None
    for call in reversed(attention.calls):
        if call.module not in paths or not any(each.ndim == 2 for each in call.module.parameters()):
            continue
        path = paths[call.module]
        try:
            return _of_traced(path, call, trace_heads(call.module, call.again, path))
        except EngineError as error:
            reason = reason or error
    raise reason or EngineError("attention is computed outside of any module that has parameters")


def _of_traced(path: str, call: ModuleCall, traced: TracedHeads) -> FoundAttention:
    rows = {"Q": traced.query, "K": traced.key, "V": traced.value, "O": traced.output}
    takers = {matrix: _weight_of(each, dim=int(matrix == "O")) for matrix, each in rows.items()}
    biases = {f"{matrix}.bias": _bias_of(each, is_output=matrix == "O") for matrix, each in rows.items()}
    takers |= {name: take for name, take in biases.items() if take is not None}
    is_square = traced.weights.shape[-1] == traced.weights.shape[-2]
    later = traced.weights.triu(1) if is_square else traced.weights
    return FoundAttention(
        path, call.module, takers,
        heads=len(traced.query.places), key_value_heads=len(traced.key.places),
        looks_back_only=not bool(later.any()),
        reads_elsewhere=_reads_elsewhere(call, traced),
        marks=("query/key bias",) if {"Q.bias", "K.bias"} & takers.keys() else (),
        observed=traced.observed(call.module),
    )  # fmt: skip


def _weight_of(rows: HeadRows, dim: int) -> Taker:
    """Take every head's rows or columns and put them one after the other."""
    return partial(_take_together, [each.weight for each in rows.projections], rows.places, dim)


def _bias_of(rows: HeadRows, *, is_output: bool) -> Taker | None:
    """Take a projection's bias likewise, that of the output projection whole; None where it has none."""
    biases = [each.bias for each in rows.projections if each.bias is not None]
    if is_output:
        return biases[0].detach if biases else None
    return partial(_take_together, biases, rows.places, 0) if len(biases) == len(rows.projections) else None


def _take_together(parameters: list[Tensor], places: Tensor, dim: int) -> Tensor:
    """Take places out of each parameter as it is now, and put them one after the other."""
    if all(parameter is parameters[0] for parameter in parameters):
        return _take(parameters[0], dim, places.flatten())
    return torch.cat([_take(parameter, dim, own) for parameter, own in zip(parameters, places, strict=True)], dim)


def _take(parameter: Tensor, dim: int, places: Tensor) -> Tensor:
    """Take rows or columns out of a parameter as it is now."""
    return parameter.detach().index_select(dim, places.to(parameter.device))


def _of_pytorch(path: str, module: nn.MultiheadAttention, *, is_encoder: bool) -> FoundAttention:
    """Take PyTorch's own multi-head attention apart, which keeps its projections fused unless their widths differ."""
    width, heads = module.embed_dim, module.num_heads
    output = module.out_proj
    takers: dict[str, Taker] = {"O": output.weight.detach}
    if output.bias is not None:
        takers["O.bias"] = output.bias.detach
    for order, matrix in enumerate("QKV"):
        places = torch.arange(order * width, (order + 1) * width)
        separate = getattr(module, f"{matrix.lower()}_proj_weight", None)
        takers[matrix] = partial(_take, module.in_proj_weight, 0, places) if separate is None else separate.detach
        if module.in_proj_bias is not None:
            takers[f"{matrix}.bias"] = partial(_take, module.in_proj_bias, 0, places)
    marks = ["query/key bias"] if "Q.bias" in takers else []
    marks += ["added key and value"] if module.bias_k is not None or module.add_zero_attn else []
    is_cross = path.endswith("multihead_attn")  # what PyTorch's own decoder layer calls its second attention
    looks_back_only = False if is_encoder else None
    return FoundAttention(path, module, takers, heads, heads, looks_back_only, is_cross, tuple(marks))


def _reads_elsewhere(call: ModuleCall, traced: TracedHeads) -> bool:
    """Say whether keys are of another sequence than queries: of another length, or of another argument."""
    read, other = traced.query.projections[0].read, traced.key.projections[0].read
    if read.shape[0] != other.shape[0]:
        return True
    given = [each for each in (*call.args, *call.kwargs.values()) if isinstance(each, Tensor) and each.ndim > 1]
    sequences = {id(each) for each in given if each.is_floating_point() and each.shape[-1] == other.shape[-1]}
    return len(sequences) > 1 and (read.shape != other.shape or not torch.allclose(read, other))


def layer_numbers(paths: list[str]) -> Iterator[int]:
    """Give each layer the number in its name, where every name has one of its own, else its place in the order."""
    numbers = [re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path) for path in paths]
    firsts = [int(each[0]) if each else -1 for each in numbers]
    yield from firsts if len(set(firsts)) == len(firsts) and -1 not in firsts else range(len(paths))


def _examples(module: nn.Module) -> Iterator[Example]:
    """Make up arguments: token ids for what looks words up, else vectors of the widths that its parts read."""
    generator = torch.Generator().manual_seed(0)
    parts = list(module.modules())
    like = next(module.parameters(), torch.zeros(1))
    has_tokens_first = any(isinstance(each, nn.MultiheadAttention) and not each.batch_first for each in parts)

    def vectors(width: int) -> Tensor:
        x = torch.randn(1, LENGTH, width, generator=generator).to(like)
        return x.transpose(0, 1) if has_tokens_first else x

    if isinstance(module, nn.MultiheadAttention):
        yield Example(tuple(map(vectors, (module.embed_dim, module.kdim, module.vdim))))
    taken = inspect.signature(module.forward).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = max(1, sum(each.default is each.empty and each.kind in positional for each in taken))
    for table in dict.fromkeys(each.num_embeddings for each in parts if isinstance(each, nn.Embedding)):
        yield Example((torch.randint(table, (1, LENGTH), generator=generator).to(like.device),) * required)
    for width in dict.fromkeys(_widths(module)):
        yield Example((vectors(width),) * required)


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
