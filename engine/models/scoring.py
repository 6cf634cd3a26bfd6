"""How a model makes the scores of one layer: its own queries and keys, each as a function of what it was made of.

Nothing is known of a model's positions, norms or scale by name. Its attention module is called again on what it was
called with, in float64, and what passes through PyTorch's functions is noted: the product of queries and keys, and what
the softmax is taken of. A query's derivative by what its projection wrote is all that was done to it since, rotations
included; a norm's size is held as it is, for it is one number of the token. What is added beside the product (a bias of
the positions, a mask) is what the scores are when all queries are zero as they meet the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from engine.mathematics.scores import Side
from engine.models.devices import wide, widest
from engine.models.score_watch import Held, Noted, ScoreWatch
from engine.models.spread_models import weight_of
from engine.values.errors import EngineError

EXACT = 1e-5
"""Of the largest score, how far the formula may be from what the module computes in float64; some cast in between."""

NUMBERS_AT_ONCE = 2**23
"""Of what projections wrote, times the rows it is differentiated for, that are held at once."""

UNPRESSED = 0.9
"""Of a cap, below which scores tell what they were before it."""

CALLS = 5
"""Of a module, to take its scores apart: as it is, in float64, without a query, on half of what it reads, on none."""

HIDING = 9999.0
"""What a mask takes off a score at least; where no weight is left then, the key is hidden."""


class Scoring:
    """One layer's scores for one sentence; each is ``cap(scale · q·k)`` and something added.

    Attributes
    ----------
    dtype : in which the module computes.
    scores, weights : (heads, queries, keys) before and after the softmax, as the module computes them in its own dtype.
    added : (heads, queries, keys) what is added beside the product.
    seen : (heads, queries, keys) whether a key is not hidden by a mask.
    scales : (heads,)

    Parameters
    ----------
    name : of the layer, as errors say it.
    module : the attention module.
    projections : the modules of its queries and keys, the first steps of those that take two, by matrix.
    call : the arguments of its call, without a cache.
    shape : heads, queries, keys.
    step : called before each call of the module, of which there are `CALLS`; it may raise to give up.

    Raises
    ------
    EngineError : when its scores are not products of queries and keys and something added.
    """

    @torch.inference_mode(False)  # in between, while the model reads something less urgent
    def __init__(
        self,
        name: str,
        module: nn.Module,
        projections: Mapping[str, nn.Module],
        call: tuple[tuple[Any, ...], dict[str, Any]],
        shape: tuple[int, int, int],
        step: Callable[[], None],
    ) -> None:
        self._name, self._step = name, step
        self._module = module
        self._projections = projections
        self._call = call
        self._shape = shape
        self._slopes: dict[str, tuple[int, Tensor, Tensor]] = {}
        own = self._own()
        assert own.scores is not None
        assert own.weights is not None
        assert own.query is not None
        assert own.key is not None
        if not bool(own.query.isfinite().all() & own.key.isfinite().all()):
            raise self._refusal("has queries or keys that are NaN or infinite, as its weights are, or some before them")
        self.dtype, keys = own.query.dtype, shape[2]
        self.weights = own.weights[..., :keys].detach()
        self._held = Held()
        self._noted = self._exactly(self._held)
        silent = self._without_sink(self._exactly(Held(sizes=self._held.sizes), is_zero=True))
        self.scores = self._without_sink(own)
        self.added = silent
        self.seen = (self.weights > 0) | (silent > -HIDING)
        self._cap, self.scales = self._formula(self._without_sink(self._noted) - silent)
        self._check_half()
        del self._step  # and whatever it holds

    def _own(self) -> Noted:
        """Call the module as it is, for the scores that it computes."""
        self._step()
        args, kwargs = tree_map(_afresh(None), self._call)
        with torch.no_grad(), ScoreWatch(self._shape) as watch:
            self._module(*args, **kwargs)
        return self._checked(watch.noted)

    def _exactly(self, held: Held, is_zero: bool = False) -> Noted:
        """Call the module in float64, holding its norms."""
        self._step()
        afresh = _afresh(widest(next(self._module.parameters()).device))
        args, kwargs = tree_map(afresh, self._call)
        parts = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        with ExitStack() as stack, torch.enable_grad():
            for projection in set(self._projections.values()):
                stack.enter_context(projection.register_forward_pre_hook(held.read_share))
                stack.enter_context(projection.register_forward_hook(held.cut))
            for part in self._module.modules():
                if "Norm" in type(part).__name__:
                    stack.enter_context(part.register_forward_hook(held.hold))
            watch = stack.enter_context(ScoreWatch(self._shape, is_zero))
            torch.func.functional_call(
                self._module, {name: afresh(part.detach()) for name, part in parts.items()}, args, kwargs
            )
        return self._checked(watch.noted)

    def _checked(self, noted: Noted) -> Noted:
        """Refuse a module whose scores do not come of one product of queries and keys.

        Raises
        ------
        EngineError : saying why.
        """
        if noted.scores is None:
            raise self._refusal("does not take the softmax of products of queries and keys")
        if noted.products > 1:
            raise self._refusal("adds several products to its scores")
        return noted

    def _refusal(self, why: str) -> EngineError:
        """Say why scores cannot be explained."""
        return EngineError(f"{self._name} {why}; its scores cannot be split into terms")

    def _without_sink(self, noted: Noted) -> Tensor:
        """Give the scores of tokens, (heads, queries, keys) float64; where a sink stands beside them, as they were.

        A module with a sink takes a row's largest score off all of them first; what became of the sink tells how much.
        """
        assert noted.scores is not None
        scores, keys = wide(noted.scores.detach()), self._shape[2]
        if scores.shape[-1] == keys:
            return scores
        sinks = getattr(self._module, "sinks", None)
        if scores.shape[-1] != keys + 1 or not isinstance(sinks, Tensor):
            raise self._refusal("has scores that are of no token")
        return scores[..., :keys] - scores[..., keys:] + wide(sinks.detach())[:, None, None]

    def _formula(self, made: Tensor) -> tuple[float | None, Tensor]:
        """Find the cap, if there is one, and each head's scale with which products make scores.

        Raises
        ------
        EngineError : when no scale does.
        """
        assert self._noted.query is not None
        assert self._noted.key is not None
        products = wide((self._noted.query @ self._noted.key.mT).detach())
        seen, made = self.seen, torch.where(self.seen, made, 0.0)
        cap = getattr(getattr(self._module, "config", None), "attn_logit_softcapping", None)
        tells, raw = seen, made
        if cap is not None:
            tells = seen & (made.abs() < UNPRESSED * cap)
            raw = cap * torch.atanh(torch.where(tells, made / cap, 0.0))
        used = torch.where(tells, products, 0.0)
        scales = (used * raw).sum((1, 2)) / used.square().sum((1, 2)).clamp_min(torch.finfo(used.dtype).tiny)
        off = torch.where(seen, _capped(scales[:, None, None] * products, cap) - made, 0.0)
        if bool(off.abs().amax() <= EXACT * made.abs().amax()):
            return cap, scales
        raise self._refusal("has scores that are no scaled product of query and key with something added")

    def _check_half(self) -> None:
        """Refuse queries and keys that are no affine function of what their projections read.

        Raises
        ------
        EngineError : when those of half the input are not half way to those of none.
        """
        calls = [self._noted, *(self._exactly(Held(sizes=self._held.sizes, share=share)) for share in (0.5, 0.0))]
        for made in ([each.query for each in calls], [each.key for each in calls]):
            whole, half, none = (each.detach() for each in made if each is not None)
            off = (half - (whole + none) / 2).abs().amax()
            if bool(off > EXACT * whole.abs().amax()):
                raise self._refusal("makes queries and keys in a way that is not linear in what it reads")

    def capped(self, score: float) -> float:
        """Give what a cap makes of a score; the score itself where there is none."""
        return float(_capped(torch.tensor(score, dtype=torch.float64), self._cap))

    @torch.inference_mode(False)
    def side(self, matrix: str, head: int, place: int) -> Side:
        """Give a query (``Q``) or a key (``K``) as a function of what its projection read.

        Raises
        ------
        EngineError : when it was made of several tokens.
        """
        projection, made = self._projections[matrix], self._noted.query if matrix == "Q" else self._noted.key
        assert made is not None
        if projection not in self._held.written:
            raise self._refusal("projects with a module that another layer calls")
        written, read = self._held.written[projection], self._held.read[projection].flatten(0, -2)
        if written.shape[:-1].numel() != made.shape[1] or len(read) != made.shape[1]:
            raise self._refusal("projects other rows than those of its tokens")
        if matrix not in self._slopes or self._slopes[matrix][0] != head:
            self._slopes[matrix] = head, *_by_token(made[head], written)
        if bool(_elsewhere(made[head, place], written, place).any()):
            raise self._refusal("mixes the queries or keys of several tokens")
        _, columns, slopes = self._slopes[matrix]
        weight = slopes[:, place] @ _weight(projection).to(written)[columns]
        rest = made[head, place].detach() - weight @ read[place]
        own, weight, rest = (each.cpu().double() for each in (read[place], weight, rest))
        return Side(own, weight, rest)


def _by_token(made: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
    """Differentiate a head's queries or keys (tokens, r) by what was written of the same token.

    Returns
    -------
    columns, slopes : of what was written the columns that matter, and (r, tokens, columns).
    """
    tokens, r = made.shape
    at_once = max(1, NUMBERS_AT_ONCE // written.numel())
    weights = torch.randn(made.shape, generator=torch.Generator().manual_seed(0), dtype=made.dtype).to(made)
    (summed,) = torch.autograd.grad(made, written, weights, retain_graph=True)
    (columns,) = (summed.flatten(0, -2) != 0).any(0).nonzero(as_tuple=True)
    chosen = torch.eye(r, dtype=made.dtype, device=made.device)[:, None].expand(r, tokens, r)
    parts = []
    for some in chosen.split(at_once):
        (found,) = torch.autograd.grad(made, written, some, retain_graph=True, is_grads_batched=True)
        parts.append(found.flatten(1, -2)[..., columns])
    return columns, torch.cat(parts)


def _elsewhere(row: Tensor, written: Tensor, place: int) -> Tensor:
    """Differentiate one token's query or key by what was written of all other tokens."""
    slopes = torch.autograd.grad(row.sum(), written, retain_graph=True)[0].flatten(0, -2).clone()
    slopes[place] = 0
    return slopes


def _weight(projection: nn.Module) -> Tensor:
    """Give a projection's weight as (out, in)."""
    weight = weight_of(projection)
    return weight.T if type(projection).__name__ == "Conv1D" else weight.flatten(1)


def _capped(scores: Tensor, cap: float | None) -> Tensor:
    """Press scores below a cap, where there is one."""
    return scores if cap is None else cap * torch.tanh(scores / cap)


def _afresh(dtype: torch.dtype | None) -> Callable[[Any], Any]:
    """Copy tensors so that gradients can go through them, floats to a dtype where one is given."""

    def copied(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        is_kept = dtype is None or not value.is_floating_point()
        return value.detach().clone() if is_kept else value.detach().to(dtype, copy=True)

    return copied
