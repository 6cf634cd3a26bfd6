"""What reads sentences and gives attention maps, and the readers of models of transformers.

The model runs once, keeping what each attention module was called with; a layer's maps are then computed by calling
just that module again. So memory holds one layer's maps, not all layers'. The run makes no maps where kernels can read
(`engine.models.attention_capture`). The second call is eager, because only that returns the probabilities, and goes
through the queries of a large map in blocks where the model's code is called through the same interface. The masks are
explicit in both, so that a second call sees what the first saw.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.architectures.outline import Anatomy
from engine.checkpoints.transformers_library import first_line
from engine.mathematics.patterns import visible_keys
from engine.models.attention_capture import (
    FAILURES,
    NAME,
    WAY,
    AttentionCalls,
    CapturedCall,
    Unsuitable,
    Way,
    attend_without_maps,
    eager_function,
    keeping_calls,
    queries_at_once,
    take_over_attention,
)
from engine.models.attention_maps import (
    Check,
    MapArray,
    attend_in_full,
    longest_in_full,
    probabilities_of,
    reason_without_map,
)
from engine.models.devices import CheckedLookups, lacks_memory, weights_loaded
from engine.models.interventions import Outputs
from engine.models.loaded_model import (
    RefusedChoices,
    attention_in,
    lacking_parameters,
    scoring_projections,
    sentence_inputs,
    vocabulary_of,
    why_no_numbers,
)
from engine.models.memory import need_memory, need_memory_to_read, sparing_memory
from engine.models.proof import Observation, observe
from engine.models.score_formula import CALLS, ScoreFormula
from engine.models.tokenizer import Words
from engine.store.files import cache_directory
from engine.values.attention import AT_ONCE, AttentionMaps, Sentence
from engine.values.errors import EngineError, NoMap
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

COPIES = 4
"""Of a layer's maps, that its eager way holds at a time: scores, with the mask, their softmax, and what is kept."""

SCORING_COPIES = 16
"""Of a layer's maps, that taking its scores apart holds at a time: in float64, with all that gradients need."""

EARLIER_BYTES, EARLIER_SENTENCES = 256 * 2**20, 16
"""How much is kept of the sentences before the one that was read last, in memory and on disk, and of how many."""


Tokens = tuple[tuple[str, ...], tuple[str, ...]]
"""The texts along the axis of the queries and along that of the keys."""


class MapReader(ABC):
    """A model that reads sentences and gives attention maps, one layer's at a time, or their mean over layers.

    Attributes
    ----------
    outline : of the model.
    words : what makes ids of text.
    tell : gets how far the reading of a long sentence is.
    folder : where that leaves what it keeps beside memory; None where it leaves nothing on disk.
    sentence : the one that was read last.
    """

    outline: ModelOutline
    words: Words
    tell: Tell
    folder: Path | None
    sentence: Sentence | None

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many token ids the model knows.

        Raises
        ------
        EngineError : when it reads no tokens.
        """

    @abstractmethod
    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, which has read nothing yet; this one's sentence stays."""

    @abstractmethod
    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, with the same heads switched off."""

    @abstractmethod
    def read(self, text: str, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, unless it is the one that was read last.

        Parameters
        ----------
        text : the sentence.
        check : called before every attention module.
        off : heads that are switched off meanwhile.

        Raises
        ------
        EngineError : when the sentence is empty, or the model fails on it.
        """

    @abstractmethod
    def read_ids(self, ids: tuple[int, ...], check: Check) -> None:
        """Run the model on token ids in the place of a sentence, special tokens included.

        Raises
        ------
        EngineError : when the model fails on them, or reads no tokens.
        """

    def forget(self, text: str) -> None:  # noqa: B027  # where no more than the last one is kept
        """Let go of what is kept of a sentence, unless it is the one that was read last."""

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        return () if self.sentence is None else self.sentence.ids

    @abstractmethod
    def gather(self, layer: Head, array: MapArray, check: Check) -> Tokens:
        """Put the maps of all heads of one layer, for the sentence that was read last, into an array.

        Raises
        ------
        EngineError : when the layer was not run, has no maps to show, or they do not fit into memory, saying why.
        """

    @abstractmethod
    def observe(self, check: Check) -> dict[Head, Observation]:
        """Watch every attention module while the model reads a few tokens, for `engine.models.proof.prove`."""

    @abstractmethod
    def scoring(self, layer: Head, check: Check) -> tuple[ScoreFormula, Tokens]:
        """Take one layer's scores apart for the sentence that was read last, and give the tokens along both axes.

        Raises
        ------
        EngineError : when the layer was not run, or its scores are more than products of queries and keys.
        """

    def layer_maps(
        self, layer: Head, check: Check = lambda: None, buffer: NDArray[np.float32] | None = None
    ) -> AttentionMaps:
        """Compute the maps of all heads of one layer for the sentence that was read last.

        Parameters
        ----------
        layer : whose.
        check : called between blocks of queries.
        buffer : an array that nobody looks at any more, to hold them where it has the right shape.

        Raises
        ------
        EngineError : as in `gather`.
        """
        with ProgressReporter(self.tell, "computing maps", "queries") as report:
            array = MapArray(buffer, report=report)
            check()
            tokens = self.gather(layer, array, check)
        assert self.sentence is not None  # else nothing would have been gathered
        visible = visible_keys(array.weights, check)
        return AttentionMaps(self.sentence, layer.stack, layer.layer, *tokens, array.weights, visible=visible)

    def mean_over_layers(self, stack: str, check: Check, buffer: NDArray[np.float32] | None = None) -> AttentionMaps:
        """Average the maps over a stack's layers, head by head, holding as much as one layer's maps.

        Raises
        ------
        EngineError : as in `gather`, and when the layers differ in their number of heads, so that no head has a
            counterpart.
        """
        layers = self.outline.stack_layers(stack)
        if len({layer.heads for layer in layers}) > 1:
            raise EngineError("the layers differ in their number of heads, so there is no mean over layers by head")
        if not layers:
            raise EngineError(f"{self.outline.name} has no stack '{stack}'")
        array = MapArray(buffer, len(layers))
        tokens: Tokens = (), ()
        with ProgressReporter(self.tell, "computing maps", "layers") as report:
            for layer in layers:
                check()
                report.step(len(layers))
                tokens = self.gather(layer.name, array, check)
        assert self.sentence is not None  # else nothing would have been gathered
        visible = visible_keys(array.weights, check)
        return AttentionMaps(self.sentence, stack, None, *tokens, array.weights, visible=visible)


# Models of transformers


@dataclass(frozen=True)
class Reading:
    """One sentence as it was read.

    Attributes
    ----------
    sentence : what was read.
    calls : what each attention module was called with.
    nbytes : of these calls.
    decoder_ids : what a decoder read; the sentence itself where that read no other.
    tokens : along both axes of each stack's maps.
    """

    sentence: Sentence
    calls: AttentionCalls
    nbytes: int
    decoder_ids: tuple[int, ...]
    tokens: Mapping[str, Tokens]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back afterwards."""
    states = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, state in states.items():
            part.training = state


@contextmanager
def borrowed(model: Any, attention: str = "eager") -> Iterator[None]:
    """Put a model of transformers into evaluation mode and let it attend in a way, and give it back as it was."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    chosen = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    try:
        with evaluating(model):
            for part in model.modules():  # of several towers each has a choice of its own
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
    model : itself, in the state in which it computes and not learns.
    words : what makes ids of text.
    device : where the model is.
    is_borrowed : whether it belongs to somebody else, who finds it afterwards as it was.

    Attributes
    ----------
    modules : every layer's attention module.
    outputs : the layers' output projections.
    inputs : gives what the model is called with for a sentence.
    reads_with_kernels : whether the model attends through `engine.models.attention_capture`.
    """

    def __init__(self, anatomy: Anatomy, model: Any, words: Words, device: str, *, is_borrowed: bool = False) -> None:
        self.anatomy, self.outline, self.words = anatomy, anatomy.outline, words
        self.model = model
        self.tell: Tell = tell_nobody
        self.folder: Path | None = cache_directory()
        self._device = device
        if not is_borrowed:
            attend_in_full(model)
        self._longest = longest_in_full(model)
        self.modules = attention_in(model, anatomy)
        self.outputs = Outputs(model, anatomy.modules)
        with borrowed(model) if is_borrowed else nullcontext():
            self.reads_with_kernels = take_over_attention(model)
        attention = NAME if self.reads_with_kernels else "eager"
        self._state = partial(borrowed, model, attention) if is_borrowed else nullcontext
        lacking = lacking_parameters(model)
        self._refusing = partial(RefusedChoices, lacking) if lacking else nullcontext
        self._checking = nullcontext if device == "cpu" else CheckedLookups
        makes_biases = any(isinstance(part, nn.Embedding) for each in self.modules.values() for part in each.modules())
        copies = 1 if self.reads_with_kernels and not makes_biases else COPIES  # T5 makes a bias as large as the maps
        itemsize = model.dtype.itemsize if device == "cpu" else 0
        layers = self.outline.attending_layers
        self._need_memory = partial(need_memory_to_read, layers, model.config, copies=copies, itemsize=itemsize)
        self._unsuitable: set[type[nn.Module]] = set()
        self.inputs = partial(sentence_inputs, model, words, self.outline.name, device)
        self.sentence: Sentence | None = None
        self._reading: Reading | None = None
        self._readings: dict[tuple[str, Off], Reading] = {}  # it is the last of these

    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, which has read nothing yet; this one's sentence stays."""
        other = copy.copy(self)
        other._readings, other._reading, other.sentence, other.tell = {}, None, None, tell_nobody
        return other

    @property
    def vocabulary(self) -> int:
        """How many rows its embedding has."""
        return vocabulary_of(self.model)

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, with the same heads switched off."""
        return next(reversed(self._readings), None) == (text, off)

    def read(self, text: str, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Tokenize a sentence and run the model on it, unless it was read before and is still kept."""
        earlier = self._readings.pop((text, off), None)
        if earlier is None:
            return self._run(self.words.read(text, self.outline.context), check, off)
        self._reading = self._readings[text, off] = earlier
        self.sentence = earlier.sentence
        return self.sentence

    def read_ids(self, ids: tuple[int, ...], check: Check) -> None:
        """Run the model on token ids in the place of a sentence."""
        self._run(Sentence("", ids, self.words.texts(ids), len(ids)), check)

    def forget(self, text: str) -> None:
        """Let go of what is kept of a sentence, unless it is the one that was read last."""
        for key in list(self._readings)[:-1]:
            if key[0] == text:
                del self._readings[key]

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        reading = self._reading
        return () if reading is None else reading.sentence.ids if stack == "encoder" else reading.decoder_ids

    def _run(self, sentence: Sentence, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model, and keep what its attention modules are called with."""
        count, readings = len(sentence.ids), self._readings
        if self._longest is not None and count > self._longest:
            raise EngineError(
                f"{self.outline.name} reads more than {self._longest} tokens in sparse blocks, which have no maps; "
                f"type a shorter sentence than these {count} tokens; its spectra still work"
            )
        while len(readings) > EARLIER_SENTENCES or sum(each.nbytes for each in readings.values()) > EARLIER_BYTES:
            del readings[next(iter(readings))]
        self._need_memory(count)
        inputs = self.inputs(sentence)
        calls = AttentionCalls(self.folder if sentence.is_long else None)
        means: dict[Head, Tensor] = {}
        try:
            with self.running(count, check), ProgressReporter(self.tell, READING, "layers") as report:
                if off.by_mean:
                    with self.outputs.keeping_means(off.heads, means):
                        self.model(**inputs)
                by = means if off.by_mean else None
                switching = self.outputs.switching(off.heads, by) if off.heads else nullcontext()
                with keeping_calls(self.modules, calls, check, report), switching:
                    self.model(**inputs)
        except EngineError as error:
            self._refuse_unknown(sentence, error)
            raise
        ids, tokens, own = sentence.ids, sentence.tokens, sentence.tokens
        if "decoder_input_ids" in inputs:
            ids = tuple(inputs["decoder_input_ids"][0].tolist())
            tokens = self.words.texts(ids)
        axes = {"encoder": (own, own), "decoder": (tokens, tokens), "cross": (tokens, own)}
        self._reading = readings[sentence.text, off] = Reading(sentence, calls, calls.nbytes, ids, axes)
        self.sentence = sentence
        return sentence

    def _refuse_unknown(self, sentence: Sentence, error: EngineError) -> None:
        """Say of a sentence that the model failed on which of its tokens there is no embedding of, if any."""
        if isinstance(error.__cause__, (TypeError, ValueError)):
            return  # it asks for more than tokens, or for others
        for number, text in zip(sentence.ids, sentence.tokens, strict=True):
            if number >= self.vocabulary:
                raise EngineError(
                    f"'{text}' is token {number}, and {self.outline.name} has {self.vocabulary} tokens: its folder "
                    "holds another model's tokenizer; put its own there"
                ) from error

    @contextmanager
    def running(self, tokens: int, check: Check) -> Iterator[None]:
        """Let the model, or what is built around it, run as sentences are read: with kernels where they can.

        Parameters
        ----------
        tokens : of the sentence, for what is said when they do not fit.
        check : called between the blocks of what has no kernel.

        Raises
        ------
        EngineError : when the model fails.
        """
        way = partial(attend_without_maps, check) if self.reads_with_kernels else None
        try:
            with self._calling(tokens, way):
                yield
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            if isinstance(error, RuntimeError) and lacks_memory(error):
                self._readings, self._reading = {}, None  # the sentence that is wanted comes before those that were
                raise EngineError(f"{tokens} tokens do not fit on {self._device}; type a shorter sentence") from error
            raise EngineError(
                f"{self.outline.name} fails on this sentence: {first_line(error)}; try another one"
            ) from error

    @contextmanager
    def _calling(self, tokens: int, way: Way | None = None) -> Iterator[None]:
        """Let the model or a module of it be called, attending in a way; without one in its eager way."""
        before = WAY.set(way)
        try:
            sparing = sparing_memory(self.model) if tokens**2 > AT_ONCE else nullcontext()
            with self._state(), sparing, self._refusing(), self._checking(), torch.inference_mode():
                yield
        finally:
            WAY.reset(before)

    def gather(self, layer: Head, array: MapArray, check: Check) -> Tokens:
        """Call one layer's attention module again, for a large map in blocks of queries where its code allows it."""
        module = self.modules[layer]
        call, (queries, keys) = self._call_of(layer)
        heads = self.anatomy.modules[layer].outline.heads
        shape = heads, len(queries), len(keys)
        if queries_at_once(heads, len(keys), self.model.dtype.itemsize) < len(queries):
            if self._gather_in_blocks(layer, call, shape, array, check):
                return queries, keys
            call, _ = self._call_of(layer)
        need_memory(*shape, COPIES)
        try:
            with self._calling(max(shape[1:])):
                returned = module(*call.args, **call.kwargs)
        except FAILURES as error:
            raise NoMap(
                f"{self.outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work"
            ) from error
        del call
        found = probabilities_of(module, returned, heads, len(keys))
        if found is not None and self.sentence and found.shape[3] == len(queries) + len(self.sentence.ids):
            keys = (*queries, *self.sentence.tokens)  # one softmax over the decoder's own and the encoder's tokens
        if found is None or found.shape[2:] != (len(queries), len(keys)):
            known = reason_without_map(module, returned, heads, (len(queries), len(keys)))
            raise self._no_map(layer, f"{known}; its spectra still work" if known else None, check)
        del returned
        array.begin((heads, len(queries), len(keys)))
        array.put(0, found[0])
        return queries, keys

    def _no_map(self, layer: Head, reason: str | None, check: Check) -> NoMap:
        """Say why a layer has no map: for a reason that is known, or for numbers that are none."""
        reason = reason or why_no_numbers(self.model, self.modules[layer], check)
        return NoMap(f"{layer.stack} {layer} of '{self.outline.model_type}' has no map to show: {reason}")

    def _call_of(self, layer: Head) -> tuple[inspect.BoundArguments, Tokens]:
        """Give what a layer's attention module is called with for its weights, and the tokens along both axes.

        It is what it was called with, but without a cache, which holds this very sentence.

        Raises
        ------
        EngineError : when no sentence has been read, or not by this layer, or it cannot be read back.
        """
        reading = self._reading
        if reading is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in reading.calls.by_layer:
            raise NoMap(
                f"{layer.stack} {layer} took no part in reading this sentence and has no map to show; its spectra work"
            )
        try:
            args, kwargs = reading.calls.of(layer)
        except OSError as error:
            self._readings.popitem()
            self._reading = None
            raise EngineError(
                f"what was kept of this sentence on disk cannot be read back ({error.strerror or error}); "
                "look again and it is read anew"
            ) from error
        signature = inspect.signature(self.modules[layer].forward)
        call = signature.bind(*args, **kwargs)
        for name, value in call.arguments.items():
            if isinstance(value, transformers.Cache):
                call.arguments[name] = None
        if "output_attentions" in signature.parameters:
            call.arguments["output_attentions"] = True
        return call, reading.tokens[layer.stack]

    def _gather_in_blocks(
        self, layer: Head, call: inspect.BoundArguments, shape: tuple[int, int, int], array: MapArray, check: Check
    ) -> bool:
        """Gather a layer's maps as its eager function makes them; False where the module does not just hand them on.

        Of the call, nothing is left afterwards.
        """
        module = self.modules[layer]
        if not self.reads_with_kernels or type(module) in self._unsuitable or eager_function(type(module)) is None:
            return False
        captured, has_begun = CapturedCall(shape), False
        try:
            with self._calling(max(shape[1:]), captured.keep):
                captured.expect_in(module(*call.args, **call.kwargs))
            call.arguments.clear()  # before there is the memory of maps
            with self._state(), torch.inference_mode(), weights_loaded(module):
                for first, weights in captured.blocks(check):
                    if not has_begun:
                        array.begin(shape, captured.mask)
                        has_begun = True
                    array.put(first, weights)
                    del weights  # before there are those of the next block
            return True
        except (Unsuitable, *FAILURES) as error:
            if isinstance(error, RuntimeError) and lacks_memory(error):
                raise EngineError(f"this layer's maps do not fit on {self._device}; type a shorter sentence") from error
            if has_begun:
                reason = None if isinstance(error, Unsuitable) else first_line(error)
                raise self._no_map(layer, reason, check) from error
            self._unsuitable.add(type(module))  # called as it was made to be called, it may show its maps all the same
            return False

    def scoring(self, layer: Head, check: Check) -> tuple[ScoreFormula, Tokens]:
        """Take one layer's scores apart by calling its attention module again, in float64 too."""
        call, tokens = self._call_of(layer)
        module, described, name = self.modules[layer], self.anatomy.modules[layer], f"{layer.stack} {layer}"
        shape = described.outline.heads, len(tokens[0]), len(tokens[1])
        need_memory(*shape, SCORING_COPIES)
        try:
            with (
                self._state(),
                weights_loaded(module),
                ProgressReporter(self.tell, "taking scores apart", "calls") as report,
            ):

                def step() -> None:
                    check()
                    report.step(CALLS)

                projections = scoring_projections(self.model, described)
                return ScoreFormula(name, module, projections, (call.args, call.kwargs), shape, step), tokens
        except FAILURES as error:
            raise EngineError(f"the scores of {name} cannot be watched: {first_line(error)}; its map works") from error

    def observe(self, check: Check) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens, for `prove`."""
        with self._state():
            return observe(self.model, self.anatomy.modules, self._device, check)
