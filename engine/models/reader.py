"""Readers of sentences: what they all give, and the reader of transformers' models.

The model runs once and keeps the inputs of each attention module; a layer's maps are then computed by calling that
module alone, so that memory holds one layer's maps and not all layers'. The run makes no maps where a kernel can read
(`engine.models.attention_capture`). The second call captures the module's eager function and computes it in blocks of
queries; a module outside the interface returns its probabilities itself. Both calls get explicit masks, so they attend
to the same keys.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.architectures.outline import Anatomy
from engine.checkpoints.transformers_library import first_line
from engine.mathematics.attention import visible_keys
from engine.models.attention_capture import (
    ATTENTION,
    IMPLEMENTATION,
    MODEL_ERRORS,
    AttentionFunction,
    AttentionResult,
    Check,
    EagerCall,
    attend_with_kernel,
    register_attention,
)
from engine.models.attention_maps import (
    attend_in_full,
    is_distribution,
    longest_in_full,
    need_memory,
    probabilities_of,
    reason_without_map,
)
from engine.models.devices import CheckedLookups, is_spread, lacks_memory, weights_loaded
from engine.models.interventions import OutputProjections
from engine.models.loaded_model import (
    LoadedModules,
    RefusedChoices,
    lacking_parameters,
    sentence_inputs,
    vocabulary_size,
    why_no_numbers,
)
from engine.models.proof import Observation, observe
from engine.models.score_formula import CALLS, ScoreFormula
from engine.models.tokenizer import Words
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError, NoMap
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

MAP_COPIES = 4
"""Copies of a layer's maps that eager attention holds at once: scores, masked scores, their softmax, and the result."""

STATE_COPIES = 6
"""Tensors of the size of a layer's queries that are held besides its maps: queries, keys, values and their results."""

EARLIER_BYTES, EARLIER_SENTENCES = 256 * 2**20, 16
"""Limits of what is kept of earlier sentences."""

Tokens: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The token texts along the axis of the queries and along that of the keys."""

Blocks: TypeAlias = Iterator[tuple[Tokens, int, Tensor]]
"""The tokens along both axes, the first query of a block, and its probabilities (heads, some queries, keys)."""

Text: TypeAlias = str | tuple[int, ...]
"""A sentence, or its token ids with the special tokens."""


class MapReader(ABC):
    """A model that reads sentences and gives attention maps, one layer's at a time, or their mean over layers.

    Attributes
    ----------
    outline : of the model.
    words : its tokenizer.
    tell : receives progress.
    sentence : the sentence that was read last.
    """

    outline: ModelOutline
    words: Words
    tell: Tell
    sentence: Sentence | None

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """The number of token ids that the model knows; `EngineError` when it reads no tokens."""

    @abstractmethod
    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, without a sentence."""

    @abstractmethod
    def read(self, text: Text, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence with some heads off, unless that is still kept.

        ``check`` is called before every attention module. Raises `EngineError` when the sentence is empty, or the model
        fails on it.
        """

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the token ids along a stack's queries; a decoder may read other tokens than the sentence's."""
        return () if self.sentence is None else self.sentence.ids

    @abstractmethod
    def blocks(self, layer: Head, check: Check) -> Blocks:
        """Yield the maps of all heads of one layer for the sentence that was read last, in blocks of queries.

        Raises `EngineError` when the layer was not run, has no maps to show, or they do not fit into memory.
        """

    @abstractmethod
    def observe(self, check: Check) -> dict[Head, Observation]:
        """Watch every attention module while the model reads a few tokens, for `engine.models.proof.prove`."""

    @abstractmethod
    def scoring(self, layer: Head, check: Check) -> tuple[ScoreFormula, Tokens]:
        """Split one layer's scores for the sentence that was read last, and give the tokens along both axes.

        Raises `EngineError` when the layer was not run, or its scores are more than products of queries and keys.
        """

    def layer_maps(self, layer: Head | str, check: Check = lambda: None) -> AttentionMaps:
        """Compute the maps of all heads of a layer, or their means over a stack's layers, for the sentence read last.

        They come with the keys that each query sees. Memory holds one layer's maps; ``check`` is called between blocks
        of queries. Raises `EngineError` as in `blocks`, and when layers differ in their number of heads, so that they
        have no mean.
        """
        layers = [layer] if isinstance(layer, Head) else [each.name for each in self.outline.stack_layers(layer)]
        if not layers:
            raise EngineError(f"{self.outline.name} has no stack '{layer}'")
        number = layer.layer if isinstance(layer, Head) else None
        weights: NDArray[np.float32] | None = None
        with ProgressReporter(self.tell, "computing maps", "layers" if number is None else "queries") as report:
            for done, each in enumerate(layers):
                check()
                for tokens, first, block in self.blocks(each, check):
                    shape = block.shape[0], len(tokens[0]), len(tokens[1])
                    if weights is None:
                        need_memory(*shape)
                        weights = np.zeros(shape, np.float32)
                    if weights.shape != shape:
                        raise EngineError("the layers' maps differ in shape, so there is no mean over layers")
                    part = torch.from_numpy(weights)[:, first : first + block.shape[1]]
                    part += block.to(part) / len(layers)
                    if number is None:
                        report(done, len(layers))
                    else:
                        report(first + block.shape[1], shape[1])
                    del block  # before the next one is made
        assert self.sentence is not None
        assert weights is not None  # a sentence has tokens
        visible = visible_keys(weights, check)
        return AttentionMaps(self.sentence, layers[0].stack, number, *tokens, weights, visible=visible)


@dataclass(frozen=True)
class Reading:
    """What is kept of a sentence that was read.

    Attributes
    ----------
    sentence : the sentence.
    calls : the arguments with which each attention module returns its weights: those of the run, without a cache.
    nbytes : of these calls.
    decoder_ids : ids that the decoder read; the sentence's where it read these.
    tokens : along both axes of each stack's maps.
    """

    sentence: Sentence
    calls: Mapping[Head, inspect.BoundArguments]
    nbytes: int
    decoder_ids: tuple[int, ...]
    tokens: Mapping[str, Tokens]


class _AllCalled(Exception):
    """Every attention module has been called, so the run can end."""


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and restore the mode of every part at the end."""
    states = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, state in states.items():
            part.training = state


@contextmanager
def borrowed_model(model: Any, attention: str = "eager") -> Iterator[None]:
    """Put a model of transformers into evaluation mode with an attention implementation, and restore it at the end."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    chosen = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    try:
        with evaluation_mode(model):
            for part in model.modules():  # towers have implementations of their own
                if getattr(getattr(part, "config", None), "_attn_implementation", "eager") not in (None, "eager"):
                    setter = getattr(part, "set_attn_implementation", None)
                    if setter is not None:
                        setter("eager")
            if attention != "eager":
                model.set_attn_implementation(attention)
            yield
    finally:
        for key, config in configs.items():
            if chosen[key] is not None:
                config._attn_implementation = chosen[key]


class Reader(MapReader):
    """A loaded model of transformers that reads sentences and gives attention maps.

    Parameters
    ----------
    anatomy : the model's layers and where their modules are.
    model : the model, in evaluation mode unless it is borrowed.
    words : its tokenizer.
    device : where the model is.
    is_borrowed : whether it belongs to the caller, so that every call leaves it as it was.

    Attributes
    ----------
    modules : every layer's attention module.
    outputs : the layers' output projections.
    inputs : maps a sentence to the model's inputs.
    reads_with_kernels : whether the model attends through `engine.models.attention_capture`.
    """

    def __init__(self, anatomy: Anatomy, model: Any, words: Words, device: str, *, is_borrowed: bool = False) -> None:
        self.anatomy, self.outline, self.words = anatomy, anatomy.outline, words
        self.model = model
        self.tell: Tell = tell_nobody
        self._device = device
        if not is_borrowed:
            attend_in_full(model)
        self._longest = longest_in_full(model)
        self.modules = LoadedModules(model).attention(anatomy)
        self.outputs = OutputProjections(model, anatomy.modules)
        with borrowed_model(model) if is_borrowed else nullcontext():
            self.reads_with_kernels = register_attention(model)
        attention = IMPLEMENTATION if self.reads_with_kernels else "eager"
        self._state = partial(borrowed_model, model, attention) if is_borrowed else nullcontext
        lacking = lacking_parameters(model)
        self._refusing = partial(RefusedChoices, lacking) if lacking else nullcontext
        self._bringing = weights_loaded if is_spread(model) else nullcontext
        self._checking = nullcontext if device == "cpu" else CheckedLookups
        makes_biases = any(isinstance(part, nn.Embedding) for each in self.modules.values() for part in each.modules())
        self._copies = 1 if self.reads_with_kernels and not makes_biases else MAP_COPIES  # a bias has a map's size
        layers = self.outline.attending_layers
        self._heads = max((layer.heads for layer in layers), default=1)
        width = max((layer.heads * layer.head_dim for layer in layers), default=0)
        kept = width * model.dtype.itemsize if device == "cpu" else 0
        self._token_bytes = (STATE_COPIES + len(layers)) * kept
        self.inputs = partial(sentence_inputs, model, words, self.outline.name, device)
        self.sentence: Sentence | None = None
        self._reading: Reading | None = None
        self._readings: dict[tuple[Text, Off], Reading] = {}  # the last one read is the last here

    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, without a sentence."""
        other = copy.copy(self)
        other._readings, other._reading, other.sentence, other.tell = {}, None, None, tell_nobody
        return other

    @property
    def vocabulary(self) -> int:
        """The number of rows of its embedding."""
        return vocabulary_size(self.model)

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the token ids along a stack's queries; a decoder may read other tokens than the sentence's."""
        reading = self._reading
        return () if reading is None else reading.sentence.ids if stack == "encoder" else reading.decoder_ids

    def read(self, text: Text, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, and keep the arguments of its attention modules.

        The run ends at the last of them. It would end with the logits of all tokens, the largest tensor of all.
        """
        readings = self._readings
        earlier = readings.pop((text, off), None)
        if earlier is not None:
            self._reading = readings[text, off] = earlier
            self.sentence = earlier.sentence
            return self.sentence
        if isinstance(text, str):
            sentence = self.words.read(text, self.outline.context)
        else:
            sentence = Sentence("", text, self.words.texts(text), len(text))
        count = len(sentence.ids)
        if self._longest is not None and count > self._longest:
            raise EngineError(
                f"{self.outline.name} reads more than {self._longest} tokens in sparse blocks, which have no maps; "
                f"type a shorter sentence than these {count} tokens; its spectra still work"
            )
        while len(readings) > EARLIER_SENTENCES or sum(each.nbytes for each in readings.values()) > EARLIER_BYTES:
            del readings[next(iter(readings))]
        need_memory(self._heads, count, count, self._copies, states=self._token_bytes * count)
        inputs = self.inputs(sentence)
        calls: dict[Head, inspect.BoundArguments] = {}
        waiting: dict[nn.Module, list[Head]] = {}  # layers that share a module call it in turn
        for layer, module in self.modules.items():
            waiting.setdefault(module, []).append(layer)

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            report(len(calls), len(self.modules))
            check()
            if waiting[module]:
                signature = inspect.signature(module.forward)
                calls[waiting[module].pop(0)] = call = signature.bind(*args, **kwargs)
                for name, value in call.arguments.items():
                    if isinstance(value, transformers.Cache):  # it would hold the sentence already
                        call.arguments[name] = None
                if "output_attentions" in signature.parameters:
                    call.arguments["output_attentions"] = True
            if len(calls) == len(self.modules):
                raise _AllCalled

        try:
            with (
                ExitStack() as hooks,
                ProgressReporter(self.tell, READING, "layers") as report,
                self.running(count, check),
            ):
                means: dict[Head, Tensor] = {}
                if off.by_mean:
                    with self.outputs.keeping_means(off.heads, means):
                        self.model(**inputs)
                for module in waiting:
                    hooks.enter_context(module.register_forward_pre_hook(keep, with_kwargs=True))
                set_to = means if off.by_mean else None
                with self.outputs.switching(off.heads, set_to) if off.heads else nullcontext():
                    self.model(**inputs)
        except EngineError as error:
            self._refuse_unknown(sentence, error)
            raise
        ids, tokens, own = sentence.ids, sentence.tokens, sentence.tokens
        if "decoder_input_ids" in inputs:
            ids = tuple(inputs["decoder_input_ids"][0].tolist())
            tokens = self.words.texts(ids)
        axes = {"encoder": (own, own), "decoder": (tokens, tokens), "cross": (tokens, own)}
        states = tree_leaves([call.arguments for call in calls.values()])
        sizes = {id(each): each.nbytes for each in states if isinstance(each, Tensor)}
        self._reading = readings[text, off] = Reading(sentence, calls, sum(sizes.values()), ids, axes)
        self.sentence = sentence
        return sentence

    def _refuse_unknown(self, sentence: Sentence, error: EngineError) -> None:
        if isinstance(error.__cause__, (TypeError, ValueError)):
            return  # the model needs other inputs
        for number, text in zip(sentence.ids, sentence.tokens, strict=True):
            if number >= self.vocabulary:
                raise EngineError(
                    f"'{text}' is token {number}, and {self.outline.name} has {self.vocabulary} tokens: its folder "
                    "holds another model's tokenizer; put its own there"
                ) from error

    @contextmanager
    def running(self, tokens: int, check: Check, attention: AttentionFunction | None = None) -> Iterator[None]:
        """Let the model or a part of it run; `EngineError` when it fails.

        Its modules attend with ``attention``, by default as sentences are read: with kernels where they can. ``check``
        is called between blocks of queries where they cannot.
        """
        with_kernels = partial(attend_with_kernel, check) if self.reads_with_kernels else EagerCall.attend
        before = ATTENTION.set(attention or with_kernels)
        try:
            with self._state(), self._refusing(), self._checking(), torch.inference_mode():
                yield
        except EngineError:
            raise
        except _AllCalled as end:
            end.__traceback__ = None  # whose frames would keep the last block's states until garbage is collected
        except Exception as error:  # whatever a model's own code raises
            if isinstance(error, RuntimeError) and lacks_memory(error):
                self._readings, self._reading = {}, None  # frees memory for the next try
                raise EngineError(f"{tokens} tokens do not fit on {self._device}; type a shorter sentence") from error
            raise EngineError(
                f"{self.outline.name} fails on this sentence: {first_line(error)}; try another one"
            ) from error
        finally:
            ATTENTION.reset(before)

    def blocks(self, layer: Head, check: Check) -> Blocks:
        """Call one layer's attention module again, and compute its eager function in blocks of queries.

        A module that does more with its probabilities than return them, or is outside the interface, is called with its
        own code.
        """
        call, tokens = self._call(layer)
        module, heads = self.modules[layer], self.anatomy.modules[layer].outline.heads
        shape = heads, len(tokens[0]), len(tokens[1])
        captured: list[EagerCall] = []

        def capture(eager: EagerCall) -> AttentionResult:
            query, key, value = eager.query, eager.key, eager.value
            if captured or (query.shape[1], query.shape[2], key.shape[2]) != shape:
                raise ValueError("it attends twice, or to other tokens")
            # Only the weights are used, so one column of the values will do. Slices are copied: each block would copy
            # them again, and they keep the whole tensor in memory.
            states = query.contiguous(), key.contiguous(), value[..., :1].contiguous()
            captured.append(EagerCall(eager.eager, eager.module, *states, eager.mask, eager.settings))
            stand_ins.append(query.new_zeros(()).expand(1, *shape))
            return value.new_zeros(()).expand(1, shape[1], heads, value.shape[-1]), stand_ins[0]

        stand_ins: list[Tensor] = []
        is_handed_on = False
        if self.reads_with_kernels:
            with suppress(EngineError), self.running(max(shape[1:]), check, capture):
                returned = module(*call.args, **call.kwargs)
                is_handed_on = any(each is stand_ins[0] for each in tree_leaves(returned))
                del returned
        if is_handed_on:
            try:
                with self._state(), torch.inference_mode(), self._bringing(module):
                    for first, _, weights in captured.pop().blocks(check):
                        if weights is None or weights.ndim != 4 or not is_distribution(weights[0]):
                            raise self._no_map(layer, reason_without_map(module, (weights,), *shape), check)
                        yield tokens, first, weights[0]
                        del weights  # before the next block makes its own
                return
            except MODEL_ERRORS as error:
                raise self._failure(error, shape) from error
        need_memory(*shape, MAP_COPIES)
        try:
            with self.running(max(shape[1:]), check, EagerCall.attend):
                returned = module(*call.args, **call.kwargs)
        except EngineError as error:
            if isinstance(error.__cause__, MODEL_ERRORS):
                raise self._failure(error.__cause__, shape) from error
            raise
        found = probabilities_of(module, returned, heads, shape[2])
        if found is not None and self.sentence and found.shape[3] == shape[1] + len(self.sentence.ids):
            tokens = tokens[0], (*tokens[0], *self.sentence.tokens)  # one softmax over the decoder's and encoder's keys
        if found is None or found.shape[2:] != (len(tokens[0]), len(tokens[1])):
            raise self._no_map(layer, reason_without_map(module, returned, *shape), check)
        del returned
        yield tokens, 0, found[0]

    def _failure(self, error: Exception, shape: tuple[int, int, int]) -> EngineError:
        if isinstance(error, RuntimeError) and lacks_memory(error):
            return EngineError(f"the maps of {shape[1]} tokens do not fit on {self._device}; type a shorter sentence")
        return NoMap(f"{self.outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work")

    def _no_map(self, layer: Head, reason: str | None, check: Check) -> NoMap:
        why = f"{reason}; its spectra still work" if reason else why_no_numbers(self.model, self.modules[layer], check)
        return NoMap(f"{layer.stack} {layer} has no map to show: {why}")

    def _call(self, layer: Head) -> tuple[inspect.BoundArguments, Tokens]:
        reading = self._reading
        if reading is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in reading.calls:
            raise NoMap(f"{layer.stack} {layer} did not run on this sentence and has no map to show; its spectra work")
        return reading.calls[layer], reading.tokens[layer.stack]

    def scoring(self, layer: Head, check: Check) -> tuple[ScoreFormula, Tokens]:
        """Split one layer's scores by calling its attention module again, in float64 too."""
        call, tokens = self._call(layer)
        module, described, name = self.modules[layer], self.anatomy.modules[layer], f"{layer.stack} {layer}"
        shape = described.outline.heads, len(tokens[0]), len(tokens[1])
        need_memory(*shape, copies=16)  # in float64, with what gradients need
        try:
            with (
                self._state(),
                weights_loaded(module),
                ProgressReporter(self.tell, "splitting scores into terms", "calls") as report,
            ):

                def step() -> None:
                    check()
                    report.step(CALLS)

                loaded = LoadedModules(self.model)
                query, key = (loaded.projection(described, matrix) for matrix in "QK")
                if query is None or key is None:
                    raise EngineError(
                        f"{name} has no projection that attn-tui can hook; its scores cannot be explained"
                    )
                projections = {"Q": query, "K": key}
                return ScoreFormula(name, module, projections, (call.args, call.kwargs), shape, step), tokens
        except MODEL_ERRORS as error:
            raise EngineError(
                f"attn-tui cannot hook the scores of {name}: {first_line(error)}; its map works"
            ) from error

    def observe(self, check: Check) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens."""
        with self._state():
            return observe(self.model, self.anatomy.modules, self._device, check)
