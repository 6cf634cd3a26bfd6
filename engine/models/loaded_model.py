"""A loaded model of transformers: its inputs, its attention modules by path, and parameters that are broken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from operator import methodcaller
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.architectures.outline import Anatomy, AttentionModule
from engine.architectures.places import attention_modules, numbers_of, stack_named, tower_of, turn_of
from engine.architectures.rules import ENDINGS, Rule, sibling
from engine.architectures.tensors import all_finite, describe_not_finite
from engine.models.devices import weight_of
from engine.models.tokenizer import TokenNumbers, Words
from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head

ASKING_FOR_BOXES = frozenset({"bros", "udop"})
"""Types that need a box on the page for each token; other types of pages make empty boxes themselves."""


def vocabulary_size(model: Any) -> int:
    """Give the number of token ids that a model knows: rows of its embedding, or of its smallest one."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # a model of several towers
        table = None
    if isinstance(table, nn.Embedding):
        return table.num_embeddings
    weight = getattr(table, "weight", None)
    sizes = [each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)]
    return int(weight.shape[0]) if isinstance(weight, Tensor) else min(sizes, default=1)


def sentence_inputs(model: Any, words: Words, name: str, device: str, sentence: Sentence) -> dict[str, Any]:
    """Give the inputs of a model of transformers for a sentence, ids (1, tokens) each.

    The decoder of an encoder–decoder model reads its start token and the sentence without its last token, as in
    training. Raises `EngineError` when a token number is not in the vocabulary, or the model needs other inputs than
    tokens.
    """
    taken = inspect.signature(model.forward).parameters
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = [name for name, each in taken.items() if each.default is each.empty and each.kind not in any_number]
    others = [name for name in asked or list(taken)[:1] if name != "input_ids"]
    if others and ("input_ids" not in taken or asked):
        raise EngineError(f"{name} reads {others[0]}, not text alone; its spectra still work")
    if isinstance(words, TokenNumbers):
        count = vocabulary_size(model)
        for each in sentence.ids:
            if each >= count:
                raise EngineError(f"{name} has no token {each}; type numbers from 0 to {count - 1}")
    ids = torch.tensor([sentence.ids], device=device)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if getattr(model.config, "model_type", "") in ASKING_FOR_BOXES:
        inputs["bbox"] = empty_boxes(ids)
    if "decoder_input_ids" in taken:
        config = model.config
        start = getattr(config, "decoder_start_token_id", None) if config.is_encoder_decoder else None
        own = (sentence.ids if start is None else (start, *sentence.ids))[: len(sentence.ids)]
        inputs["decoder_input_ids"] = torch.tensor([own], device=device)
    return inputs


def empty_boxes(ids: Tensor) -> Tensor:
    """Give an empty box on the page for each token, (sentences, tokens, 4)."""
    return torch.zeros(*ids.shape, 4, device=ids.device)


class LoadedModules:
    """The modules of a loaded model by path, found by the paths and names that they have in its checkpoint.

    A loaded model may put another prefix before a path, or call a module otherwise.

    Attributes
    ----------
    named : all modules by path.
    """

    def __init__(self, model: nn.Module) -> None:
        self.named: dict[str, nn.Module] = dict(model.named_modules())
        self._found: dict[str, str | None] = {}

    @cached_property
    def _rules(self) -> dict[str, Rule]:
        """The attention modules by path, found by the rules, whatever the checkpoint calls them."""
        own = {path: dict(each.named_parameters(recurse=False)) for path, each in self.named.items()}
        return dict(attention_modules(f"{path}.{name}" for path, names in own.items() for name in names))

    def find(self, path: str) -> str | None:
        """Find the path of a checkpoint's module, which may begin differently or be another.

        It is the path with the longest common ending, from the layer's number on at least; without one, the only
        attention module of the same layer number that is not of another stack.
        """
        if path not in self._found:
            self._found[path] = path if path in self.named else self._search(path)
        return self._found[path]

    def _search(self, path: str) -> str | None:
        parts = path.split(".")
        numbers = [place for place, part in enumerate(parts) if part.isdigit()]
        for begin in range(max(numbers[0], 1) if numbers else len(parts)):
            end = f".{'.'.join(parts[begin:])}"
            found = [name for name in self.named if f".{name}".endswith(end) and tower_of(name) is None]
            if len(found) == 1:
                return found[0]
            if found:
                break
        stack = stack_named(path)
        fits = []
        for name in self._rules:
            both = {stack, stack_named(name)}
            is_of_stack = len(both) == 1 or (None in both and "cross" not in both)
            if is_of_stack and numbers_of(name) == numbers_of(path) and tower_of(name) is None:
                fits.append(name)
        return fits[0] if len(fits) == 1 else None

    def path(self, module: AttentionModule, matrix: str = "Q") -> str:
        """Give the path of a layer's attention module, or of the one that makes its keys and values.

        A checkpoint may keep one module for several layers. Raises `EngineError` when there is none.
        """
        stored = module.key_value_module if matrix in "KV" else module.outline.module
        own = turn_of(stored, module.outline.layer)
        found = self.find(own)
        if found is None:
            raise EngineError(f"the loaded model has no module {own}; it cannot read sentences, its spectra still work")
        return found

    def attention(self, anatomy: Anatomy) -> dict[Head, nn.Module]:
        """Find every layer's attention module; `EngineError` when one is missing."""
        return {layer: self.named[self.path(module)] for layer, module in anatomy.modules.items()}

    def beside(self, module: AttentionModule, matrix: str, name_of: Callable[[Rule], str | None]) -> nn.Module | None:
        """Find a module that projects, or norms, a matrix by the name that a rule gives it; None without one.

        For a wrapper around a projection it is the projection.
        """
        rules = module.rule, self._rules.get(self.path(module, "K"), module.rule)
        for name in filter(None, map(name_of, rules)):
            around = sibling(self.path(module, matrix), name)
            for inner in (f"{around}{ending}".removesuffix(".weight") for ending in ENDINGS):
                if isinstance(getattr(self.named.get(inner), "weight", None), Tensor):
                    return self.named[inner]
        return None

    def latent_norm(self, module: AttentionModule, matrix: str) -> nn.Module | None:
        """Find the norm between two steps of a projection; None where it has one step."""
        return self.beside(module, matrix, lambda rule: rule.latents[matrix].norm if matrix in rule.latents else None)

    def projection(self, module: AttentionModule, matrix: str) -> nn.Module | None:
        """Find the module that reads for a matrix: its projection, or the first of two steps; None without one."""
        return self.beside(module, matrix, methodcaller("first_step", matrix))


def lacking_of(module: nn.Module) -> frozenset[str]:
    """Name a module's own parameters that its checkpoint lacks."""
    return getattr(module, "lacking", frozenset())


class RefusedChoices(TorchFunctionMode):
    """Raises `EngineError` when a model makes choices, such as of experts or keys, by parameters its checkpoint lacks.

    These parameters are NaN, which a choice would hide: its result is an index or a truth value.
    """

    def __init__(self, lacking: list[str]) -> None:
        super().__init__()
        self._said = f"the model lacks numbers that it needs to run: {_lacks(lacking)}; its spectra still work"

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        results = result if isinstance(result, tuple) else (result,)
        is_choice = name == "nan_to_num" or any(isinstance(x, Tensor) and not x.is_floating_point() for x in results)
        if is_choice and not name.startswith(("new_", "is")) and not name.endswith("_like"):
            given = [x for x in args if isinstance(x, Tensor) and x.ndim and x.is_floating_point() and not x.is_meta]
            if any(bool(x.isnan().any()) for x in given):
                raise EngineError(self._said)
        return result


def lacking_parameters(model: nn.Module) -> list[str]:
    """List the parameters of a model that its checkpoint lacks."""
    return [f"{path}.{own}" for path, module in model.named_modules() for own in sorted(lacking_of(module))]


def _lacks(names: list[str]) -> str:
    return f"the checkpoint lacks {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def broken_parameter(model: nn.Module, within: nn.Module, check: Callable[[], None]) -> str | None:
    """Name the first parameter within a part of a model that holds NaN or infinite numbers, and how many.

    Where all are finite, name a parameter that the checkpoint lacks, or give None. ``check`` is called between
    parameters.
    """
    prefix = next(path for path, module in model.named_modules() if module is within)
    lacking = []
    for own_name, parameter in within.named_parameters():
        if not parameter.is_floating_point():
            continue
        check()
        name = f"{prefix}.{own_name}".removeprefix(".")
        owner, _, own = name.rpartition(".")
        module = model.get_submodule(owner)
        if own in lacking_of(module):
            lacking.append(name)
        elif not all_finite(weight := weight_of(module, own)):
            return describe_not_finite({name: (weight,)})
    return _lacks(lacking) if lacking else None


def cause_of_nan(model: nn.Module, check: Callable[[], None]) -> str:
    """Say why a model's results are NaN: its weights, or the range of its dtype."""
    if (broken := broken_parameter(model, model, check)) is not None:
        return broken
    dtype = next(model.parameters()).dtype
    if dtype in (torch.float16, torch.bfloat16):
        return f"its numbers overflow {str(dtype).removeprefix('torch.')}; try --dtype float32"
    return "its weights are finite, but its results here are not"


def why_no_numbers(model: nn.Module, module: nn.Module, check: Callable[[], None]) -> str:
    """Say why an attention module returns NaN or infinite numbers: its own weights, or what it reads."""
    return broken_parameter(model, module, check) or (
        f"what it reads holds NaN or infinite numbers ({cause_of_nan(model, check)}); its spectra still work"
    )
