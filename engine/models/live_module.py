"""A PyTorch module in memory as a model: of transformers, ``nn.MultiheadAttention``, or written by hand."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.architectures.heads import read_layer
from engine.architectures.outline import Anatomy, AttentionModule, anatomy_of, read_anatomy
from engine.architectures.rules import Rule
from engine.architectures.tensors import TensorEntry, Tensors
from engine.checkpoints.converted_tensors import Conversion, ConvertedTensors, ModuleTensors
from engine.checkpoints.source import Source, module_parameters
from engine.checkpoints.transformers_library import settings_of_config
from engine.models.attention_maps import MapArray
from engine.models.devices import CheckedLookups, lacks_memory
from engine.models.head_tracing import AttentionWatch, ModuleCall, trace_heads
from engine.models.loaded_model import vocabulary_of
from engine.models.loading import load_reader, words_of
from engine.models.module_attention import Example, FoundAttention, Search, Taker, find_attention, layer_numbers
from engine.models.predictions import Asked, checked_position
from engine.models.proof import Observation, prove
from engine.models.reader import MapReader, Reader, Tokens, evaluating
from engine.models.score_formula import ScoreFormula
from engine.models.tokenizer import Words, words_from
from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import LayerOutline, ModelOutline, Parameter
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

IN_MEMORY = "a module in memory"
"""Where such a model is, in place of a folder."""

WATCHED = "heads were found by watching the module compute"
"""Said of a model whose heads no rule has found."""

SEPARATE = Rule("Q", "K", "V", "O")
"""Its matrices are taken out with the heads one after the other, whatever the module's own layout is."""

EXAMPLE = "example"
"""The sentence that stands for what a module was called with, where it reads vectors and no tokens."""

OF_ONE = 1e-2
"""How far the sum of probabilities may be from one, in the 16 bits that they may have been computed in."""


class ModuleSource(Source):
    """A module whose heads are those of its parameters as they are now; nothing of it is changed.

    Parameters
    ----------
    module : the model.
    tokenizer : what makes ids of text, of any make; None has sentences typed as numbers.
    name : what the model is called on screen; its class unless given.
    example : what the model is called with, for one sentence: one argument or a tuple; made up unless given.

    Attributes
    ----------
    found : by layer, attention that is no rule's.
    """

    def __init__(self, module: nn.Module, tokenizer: Any = None, name: str = "", example: Any = None) -> None:
        if not isinstance(module, nn.Module):
            raise EngineError(f"{type(module).__name__} is no torch.nn.Module; give the model itself")
        self.module = _unwrap(module)
        if any(parameter.is_meta for parameter in self.module.parameters()):
            raise EngineError(f"{type(self.module).__name__} has parameters on the meta device; load its weights first")
        self.words = words_from(tokenizer)
        self._name = name or type(self.module).__name__
        self.example = _as_example(example)
        self.found: dict[Head, FoundAttention] = {}
        self.tensors: Tensors = ModuleTensors(self.module)
        self.anatomy = self._take_apart()

    def _take_apart(self) -> Anatomy:
        """Find the heads by the rules where the module is of transformers, and by watching it compute where not."""
        if any(".lora_A." in name for name in self.tensors.entries):
            raise EngineError(f"{self._name} has adapters that are not merged; first: model = model.merge_and_unload()")
        by_rules: EngineError | None = None
        if isinstance(self.module, transformers.PreTrainedModel):
            try:
                anatomy = read_anatomy(self._name, IN_MEMORY, self.settings(), self.tensors.entries)
                notes = (*anatomy.outline.notes, *_parameters_left_out(self.module, anatomy))
                return replace(anatomy, outline=replace(anatomy.outline, notes=notes))
            except EngineError as error:
                by_rules = error
        try:
            with evaluating(self.module):
                return self._of_search(find_attention(self.module, self.example))
        except EngineError as error:
            raise by_rules or error from error

    def _of_search(self, search: Search) -> Anatomy:
        """Describe what was found by watching as if it were stored, every projection by itself."""
        self.example = search.example
        looks_back = any(each.looks_back_only for each in search.found)
        by_stack: dict[str, list[FoundAttention]] = {}
        for each in search.found:
            by_stack.setdefault(_stack(each, looks_back), []).append(each)
        real = self.tensors.entries
        conversions = {
            f"{each.path}#{name}": Conversion(_entry(take()), partial(_in_main_memory, take))
            for each in search.found
            for name, take in each.takers.items()
        }
        self.tensors = ConvertedTensors(self.tensors, conversions)
        modules: dict[Head, AttentionModule] = {}
        for stack, several in by_stack.items():
            for number, each in zip(layer_numbers([one.path for one in several]), several, strict=True):
                self.found[Head(stack, number)] = each
                modules[Head(stack, number)] = self._describe(each, stack, number)
        is_watched = any(each.observed is not None for each in search.found)
        notes = [*([WATCHED] if is_watched else []), *search.reasons]
        return anatomy_of(self._name, IN_MEMORY, type(self.module).__name__, modules, self.tensors.entries, None,
                          tuple(notes), stored=real)  # fmt: skip

    def _describe(self, found: FoundAttention, stack: str, number: int) -> AttentionModule:
        """Describe one layer, and mark what its own numbers show to take part besides its matrices."""
        names = {name: f"{found.path}#{name}" for name in found.takers}
        shapes = {matrix: self.tensors.entries[names[matrix]].shape for matrix in "QKVO"}
        outline = LayerOutline(
            stack, number, found.heads, found.key_value_heads,
            d_model=shapes["Q"][1], d_source=shapes["K"][1], d_values=shapes["V"][1], d_output=shapes["O"][0],
            head_dim=shapes["Q"][0] // found.heads, value_head_dim=shapes["O"][1] // found.heads,
            module=found.path, marks=found.marks,
        )  # fmt: skip
        weights = {matrix: names[matrix] for matrix in "QKVO"}
        biases = {matrix: names[f"{matrix}.bias"] for matrix in "QKVO" if f"{matrix}.bias" in names}
        module = AttentionModule(outline, SEPARATE, weights, biases, {}, None, found.path, is_gated=False)
        if found.observed is None:
            return module
        proof = prove(module, read_layer(self.tensors, module), found.observed)
        marks = [] if proof.scores.holds else ["scores beyond QK"]
        marks += [] if proof.output.holds else ["outputs beyond OV"]
        return replace(module, outline=replace(outline, marks=(*marks, *found.marks)))

    def parameters(self, with_ties: bool = True) -> tuple[Parameter, ...]:
        """List the module's parameters, with those it shares shown as tied."""
        return module_parameters(self.module)

    def settings(self) -> Mapping[str, Any]:
        """Give the configuration of a model of transformers, and nothing of another module."""
        config = getattr(self.module, "config", None)
        return settings_of_config(config) if isinstance(config, transformers.PretrainedConfig) else {}


def _unwrap(module: nn.Module) -> nn.Module:
    """Take a model out of what compiles it or spreads it over devices."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _as_example(given: Any) -> Example | None:
    """Take one argument, a tuple of them, or a dictionary of named ones."""
    if given is None:
        return None
    if isinstance(given, dict):
        return Example((), given)
    return Example(given if isinstance(given, tuple) else (given,), {})


def _parameters_left_out(module: nn.Module, anatomy: Anatomy) -> list[str]:
    """Name a projection that keeps more than a weight and a bias, of which the heads know nothing."""
    parts = dict(module.named_modules())
    paths = {name.removesuffix(".weight") for each in anatomy.modules.values() for name in each.weights.values()}
    others = [
        (path, name)
        for path in sorted(paths & parts.keys())
        for name, _ in parts[path].named_parameters()
        if name not in ("weight", "bias")
    ]
    return [f"{path} keeps {name} beside its weight, which is not in its heads' matrices" for path, name in others[:1]]


def _entry(tensor: Tensor) -> TensorEntry:
    return TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _in_main_memory(take: Taker) -> Tensor:
    return take().cpu()


def _stack(found: FoundAttention, looks_back: bool) -> str:
    """Say which stack a layer is in: across, where it reads elsewhere; else as its name or the model's masks say."""
    if found.reads_elsewhere:
        return "cross"
    parts = found.path.split(".")
    named = next((part for part in ("encoder", "decoder") if part in parts), None)
    return named or ("encoder" if found.looks_back_only is False and not looks_back else "decoder")


@load_reader.register
def _(source: ModuleSource, device: str, dtype: str) -> MapReader:
    if source.found:
        return ModuleReader(source.module, source.anatomy.outline, source.found, source.example, source.words)
    place = next(source.module.parameters()).device
    return Reader(source.anatomy, source.module, source.words, str(place), is_borrowed=True)


@words_of.register
def _(source: ModuleSource) -> Words:
    return source.words


class ModuleReader(MapReader):
    """A module that no library wrote, which reads sentences; nothing of it is changed.

    Parameters
    ----------
    model : the module.
    outline : what is known of it.
    found : by layer, what computes its attention.
    example : what it can be called with, or None.
    words : what makes ids of text.
    """

    def __init__(
        self,
        model: nn.Module,
        outline: ModelOutline,
        found: Mapping[Head, FoundAttention],
        example: Example | None,
        words: Words,
    ) -> None:
        self.outline, self.words = outline, words
        self.tell: Tell = tell_nobody
        self.folder: Path | None = None
        self._name = outline.name
        self._model, self._found, self._given = model, found, example
        self.sentence: Sentence | None = None
        self._calls: dict[nn.Module, ModuleCall] = {}

    def sharing_model(self) -> Self:
        """Give another reader of the same module, which has read nothing yet; this one's sentence stays."""
        other = copy.copy(self)
        other.sentence, other._calls, other.tell = None, {}, tell_nobody
        return other

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last; none of the heads can be off."""
        return self.sentence is not None and self.sentence.text == text and not off.heads

    @property
    def _example(self) -> Example:
        if self._given is None:
            raise EngineError(f"{self._name} cannot be called by itself; give example=, what to call it with")
        return self._given

    def _example_of_tokens(self, reason: str = "") -> Example:
        """Give the example where it is of tokens; else that is said, with what it is the reason of."""
        if self._given is None or not self._given.reads_tokens:
            raise EngineError(f"{self._name} reads no tokens{reason}")
        return self._given

    @property
    def vocabulary(self) -> int:
        """How many rows its smallest embedding has.

        Raises
        ------
        EngineError : when it reads no tokens.
        """
        self._example_of_tokens(" that random ones could stand for")
        return vocabulary_of(self._model)

    def read(self, text: str, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the module on a sentence, unless it is the one that was read last; none of its heads can be off."""
        if off.heads:
            raise EngineError(
                f"{self._name} is no model of transformers; its heads cannot be switched off while it reads"
            )
        if self.sentence is not None and self.sentence.text == text:
            return self.sentence
        if self._example.reads_tokens:
            sentence = self.words.read(text, None)
            self._run(self._example.with_ids(sentence.ids), check)
        elif text.strip() == EXAMPLE:
            self._run(self._example, check)
            longest = max(self._maps_of(each).shape[1] for each in self._found.values())
            names = tuple(str(place) for place in range(longest))
            sentence = Sentence(text, tuple(range(longest)), names, longest)
        else:
            raise EngineError(
                f"{self._name} reads vectors, no tokens; type {EXAMPLE} for the maps of what it was called with"
            )
        self.sentence = sentence
        return sentence

    def read_ids(self, ids: tuple[int, ...], check: Callable[[], None]) -> None:
        """Run the module on token ids in the place of a sentence."""
        self._run(self._example_of_tokens().with_ids(ids), check)
        self.sentence = Sentence("", ids, self.words.texts(ids), len(ids))

    def predicted(self, text: str, position: int | None, check: Callable[[], None]) -> tuple[Asked, Tensor]:
        """Read a sentence, and give what the module says comes after one of its tokens, the last unless it is named.

        Raises
        ------
        EngineError : when there is no such token, or what the module returns is no logits that can be told.
        """
        example = self._example_of_tokens(", so it predicts none")
        if "decoder" not in self.outline.stacks:
            raise EngineError(
                f"{self._name} is no model of transformers, and its tokens look both ways: attn-tui does not know what "
                "it returns at a token, so it has no predictions"
            )
        sentence = self.words.read(text, None)
        place = checked_position(position, len(sentence.ids))
        returned = self._run(example.with_ids(sentence.ids), check)
        self.sentence = sentence
        return Asked(sentence, {}, sentence.tokens, place), self._logits(returned, place, len(sentence.ids))

    def _run(self, example: Example, check: Callable[[], None]) -> Any:
        """Call the model, keep what its attention modules are called with, and give what it returns."""
        self.sentence = None
        calls: dict[nn.Module, ModuleCall] = {}
        telling = ProgressReporter(self.tell, READING, "layers")

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            telling(len(calls), len(attention))
            check()
            calls.setdefault(module, ModuleCall(module, args, kwargs))

        attention = dict.fromkeys(each.module for each in self._found.values())
        hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in attention]
        try:
            with evaluating(self._model), CheckedLookups(), torch.no_grad():
                returned = self._model(*example.args, **example.kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, KeyError) as error:
            if isinstance(error, RuntimeError) and lacks_memory(error):
                raise EngineError("the sentence does not fit into memory; type a shorter one") from error
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EngineError(f"{self._name} fails on this sentence: {reason[:200]}; try another one") from error
        finally:
            for hook in hooks:
                hook.remove()
            telling.end()
        self._calls = calls
        return returned

    def _logits(self, returned: Any, position: int, tokens: int) -> Tensor:
        """Take the logits at a token out of what the module returned, told by their shape: (vocabulary,) float32.

        They are the one tensor of one sentence that is as wide as an embedding has rows, and not as wide as the stream
        that heads read. It is of all tokens, or of the last alone, as some modules are written that are to go on. Where
        it holds probabilities already, their logarithms are the logits.
        """
        streams = {width for layer in self.outline.layers for width in (layer.d_model, layer.d_output)}
        tables = {each.num_embeddings for each in self._model.modules() if isinstance(each, nn.Embedding)} - streams
        found = [
            each[0]
            for each in tree_leaves(returned)
            if isinstance(each, Tensor) and each.is_floating_point() and each.ndim == 3
            if len(each) == 1 and each.shape[1] in (1, tokens) and each.shape[2] in tables
        ]
        if len(found) != 1:
            many = "several tensors" if found else "no tensor"
            raise EngineError(
                f"{self._name} is no model of transformers, and returns {many} of the shape of logits, "
                "(1, tokens, vocabulary); it has no predictions"
            )
        (logits,) = found
        if len(logits) == 1 < tokens and position != tokens - 1:
            raise EngineError(
                f"{self._name} returns logits of the last token alone, {tokens - 1}; leave the position out"
            )
        own = logits[-1 if len(logits) == 1 else position].float().cpu()
        if bool(own.isnan().any()):
            raise EngineError(f"the logits that {self._name} gives here are NaN, nothing is predicted")
        return own.log() if bool((own >= 0).all()) and abs(float(own.sum()) - 1) < OF_ONE else own

    def gather(self, layer: Head, array: MapArray, check: Callable[[], None]) -> Tokens:
        """See the maps of one layer by calling its attention once more."""
        if self.sentence is None:
            raise EngineError("no sentence has been read; type one")
        weights = self._maps_of(self._found[layer])
        heads, queries, keys = weights.shape
        array.begin((heads, queries, keys))
        array.put(0, weights)
        tokens = self.sentence.tokens
        names = [tokens if count == len(tokens) else tuple(map(str, range(count))) for count in (queries, keys)]
        return names[0], names[1]

    def _maps_of(self, found: FoundAttention) -> Tensor:
        """Give a layer's probabilities, (heads, queries, keys)."""
        if found.module not in self._calls:
            raise EngineError(f"{found.path} took no part in reading this sentence; it has no attention map")
        call = self._calls[found.module]
        with evaluating(self._model), torch.no_grad():
            if isinstance(found.module, nn.MultiheadAttention):
                weights = _with_weights(call)[1]
                return weights[0] if weights.ndim > 3 else weights  # of several sentences the first
            with AttentionWatch().watching(found.module) as watch:
                call.again()
        return torch.cat([each.weights for each in watch.seen])

    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads its example."""
        self._run(self._example, check)
        seen: dict[Head, Observation] = {}
        with evaluating(self._model):
            for head, found in self._found.items():
                check()
                seen[head] = self._observe(found)
        return seen

    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[ScoreFormula, Tokens]:
        """Refuse: what projects queries and keys has no module that is known by name."""
        raise EngineError(f"{self._name} is no model of transformers; its scores cannot be split into terms")

    def _observe(self, found: FoundAttention) -> Observation:
        seen = Observation(found.module, found.module, positions_are_held=False)
        if found.module not in self._calls:
            return seen
        call = self._calls[found.module]
        if not isinstance(found.module, nn.MultiheadAttention):
            return trace_heads(found.module, call.again, found.path).observed(found.module)
        with torch.no_grad():
            written, weights = _with_weights(call)
        taken = _bound(call).arguments
        sides = [taken["query"], taken["key"], taken["value"], written]
        if written.ndim == 2:  # one sentence, without an axis for sentences
            sides, weights = [each[None] for each in sides], weights[None]
        elif not found.module.batch_first:
            sides = [each.transpose(0, 1) for each in sides]
        reads = dict(zip("QKV", sides[:3], strict=True))
        return replace(seen, reads=reads, written=sides[3], probabilities=weights)


def _bound(call: ModuleCall) -> inspect.BoundArguments:
    return inspect.signature(call.module.forward).bind(*call.args, **call.kwargs)


def _with_weights(call: ModuleCall) -> tuple[Tensor, Tensor]:
    """Call PyTorch's multi-head attention once more, and have every head's probabilities given back."""
    bound = _bound(call)
    bound.arguments |= {"need_weights": True, "average_attn_weights": False}
    written, weights = call.module(*bound.args, **bound.kwargs)
    return written, weights
