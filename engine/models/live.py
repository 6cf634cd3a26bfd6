"""A PyTorch module in memory as a source: of transformers, ``nn.MultiheadAttention``, or written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from torch import Tensor, nn

from engine.architectures.outline import Anatomy, AttentionModule, anatomy_of, read_anatomy
from engine.architectures.rules import Rule
from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.decoded_tensors import Decoded
from engine.checkpoints.parameters import module_parameters
from engine.checkpoints.renamed import ModuleTensors
from engine.checkpoints.transformers_library import completed
from engine.models.example import Example
from engine.models.handmade import Found, Part, Search, layer_numbers, search
from engine.models.loaded_model import Loaded
from engine.models.loading import load_reader, words_of
from engine.models.map_reader import MapReader
from engine.models.model_state import evaluating
from engine.models.module_reader import ModuleReader
from engine.models.tokenizer import Words, words_from
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline, Parameter

IN_MEMORY = "a module in memory"
"""Where such a model is, in place of a folder."""

WATCHED = "heads were found by watching the module compute"
"""Said of a model whose heads no rule has found."""

SEPARATE = Rule("Q", "K", "V", "O")
"""Its matrices are taken out with the heads one after the other, whatever the module's own layout is."""


class ModuleSource:
    """A module whose heads are those of its parameters as they are now; nothing of it is changed.

    Parameters
    ----------
    module : the model.
    tokenizer : what makes ids of text, of any make; None has sentences typed as numbers.
    name : what the model is called on screen; its class unless given.
    example : what the model is called with, for one sentence: one argument or a tuple; made up unless given.
    """

    identity = None

    def __init__(self, module: nn.Module, tokenizer: Any = None, name: str = "", example: Any = None) -> None:
        if not isinstance(module, nn.Module):
            raise EngineError(f"{type(module).__name__} is no torch.nn.Module; give the model itself")
        self.module = _unwrapped(module)
        if any(parameter.is_meta for parameter in self.module.parameters()):
            raise EngineError(f"{type(self.module).__name__} has parameters on the meta device; load its weights first")
        self.words = words_from(tokenizer)
        self._name = name or type(self.module).__name__
        self._example = _as_example(example)
        self.search: Search | None = None
        self._found: dict[Head, Found] = {}
        self.tensors: Tensors = ModuleTensors(self.module)
        self.anatomy: Anatomy = self._take_apart()

    def _take_apart(self) -> Anatomy:
        """Find the heads by the rules where the module is of transformers, and by watching it compute where not."""
        if any(".lora_A." in name for name in self.tensors.entries):
            raise EngineError(f"{self._name} has adapters that are not merged; first: model = model.merge_and_unload()")
        config: Any = getattr(self.module, "config", None)
        by_rules: EngineError | None = None
        if isinstance(self.module, transformers.PreTrainedModel):
            try:
                anatomy = read_anatomy(self._name, IN_MEMORY, completed(config), self.tensors.entries)
                return _with_note(anatomy, _kept_beside(self.module, anatomy))
            except EngineError as error:
                by_rules = error
        try:
            with evaluating(self.module):
                self.search = search(self.module, self._example)
        except EngineError as error:
            raise by_rules or error from error
        return self._of_search(self.search)

    def _of_search(self, found: Search) -> Anatomy:
        """Describe what was found by watching as if it were stored, every projection by itself."""
        decoders: dict[str, tuple[TensorEntry, Callable[[], Tensor]]] = {}
        modules: dict[Head, AttentionModule] = {}
        by_stack: dict[str, list[Found]] = {}
        looks_back = any(each.looks_back_only for each in found.found)
        for each in found.found:
            by_stack.setdefault(_stack(each, looks_back), []).append(each)
        for stack, several in by_stack.items():
            for number, each in zip(layer_numbers([one.path for one in several]), several, strict=True):
                parts = {f"{each.path}#{matrix}": part for matrix, part in each.weights.items()}
                parts |= {f"{each.path}#{matrix}.bias": part for matrix, part in each.biases.items()}
                decoders |= {
                    name: (TensorEntry(part.shape, part.dtype), partial(_in_main_memory, part))
                    for name, part in parts.items()
                }
                self._found[Head(stack, number)] = each
                modules[Head(stack, number)] = _described(each, stack, number)
        real = self.tensors.entries
        self.tensors = Decoded(self.tensors, decoders)
        is_watched = any(not isinstance(each.module, nn.MultiheadAttention) for each in found.found)
        notes = [*([WATCHED] if is_watched else []), *found.reasons]
        return anatomy_of(self._name, IN_MEMORY, type(self.module).__name__, modules, self.tensors.entries, None,
                          tuple(notes), counted=real)  # fmt: skip

    @property
    def files(self) -> tuple[Path, ...]:
        """No files: the weights are in memory."""
        return ()

    def sentence_need(self, dtype: str) -> None:
        """Nothing: the model is in memory."""

    def reader(self) -> MapReader:
        """Read sentences with the module where and as it is."""
        if self._found:
            assert self.search is not None
            return ModuleReader(self.module, self.anatomy.outline, self._found, self.search.example, self.words)
        from engine.models.reader import Reader

        place = next(self.module.parameters()).device
        return Reader(self.anatomy, Loaded(self.module, self.words, str(place), is_borrowed=True))

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the module's parameters, with those it shares shown as tied."""
        return module_parameters(self.module)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of a listed tensor."""
        return self.tensors.parts(name)

    def settings(self) -> Mapping[str, Any]:
        """Give the configuration of a model of transformers, and nothing of another module."""
        config = getattr(self.module, "config", None)
        return completed(config) if isinstance(config, transformers.PretrainedConfig) else {}


def _in_main_memory(part: Part) -> Tensor:
    """Take a matrix or bias out of a module that may be on a GPU."""
    return part.take().cpu()


def _unwrapped(module: nn.Module) -> nn.Module:
    """Take a model out of what compiles it or spreads it over devices."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _kept_beside(module: nn.Module, anatomy: Anatomy) -> str:
    """Name a projection that keeps more than a weight and a bias, of which the heads know nothing; or none."""
    named = dict(module.named_modules())
    for attention in anatomy.modules.values():
        for tensor in attention.weights.values():
            path = tensor.removesuffix(".weight")
            names = [name for name, _ in named[path].named_parameters()] if path in named else []
            if others := [name for name in names if name not in ("weight", "bias")]:
                return f"{path} keeps {others[0]} beside its weight, which is not in its heads' matrices"
    return ""


def _with_note(anatomy: Anatomy, note: str) -> Anatomy:
    """Say something more of a model, where there is something to say."""
    if not note:
        return anatomy
    return replace(anatomy, outline=replace(anatomy.outline, notes=(*anatomy.outline.notes, note)))


def _as_example(given: Any) -> Example | None:
    """Take one argument, a tuple of them, or a dictionary of named ones."""
    if given is None:
        return None
    if isinstance(given, dict):
        return Example((), given)
    return Example(given if isinstance(given, tuple) else (given,), {})


def _stack(found: Found, looks_back: bool) -> str:
    """Say which stack a layer is in: across, where it reads elsewhere; else as its name or the model's masks say."""
    if found.reads_elsewhere:
        return "cross"
    parts = found.path.split(".")
    named = next((part for part in ("encoder", "decoder") if part in parts), None)
    return named or ("encoder" if found.looks_back_only is False and not looks_back else "decoder")


def _described(found: Found, stack: str, number: int) -> AttentionModule:
    """Describe one layer."""
    shapes = {matrix: part.shape for matrix, part in found.weights.items()}
    outline = LayerOutline(
        stack, number, found.heads, found.key_value_heads,
        d_model=shapes["Q"][1], d_source=shapes["K"][1], d_values=shapes["V"][1], d_output=shapes["O"][0],
        head_dim=shapes["Q"][0] // found.heads, value_head_dim=shapes["O"][1] // found.heads,
        module=found.path, marks=found.marks,
    )  # fmt: skip
    weights = {matrix: f"{found.path}#{matrix}" for matrix in found.weights}
    biases = {matrix: f"{found.path}#{matrix}.bias" for matrix in found.biases}
    return AttentionModule(outline, SEPARATE, weights, biases, {}, None, found.path, is_gated=False)


@load_reader.register
def _(source: ModuleSource, device: str, dtype: str) -> MapReader:
    return source.reader()


@words_of.register
def _(source: ModuleSource) -> Words:
    return source.words
