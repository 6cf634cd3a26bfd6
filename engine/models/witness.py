"""What a model's attention modules really read and wrote, watched while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.architectures.outline import AttentionModule
from engine.architectures.places import turn_of
from engine.architectures.projections import sibling
from engine.architectures.rules import Rule
from engine.models.loaded_modules import first_beside, loaded_attention, own_path, path_of
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
from engine.models.spread_models import weights_loaded
from engine.models.widened import as_float32, as_half, half_precision, in_float32
from engine.values.errors import EngineError
from engine.values.heads import Head

RETURNING_SCORES = frozenset({"squeezebert"})
"""Types whose attention modules return scores from before the softmax."""

PROBE_LENGTH, PROBED_TOKENS = 9, 50_000
"""Tokens of a row with which the cutting into heads is checked, and from how many of the vocabulary they are drawn."""


@dataclass
class Observation:
    """One attention module's numbers for a batch of sentences.

    Attributes
    ----------
    module : the module itself, whose norms can be called.
    key_value_module : the module that keys and values are of, another one's where layers share them.
    projections : the modules of its projections by matrix, and of first steps as ``down Q`` and ``norm Q``.
    reads : by matrix, what its projection (the first step of two) read, (sentences, tokens, width).
    mixed : what the output projection read, (sentences, tokens, heads · value_head_dim).
    written : what the output projection wrote, (sentences, tokens, d_output).
    probabilities : (sentences, heads, queries, keys), or None where the module does not return them.
    positions_are_held : whether all positions were zero, or the model has no rotations.
    loaded_as : the half precision of the weights of a module that was seen computing in float32; None for any other.
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


def two_rows(model: Any) -> Tensor:
    """Draw the ids of two rows of random tokens, the same each time and none of them padding: (2, tokens)."""
    generator = torch.Generator().manual_seed(0)
    padding = getattr(model.config, "pad_token_id", None)
    tokens = [token for token in range(min(vocabulary_of(model), PROBED_TOKENS)) if token != padding]
    places = torch.randint(len(tokens), (2, PROBE_LENGTH), generator=generator)
    return torch.tensor(tokens)[places]


def observe(
    model: Any, modules: Mapping[Head, AttentionModule], ids: Tensor, breathe: Callable[[], None]
) -> dict[Head, Observation]:
    """Run a model on sentences of equal length, with all positions held at zero where it takes positions.

    Rotations are then equal and cancel in q · k, so that the scores follow from the weights alone.

    Parameters
    ----------
    model : of transformers, with eager attention.
    modules : the attention modules by layer.
    ids : (sentences, tokens)
    breathe : called before every attention module; it may raise to give up.

    Raises
    ------
    EngineError : when a module is not in the model, or the model does not run.
    """
    model_type = str(getattr(model.config, "model_type", ""))
    named = dict(model.named_modules())
    found = dict(loaded_attention(named))
    seen: dict[Head, Observation] = {}
    sources = [each.outline.d_source for head, each in modules.items() if head.stack == "cross"]
    inputs = inputs_at_position_zero(model, ids, sources[0] if sources else None)
    held = (
        "position_ids" in inputs or model_type in POSITION_TABLES or all(map(takes_positions, rotation_modules(model)))
    )
    with ExitStack() as stack, torch.inference_mode():
        stack.enter_context(position_tables_at_zero(model, model_type))
        stack.enter_context(rotations_at_zero(model))
        for head, module in modules.items():
            lent = turn_of(module.key_value_module, head.layer)
            path, lender = (path_of(named, each) for each in (own_path(module), lent))
            half = half_precision(named[path])
            seen[head] = Observation(named[path], named[lender], positions_are_held=held, loaded_as=half)
            watch = _Watch(seen[head], module, ids, model_type in RETURNING_SCORES, breathe)
            owners = {"Q": path, "K": lender, "V": lender, "O": path}
            stack.enter_context(watch.watching(named, owners, found.get(lender)))
        try:
            model(**inputs)
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            raise EngineError(f"the model does not run: {str(error).partition(chr(10))[0]}") from error
    return seen


class _Watch:
    """Keeps what one attention module and its projections read and write; a module that runs again is kept once."""

    def __init__(
        self, seen: Observation, module: AttentionModule, ids: Tensor, is_scores: bool, breathe: Callable[[], None]
    ) -> None:
        self._seen = seen
        self._module = module
        self._ids = ids
        self._is_scores = is_scores
        self._breathe = breathe
        self._calls = 0

    @contextmanager
    def watching(
        self, named: Mapping[str, nn.Module], owners: Mapping[str, str], loaded: Rule | None
    ) -> Iterator[None]:
        """Watch the module and its projections, under the names of the file's rule or of the loaded model's."""
        rule, seen = self._module.rule, self._seen
        hooks = []
        own = vars(seen.module).get("forward")  # accelerate's, of a model that is spread
        seen.module.forward = partial(self._run, seen.module.forward)
        names: dict[str, str] = {}
        for matrix in "QKVO":
            rules = [each for each in (rule, loaded) if each is not None]
            projection = first_beside(named, owners[matrix], [each.first_step(matrix) for each in rules])
            if projection is not None:
                seen.projections[matrix] = projection
                hooks.append(projection.register_forward_hook(self._keeping(matrix)))
                norms = [each.latents[matrix].norm for each in rules if matrix in each.latents]
                if (norm := first_beside(named, owners[matrix], norms)) is not None:
                    seen.projections[f"norm {matrix}"] = norm
            elif isinstance(getattr(seen.module, name := rule.first_step(matrix), None), nn.Parameter):
                names[name] = matrix
            else:
                name = sibling(self._module.outline.module, rule.first_step(matrix))
                raise EngineError(f"the loaded model has no module {name}")
        try:
            with (
                weights_loaded(seen.module) if names else nullcontext()
            ):  # it computes with the very same parameters then
                uses = {id(getattr(seen.module, name)): matrix for name, matrix in names.items()}
                with _Products(uses, self._keep) if uses else nullcontext():
                    yield
        finally:
            if own is None:
                del seen.module.forward
            else:
                seen.module.forward = own
            for hook in hooks:
                hook.remove()

    def _run(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run the module, in float32 where it is of half precision."""
        self._calls += 1
        self._breathe()
        half = half_precision(self._seen.module)
        if half is None:  # or another watch of the same module has it in float32 already
            result = forward(*args, **kwargs)
            self._keep_returned(result)
            return result
        with in_float32(self._seen.module):
            result = forward(*as_float32(args), **as_float32(kwargs))
        self._keep_returned(result)
        return as_half(result, half)

    def _keep_returned(self, result: Any) -> None:
        """Keep the probabilities that the module returns."""
        seen, heads = self._seen, self._module.outline.heads
        if seen.probabilities is None and "Q" in seen.reads:
            if self._is_scores:
                result = tuple(each.softmax(-1) for each in four_dimensional(result))
            seen.probabilities = returned_probabilities(result, len(self._ids), heads)

    def _keeping(self, matrix: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def keep(projection: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            written = result[0] if isinstance(result, tuple) else result
            is_convolution = isinstance(projection, nn.Conv1d)
            self._keep(matrix, *(each.mT if is_convolution else each for each in (args[0], written)))

        return keep

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
        x, sentences = x.detach(), len(self._ids)
        has_tokens_first = x.ndim > 2 and x.shape[0] != sentences == x.shape[1]
        return x.transpose(0, 1) if has_tokens_first else x


class _Products(TorchFunctionMode):
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
            matrix = self._uses[id(args[2])]
            self._keep(matrix, args[1].flatten(2), result.flatten(2))
        return result
