"""A sentence through a model of transformers, and the attention probabilities of any of its layers.

The model runs once, keeping what each attention module was called with; a layer's maps are then recomputed by calling
just that module again. So memory holds one layer's maps, not all layers'. The run makes no maps where kernels can read
(`engine.models.attention_capture`). The second call is eager, because only that returns the probabilities, and goes
through the queries in blocks where the model's code is called through the same interface. The masks are explicit in
both, so that a second call sees what the first saw.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from engine.architectures.outline import Anatomy
from engine.checkpoints.transformers_library import first_line
from engine.models.activation_memory import activating_in_pieces, large_tensors_apart
from engine.models.attention_calls import AttentionCalls, arguments_for_weights, keeping_calls
from engine.models.attention_capture import (
    FAILURES,
    NAME,
    CapturedCall,
    Unsuitable,
    attend_without_maps,
    attending,
    eager_function,
    take_over_attention,
)
from engine.models.devices import CheckedLookups, inferring, weights_loaded
from engine.models.interventions import Outputs
from engine.models.loaded_model import attention_in, refusing_choices, scoring_projections, why_no_numbers
from engine.models.map_array import MapArray
from engine.models.map_forms import attend_in_full, longest_in_full, probabilities_of, reason_without_map
from engine.models.map_reader import MapReader, Tokens
from engine.models.memory import need_memory, need_memory_to_read
from engine.models.model_inputs import sentence_inputs, vocabulary_of
from engine.models.proof import Observation, observe
from engine.models.score_formula import CALLS, ScoreFormula
from engine.models.tokenizer import Words
from engine.store.files import cache_directory
from engine.values.attention import Sentence
from engine.values.errors import EngineError, NoMap
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

COPIES = 4
"""Of a layer's maps, that its eager way holds at a time: scores, with the mask, their softmax, and what is kept."""

SCORING_COPIES = 16
"""Of a layer's maps, that taking its scores apart holds at a time: in float64, with all that gradients need."""

EARLIER_BYTES, EARLIER_SENTENCES = 256 * 2**20, 16
"""How much is kept of the sentences before the one that was read last, in memory and on disk, and of how many."""

Ran = TypeVar("Ran")


@dataclass(frozen=True)
class Reading:
    """One sentence as it was read.

    Attributes
    ----------
    sentence : what was read.
    calls : what each attention module was called with.
    nbytes : of these calls.
    decoder_ids, decoder_tokens : what a decoder read; the sentence itself where that read no other.
    """

    sentence: Sentence
    calls: AttentionCalls
    nbytes: int
    decoder_ids: tuple[int, ...]
    decoder_tokens: tuple[str, ...]

    def tokens(self, stack: str) -> Tokens:
        """Give the tokens along both axes of a stack's maps."""
        own = self.sentence.tokens
        queries = own if stack == "encoder" else self.decoder_tokens
        return queries, own if stack == "cross" else queries


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
    reads_with_kernels : whether the model attends through `engine.models.attention_capture`.
    """

    def __init__(self, anatomy: Anatomy, model: Any, words: Words, device: str, *, is_borrowed: bool = False) -> None:
        self.anatomy, self.outline, self.words = anatomy, anatomy.outline, words
        self.model = model
        self.tell: Tell = tell_nobody
        self.folder: Path | None = cache_directory()
        self._device = device
        self._state = partial(borrowed, model) if is_borrowed else nullcontext
        if not is_borrowed:
            attend_in_full(model)
        self.modules = attention_in(model, anatomy)
        self.outputs = Outputs(model, anatomy.modules)
        with self._state():
            self.reads_with_kernels = take_over_attention(model)
        if is_borrowed and self.reads_with_kernels:
            self._state = partial(borrowed, model, NAME)
        self._unsuitable: set[type[nn.Module]] = set()
        self._readings: dict[tuple[str, Off], Reading] = {}  # the newest last

    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, which has read nothing yet; this one's sentence stays."""
        other = copy.copy(self)
        other._readings, other.tell = {}, tell_nobody
        return other

    @property
    def _reading(self) -> Reading | None:
        """What was read last."""
        return next(reversed(self._readings.values()), None)

    @property
    def sentence(self) -> Sentence | None:
        """The one that was read last."""
        return None if self._reading is None else self._reading.sentence

    @property
    def vocabulary(self) -> int:
        """How many rows its embedding has."""
        return vocabulary_of(self.model)

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, with the same heads switched off."""
        return next(reversed(self._readings), None) == (text, off)

    def read(self, text: str, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Tokenize a sentence and run the model on it, unless it was read before and is still kept."""
        if (last := self._reading) is not None and self.has_read(text, off):
            return last.sentence
        earlier = self._readings.pop((text, off), None)
        if earlier is None:
            return self._run(self.words.read(text, self.outline.context), check, off)
        self._need_memory(len(earlier.sentence.ids))
        self._readings[text, off] = earlier
        return earlier.sentence

    def read_ids(self, ids: tuple[int, ...], check: Callable[[], None]) -> None:
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

    def _run(self, sentence: Sentence, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the model, and keep what its attention modules are called with."""
        limit = longest_in_full(self.model)
        if limit is not None and len(sentence.ids) > limit:
            raise EngineError(
                f"{self.outline.name} reads more than {limit} tokens in sparse blocks, which have no maps; "
                f"type a shorter sentence than these {len(sentence.ids)} tokens; its spectra still work"
            )
        readings = self._readings
        readings.pop((sentence.text, off), None)
        while len(readings) > EARLIER_SENTENCES or sum(each.nbytes for each in readings.values()) > EARLIER_BYTES:
            del readings[next(iter(readings))]
        self._need_memory(len(sentence.ids))
        inputs = self.inputs(sentence)

        def run() -> AttentionCalls:
            calls = AttentionCalls(self.folder if sentence.is_long else None)
            means: dict[Head, Tensor] = {}
            if off.by_mean:
                with self.outputs.keeping_means(off.heads, means):
                    self.model(**inputs)
            report = ProgressReporter(self.tell, READING, "layers")
            switching = self.outputs.switching(off, 1, means) if off.heads else nullcontext()
            with keeping_calls(self.modules, calls, check, report), switching:
                self.model(**inputs)
            return calls

        try:
            calls = self.running(len(sentence.ids), check, run)
        except EngineError as error:
            self._refuse_unknown(sentence, error)
            raise
        ids, tokens = sentence.ids, sentence.tokens
        if "decoder_input_ids" in inputs:
            ids = tuple(inputs["decoder_input_ids"][0].tolist())
            tokens = self.words.texts(ids)
        readings[sentence.text, off] = Reading(sentence, calls, calls.nbytes, ids, tokens)
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

    def inputs(self, sentence: Sentence) -> dict[str, Any]:
        """Give what the model is called with for a sentence, as `engine.models.model_inputs.sentence_inputs` does.

        Raises
        ------
        EngineError : as there.
        """
        return sentence_inputs(self.model, sentence, self.words, self.outline.name, self._device)

    def running(self, tokens: int, check: Callable[[], None], run: Callable[[], Ran]) -> Ran:
        """Run the model, or what is built around it, as sentences are read: with kernels where they can.

        Parameters
        ----------
        tokens : of the sentence, for what is said when they do not fit.
        check : called between the blocks of what has no kernel; it may raise to give up.
        run : calls the model.

        Raises
        ------
        EngineError : when the model fails.
        """
        way = partial(attend_without_maps, check) if self.reads_with_kernels else None
        try:
            with (
                self._state(),
                attending(way),
                activating_in_pieces(self.model),
                large_tensors_apart(tokens),
                refusing_choices(self.model),
                CheckedLookups(),
                inferring(),
            ):
                return run()
        except torch.OutOfMemoryError as error:
            self._readings.clear()  # the sentence that is wanted comes before those that were
            raise EngineError(f"{tokens} tokens do not fit on {self._device}; type a shorter sentence") from error
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            raise EngineError(
                f"{self.outline.name} fails on this sentence: {first_line(error)}; try another one"
            ) from error

    def _need_memory(self, tokens: int) -> None:
        """Refuse a sentence of which no layer's maps would fit into memory."""
        has_biases = any(isinstance(part, nn.Embedding) for each in self.modules.values() for part in each.modules())
        copies = 1 if self.reads_with_kernels and not has_biases else COPIES  # T5 makes a bias as large as the maps
        itemsize = self.model.dtype.itemsize if self._device == "cpu" else 0
        need_memory_to_read(self.outline.attending_layers, self.model.config, tokens, copies, itemsize)

    def gather(self, layer: Head, array: MapArray, check: Callable[[], None]) -> Tokens:
        """Call one layer's attention module again, in blocks of queries where its code allows it."""
        reading, module = self._reading_of(layer), self.modules[layer]
        queries, keys = reading.tokens(layer.stack)
        heads = self.anatomy.modules[layer].outline.heads
        shape = heads, len(queries), len(keys)
        if self._gather_in_blocks(layer, shape, array, check):
            return queries, keys
        need_memory(*shape, COPIES)
        call = self._call_of(layer)
        try:
            with self._state(), refusing_choices(self.model), torch.inference_mode():
                returned = module(*call.args, **call.kwargs)
        except FAILURES as error:
            raise NoMap(
                f"{self.outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work"
            ) from error
        found = probabilities_of(module, returned, heads, len(keys))
        if found is not None and found.shape[3] == len(queries) + len(reading.sentence.tokens):
            keys = (*queries, *reading.sentence.tokens)  # one softmax over the decoder's own and the encoder's tokens
        if found is None or found.shape[2:] != (len(queries), len(keys)):
            known = reason_without_map(module, returned, heads, (len(queries), len(keys)))
            reason = f"{known}; its spectra still work" if known else why_no_numbers(self.model, module, check)
            raise NoMap(f"{layer.stack} {layer} of '{self.outline.model_type}' has no map to show: {reason}")
        del returned
        array.begin(layer, (heads, len(queries), len(keys)))
        array.put(0, found[0])
        return queries, keys

    def _reading_of(self, layer: Head) -> Reading:
        """Give what was read last.

        Raises
        ------
        EngineError : when no sentence has been read, or not by this layer.
        """
        reading = self._reading
        if reading is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in reading.calls.by_layer:
            raise NoMap(
                f"{layer.stack} {layer} took no part in reading this sentence and has no map to show; its spectra work"
            )
        return reading

    def _call_of(self, layer: Head) -> inspect.BoundArguments:
        """Give what a layer's attention module is called with for its weights.

        Raises
        ------
        EngineError : when it cannot be read back.
        """
        try:
            args, kwargs = self._reading_of(layer).calls.of(layer)
        except OSError as error:
            self._readings.popitem()
            raise EngineError(
                f"what was kept of this sentence on disk cannot be read back ({error.strerror or error}); "
                "look again and it is read anew"
            ) from error
        return arguments_for_weights(self.modules[layer], args, kwargs)

    def _gather_in_blocks(
        self, layer: Head, shape: tuple[int, int, int], array: MapArray, check: Callable[[], None]
    ) -> bool:
        """Gather a layer's maps as its eager function makes them; False where the module does not just hand them on."""
        module = self.modules[layer]
        if not self.reads_with_kernels or type(module) in self._unsuitable or eager_function(type(module)) is None:
            return False
        captured, call = CapturedCall(shape), self._call_of(layer)
        try:
            with self._state(), inferring():
                with attending(captured.keep), large_tensors_apart(max(shape[1:])), refusing_choices(self.model):
                    captured.expect_in(module(*call.args, **call.kwargs))
                    del call  # before there is the memory of maps
                array.begin(layer, shape, captured.mask)
                with weights_loaded(module):
                    for first, weights in captured.blocks(check):
                        array.put(first, weights)
                        del weights  # before there are those of the next block
            return True
        except torch.OutOfMemoryError as error:
            raise EngineError(f"this layer's maps do not fit on {self._device}; type a shorter sentence") from error
        except (Unsuitable, *FAILURES):
            self._unsuitable.add(type(module))  # called as it was made to be called, it may show its maps all the same
            return False

    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[ScoreFormula, Tokens]:
        """Take one layer's scores apart by calling its attention module again, in float64 too."""
        tokens = self._reading_of(layer).tokens(layer.stack)
        module, described = self.modules[layer], self.anatomy.modules[layer]
        shape = described.outline.heads, len(tokens[0]), len(tokens[1])
        need_memory(*shape, SCORING_COPIES)
        call, name = self._call_of(layer), f"{layer.stack} {layer}"
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

    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens, for `prove`."""
        with self._state():
            return observe(self.model, self.anatomy.modules, self._device, check)
