"""The formula of one layer's scores: its queries and keys, each as a function of what its projection read.

No positions, norms or scales are known by name. The attention module is called again on its own inputs, in float64, and
PyTorch's functions are watched: the product of queries and keys, and the input of the softmax. The derivative of a
query by its projection's output covers everything between them, rotations included; the scale of a norm is held fixed,
as one number of the token. What is added to the products (a position bias, a mask) is the score at queries of zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from engine.mathematics.scores import ScoreSide
from engine.models.devices import weight_of, widen, widest_dtype
from engine.models.interventions import HeldNorm, is_norm
from engine.values.errors import EngineError

SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
"""Functions that turn scores into probabilities."""

ADDING = frozenset({torch.baddbmm, Tensor.baddbmm})
"""Functions that multiply, and whose first argument is added to the product."""

MULTIPLYING = ADDING | {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm}
"""Functions with which models multiply queries by keys."""

EXACT = 1e-5
"""How far the formula may be from the module's float64 scores, relative to the largest; some modules cast down."""

NUMBERS_AT_ONCE = 2**23
"""Numbers of gradients that are held at once."""

CALLS = 4
"""Calls of a module for its formula: as it is, in float64, with queries of zero, and with inputs of zero."""

MASKED = 9999.0
"""Size of the least mask that hides a key, if its weight is zero too."""

UNSEEN = torch.empty(0)
"""Stands for what has not been computed."""


class ScoreWatch(TorchFunctionMode):
    """Keeps the product of queries and keys, and the softmax after it, in one call of an attention module.

    ``shape`` is heads, queries, keys. With ``is_zero`` the queries are zero in the product.

    Attributes
    ----------
    query, key : factors of the product, (heads, queries, r) and (heads, keys, r).
    scores, weights : (heads, queries, keys) before and after the softmax.
    products : number of products of queries and keys.
    """

    def __init__(self, shape: tuple[int, int, int], is_zero: bool = False) -> None:
        super().__init__()
        self.query = self.key = self.scores = self.weights = UNSEEN
        self.products = 0
        self._shape, self._is_zero = shape, is_zero

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MULTIPLYING and self.scores is UNSEEN:
            return self._multiply(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in SOFTMAXES and self.query is not UNSEEN and self.scores is UNSEEN:
            scores = args[0] if args else kwargs["input"]
            heads, queries, keys = self._shape
            if scores.shape[-2] == queries and scores.shape[-1] >= keys and scores.shape[:-2].numel() == heads:
                self.scores, self.weights = scores.flatten(0, -3), result.flatten(0, -3)
        return result

    def _multiply(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = ("batch1", "batch2") if func in ADDING else ("input", "other", "mat2")
        given = [*args, *(kwargs[name] for name in names if name in kwargs)]
        query, key = given[1:3] if func in ADDING else given[:2]
        heads, queries, keys = self._shape
        is_of_heads = query.ndim > 2 and query.shape[:-2].numel() == heads and query.ndim == key.ndim
        if not is_of_heads or (query.shape[-2], key.shape[-1]) != (queries, keys):
            return func(*args, **kwargs)
        self.products += 1
        every_key = key.expand(*query.shape[:-2], *key.shape[-2:])  # all heads may share one
        self.query, self.key = query.flatten(0, -3), every_key.flatten(0, -3).mT
        if self._is_zero:
            silent = torch.zeros_like(query)
            args = tuple(silent if each is query else each for each in args)
            kwargs = {name: silent if each is query else each for name, each in kwargs.items()}
        return func(*args, **kwargs)


@dataclass
class _Linearised:
    """Hooks for one call in float64 that start gradients at the projections' outputs and hold norms fixed.

    Attributes
    ----------
    norms : by module, one held norm per call, made in the first run; queries and keys may share a module.
    share : factor on the projections' inputs.
    read, written : inputs and outputs, by projection.
    """

    norms: dict[nn.Module, list[HeldNorm | None]] = field(default_factory=dict)
    share: float = 1.0
    read: dict[nn.Module, Tensor] = field(default_factory=dict)
    written: dict[nn.Module, Tensor] = field(default_factory=dict)
    _calls: Counter[nn.Module] = field(default_factory=Counter)

    def scale_input(self, projection: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0] * self.share, *args[1:])

    def cut(self, projection: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        written = result[0] if isinstance(result, tuple) else result
        leaf = written.detach().clone().requires_grad_()
        self.read[projection], self.written[projection] = args[0].detach(), leaf
        passed_on = leaf.clone()  # the module may change it in place
        return (passed_on, *result[1:]) if isinstance(result, tuple) else passed_on

    def hold(self, norm: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        if len(args) != 1 or not isinstance(result, Tensor):
            return result
        known, call = self.norms.setdefault(norm, []), self._calls[norm]
        self._calls[norm] += 1
        if call == len(known):
            known.append(HeldNorm.of(norm, args[0].detach(), result.detach()))
        held = known[call]
        return result if held is None else held(args[0])


class ScoreFormula:
    """One layer's scores for one sentence: ``cap(scale · q·k) + added``.

    Attributes
    ----------
    dtype : of the module.
    scores, weights : (heads, queries, keys) before and after the softmax, in the module's dtype.
    added : (heads, queries, keys)
    seen : (heads, queries, keys) whether no mask hides the key.
    scales : (heads,)

    Parameters
    ----------
    name : of the layer, for errors.
    module : the attention module.
    projections : the modules of its queries and keys by matrix, the first step where a projection has two.
    call : the arguments of its call, without a cache.
    shape : heads, queries, keys.
    step : called before each of the `CALLS` calls of the module; may raise to stop.

    Raises
    ------
    EngineError : when its scores have another form.
    """

    @torch.inference_mode(False)  # gradients are needed in any mode of the caller
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
        step()
        args, kwargs = _copy_tensors(call, None)
        with torch.no_grad(), ScoreWatch(shape) as watch:
            module(*args, **kwargs)
        own = self._check(watch)
        if not bool(own.query.isfinite().all() & own.key.isfinite().all()):
            raise self._refusal("has NaN or infinite queries or keys, from its weights or from an earlier layer")
        self.dtype = own.query.dtype
        self.weights = own.weights[..., : shape[2]].detach()
        self._linearised = _Linearised()
        self._made = self._in_float64(self._linearised)
        norms = self._linearised.norms
        self.added = self._without_sink(self._in_float64(_Linearised(norms), is_zero=True))
        self._of_nothing = self._in_float64(_Linearised(norms, share=0.0))
        self.scores = self._without_sink(own)
        self.seen = (self.weights > 0) | (self.added > -MASKED)
        self._cap, self.scales = self._formula(self._without_sink(self._made) - self.added)
        del self._step  # it may hold a lot

    def _in_float64(self, linearised: _Linearised, is_zero: bool = False) -> ScoreWatch:
        self._step()
        dtype = widest_dtype(next(self._module.parameters()).device)
        args, kwargs = _copy_tensors(self._call, dtype)
        parts = _copy_tensors({**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}, dtype)
        with ExitStack() as stack, torch.enable_grad():
            for projection in set(self._projections.values()):
                stack.enter_context(projection.register_forward_pre_hook(linearised.scale_input))
                stack.enter_context(projection.register_forward_hook(linearised.cut))
            for part in self._module.modules():
                if is_norm(part):
                    stack.enter_context(part.register_forward_hook(linearised.hold))
            watch = stack.enter_context(ScoreWatch(self._shape, is_zero))
            torch.func.functional_call(self._module, parts, args, kwargs)
        return self._check(watch)

    def _check(self, made: ScoreWatch) -> ScoreWatch:
        if made.scores is UNSEEN:
            raise self._refusal("does not take the softmax of products of queries and keys")
        if made.products > 1:
            raise self._refusal("adds several products to its scores")
        return made

    def _refusal(self, why: str) -> EngineError:
        return EngineError(f"{self._name} {why}; its scores cannot be split into terms")

    def _without_sink(self, made: ScoreWatch) -> Tensor:
        """Give the scores without those of a sink, (heads, queries, keys) float64.

        A module with a sink subtracts each row's largest score; the sink's own score tells how much that was.
        """
        scores, keys = widen(made.scores.detach()), self._shape[2]
        if scores.shape[-1] == keys:
            return scores
        sinks = getattr(self._module, "sinks", None)
        if scores.shape[-1] != keys + 1 or not isinstance(sinks, Tensor):
            raise self._refusal("has scores that belong to no token")
        return scores[..., :keys] - scores[..., keys:] + widen(sinks.detach())[:, None, None]

    def _formula(self, made: Tensor) -> tuple[float | None, Tensor]:
        """Find the cap, if there is one, and each head's scale."""
        products = widen((self._made.query @ self._made.key.mT).detach())
        seen, made = self.seen, torch.where(self.seen, made, 0.0)
        cap = getattr(getattr(self._module, "config", None), "attn_logit_softcapping", None)
        is_below, raw = seen, made
        if cap is not None:
            is_below = seen & (made.abs() < 0.9 * cap)  # there a score tells what it was before the cap
            raw = cap * torch.atanh(torch.where(is_below, made / cap, 0.0))
        used = torch.where(is_below, products, 0.0)
        scales = (used * raw).sum((1, 2)) / used.square().sum((1, 2)).clamp_min(torch.finfo(used.dtype).tiny)
        off = torch.where(seen, _cap_scores(scales[:, None, None] * products, cap) - made, 0.0)
        if bool(off.abs().amax() <= EXACT * made.abs().amax()):
            return cap, scales
        raise self._refusal("has scores that are not a scaled product of query and key plus a term")

    def cap_score(self, score: float) -> float:
        """Apply the cap, if there is one, to a score."""
        return float(_cap_scores(torch.tensor(score, dtype=torch.float64), self._cap))

    @torch.inference_mode(False)
    def side(self, matrix: str, head: int, place: int) -> ScoreSide:
        """Give a query (``Q``) or a key (``K``) as a function of what its projection read.

        Raises `EngineError` when it is no affine function of what its own token's projection read.
        """
        projection = self._projections[matrix]
        made, of_nothing = (each.query if matrix == "Q" else each.key for each in (self._made, self._of_nothing))
        if projection not in self._linearised.written:
            raise self._refusal("projects with a module that another layer calls")
        written, read = self._linearised.written[projection], self._linearised.read[projection].flatten(0, -2)
        if written.shape[:-1].numel() != made.shape[1] or len(read) != made.shape[1]:
            raise self._refusal("projects rows that are not its tokens")
        columns, slopes = _slopes(made[head, place], written, place)
        stored = weight_of(projection).to(written)
        weight = slopes @ (stored.T if type(projection).__name__ == "Conv1D" else stored.flatten(1))[columns]
        own = made[head, place].detach()
        rest = own - weight @ read[place]
        if bool((rest - of_nothing[head, place]).abs().amax() > EXACT * made.detach().abs().amax()):
            raise self._refusal("makes queries or keys from several tokens, or not linearly")
        read_here, weight, rest = (each.cpu().double() for each in (read[place], weight, rest))
        return ScoreSide(read_here, weight, rest)


def _slopes(made: Tensor, written: Tensor, place: int) -> tuple[Tensor, Tensor]:
    """Differentiate a token's query or key, (r,), by its projection's output: columns that matter, (r, columns)."""
    rows = torch.eye(len(made), dtype=made.dtype, device=made.device)
    parts = []
    for some in rows.split(max(1, NUMBERS_AT_ONCE // written.numel())):
        (found,) = torch.autograd.grad(made, written, some, retain_graph=True, is_grads_batched=True)
        parts.append(found.flatten(1, -2)[:, place])
    slopes = torch.cat(parts)
    columns = (slopes != 0).any(0).nonzero().flatten()
    return columns, slopes[:, columns]


def _cap_scores(scores: Tensor, cap: float | None) -> Tensor:
    return scores if cap is None else cap * torch.tanh(scores / cap)


def _copy_tensors(value: Any, dtype: torch.dtype | None) -> Any:
    """Copy a call's tensors so that gradients can pass through them, floats to the dtype, if one is given."""

    def copied(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        return each.detach().to(dtype if each.is_floating_point() else None, copy=True)

    return tree_map(copied, value)
