"""Finding the heads of a hand-written attention module by watching it compute, whatever its parts are called.

The module is called again with what it was called with, and every projection's output is made a leaf of the graph that
automatic differentiation follows. A row of a projection belongs to a head's query, key or value when the head's query,
key or value depends on it; a column of the output projection belongs to the head that it depends on, by a factor that
each head's probabilities are multiplied by. So the layout of a fused projection need not be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.mathematics.scores import fitted_scale
from engine.models.attention_watch import AttentionWatch
from engine.models.devices import wide
from engine.values.errors import EngineError

PRODUCTS = frozenset({torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm})
"""Functions that multiply by a matrix from the right."""

ADDITIONS = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__})
"""Functions that add, perhaps a bias."""

NUMBERS_AT_ONCE = 2**23
"""Of what an output projection reads, times the columns that are differentiated, that are held at once."""

ROUNDING = {torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""What rounding may do to probabilities, and to outputs in proportion; a thousandth in wider types."""

_Product = tuple[Tensor, Tensor | None, Tensor, tuple[int, ...]]
"""Weight (out, in), bias (out,) or None, what is read (..., in), and the order of the result's axes: those of the
weight's rows last; empty where they are so already."""


@dataclass
class Projection:
    """One product ``y = x Wᵀ + b`` with a parameter.

    Attributes
    ----------
    weight : (out, in), a view of the parameter.
    bias : (out,), or None.
    read : (tokens, in), x, still in the graph.
    written : y; a leaf of the graph.
    order : of the axes of y, tokens first and then those that the weight's rows are laid out in.
    bias_is_apart : whether the bias is added afterwards, so that it is not part of y.
    """

    weight: Tensor
    bias: Tensor | None
    read: Tensor
    written: Tensor
    order: tuple[int, ...]
    bias_is_apart: bool = False

    def by_token(self, written: Tensor) -> Tensor:
        """Lay out y, or its gradient, as (tokens, out)."""
        return written.permute(self.order).reshape(-1, len(self.weight))


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

    @property
    def read(self) -> Tensor:
        """What was projected, (tokens, in)."""
        return self.projections[0].read.detach()

    def by_head(self) -> Tensor:
        """Project what was read, (heads, tokens, rows of a head), in float64 where there is one."""
        parts = []
        for projection, places in zip(self.projections, self.places, strict=True):
            rows = wide(projection.read.detach()) @ wide(projection.weight.detach()[places]).T
            parts.append(rows if projection.bias is None else rows + wide(projection.bias.detach()[places]))
        return torch.stack(parts)


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

    def marks(self) -> tuple[str, ...]:
        """Name what takes part besides the four matrices, in the words of `engine.values.outline.MARKS`."""
        slack = ROUNDING.get(self.output.read.dtype, 1e-3)
        weights = wide(self.weights)
        sums = weights.sum(-1, keepdim=True)
        marks = ["attention sink"] if bool((sums < 1 - slack).any()) else []
        if not self._follows(weights / sums.clamp_min(1e-30), slack):
            marks.append("scores beyond QK")
        value = self.value.by_head().repeat_interleave(len(weights) // len(self.value.places), 0)
        read = wide(self.output.read)
        mixed = torch.stack([read[:, places] for places in self.output.places])  # (heads, queries, width)
        most = slack * mixed.abs().max().clamp_min(1e-30)
        if value.shape[1] != weights.shape[2] or bool((weights @ value - mixed).abs().max() > most):
            marks.append("outputs beyond OV")
        return tuple(marks)

    def _follows(self, weights: Tensor, slack: float) -> bool:
        """Say whether probabilities are the softmax of products of queries and keys, with whatever scale fits best."""
        query = self.query.by_head()
        key = self.key.by_head().repeat_interleave(len(weights) // len(self.key.places), 0)
        if (query.shape[1], key.shape[1]) != weights.shape[1:]:
            return False
        products, seen = query @ key.mT, weights > 0
        fitted = fitted_scale(products, weights.clamp_min(1e-30).log(), seen)
        for scale in (query.shape[-1] ** -0.5, 1.0, fitted):
            predicted = (scale * products).masked_fill(~seen, -torch.inf).softmax(-1)
            if bool((predicted.nan_to_num() - weights).abs().max() <= slack):
                return True
        return False


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

    def handed_on(self, computed: Tensor, is_weights: bool) -> Tensor:
        """Cut probabilities off the graph, so that what comes after depends on values and factors alone."""
        factors = torch.ones(computed.shape[:-2].numel(), dtype=computed.dtype, device=computed.device)
        self.factors.append(factors.requires_grad_())
        return (computed.detach() if is_weights else computed) * factors.reshape(*computed.shape[:-2], 1, 1)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; where it is a product with a parameter, keep it and make its result a leaf."""
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        if func in ADDITIONS and len(args) == 2:
            self._keep_bias(args[0], args[1])
            self._keep_bias(args[1], args[0])
            return result
        product = self._product(func, args, kwargs)
        if product is None:
            return result
        weight, bias, read, order = product
        leaf = result.detach().clone().requires_grad_()
        order = order or tuple(range(result.ndim))
        self.projections.append(Projection(weight, bias, read.reshape(-1, weight.shape[1]), leaf, order))
        return leaf

    def _keep_bias(self, written: Any, bias: Any) -> None:
        """Take a parameter that is added to a projection for its bias."""
        if isinstance(bias, Tensor) and bias.untyped_storage().data_ptr() in self._parameters:
            for projection in self.projections:
                if projection.written is written and bias.numel() == len(projection.weight):
                    projection.bias, projection.bias_is_apart = bias.reshape(-1), True

    def _product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Product | None:
        """Say what is multiplied; None where it is no product with one of the module's parameters."""
        if func is functional.linear:
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            own = self._is_own(bound["weight"], 2)
            return (bound["weight"], bound.get("bias"), bound["input"], ()) if own else None
        if func is torch.addmm and len(args) == 3 and self._is_own(args[2], 2):
            return args[2].T, args[0], args[1], ()
        if func in PRODUCTS and len(args) == 2 and self._is_own(args[1], 2):
            return args[1].T, None, args[0], ()
        if func is torch.einsum and len(args) == 3 and self._is_own(args[2], 3):
            return _einsum_product(args[0], args[1], args[2])
        return None

    def _is_own(self, weight: Any, most_axes: int) -> bool:
        """Say whether something is one of the module's own parameters, or a view of one, of two axes or more."""
        if not isinstance(weight, Tensor) or not 2 <= weight.ndim <= most_axes:
            return False
        return weight.untyped_storage().data_ptr() in self._parameters


def _einsum_product(equation: object, read: Tensor, weight: Tensor) -> _Product | None:
    """See ``torch.einsum`` as a product, with the axes of the weight that are summed away as its inputs.

    Examples
    --------
    >>> _einsum_product("btd,hdk->bthk", torch.ones(1, 5, 8), torch.ones(2, 8, 4))[0].shape
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
    matrix = weight.permute([right.index(axis) for axis in (*outputs, *inputs)]).flatten(0, len(outputs) - 1)
    rows = read.permute([left.index(axis) for axis in (*tokens, *inputs)]).flatten(len(tokens))
    return matrix.flatten(1), None, rows, tuple(target.index(axis) for axis in (*tokens, *outputs))


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


class _Trace:
    """One call of a module, with all that is projected in it."""

    def __init__(self, module: nn.Module, call: Callable[[], Any], name: str) -> None:
        self._name = name
        with ProjectionWatch(module).watching(module) as watch:
            call()
        self._seen, self._projections, self._factors = watch.seen, watch.projections, watch.factors
        if len({(each.weights.shape[1:], len(each.fused)) for each in watch.seen}) != 1:
            raise EngineError(f"{name} computes attention of several kinds in one call; attn-tui follows one")
        self._heads = sum(len(each.weights) for each in watch.seen)

    def heads(self) -> TracedHeads:
        """Find every head's rows and columns.

        Raises
        ------
        EngineError : saying what was missed.
        """
        seen, name = self._seen, self._name
        output, last = self._output()
        before = self._projections[:last]
        if seen[0].fused:
            query, key, value = (
                self._depending(self._projections, [head for each in seen for head in each.fused[place]], what)
                for place, what in enumerate(("queries", "keys", "values"))
            )
        else:
            query, key = self._queries_and_keys(
                before, [head for each in seen if each.logits is not None for head in each.logits]
            )
            columns = [output.projections[0].read[-1, places] for places in output.places]
            value = self._depending(before, columns, "values", elsewhere=True)
        key, value = self._by_group(key), self._by_group(value)
        if query.places.shape[1] != key.places.shape[1] or value.places.shape[1] != output.places.shape[1]:
            raise EngineError(f"{name}: its heads' rows do not fit each other; attn-tui does not know this form")
        return TracedHeads(query, key, value, output, torch.cat([each.weights for each in seen]))

    def _output(self) -> tuple[HeadRows, int]:
        """Find the projection whose columns each belong to one head, and its place among the projections."""
        for place, projection in enumerate(self._projections):
            owns = self._dependence_on_heads(projection.read)
            if owns is not None and bool((owns.sum(1) == 1).all() & owns.any(0).all()):
                columns = [own.nonzero().flatten() for own in owns.T]
                return self._even(columns, [projection] * self._heads, "outputs"), place
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

    def _depending(
        self, before: list[Projection], targets: list[Tensor], what: str, *, elsewhere: bool = False
    ) -> HeadRows:
        """Find the rows of the one projection that each target depends on.

        ``elsewhere`` is for targets at the last token: what depends on that token alone, as a gate does, does not
        count.
        """
        found = []
        for target in targets:
            used = [(each, gradient[: -1 if elsewhere else None] != 0) for each, gradient in _gradients(before, target)]
            found.append(
                self._one([(each, rows.any(0).nonzero().flatten()) for each, rows in used if rows.any()], what)
            )
        return self._even([rows for _, rows in found], [each for each, _ in found], what)

    def _queries_and_keys(self, before: list[Projection], logits: list[Tensor]) -> tuple[HeadRows, HeadRows]:
        """Tell queries from keys: scores of the last token depend on its own query alone, and on all tokens' keys."""
        sides: dict[str, list[tuple[Projection, Tensor]]] = {"queries": [], "keys": []}
        for by_head in logits:
            scores = by_head[-1]
            found: dict[str, list[tuple[Projection, Tensor]]] = {"queries": [], "keys": []}
            for projection, gradient in _gradients(before, scores[torch.isfinite(scores)]):
                is_key = (gradient[:-1] != 0).any(0)
                is_query = (gradient[-1] != 0) & ~is_key
                for what, which in (("queries", is_query), ("keys", is_key)):
                    if bool(which.any()):
                        found[what].append((projection, which.nonzero().flatten()))
            for what, several in found.items():
                sides[what].append(self._one(several, what))
        queries, keys = (
            self._even([rows for _, rows in side], [each for each, _ in side], what) for what, side in sides.items()
        )
        return queries, keys

    def _one(self, found: list[tuple[Projection, Tensor]], what: str) -> tuple[Projection, Tensor]:
        """Make sure that something comes of one projection."""
        if not found:
            raise EngineError(
                f"{self._name}: its {what} do not come of a product with a parameter that can be followed"
            )
        if len(found) > 1:
            raise EngineError(
                f"{self._name}: its {what} come of {len(found)} projections together; attn-tui follows those of one"
            )
        return found[0]

    def _even(self, places: list[Tensor], projections: list[Projection], what: str) -> HeadRows:
        """Make sure that every head has as many rows, and no query's rows are another's."""
        name = self._name
        if len({len(each) for each in places}) != 1:
            raise EngineError(f"{name}: its heads' {what} are not equally wide; attn-tui does not know this form")
        stacked = torch.stack(places)
        owned = {(id(each), int(row)) for each, own in zip(projections, stacked, strict=True) for row in own}
        if what == "queries" and len(owned) < stacked.numel():
            raise EngineError(f"{name}: its heads' queries share rows, as with a norm over all heads together")
        return HeadRows(tuple(projections), stacked)

    def _by_group(self, rows: HeadRows) -> HeadRows:
        """Give shared keys or values once: neighbouring heads that have the same rows share them."""
        firsts = [0]
        for head in range(1, len(rows.places)):
            is_same = rows.projections[head] is rows.projections[firsts[-1]]
            if not (is_same and torch.equal(rows.places[head], rows.places[firsts[-1]])):
                firsts.append(head)
        group, rest = divmod(self._heads, len(firsts))
        spread = rows.places[firsts].repeat_interleave(max(group, 1), 0)
        if rest or (len(rows.places) == self._heads and not torch.equal(spread, rows.places)):
            raise EngineError(f"{self._name}: its heads share keys or values in an order that attn-tui does not know")
        return HeadRows(tuple(rows.projections[head] for head in firsts), rows.places[firsts])


def _gradients(before: list[Projection], target: Tensor) -> list[tuple[Projection, Tensor]]:
    """Say how a target depends on each of some projections: (tokens, out) each, where it does at all."""
    if not before or not target.requires_grad:
        return []
    weighted = (target * torch.linspace(1, 2, target.numel()).to(target).reshape(target.shape)).sum()
    found = torch.autograd.grad(weighted, [each.written for each in before], retain_graph=True, allow_unused=True)
    return [(each, each.by_token(grown)) for each, grown in zip(before, found, strict=True) if grown is not None]
