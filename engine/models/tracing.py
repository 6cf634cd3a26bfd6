"""Finding the heads of a hand-written attention module by watching it compute, whatever its parts are called.

The module is called again with what it was called with, and every projection's output is made a leaf of the graph that
automatic differentiation follows. A row of a projection belongs to a head's query, key or value when the head's query,
key or value depends on it; a column of the output projection belongs to the head that it changes with. So the layout
of a fused projection need not be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.attending import Attending, Attention
from engine.models.products import ADDITIONS, PRODUCTS, Product, summed_product
from engine.values.errors import EngineError

WHOLE_ENOUGH = 1e-3
"""How far the ratio that tells a head's number may be from a whole number."""


@dataclass
class Projection:
    """One product with a parameter.

    Attributes
    ----------
    weight : (out, in), a view of the parameter.
    bias : (out,), or None.
    read : (tokens, in), what was projected, still in the graph.
    written : what came out; a leaf of the graph.
    order : of the axes of what came out, tokens first and then those that the weight's rows are laid out in.
    bias_is_apart : whether the bias is added afterwards, so that it is not part of what came out.
    """

    weight: Tensor
    bias: Tensor | None
    read: Tensor
    written: Tensor
    order: tuple[int, ...]
    bias_is_apart: bool = False

    def by_token(self, written: Tensor) -> Tensor:
        """Lay out what came out, or its gradient, as (tokens, out)."""
        return written.permute(self.order).reshape(-1, len(self.weight))


@dataclass(frozen=True)
class Rows:
    """Which rows of a projection (columns of the output projection) belong to each head, in order.

    Attributes
    ----------
    projection : whose they are.
    places : (heads, rows of a head)
    """

    projection: Projection
    places: Tensor


@dataclass(frozen=True)
class Traced:
    """A module's attention as it was seen to be computed.

    Attributes
    ----------
    query, key, value, output : the rows, or columns, of every head; keys and values by key/value head.
    weights : (heads, queries, keys) probabilities.
    """

    query: Rows
    key: Rows
    value: Rows
    output: Rows
    weights: Tensor


class _Tracing(Attending):
    """Notes attention together with the projections before and after it."""

    def __init__(self, parameters: set[int], scale_heads: Callable[[int], Tensor] | None = None) -> None:
        super().__init__(scale_heads)
        self._parameters = parameters
        self.projections: list[Projection] = []
        self.before = 0

    def weighted(self, weights: Tensor) -> Tensor:
        """Cut the probabilities off the graph, so that what comes after depends on values alone."""
        self.before = len(self.projections)
        return weights.detach()

    def after(self, mixed: Tensor) -> Tensor:
        """Keep what heads have mixed in the graph."""
        self.before = len(self.projections)
        return mixed

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; where it is a product with a parameter, note it and make its result a leaf."""
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        if func in ADDITIONS and len(args) == 2:
            self._note_bias(args[0], args[1])
            self._note_bias(args[1], args[0])
            return result
        product = self._product(func, args, kwargs)
        if product is None:
            return result
        leaf = result.detach().clone().requires_grad_()
        weight, read = product.weight, product.read
        order = product.order or tuple(range(result.ndim))
        self.projections.append(Projection(weight, product.bias, read.reshape(-1, weight.shape[1]), leaf, order))
        return leaf

    def _note_bias(self, written: Any, bias: Any) -> None:
        """Take a parameter that is added to a projection for its bias."""
        if isinstance(bias, Tensor) and bias.untyped_storage().data_ptr() in self._parameters:
            for projection in self.projections:
                if projection.written is written and bias.numel() == len(projection.weight):
                    projection.bias, projection.bias_is_apart = bias.reshape(-1), True

    def _product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
        """Say what is multiplied; None where it is no product with one of the module's parameters."""
        if func is functional.linear:
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            own = self._is_own(bound["weight"], 2)
            return Product(bound["weight"], bound.get("bias"), bound["input"]) if own else None
        if func is torch.addmm and len(args) == 3 and self._is_own(args[2], 2):
            return Product(args[2].T, args[0], args[1])
        if func in PRODUCTS and len(args) == 2 and self._is_own(args[1], 2):
            return Product(args[1].T, None, args[0])
        if func is torch.einsum and len(args) == 3 and self._is_own(args[2], 3):
            return summed_product(args[0], args[1], args[2])
        return None

    def _is_own(self, weight: Any, most: int) -> bool:
        """Say whether something is one of the module's own parameters, or a view of one, of two to ``most`` axes."""
        if not isinstance(weight, Tensor) or not 2 <= weight.ndim <= most:
            return False
        return weight.untyped_storage().data_ptr() in self._parameters


def trace(module: nn.Module, call: Callable[[], Any], name: str) -> Traced:
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
    parameters = {each.untyped_storage().data_ptr() for each in module.parameters()}
    plain, coded = _Tracing(parameters), _Tracing(parameters, lambda heads: torch.arange(2.0, heads + 2.0))
    for tracing in (plain, coded):
        with torch.enable_grad(), tracing.watching(module):
            call()
    if len(plain.seen) != 1 or len(coded.seen) != 1:
        raise EngineError(f"{name} computes attention {len(plain.seen)} times in one call; attn-tui follows one")
    event = plain.seen[0]
    output = _output(plain, coded, len(event.weights), name)
    if event.query is not None and event.key is not None and event.value is not None:
        query = _depending(plain, list(event.query), "queries", name)
        key, value = (
            _by_group(_depending(plain, list(each), what, name), len(event.weights), name)
            for each, what in ((event.key, "keys"), (event.value, "values"))
        )
    else:
        query, key = _queries_and_keys(plain, event, name)
        key = _by_group(key, len(event.weights), name)
        columns = [output.projection.read[:, places] for places in output.places]
        value = _by_group(_depending(plain, columns, "values", name), len(event.weights), name)
    if query.places.shape[1] != key.places.shape[1] or value.places.shape[1] != output.places.shape[1]:
        raise EngineError(f"{name}: its heads' rows do not fit each other; attn-tui does not know this form")
    return Traced(query, key, value, output, event.weights)


def _output(plain: _Tracing, coded: _Tracing, heads: int, name: str) -> Rows:
    """Find the projection whose columns each belong to one head: they grow as the head's own number does."""
    pairs = zip(plain.projections[plain.before :], coded.projections[coded.before :], strict=False)
    for once, again in pairs:
        size = once.read.detach().norm(dim=0)
        ratio = again.read.detach().norm(dim=0) / size.clamp_min(1e-30)
        number = ratio.round().long() - 2
        is_whole = (ratio - ratio.round()).abs().max() < WHOLE_ENOUGH
        if is_whole and bool((size > 0).all()) and torch.equal(number.unique().cpu(), torch.arange(heads)):
            return _even([(number == head).nonzero().flatten() for head in range(heads)], once, "outputs", name)
    raise EngineError(f"{name}: no projection reads the heads one beside the other; attn-tui cannot follow its output")


def _gradients(plain: _Tracing, target: Tensor) -> list[tuple[Projection, Tensor]]:
    """Say how a target depends on each projection before the attention: (tokens, out) each, where it does at all."""
    before = plain.projections[: plain.before]
    weighted = (target * torch.linspace(1, 2, target.numel()).to(target).reshape(target.shape)).sum()
    found = torch.autograd.grad(weighted, [each.written for each in before], retain_graph=True, allow_unused=True)
    pairs = [(each, each.by_token(grown)) for each, grown in zip(before, found, strict=True) if grown is not None]
    return [(each, gradient) for each, gradient in pairs if bool((gradient != 0).any())]


def _depending(plain: _Tracing, targets: list[Tensor], what: str, name: str) -> Rows:
    """Find the rows of the one projection that each target depends on."""
    projections, places = [], []
    for target in targets:
        found = _gradients(plain, target) if target.requires_grad else []
        if len(found) != 1:
            raise EngineError(f"{name}: its {what} come of {len(found)} projections; attn-tui follows those of one")
        projections.append(found[0][0])
        places.append((found[0][1] != 0).any(0).nonzero().flatten())
    if any(each is not projections[0] for each in projections):
        raise EngineError(f"{name}: its heads' {what} come of several projections; attn-tui follows those of one")
    return _even(places, projections[0], what, name)


def _queries_and_keys(plain: _Tracing, event: Attention, name: str) -> tuple[Rows, Rows]:
    """Tell queries from keys: the scores of the last token depend on its own query alone, and on all tokens' keys."""
    assert event.logits is not None
    rows: dict[str, list[tuple[Projection, Tensor]]] = {"queries": [], "keys": []}
    for logits in event.logits:
        scores = logits[-1]
        found = _gradients(plain, scores[torch.isfinite(scores)]) if logits.requires_grad else []
        for projection, gradient in found:
            is_key = (gradient[:-1] != 0).any(0)
            is_query = (gradient[-1] != 0) & ~is_key
            for what, which in (("queries", is_query), ("keys", is_key)):
                if bool(which.any()):
                    rows[what].append((projection, which.nonzero().flatten()))
    made = []
    for what, found_rows in rows.items():
        if len(found_rows) != len(event.logits) or any(each is not found_rows[0][0] for each, _ in found_rows):
            raise EngineError(f"{name}: its {what} come of several projections; attn-tui follows those of one")
        made.append(_even([places for _, places in found_rows], found_rows[0][0], what, name))
    return made[0], made[1]


def _even(places: list[Tensor], projection: Projection, what: str, name: str) -> Rows:
    """Make sure that every head has as many rows."""
    if len({len(each) for each in places}) != 1:
        raise EngineError(f"{name}: its heads' {what} are not equally wide; attn-tui does not know this form")
    stacked = torch.stack(places)
    total = len(stacked.unique())
    if what == "queries" and len(places) > 1 and total < stacked.numel():
        raise EngineError(f"{name}: its heads' queries share rows, as with a norm over all heads together")
    return Rows(projection, stacked)


def _by_group(rows: Rows, heads: int, name: str) -> Rows:
    """Give shared keys or values once: neighbouring heads that have the same rows share them."""
    distinct = [rows.places[0]]
    for places in rows.places[1:]:
        if not torch.equal(places, distinct[-1]):
            distinct.append(places)
    group, rest = divmod(heads, len(distinct))
    spread = torch.stack(distinct).repeat_interleave(max(group, 1), 0)
    if rest or (len(rows.places) == heads and not torch.equal(spread, rows.places)):
        raise EngineError(f"{name}: its heads share keys or values in an order that attn-tui does not know")
    return Rows(rows.projection, torch.stack(distinct))
