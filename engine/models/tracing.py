"""Finding the heads of a hand-written attention module by watching it compute, whatever its parts are called.

The module is called again with what it was called with, and every projection's output is made a leaf of the graph that
automatic differentiation follows. A row of a projection belongs to a head's query, key or value when the head's query,
key or value depends on it; a column of the output projection belongs to the head that it changes with. So the layout
of a fused projection need not be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.attending import Attention
from engine.models.devices import wide
from engine.models.leaves import Projection, Tracing
from engine.values.errors import EngineError

WHOLE_ENOUGH = 1e-3
"""How far the ratio that tells a head's number may be from a whole number."""


@dataclass(frozen=True)
class Rows:
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
            rows = wide(projection.read.detach()) @ wide(projection.weight.detach())[places].T
            parts.append(rows if projection.bias is None else rows + wide(projection.bias.detach())[places])
        return torch.stack(parts)


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
    try:
        with torch.inference_mode(False), torch.enable_grad():
            return _traced(module, call, name)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise EngineError(f"{name} cannot be followed while it computes: {reason}") from error


def _traced(module: nn.Module, call: Callable[[], Any], name: str) -> Traced:
    """Call a module once as it is, and once for each binary digit of the numbers that its heads are known by."""
    parameters = {each.untyped_storage().data_ptr() for each in module.parameters()}
    plain = Tracing(parameters)
    with plain.watching(module):
        call()
    events = plain.seen
    if not events or len({(each.weights.shape[1:], each.query is None) for each in events}) > 1:
        raise EngineError(f"{name} computes attention of several kinds in one call; attn-tui follows one")
    heads = sum(len(each.weights) for each in events)
    coded = []
    for digit in range(heads.bit_length()):
        tracing = Tracing(parameters, partial(_doubling, digit))
        with tracing.watching(module):
            call()
        coded.append(tracing)
    output, last = _output(plain, coded, heads, name)
    if all(each.query is not None for each in events):
        query, key, value = (
            _depending(plain.projections, [head for each in events for head in _fused(each, part)], what, name)
            for part, what in (("query", "queries"), ("key", "keys"), ("value", "values"))
        )
    else:
        scores = [head for each in events for head in _logits(each)]
        query, key = _queries_and_keys(plain.projections[:last], scores, name)
        columns = [output.projections[0].read[-1, places] for places in output.places]
        value = _depending(plain.projections[:last], columns, "values", name, elsewhere=True)
    key, value = (_by_group(rows, heads, name) for rows in (key, value))
    if query.places.shape[1] != key.places.shape[1] or value.places.shape[1] != output.places.shape[1]:
        raise EngineError(f"{name}: its heads' rows do not fit each other; attn-tui does not know this form")
    return Traced(query, key, value, output, torch.cat([each.weights for each in events]))


def _doubling(digit: int, before: int, count: int) -> Tensor:
    """Double the heads whose number, from 1, has a binary digit set; doubling is exact in every floating type."""
    return 1 + (torch.arange(before + 1, before + count + 1) >> digit & 1)


def _fused(event: Attention, what: str) -> list[Tensor]:
    """List what a fused attention was called with, by head."""
    found: Tensor = getattr(event, what)
    return list(found)


def _logits(event: Attention) -> list[Tensor]:
    """List the scores that a softmax was taken of, by head."""
    assert event.logits is not None
    return list(event.logits)


def _output(plain: Tracing, coded: list[Tracing], heads: int, name: str) -> tuple[Rows, int]:
    """Find the projection whose columns each belong to one head, and its place among the projections."""
    for place in range(plain.first or 0, len(plain.projections)):
        if any(place >= len(tracing.projections) for tracing in coded):
            break
        once = plain.projections[place]
        size = once.read.detach().float().norm(dim=0)
        number, is_code = torch.zeros(len(size), dtype=torch.long, device=size.device), bool((size > 0).all())
        for digit, tracing in enumerate(coded):
            ratio = tracing.projections[place].read.detach().float().norm(dim=0) / size.clamp_min(1e-30)
            is_code = is_code and bool(((ratio - ratio.round()).abs() < WHOLE_ENOUGH).all())
            number += (ratio.round().long() - 1) << digit
        if is_code and torch.equal(number.unique().cpu(), torch.arange(1, heads + 1)):
            columns = [(number == head).nonzero().flatten() for head in range(1, heads + 1)]
            return _even(columns, [once] * heads, "outputs", name), place
    raise EngineError(f"{name}: no projection reads its heads one beside the other, each by itself")


def _gradients(before: list[Projection], target: Tensor) -> list[tuple[Projection, Tensor]]:
    """Say how a target depends on each of some projections: (tokens, out) each, where it does at all."""
    if not before or not target.requires_grad:
        return []
    weighted = (target * torch.linspace(1, 2, target.numel()).to(target).reshape(target.shape)).sum()
    found = torch.autograd.grad(weighted, [each.written for each in before], retain_graph=True, allow_unused=True)
    pairs = [(each, each.by_token(grown)) for each, grown in zip(before, found, strict=True) if grown is not None]
    return [(each, gradient) for each, gradient in pairs if bool((gradient != 0).any())]


def _depending(
    before: list[Projection], targets: list[Tensor], what: str, name: str, *, elsewhere: bool = False
) -> Rows:
    """Find the rows of the one projection that each target depends on.

    ``elsewhere`` is for targets at the last token: what depends on that token alone, as a gate does, does not count.
    """
    projections, places = [], []
    for target in targets:
        found = _gradients(before, target)
        if elsewhere:
            found = [(each, gradient[:-1]) for each, gradient in found if bool((gradient[:-1] != 0).any())]
        _one(len(found), what, name)
        projections.append(found[0][0])
        places.append((found[0][1] != 0).any(0).nonzero().flatten())
    return _even(places, projections, what, name)


def _one(count: int, what: str, name: str) -> None:
    """Make sure that something comes of one projection."""
    if count == 0:
        raise EngineError(f"{name}: its {what} do not come of a product with a parameter that can be followed")
    if count > 1:
        raise EngineError(f"{name}: its {what} come of {count} projections together; attn-tui follows those of one")


def _queries_and_keys(before: list[Projection], by_head: list[Tensor], name: str) -> tuple[Rows, Rows]:
    """Tell queries from keys: the scores of the last token depend on its own query alone, and on all tokens' keys."""
    rows: dict[str, list[list[tuple[Projection, Tensor]]]] = {"queries": [], "keys": []}
    for logits in by_head:
        scores = logits[-1]
        sides: dict[str, list[tuple[Projection, Tensor]]] = {"queries": [], "keys": []}
        for projection, gradient in _gradients(before, scores[torch.isfinite(scores)]):
            is_key = (gradient[:-1] != 0).any(0)
            is_query = (gradient[-1] != 0) & ~is_key
            for what, which in (("queries", is_query), ("keys", is_key)):
                if bool(which.any()):
                    sides[what].append((projection, which.nonzero().flatten()))
        for what, found in sides.items():
            _one(len(found), what, name)
            rows[what].append(found)
    queries, keys = (
        _even([each[0][1] for each in found], [each[0][0] for each in found], what, name)
        for what, found in rows.items()
    )
    return queries, keys


def _even(places: list[Tensor], projections: list[Projection], what: str, name: str) -> Rows:
    """Make sure that every head has as many rows, and no query's rows are another's."""
    if len({len(each) for each in places}) != 1:
        raise EngineError(f"{name}: its heads' {what} are not equally wide; attn-tui does not know this form")
    stacked = torch.stack(places)
    owned = {(id(each), int(row)) for each, own in zip(projections, stacked, strict=True) for row in own}
    if what == "queries" and len(owned) < stacked.numel():
        raise EngineError(f"{name}: its heads' queries share rows, as with a norm over all heads together")
    return Rows(tuple(projections), stacked)


def _by_group(rows: Rows, heads: int, name: str) -> Rows:
    """Give shared keys or values once: neighbouring heads that have the same rows share them."""
    kept = [0]
    for head in range(1, len(rows.places)):
        is_same = rows.projections[head] is rows.projections[kept[-1]]
        if not (is_same and torch.equal(rows.places[head], rows.places[kept[-1]])):
            kept.append(head)
    group, rest = divmod(heads, len(kept))
    spread = rows.places[kept].repeat_interleave(max(group, 1), 0)
    if rest or (len(rows.places) == heads and not torch.equal(spread, rows.places)):
        raise EngineError(f"{name}: its heads share keys or values in an order that attn-tui does not know")
    return Rows(tuple(rows.projections[head] for head in kept), rows.places[kept])
