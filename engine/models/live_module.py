"""A PyTorch module in memory as a model: a model of transformers, ``nn.MultiheadAttention``, or a hand-written one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from engine.architectures.heads import read_layer
from engine.architectures.outline import Anatomy, AttentionModule, anatomy_of, describe_attention, read_anatomy
from engine.architectures.places import FoundModule, numbers_of
from engine.architectures.rules import RULES, Layout, Rule, sibling, tensor_of
from engine.architectures.tensors import ModuleTensors, Tensors, entry_of
from engine.checkpoints.converted_tensors import Conversion, ConvertedTensors
from engine.checkpoints.source import Source, count_parameters, module_parameters
from engine.checkpoints.transformers_library import settings_of_config
from engine.models.model_loader import load_reader, words_of
from engine.models.module_reader import AttentionWatch, Example, FoundAttention, ModuleCall, ModuleReader, watch_call
from engine.models.proof import Observation, prove
from engine.models.reader import MapReader, Reader, evaluation_mode
from engine.models.tokenizer import Words, words_from
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import Parameter

IN_MEMORY = "a module in memory"
"""The place of such a model, shown instead of a folder."""


class ModuleSource(Source):
    """A module in memory, read with its parameters as they are now and never changed.

    Parameters
    ----------
    module : the model.
    tokenizer : of transformers, or with ``encode`` and ``decode``; without one, sentences are typed as token numbers.
    name : of the model on screen; its class by default.
    example : an input of one sentence: one argument, a tuple or a dictionary; made up by default.
    projections : names of the query, key, value and output projections where no rule knows them; a fused one is named
        three times.

    Attributes
    ----------
    found : the attention that was found by running the module, by layer.
    """

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any = None,
        name: str = "",
        example: Any = None,
        projections: Sequence[str] = (),
    ) -> None:
        if not isinstance(module, nn.Module):
            raise EngineError(f"{type(module).__name__} is not a torch.nn.Module; give the model itself")
        self.module = _unwrap(module)
        if any(parameter.is_meta for parameter in self.module.parameters()):
            raise EngineError(f"{type(self.module).__name__} has parameters on the meta device; load its weights first")
        self.words = words_from(tokenizer)
        self._name = name or type(self.module).__name__
        self.example = Example.of(example)
        self._given: tuple[Rule, ...] = ()
        if projections:
            query, key, value, output = projections
            layout = Layout.BLOCKS if query == key == value else Layout.SEPARATE
            self._given = (Rule(query, key, value, output, layout),)
        self.found: dict[Head, FoundAttention] = {}
        self.tensors: Tensors = ModuleTensors(self.module)
        self.anatomy = count_parameters(self._find_anatomy(), self.module)

    def _find_anatomy(self) -> Anatomy:
        if any(".lora_A." in name for name in self.tensors.entries):
            raise EngineError(f"{self._name} has unmerged adapters; first run model = model.merge_and_unload()")
        by_rules: EngineError | None = None
        if isinstance(self.module, transformers.PreTrainedModel):
            try:
                anatomy = read_anatomy(self._name, IN_MEMORY, self.settings(), self.tensors.entries)
                notes = (*anatomy.outline.notes, *_notes_on_parameters(self.module, anatomy))
                return replace(anatomy, outline=replace(anatomy.outline, notes=notes))
            except EngineError as error:
                by_rules = error
        try:
            with evaluation_mode(self.module):
                return self._anatomy_of_calls()
        except EngineError as error:
            raise by_rules or error from error

    def _anatomy_of_calls(self) -> Anatomy:
        self.example, seen = watch_call(self.module, self.example)
        paths = {part: path for path, part in self.module.named_modules()}
        joined = join_heads(self.module)
        if joined:
            self.tensors = ConvertedTensors(self.tensors, {name: each.conversion for name, each in joined.items()})
        found: dict[str, FoundAttention] = {}
        reasons: dict[str, None] = {}
        for running, _ in seen:
            calls = [call for call in running if call.module in paths]
            around = [paths[call.module] for call in reversed(calls) if list(call.module.parameters())]
            path = next((each for each in around if any(self._rules(each))), None)
            if path in found:
                continue
            try:
                if path is None:
                    place = next(iter(around), "") or self._name
                    raise EngineError(
                        f"{place} computes attention whose projections have no names that attn-tui knows; "
                        "give projections=, the names of its queries', keys', values' and outputs'"
                    )
                found[path] = self._fit_rule(path, calls)
            except EngineError as error:
                reasons[str(error)] = None
        if not found:
            raise EngineError(next(iter(reasons)))
        modules = self._number_layers(list(found.values()))
        notes = ("heads were found by running the module, and by the names of its projections", *reasons)
        kind = type(self.module).__name__
        return anatomy_of(self._name, IN_MEMORY, kind, modules, self.tensors.entries, None, notes)

    def _rules(self, path: str) -> Iterator[Rule]:
        """Yield every rule that a module's names fit, in each layout and either orientation."""
        for rule in (*self._given, *sorted(RULES, key=lambda rule: bool(rule.model_types))):
            is_plain = not (rule.latents or rule.output_first or rule.is_by_head)
            if is_plain and all(tensor_of(self.tensors.entries, path, name) for name in rule.needed):
                is_fused = rule.query == rule.key == rule.value
                layouts = (rule.layout, Layout.BLOCKS, Layout.GROUPED) if is_fused else (rule.layout,)
                for layout, turned in itertools.product(dict.fromkeys(layouts), (False, True)):
                    yield replace(rule, layout=layout, stored_transposed=rule.stored_transposed ^ turned)

    def _fit_rule(self, path: str, calls: list[ModuleCall]) -> FoundAttention:
        """Cut a module into heads by the first rule that its own numbers prove, else by the best that fits."""
        best: FoundAttention | None = None
        most: tuple[bool, bool] = (False, False)
        failure: EngineError | None = None
        for rule in self._rules(path):
            try:
                found = self._cut_heads(path, rule, calls)
                proof = prove(found.described, read_layer(self.tensors, found.described), found.observed)
            except EngineError as error:
                failure = failure or error
                continue
            holds = bool(proof.output.holds), bool(proof.scores.holds)
            if best is None or holds > most:
                best, most = found, holds
            if all(holds):
                break
        if best is None:
            raise failure or EngineError(f"{path} cannot be cut into heads")
        return best.with_marks(is_output_proven=most[0], are_scores_proven=most[1])

    def _cut_heads(self, path: str, rule: Rule, calls: list[ModuleCall]) -> FoundAttention:
        entries = self.tensors.entries
        names = {matrix: tensor_of(entries, path, name) or "" for matrix, name in rule.projections.items()}
        if (bias := f"{names['O'].removesuffix('.weight')}.bias") in entries:
            names["bias"] = bias
        parameters = self._parameters_named(names)
        needed = {id(each) for several in parameters.values() for each in several}
        call = next(each for each in reversed(calls) if needed <= {id(part) for part in each.module.parameters()})
        with AttentionWatch(parameters).watching(call.module) as watch:
            call.repeat()
        config = {"num_attention_heads": len(watch.weights)}
        described = describe_attention(Head("decoder", 0), FoundModule(path, rule), entries, config)
        observed, outline = watch.observation(call.module), described.outline
        widths = {"Q": outline.d_model, "K": outline.d_source, "V": outline.d_values}
        if any(read.shape[-1] != widths[matrix] for matrix, read in observed.reads.items()):
            raise EngineError(f"{path}: its projections read widths that do not match their shapes")
        return FoundAttention(described, call.module, partial(self._parameters_named, names), observed)

    def _parameters_named(self, names: Mapping[str, str]) -> dict[str, Sequence[Tensor]]:
        """Find the present parameters of named tensors; a joined tensor is made of several."""
        own, joined = dict(self.module.named_parameters(remove_duplicate=False)), join_heads(self.module)
        return {key: joined[name].parts if name in joined else (own[name],) for key, name in names.items()}

    def _number_layers(self, layers: list[FoundAttention]) -> dict[Head, AttentionModule]:
        default = "decoder" if any(each.is_causal for each in layers) else "encoder"
        stacks: dict[str, list[FoundAttention]] = {}
        for each in layers:
            stacks.setdefault(each.stack(default), []).append(each)
        modules: dict[Head, AttentionModule] = {}
        for stack, several in stacks.items():
            numbers = _layer_numbers([each.described.outline.module for each in several])
            for number, each in zip(numbers, several, strict=True):
                nothing_kept = Observation(each.module, each.module)  # frees the example's tensors
                self.found[Head(stack, number)] = replace(each, observed=nothing_kept)
                outline = each.described.outline
                outline = replace(outline, stack=stack, layer=number, module=outline.module or "self")
                modules[outline.name] = replace(each.described, outline=outline)
        return modules

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the module's parameters, with those it shares shown as tied."""
        return module_parameters(self.module)

    def settings(self) -> Mapping[str, Any]:
        """Give the configuration of a model of transformers; empty for any other module."""
        config = getattr(self.module, "config", None)
        return settings_of_config(config) if isinstance(config, transformers.PretrainedConfig) else {}


def _unwrap(module: nn.Module) -> nn.Module:
    """Take a model out of ``torch.compile`` and data-parallel wrappers."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _notes_on_parameters(module: nn.Module, anatomy: Anatomy) -> list[str]:
    paths = {name.removesuffix(".weight") for each in anatomy.modules.values() for name in each.weights.values()}
    notes = [
        f"{path} keeps {name} beside its weight, which its heads' matrices would leave out"
        for path, part in module.named_modules()
        if path in paths
        for name in dict(part.named_parameters()).keys() - {"weight", "bias"}
    ]
    return notes[:1]


@dataclass(frozen=True)
class JoinedHeads:
    """One matrix or bias of all heads, made of parameters that the module keeps by head."""

    parts: Sequence[Tensor]
    join: Callable[[], Tensor]

    @property
    def conversion(self) -> Conversion:
        """How it is read, with the parameters as they are now."""
        return Conversion(entry_of(self.join()), lambda: self.join().detach().cpu())


def join_heads(model: nn.Module) -> dict[str, JoinedHeads]:
    """Join the projections of single heads in a list, and parameters ``W_Q [heads, in, out]``."""
    joined: dict[str, JoinedHeads] = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len({type(each) for each in module}) == 1 < len(module):
            for name, first in module[0].named_parameters():
                if name.count(".") == 1 and first.ndim < 3:
                    several = [each.get_parameter(name) for each in module]
                    joined[sibling(path, f"../{name}")] = JoinedHeads(several, partial(_join_list, module, name))
        for matrix in "QKVO":
            name = f"W_{matrix.lower()}"
            weight, bias = (getattr(module, f"{kind}_{matrix}", None) for kind in "Wb")
            if isinstance(weight, nn.Parameter) and weight.ndim == 3:
                joined[sibling(path, f"{name}.weight")] = JoinedHeads([weight], partial(_flatten_heads, module, matrix))
                if isinstance(bias, nn.Parameter):
                    joined[sibling(path, f"{name}.bias")] = JoinedHeads([bias], partial(_flatten_bias, module, matrix))
    return joined


def _join_list(heads: nn.ModuleList, name: str) -> Tensor:
    return torch.cat([each.get_parameter(name) for each in heads])


def _flatten_bias(module: nn.Module, matrix: str) -> Tensor:
    return module.get_parameter(f"b_{matrix}").flatten()


def _flatten_heads(module: nn.Module, matrix: str) -> Tensor:
    """Turn (heads, in, out) into (heads · out, in), or for the output projection into (out, heads · in)."""
    weight = module.get_parameter(f"W_{matrix}")
    return weight.flatten(0, 1).T if matrix == "O" else weight.mT.flatten(0, 1)


def _layer_numbers(paths: list[str]) -> Sequence[int]:
    """Give each layer the first number in its name, or its place where these numbers are not unique."""
    numbers = [next(iter(numbers_of(path)), -1) for path in paths]
    return numbers if len(set(numbers)) == len(numbers) and -1 not in numbers else range(len(paths))


@load_reader.register
def _(source: ModuleSource, device: str, dtype: str) -> MapReader:
    if source.example is not None and source.found:
        return ModuleReader(source.module, source.anatomy.outline, source.found, source.example, source.words)
    place = next(source.module.parameters()).device
    return Reader(source.anatomy, source.module, source.words, str(place), is_borrowed=True)


@words_of.register
def _(source: ModuleSource) -> Words:
    return source.words
