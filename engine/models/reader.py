"""A sentence through a model of transformers, and the attention probabilities of any of its layers.

The model runs once, keeping what each attention module was called with; a layer's maps are then recomputed by calling
just that module again. So memory holds one layer's maps, not all layers'. The run makes no maps where kernels can read
(`engine.models.attention_capture`). The second call is eager, because only that returns the probabilities, and goes
through the queries in blocks where the model's code is called through the same interface. The masks are explicit in
both, so that a second call sees what the first saw.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from engine.architectures.outline import Anatomy
from engine.checkpoints.transformers_library import first_line
from engine.models.attention_calls import AttentionCalls, arguments_for_weights, keeping_calls
from engine.models.attention_capture import (
    CapturedCall,
    Unsuitable,
    attending_with_kernels,
    eager_function,
    kernels_can_read,
)
from engine.models.devices import inferring, weights_loaded
from engine.models.heap import large_tensors_apart
from engine.models.interventions import Outputs
from engine.models.loaded_model import Loaded, attention_in, refusing_choices, scoring_projections, why_no_numbers
from engine.models.map_array import MapArray
from engine.models.map_forms import attend_in_full, longest_in_full, probabilities_of, reason_without_map
from engine.models.map_reader import MapReader, Tokens
from engine.models.memory import need_memory, need_memory_to_read
from engine.models.model_inputs import sentence_inputs, vocabulary_of
from engine.models.model_state import activating_in_pieces, borrowed
from engine.models.observations import Observation, observe, random_rows
from engine.models.score_formula import CALLS, ScoreFormula
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
    off : the heads that were switched off.
    calls : what each attention module was called with.
    decoder_ids : what a decoder read; empty where it read the sentence.
    """

    sentence: Sentence
    off: Off
    calls: AttentionCalls
    decoder_ids: tuple[int, ...]


class Reader(MapReader):
    """A loaded model of transformers that reads sentences and gives attention maps.

    Parameters
    ----------
    anatomy : the model's layers and where their modules are.
    loaded : the model itself.

    Attributes
    ----------
    modules : every layer's attention module.
    outputs : the layers' output projections.
    reads_with_kernels : whether the model reads through `engine.models.attention_capture`.
    """

    def __init__(self, anatomy: Anatomy, loaded: Loaded) -> None:
        self.anatomy, self.outline, self.words = anatomy, anatomy.outline, loaded.words
        self.model: Any = loaded.model
        self.tell: Tell = tell_nobody
        self.folder: Path | None = cache_directory()
        self._device = loaded.device
        self._borrowed = borrowed if loaded.is_borrowed else nullcontext
        if not loaded.is_borrowed:
            attend_in_full(self.model)
        self.modules = attention_in(self.model, anatomy)
        with self._borrowed(self.model):
            self.reads_with_kernels = kernels_can_read(self.model)
        self.outputs = Outputs(self.model, anatomy.modules)
        self._unsuitable: set[type[nn.Module]] = set()
        self._reading: Reading | None = None
        self._earlier: dict[tuple[str, Off], tuple[Reading, int]] = {}

    def sharing_model(self) -> Self:
        """Give another reader of the same loaded model, which has read nothing yet; this one's sentence stays."""
        other = copy.copy(self)
        other._reading, other._earlier, other.tell = None, {}, tell_nobody
        return other

    @property
    def sentence(self) -> Sentence | None:
        """The one that was read last."""
        return None if self._reading is None else self._reading.sentence

    @property
    def vocabulary(self) -> int:
        """How many rows its embedding has."""
        return vocabulary_of(self.model)

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last, and nothing kept of it is lost."""
        last = self._reading
        return last is not None and last.sentence.text == text and last.off == off and not last.calls.is_lost

    def read(self, text: str, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Tokenize a sentence and run the model on it, unless it was read before and is still kept."""
        if self._reading is not None and self.has_read(text, off):
            return self._reading.sentence
        earlier, _ = self._earlier.pop((text, off), (None, 0))
        if earlier is None:
            return self._run(self.words.read(text, self.outline.context), check, off)
        self._put_away()
        self._need_memory(len(earlier.sentence.ids))
        self._reading = earlier
        return earlier.sentence

    def read_ids(self, ids: tuple[int, ...], check: Callable[[], None]) -> None:
        """Run the model on token ids in the place of a sentence."""
        self._run(Sentence("", ids, self.words.texts(ids), len(ids)), check)

    def forget(self, text: str) -> None:
        """Let go of what is kept of a sentence, unless it is the one that was read last."""
        for key in [key for key in self._earlier if key[0] == text]:
            del self._earlier[key]

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        own = () if self._reading is None else self._reading.decoder_ids
        return own if own and stack != "encoder" else super().ids_along(stack)

    def _put_away(self) -> None:
        """Keep what was read last among the earlier sentences, where it is one; the oldest go where it is too much."""
        last, self._reading = self._reading, None
        if last is None:
            return
        if last.calls.is_lost:
            self.folder = None  # such a disk is not trusted again
        elif last.sentence.text:
            kept = self._earlier
            kept[last.sentence.text, last.off] = last, last.calls.nbytes
            while len(kept) > EARLIER_SENTENCES or sum(size for _, size in kept.values()) > EARLIER_BYTES:
                del kept[next(iter(kept))]

    def _run(self, sentence: Sentence, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the model, and keep what its attention modules are called with."""
        limit = longest_in_full(self.model)
        if limit is not None and len(sentence.ids) > limit:
            raise EngineError(
                f"{self.outline.name} reads more than {limit} tokens in sparse blocks, which have no maps; "
                f"type a shorter sentence than these {len(sentence.ids)} tokens; its spectra still work"
            )
        self._put_away()
        self._need_memory(len(sentence.ids))
        inputs = self.inputs(sentence)

        def run() -> AttentionCalls:
            calls = AttentionCalls(self.folder if sentence.is_long else None)
            means: dict[Head, Tensor] = {}
            if off.by_mean:
                with self.outputs.keeping_means(off.heads, means):
                    self.model(**inputs)
            report = ProgressReporter(self.tell, READING, "layers")
            with keeping_calls(self.modules, calls, check, report), self.outputs.switching(off, 1, means):
                self.model(**inputs)
            return calls

        try:
            calls = self.running(len(sentence.ids), check, run)
        except EngineError as error:
            self._refuse_unknown(sentence, error)
            raise
        read = inputs.get("decoder_input_ids")
        self._reading = Reading(sentence, off, calls, () if read is None else tuple(read[0].tolist()))
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
        run : calls the model; called again where kernels fail.

        Raises
        ------
        EngineError : when the model fails.
        """
        kernels = attending_with_kernels(self.model, check) if self.reads_with_kernels else nullcontext()
        try:
            with (
                self._borrowed(self.model),
                kernels,
                activating_in_pieces(self.model),
                large_tensors_apart(tokens),
                refusing_choices(self.model),
                inferring(),
            ):
                return run()
        except torch.OutOfMemoryError as error:
            if not self._earlier:
                raise EngineError(f"{tokens} tokens do not fit on {self._device}; type a shorter sentence") from error
            self._earlier.clear()  # the sentence that is wanted comes before those that were
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            if not self.reads_with_kernels:
                raise EngineError(
                    f"{self.outline.name} fails on this sentence: {first_line(error)}; try another one"
                ) from error
            self.reads_with_kernels = False  # what kernels fail on, the model's own functions may not
        # Once the error is gone, and with it what the model had computed until then.
        return self.running(tokens, check, run)

    def _need_memory(self, tokens: int) -> None:
        """Refuse a sentence of which no layer's maps would fit into memory."""
        has_biases = any(isinstance(part, nn.Embedding) for each in self.modules.values() for part in each.modules())
        copies = 1 if self.reads_with_kernels and not has_biases else COPIES  # T5 makes a bias as large as the maps
        itemsize = self.model.dtype.itemsize if self._device == "cpu" else 0
        need = self.outline.attending_layers, self.model.config, tokens, copies, itemsize
        try:
            need_memory_to_read(*need)
        except EngineError:
            if not self._earlier:
                raise
            self._earlier.clear()
            need_memory_to_read(*need)

    def gather(self, layer: Head, array: MapArray, check: Callable[[], None]) -> Tokens:
        """Call one layer's attention module again, in blocks of queries where its code allows it."""
        reading = self._reading_of(layer)
        queries, keys = self._tokens(reading, layer)
        heads = self.outline.layer(layer).heads
        if self._gather_in_blocks(reading, layer, (heads, len(queries), len(keys)), array, check):
            return queries, keys
        module, own = self.modules[layer], reading.sentence.tokens
        need_memory(heads, len(queries), len(keys), COPIES)
        returned = self._call_again(module, *reading.calls[layer])
        found = probabilities_of(module, returned, heads, len(keys))
        if found is not None and found.shape[3] == len(queries) + len(own):
            keys = (*queries, *own)  # one softmax over the decoder's own tokens and the encoder's
        if found is None or found.shape[2:] != (len(queries), len(keys)):
            known = reason_without_map(module, returned, heads, (len(queries), len(keys)))
            reason = f"{known}; its spectra still work" if known else why_no_numbers(self.model, module, check)
            raise NoMap(f"{layer.stack} {layer} of '{self.outline.model_type}' has no map to show: {reason}")
        del returned
        array.begin((heads, len(queries), len(keys)))
        array.put(0, found[0])
        return queries, keys

    def _reading_of(self, layer: Head) -> Reading:
        """Give what was read last.

        Raises
        ------
        EngineError : when no sentence has been read, or not by this layer.
        """
        if self._reading is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in self._reading.calls:
            raise NoMap(
                f"{layer.stack} {layer} took no part in reading this sentence and has no map to show; its spectra work"
            )
        return self._reading

    def _tokens(self, reading: Reading, layer: Head) -> Tokens:
        """Give the tokens along both axes of a layer's maps."""
        own, read = reading.sentence.tokens, self.ids_along(layer.stack)
        queries = own if read == reading.sentence.ids else self.words.texts(read)
        return queries, own if layer.stack == "cross" else queries

    def _gather_in_blocks(
        self,
        reading: Reading,
        layer: Head,
        shape: tuple[int, int, int],
        array: MapArray,
        check: Callable[[], None],
    ) -> bool:
        """Gather a layer's maps as its eager function makes them; False where the module does not just hand them on."""
        module = self.modules[layer]
        if not self.reads_with_kernels or type(module) in self._unsuitable or eager_function(type(module)) is None:
            return False
        captured, has_begun = CapturedCall(shape), False
        call = arguments_for_weights(module, *reading.calls[layer])
        try:
            with (
                self._borrowed(self.model),
                attending_with_kernels(self.model, check, captured),
                inferring(),
            ):
                with large_tensors_apart(max(shape[1:])), refusing_choices(self.model):
                    was_handed_on = captured.is_in(module(*call.args, **call.kwargs))
                    del call  # before there is the memory of maps
                if was_handed_on:
                    array.begin(shape, captured.mask)
                    has_begun = True
                    with weights_loaded(module):
                        for first, weights in captured.blocks(check):
                            array.put(first, weights)
                            del weights  # before there are those of the next block
                    if array.is_valid:
                        return True
        except torch.OutOfMemoryError as error:
            raise EngineError(f"this layer's maps do not fit on {self._device}; type a shorter sentence") from error
        except (Unsuitable, RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            pass  # called as it was made to be called, it may show its maps all the same
        self._unsuitable.add(type(module))
        if has_begun:
            array.undo()
        return False

    def _call_again(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an attention module once more, in its eager way."""
        call = arguments_for_weights(module, args, kwargs)
        try:
            with self._borrowed(self.model), refusing_choices(self.model), torch.inference_mode():
                return module(*call.args, **call.kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise NoMap(
                f"{self.outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work"
            ) from error

    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[ScoreFormula, Tokens]:
        """Take one layer's scores apart by calling its attention module again, in float64 too."""
        reading = self._reading_of(layer)
        queries, keys = tokens = self._tokens(reading, layer)
        module, described = self.modules[layer], self.anatomy.modules[layer]
        heads = described.outline.heads
        need_memory(heads, len(queries), len(keys), SCORING_COPIES)
        call = arguments_for_weights(module, *reading.calls[layer])
        name, shape = f"{layer.stack} {layer}", (heads, len(queries), len(keys))
        try:
            with (
                self._borrowed(self.model),
                weights_loaded(module),
                ProgressReporter(self.tell, "taking scores apart", "calls") as report,
            ):

                def step() -> None:
                    check()
                    report.step(CALLS)

                projections = scoring_projections(self.model, described)
                return ScoreFormula(name, module, projections, (call.args, call.kwargs), shape, step), tokens
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise EngineError(f"the scores of {name} cannot be watched: {first_line(error)}; its map works") from error

    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens, for `prove`."""
        ids = random_rows(self.model).to(self._device)
        with self._borrowed(self.model):
            return observe(self.model, self.anatomy.modules, ids, check)
