"""What a model's attention modules really read and wrote while it ran on a batch of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from engine.architectures.outline import AttentionModule
from engine.architectures.places import turn_of
from engine.architectures.rules import Rule, sibling
from engine.models.devices import weights_loaded
from engine.models.loaded_model import first_beside, loaded_attention, own_path, path_of
from engine.models.map_forms import four_dimensional, returned_probabilities
from engine.models.model_inputs import (
    POSITION_TABLES,
    inputs_at_position_zero,
    position_tables_at_zero,
    rotation_modules,
    rotations_at_zero,
    takes_positions,
    vocabulary_of,
)
from engine.values.errors import EngineError
from engine.values.heads import Head

RETURNING_SCORES = frozenset({"squeezebert"})
"""Types whose attention modules return scores from before the softmax."""

ROW_LENGTH, DRAWN_TOKENS = 9, 50_000
"""Tokens of a random row, and from how many of the vocabulary they are drawn."""

HALVES = frozenset({torch.float16, torch.bfloat16})


@dataclass
class Observation:
    """One attention module's numbers for a batch of sentences.

    Attributes
    ----------
    module : the module itself, whose norms can be called.
    key_value_module : the module that keys and values are of, another one's where layers share them.
    projections : the modules of its projections by matrix, and the norms of first steps as ``norm Q``.
    reads : by matrix, what its projection (the first step of two) read, (sentences, tokens, width).
    mixed : what the output projection read, (sentences, tokens, heads · value_head_dim).
    written : what the output projection wrote, (sentences, tokens, d_output).
    probabilities : (sentences, heads, queries, keys), or None where the module does not return them.
    positions_are_held : whether all positions were zero, or the model has no rotations.
    loaded_as : the half precision of the weights of a module that was run in float32; None for any other.
    """

    module: nn.Module
    key_value_module: nn.Module
    projections: dict[str, nn.Module] = field(default_factory=dict)
    reads: dict[str, Tensor] = field(default_factory=dict)
    mixed: Tensor | None = None
    written: Tensor | None = None
    probabilities: Tensor | None = None
    positions_are_held: bool = True
    loaded_as: torch.dtype | None = None


def random_rows(model: Any) -> Tensor:
    """Draw the ids of two rows of random tokens, the same each time and none of them padding: (2, tokens)."""
    generator = torch.Generator().manual_seed(0)
    padding = getattr(model.config, "pad_token_id", None)
    tokens = [token for token in range(min(vocabulary_of(model), DRAWN_TOKENS)) if token != padding]
    places = torch.randint(len(tokens), (2, ROW_LENGTH), generator=generator)
    return torch.tensor(tokens)[places]


def observe(
    model: Any, modules: Mapping[Head, AttentionModule], ids: Tensor, check: Callable[[], None]
) -> dict[Head, Observation]:
    """Run a model on sentences of equal length, with all positions held at zero where it takes positions.

    Rotations are then equal and cancel in q · k, so that the scores follow from the weights alone.

    Parameters
    ----------
    model : of transformers, with eager attention.
    modules : the attention modules by layer.
    ids : (sentences, tokens)
    check : called before every attention module; it may raise to give up.

    Raises
    ------
    EngineError : when a module is not in the model, or the model does not run.
    """
    model_type = str(getattr(model.config, "model_type", ""))
    named = dict(model.named_modules())
    loaded = dict(loaded_attention(named))
    seen: dict[Head, Observation] = {}
    sources = [each.outline.d_source for head, each in modules.items() if head.stack == "cross"]
    inputs = inputs_at_position_zero(model, ids, sources[0] if sources else None)
    are_held = (
        "position_ids" in inputs or model_type in POSITION_TABLES or all(map(takes_positions, rotation_modules(model)))
    )
    with ExitStack() as stack, torch.inference_mode():
        stack.enter_context(position_tables_at_zero(model, model_type))
        stack.enter_context(rotations_at_zero(model))
        for head, module in modules.items():
            own = path_of(named, own_path(module))
            shared = path_of(named, turn_of(module.key_value_module, head.layer))
            seen[head] = Observation(
                named[own], named[shared], positions_are_held=are_held, loaded_as=half_precision(named[own])
            )
            watch = _ModuleWatch(seen[head], module, ids, model_type in RETURNING_SCORES, check)
            paths = {"Q": own, "K": shared, "V": shared, "O": own}
            stack.enter_context(watch.watching(named, paths, loaded.get(shared)))
        try:
            model(**inputs)
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            raise EngineError(f"the model does not run: {str(error).partition(chr(10))[0]}") from error
    return seen


class _ModuleWatch:
    """Keeps what one attention module and its projections read and write; a module that runs again is kept once."""

    def __init__(
        self, seen: Observation, module: AttentionModule, ids: Tensor, is_scores: bool, check: Callable[[], None]
    ) -> None:
        self._seen = seen
        self._module = module
        self._sentences = len(ids)
        self._is_scores = is_scores
        self._check = check
        self._calls = 0

    @contextmanager
    def watching(self, named: Mapping[str, nn.Module], paths: Mapping[str, str], loaded: Rule | None) -> Iterator[None]:
        """Watch the module and its projections, under the names of the file's rule or of the loaded model's."""
        rule, seen = self._module.rule, self._seen
        rules = [each for each in (rule, loaded) if each is not None]
        parameters: dict[str, str] = {}
        with ExitStack() as stack:
            stack.enter_context(_wrapped(seen.module, self._run))
            for matrix, path in paths.items():
                name = rule.first_step(matrix)
                projection = first_beside(named, path, [each.first_step(matrix) for each in rules])
                if projection is not None:
                    seen.projections[matrix] = projection
                    stack.callback(projection.register_forward_hook(partial(self._keep_call, matrix)).remove)
                    norms = [each.latents[matrix].norm for each in rules if matrix in each.latents]
                    if (norm := first_beside(named, path, norms)) is not None:
                        seen.projections[f"norm {matrix}"] = norm
                elif isinstance(getattr(seen.module, name, None), nn.Parameter):
                    parameters[name] = matrix
                else:
                    module = sibling(self._module.outline.module, name)
                    raise EngineError(f"the loaded model has no module {module}")
            if parameters:
                stack.enter_context(weights_loaded(seen.module))  # so that it computes with these very parameters
                uses = {id(getattr(seen.module, name)): matrix for name, matrix in parameters.items()}
                stack.enter_context(_EinsumWatch(uses, self._keep))
            yield

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        self._check()
        half = half_precision(self._seen.module)  # None too where another watch has brought it to float32
        with nullcontext() if half is None else in_float32(self._seen.module):
            if half is not None:
                args, kwargs = _converted((args, kwargs), HALVES, torch.float32)
            result = forward(*args, **kwargs)
        seen = self._seen
        if seen.probabilities is None and "Q" in seen.reads:
            returned = tuple(each.softmax(-1) for each in four_dimensional(result)) if self._is_scores else result
            seen.probabilities = returned_probabilities(returned, self._sentences, self._module.outline.heads)
        return result if half is None else _converted(result, {torch.float32}, half)

    def _keep_call(self, matrix: str, projection: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        written = result[0] if isinstance(result, tuple) else result
        is_convolution = isinstance(projection, nn.Conv1d)
        self._keep(matrix, *(each.mT if is_convolution else each for each in (args[0], written)))

    def _keep(self, matrix: str, read: Tensor, written: Tensor) -> None:
        """Keep what a projection read; where a module calls it for several sequences, one after the other."""
        seen = self._seen
        read = self._by_sentence(read)
        if matrix == "O":
            if seen.written is None:
                seen.reads["O"] = seen.mixed = read
                seen.written = self._by_sentence(written)
        elif matrix not in seen.reads:
            seen.reads[matrix] = read
        elif self._calls == 1 and seen.probabilities is None and seen.written is None:
            seen.reads[matrix] = torch.cat([seen.reads[matrix], read], -2)

    def _by_sentence(self, x: Tensor) -> Tensor:
        """Bring what a projection read into (sentences, tokens, width) where it has the tokens first."""
        has_tokens_first = x.ndim > 2 and x.shape[0] != self._sentences == x.shape[1]
        return x.detach().transpose(0, 1) if has_tokens_first else x.detach()


class _EinsumWatch(TorchFunctionMode):
    """Watches products with parameters that belong to no module of their own."""

    def __init__(self, uses: Mapping[int, str], keep: Callable[[str, Tensor, Tensor], None]) -> None:
        super().__init__()
        self._uses = uses
        self._keep = keep

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.einsum and len(args) == 3 and id(args[2]) in self._uses:
            self._keep(self._uses[id(args[2])], args[1].flatten(2), result.flatten(2))
        return result


@contextmanager
def _wrapped(module: nn.Module, run: Callable[..., Any]) -> Iterator[None]:
    """Let a function call a module's ``forward``, which accelerate has replaced in a model that is spread."""
    own = vars(module).get("forward")
    module.forward = partial(run, module.forward)
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


@contextmanager
def in_float32(*modules: nn.Module) -> Iterator[None]:
    """Bring the weights of modules and of all their parts, those of half precision as float32.

    What they do is then seen without their rounding. The weights are given back as they were, bit by bit.
    """
    with weights_loaded(*modules):
        parts = [part for module in modules for each in (module.parameters(), module.buffers()) for part in each]
        halves = {id(part): (part, part.data) for part in parts if part.dtype in HALVES}
        try:
            with torch.inference_mode(False):
                for part, stored in halves.values():
                    part.data = stored.float()
            yield
        finally:
            for part, stored in halves.values():
                part.data = stored


def half_precision(module: nn.Module) -> torch.dtype | None:
    """Give the half precision that a module computes in, or None where it has none."""
    return next((each.dtype for each in module.parameters() if each.dtype in HALVES), None)


def _converted(values: Any, of: set[torch.dtype] | frozenset[torch.dtype], dtype: torch.dtype) -> Any:
    return tree_map(lambda each: each.to(dtype) if isinstance(each, Tensor) and each.dtype in of else each, values)
