"""Seeing attention computed in any PyTorch module, and finding the heads of one that was written by hand.

Nothing is asked of a module's names. While it computes, calls of PyTorch's functions pass through a function mode
(``torch.overrides.TorchFunctionMode``), which keeps the probabilities of every softmax over scores and of every fused
attention.

The module is called again with what it was called with, and every projection's output is made a leaf of the graph that
automatic differentiation follows. A row of a projection belongs to a head's query, key or value when the head's query,
key or value depends on it; a column of the output projection belongs to the head that it depends on, by a factor that
each head's probabilities are multiplied by. So the layout of a fused projection need not be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from engine.models.proof import Observation
from engine.values.errors import EngineError

SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
"""What turns scores into probabilities, as it can be called."""

FUSED = functional.scaled_dot_product_attention

PRODUCTS = frozenset({torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm})
"""Functions that multiply by a matrix from the right."""

ADDITIONS = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__})
"""Functions that add, perhaps a bias."""

NUMBERS_AT_ONCE = 2**23
"""Of what an output projection reads, times the columns that are differentiated, that are held at once."""


@dataclass(frozen=True)
class ModuleCall:
    """A module that is running, and what it was called with."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def again(self) -> Any:
        """Call the module once more, without a cache, which holds this very sentence."""
        return self.module(*map(_afresh, self.args), **{name: _afresh(value) for name, value in self.kwargs.items()})


def _afresh(value: Any) -> Any:
    """Take an argument as it can be used again: no cache, and tensors that a gradient can go through."""
    if isinstance(value, Tensor):
        return value.clone() if value.is_inference() else value
    if type(value) in (tuple, list):
        return type(value)(map(_afresh, value))
    return None if type(value).__name__.endswith("Cache") else value


@dataclass
class WatchedAttention:
    """One computation of attention, of one sentence; heads are sentences times heads where there are several.

    Attributes
    ----------
    calls : of the modules that were running, the innermost last.
    logits, weights : (heads, queries, keys) scores and probabilities, before and after the softmax.
    """

    calls: tuple[ModuleCall, ...]
    logits: Tensor
    weights: Tensor


class AttentionWatch(TorchFunctionMode):
    """Keeps every attention that is computed while it is entered, in ``seen``."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[WatchedAttention] = []
        self._running: list[ModuleCall] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is FUSED:
            return self._fused(*args, **kwargs)
        if func not in SOFTMAXES:
            return self.other(func, args, kwargs)
        logits = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        weights = func(*args, **kwargs)
        if not isinstance(dim, int) or logits.ndim < 3 or dim % logits.ndim != logits.ndim - 1:
            return weights
        return self._keep(logits, weights)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that is no attention."""
        return func(*args, **kwargs)

    def hand_on(self, weights: Tensor) -> Tensor:
        """Give the probabilities, (..., queries, keys), that go on from an attention."""
        return weights

    def _keep(self, logits: Tensor, weights: Tensor) -> Tensor:
        """Keep one attention."""
        flat = (each.reshape(-1, *each.shape[-2:]) for each in (logits, weights.detach()))
        self.seen.append(WatchedAttention(tuple(self._running), *flat))
        return self.hand_on(weights)

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Compute PyTorch's own attention, which does not give its probabilities away, by its definition."""
        if enable_gqa:
            group = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None:
            is_choice = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if is_choice else scores + attn_mask
        return self._keep(scores, scores.softmax(-1)) @ value

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[Self]:
        """Watch a model, and know which of its modules is computing."""

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._running.append(ModuleCall(module, args, kwargs))

        def leave(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self._running.pop()

        hooks = []
        for module in model.modules():
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(leave, always_call=True))
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it computes whole layers in one function
        try:
            with self:
                yield self
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for hook in hooks:
                hook.remove()


@dataclass
class Projection:
    """One product ``y = x Wᵀ + b`` with a parameter.

    Attributes
    ----------
    weight : (out, in), a view of the parameter.
    bias : (out,), or None.
    read : (tokens, in), x, still in the graph.
    order : of the axes of y, tokens first and then those that the weight's rows are laid out in; empty as they are.
    bias_is_apart : whether the bias is added afterwards, so that it is not part of y.
    written : y; a leaf of the graph.
    """

    weight: Tensor
    bias: Tensor | None
    read: Tensor
    order: tuple[int, ...] = ()
    bias_is_apart: bool = False
    written: Tensor = field(init=False)

    def by_token(self, written: Tensor) -> Tensor:
        """Lay out y, or its gradient, as (tokens, out)."""
        return written.permute(self.order or tuple(range(written.ndim))).reshape(-1, len(self.weight))


@dataclass(frozen=True)
class HeadRows:
    """Which rows of a projection (columns of the output projection) belong to each head, in order.

    Attributes
    ----------
    projections : of each head; most modules have one for all.
    places : (heads, rows of a head)
    """

    projections: tuple[Projection, ...]
    places: Tensor


@dataclass(frozen=True)
class TracedHeads:
    """A module's attention as it was seen to be computed.

    Attributes
    ----------
    query, key, value, output : the rows, or columns, of every head; keys and values by key/value head.
    weights : (heads, queries, keys) probabilities.
    """

    query: HeadRows
    key: HeadRows
    value: HeadRows
    output: HeadRows
    weights: Tensor

    def observed(self, module: nn.Module) -> Observation:
        """Give what the module read and wrote, in the form in which it is proven."""
        rows = {"Q": self.query, "K": self.key, "V": self.value, "O": self.output}
        reads = {matrix: each.projections[0].read.detach()[None] for matrix, each in rows.items()}
        last = self.output.projections[0]
        written = last.by_token(last.written.detach())[None]
        if last.bias is not None and last.bias_is_apart:
            written = written + last.bias.detach()
        return Observation(module, module, reads=reads, written=written,
                           probabilities=self.weights[None], positions_are_held=False)  # fmt: skip


class ProjectionWatch(AttentionWatch):
    """Keeps attention together with the projections before and after it; each one's output becomes a leaf.

    Attributes
    ----------
    projections : in the order in which they were computed.
    factors : ones that what each head gives is multiplied by, (heads,) for each attention.

    Parameters
    ----------
    module : whose parameters they are products with.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._parameters = {each.untyped_storage().data_ptr() for each in module.parameters()}
        self.projections: list[Projection] = []
        self.factors: list[Tensor] = []

    def hand_on(self, weights: Tensor) -> Tensor:
        """Cut probabilities off the graph, so that what comes after depends on values and factors alone."""
        factors = weights.new_ones(weights.shape[:-2].numel()).requires_grad_()
        self.factors.append(factors)
        return weights.detach() * factors.reshape(*weights.shape[:-2], 1, 1)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; where it is a product with a parameter, keep it and make its result a leaf."""
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        if func in ADDITIONS and len(args) == 2:
            self._keep_bias(args[0], args[1])
            self._keep_bias(args[1], args[0])
            return result
        projection = self._product(func, args, kwargs)
        if projection is None:
            return result
        projection.written = result.detach().clone().requires_grad_()
        self.projections.append(projection)
        return projection.written

    def _keep_bias(self, written: Any, bias: Any) -> None:
        """Take a parameter that is added to a projection for its bias."""
        if isinstance(bias, Tensor) and bias.untyped_storage().data_ptr() in self._parameters:
            for projection in self.projections:
                if projection.written is written and bias.numel() == len(projection.weight):
                    projection.bias, projection.bias_is_apart = bias.reshape(-1), True

    def _product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Projection | None:
        """Say what is multiplied; None where it is no product with one of the module's parameters."""
        read: Tensor
        weight: Tensor
        bias: Tensor | None = None
        if func is functional.linear:
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            read, weight, bias = bound["input"], bound["weight"], bound.get("bias")
        elif func is torch.addmm and len(args) == 3:
            bias, read, weight = args[0], args[1], args[2].T
        elif func in PRODUCTS and len(args) == 2 and self._is_own(args[1]):
            read, weight = args[0], args[1].mT
        elif func is torch.einsum and len(args) == 3 and self._is_own(args[2]):
            return _einsum_product(*args)
        else:
            return None
        if not self._is_own(weight) or weight.ndim != 2:
            return None
        return Projection(weight, bias, read.reshape(-1, weight.shape[1]))

    def _is_own(self, weight: Any) -> bool:
        """Say whether something is one of the module's own parameters, or a view of one, and no vector."""
        if not isinstance(weight, Tensor) or weight.ndim < 2:
            return False
        return weight.untyped_storage().data_ptr() in self._parameters


def _einsum_product(equation: object, read: Tensor, weight: Tensor) -> Projection | None:
    """See ``torch.einsum`` as a product, with the axes of the weight that are summed away as its inputs.

    Examples
    --------
    >>> _einsum_product("btd,hdk->bthk", torch.ones(1, 5, 8), torch.ones(2, 8, 4)).weight.shape
    torch.Size([8, 8])
    """
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    sources, _, target = equation.replace(" ", "").partition("->")
    left, _, right = sources.partition(",")
    inputs = [axis for axis in right if axis in left and axis not in target]
    outputs = [axis for axis in right if axis in target and axis not in left]
    tokens = [axis for axis in left if axis in target and axis not in right]
    if sorted(inputs + outputs) != sorted(right) or sorted(inputs + tokens) != sorted(left) or not inputs:
        return None
    matrix = weight.permute([right.index(axis) for axis in (*outputs, *inputs)]).flatten(0, len(outputs) - 1).flatten(1)
    rows = read.permute([left.index(axis) for axis in (*tokens, *inputs)]).flatten(len(tokens))
    order = tuple(target.index(axis) for axis in (*tokens, *outputs))
    return Projection(matrix, None, rows.reshape(-1, matrix.shape[1]), order)


def trace_heads(module: nn.Module, call: Callable[[], Any], name: str) -> TracedHeads:
    """Find the heads of one attention module.

    Parameters
    ----------
    module : whose parameters are looked for.
    call : calls it with one sentence.
    name : of the module, for messages.

    Raises
    ------
    EngineError : when it is not attention that can be followed, saying what was missed.
    """
    try:
        with torch.inference_mode(False), torch.enable_grad():
            return _Trace(module, call, name).heads()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise EngineError(f"{name} cannot be followed while it computes: {reason}") from error


Owned = tuple[Projection, Tensor]
"""A projection, and which of its rows belong to one head."""


class _Trace:
    """One call of a module, with all that is projected in it."""

    def __init__(self, module: nn.Module, call: Callable[[], Any], name: str) -> None:
        self._name = name
        with ProjectionWatch(module).watching(module) as watch:
            call()
        self._seen, self._projections, self._factors = watch.seen, watch.projections, watch.factors
        if len({each.weights.shape[1:] for each in watch.seen}) != 1:
            raise EngineError(f"{name} computes attention of several kinds in one call; attn-tui follows one")

    def heads(self) -> TracedHeads:
        """Find every head's rows and columns."""
        output, last = self._output()
        before = self._projections[:last]
        weights = torch.cat([each.weights for each in self._seen])
        query, key = self._queries_and_keys(before)
        key = self._by_group(key, len(weights))
        value = self._by_group(self._values(before, output), len(weights))
        if query.places.shape[1] != key.places.shape[1] or value.places.shape[1] != output.places.shape[1]:
            raise EngineError(f"{self._name}: its heads' rows do not fit each other; attn-tui does not know this form")
        return TracedHeads(query, key, value, output, weights)

    def _output(self) -> tuple[HeadRows, int]:
        """Find the projection whose columns each belong to one head, and its place among the projections."""
        for place, projection in enumerate(self._projections):
            owns = self._dependence_on_heads(projection.read)
            if owns is not None and bool((owns.sum(1) == 1).all() & owns.any(0).all()):
                return self._even([(projection, own.nonzero().flatten()) for own in owns.T], "outputs"), place
        raise EngineError(f"{self._name}: no projection reads its heads one beside the other, each by itself")

    def _dependence_on_heads(self, read: Tensor) -> Tensor | None:
        """Say which columns of (tokens, in) depend on which heads, (in, heads); None where none does on any."""
        if not read.requires_grad:
            return None
        summed = (read * torch.linspace(1, 2, len(read)).to(read)[:, None]).sum(0)
        parts = []
        for some in torch.eye(len(summed)).to(summed).split(max(1, NUMBERS_AT_ONCE // read.numel())):
            found = torch.autograd.grad(
                summed, self._factors, some, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
            if all(each is None for each in found):
                return None
            pairs = zip(found, self._factors, strict=True)
            parts.append(
                torch.cat([own.new_zeros(len(some), len(own)) if each is None else each for each, own in pairs], 1)
            )
        return torch.cat(parts) != 0

    def _queries_and_keys(self, before: list[Projection]) -> tuple[HeadRows, HeadRows]:
        """Tell queries from keys: scores of the last token depend on its own query alone, and on all tokens' keys."""
        queries, keys = list[Owned](), list[Owned]()
        for scores in (by_head[-1] for each in self._seen for by_head in each.logits):
            found = _dependence(before, scores[torch.isfinite(scores)])
            queries.append(self._one([(each, of_last & ~of_others) for each, of_last, of_others in found], "queries"))
            keys.append(self._one([(each, of_others) for each, _, of_others in found], "keys"))
        return self._even(queries, "queries"), self._even(keys, "keys")

    def _values(self, before: list[Projection], output: HeadRows) -> HeadRows:
        """Find what the heads' columns at the last token take from other tokens; a gate is of that token alone."""
        values = []
        for places in output.places:
            found = _dependence(before, output.projections[0].read[-1, places])
            values.append(self._one([(each, of_others) for each, _, of_others in found], "values"))
        return self._even(values, "values")

    def _one(self, found: list[Owned], what: str) -> Owned:
        """Make sure that something comes of one projection, and give the places of its rows."""
        used = [(each, rows.nonzero().flatten()) for each, rows in found if bool(rows.any())]
        if not used:
            raise EngineError(
                f"{self._name}: its {what} do not come of a product with a parameter that can be followed"
            )
        if len(used) > 1:
            raise EngineError(
                f"{self._name}: its {what} come of {len(used)} projections together; attn-tui follows those of one"
            )
        return used[0]

    def _even(self, owned: list[Owned], what: str) -> HeadRows:
        """Make sure that every head has as many rows, and no query's rows are another's."""
        name = self._name
        if len({len(rows) for _, rows in owned}) != 1:
            raise EngineError(f"{name}: its heads' {what} are not equally wide; attn-tui does not know this form")
        places = torch.stack([rows for _, rows in owned])
        if what == "queries" and len({(id(each), int(row)) for each, rows in owned for row in rows}) < places.numel():
            raise EngineError(f"{name}: its heads' queries share rows, as with a norm over all heads together")
        return HeadRows(tuple(each for each, _ in owned), places)

    def _by_group(self, rows: HeadRows, heads: int) -> HeadRows:
        """Give shared keys or values once: neighbouring heads that have the same rows share them."""
        firsts = [0]
        for head in range(1, heads):
            is_same = rows.projections[head] is rows.projections[firsts[-1]]
            if not (is_same and torch.equal(rows.places[head], rows.places[firsts[-1]])):
                firsts.append(head)
        group, rest = divmod(heads, len(firsts))
        if rest or not torch.equal(rows.places[firsts].repeat_interleave(group, 0), rows.places):
            raise EngineError(f"{self._name}: its heads share keys or values in an order that attn-tui does not know")
        return HeadRows(tuple(rows.projections[head] for head in firsts), rows.places[firsts])


def _dependence(before: list[Projection], target: Tensor) -> list[tuple[Projection, Tensor, Tensor]]:
    """Say on which rows of each of some projections a target depends, (out,): by the last token, and by the others."""
    if not before or not target.requires_grad:
        return []
    weighted = (target * torch.linspace(1, 2, target.numel()).to(target).reshape(target.shape)).sum()
    found = torch.autograd.grad(weighted, [each.written for each in before], retain_graph=True, allow_unused=True)
    depends = [
        (each, each.by_token(grown) != 0) for each, grown in zip(before, found, strict=True) if grown is not None
    ]
    return [(each, rows[-1], rows[:-1].any(0)) for each, rows in depends]
