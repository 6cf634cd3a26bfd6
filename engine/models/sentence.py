"""A sentence through a model, and the attention probabilities of any of its layers.

The model runs once, keeping what each attention module was called with; a layer's maps are then recomputed by calling
just that module again. So memory holds one layer's maps, not all layers'. The run makes no maps where kernels can read
(`engine.models.kernels`). The second call is eager, because only that returns the probabilities, and goes through the
queries in blocks where the model's code is called through the same interface. The masks are explicit in both, so that a
second call sees what the first saw.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from engine.architectures.outline import Anatomy
from engine.checkpoints.transformers_library import first_line
from engine.models.broken import choosing_by_numbers, why_no_numbers
from engine.models.calls import for_weights, keeping_calls
from engine.models.devices import inferring
from engine.models.gathering import Gathering, Unsuitable
from engine.models.heap import large_tensors_apart
from engine.models.held import attend_in_full, on_no_page
from engine.models.interventions import Outputs
from engine.models.keeping import KeepingReader
from engine.models.kept_calls import KeptCalls
from engine.models.kernels import eager_function, kernels_can_read, reading_eagerly, reading_with_kernels
from engine.models.lent import lent
from engine.models.loaded_model import Loaded
from engine.models.loaded_modules import attention_in, scoring_projections
from engine.models.maps import Pausing, Tokens
from engine.models.pieces import activating_in_pieces
from engine.models.repeats import vocabulary_of
from engine.models.room import need_room, need_room_to_read
from engine.models.scoring import CALLS, Scoring
from engine.models.telling import READING, Telling
from engine.models.tokenizer import TokenNumbers
from engine.models.unusual_maps import longest_in_full, probabilities, reason_without_map
from engine.models.waiting import at_hand
from engine.models.witness import Observation, observe, two_rows
from engine.values.attention import NOTHING_OFF, Off, Sentence
from engine.values.errors import EngineError, NoMap
from engine.values.heads import Head

COPIES = 4
"""Of a layer's maps, that its eager way holds at a time: scores, with the mask, their softmax, and what is kept."""

SCORING_COPIES = 16
"""Of a layer's maps, that taking its scores apart holds at a time: in float64, with all that gradients need."""

_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""Kinds of parameters that stand for any number of arguments, or none."""

Ran = TypeVar("Ran")


class Reader(KeepingReader):
    """A loaded model that reads sentences and gives attention maps.

    Parameters
    ----------
    anatomy : the model's layers and where their modules are.
    loaded : the model itself.
    """

    def __init__(self, anatomy: Anatomy, loaded: Loaded) -> None:
        super().__init__(anatomy.outline, loaded.words)
        self.model: Any = loaded.model
        self._device = loaded.device
        self._lent = lent if loaded.is_borrowed else nullcontext
        if not loaded.is_borrowed:
            attend_in_full(self.model)
        self.anatomy = anatomy
        self.modules = attention_in(self.model, anatomy)
        with self._lent(self.model):
            self.reads_with_kernels = kernels_can_read(self.model)
        self.outputs = Outputs(self.model, anatomy.modules)
        self._unsuitable: set[type[nn.Module]] = set()

    @property
    def vocabulary(self) -> int:
        """How many rows its embedding has."""
        return vocabulary_of(self.model)

    def read_ids(self, ids: tuple[int, ...], breathe: Callable[[], None]) -> None:
        """Run the model on token ids in the place of a sentence."""
        self._run(Sentence("", ids, self.words.texts(ids), len(ids)), breathe)

    def ids_along(self, stack: str) -> tuple[int, ...]:
        """Give the ids along the queries of a stack, of what was read last; a decoder may read others."""
        return super().ids_along(stack) if stack == "encoder" else self._decoder_ids or super().ids_along(stack)

    def _run(self, sentence: Sentence, breathe: Callable[[], None], off: Off = NOTHING_OFF) -> None:
        """Run the model, and keep what its attention modules are called with."""
        limit = longest_in_full(self.model)
        if limit is not None and len(sentence.ids) > limit:
            raise EngineError(
                f"{self._outline.name} reads more than {limit} tokens in sparse blocks, which have no maps; "
                f"type a shorter sentence than these {len(sentence.ids)} tokens; its spectra still work"
            )
        self._put_away()
        self._need_room(len(sentence.ids))
        inputs = self.inputs(sentence)
        pausing = Pausing(breathe)
        calls = KeptCalls()

        def run() -> None:
            nonlocal calls
            calls = KeptCalls(self.folder if sentence.is_long else None)
            means: dict[Head, Tensor] = {}
            if off.by_mean:
                with self.outputs.keeping_means(off.heads, means):
                    self.model(**inputs)
            telling = Telling(self.tell, READING, "layers")
            with keeping_calls(self.modules, calls, pausing, telling), self.outputs.switching(off, 1, means):
                self.model(**inputs)

        try:
            self.running(len(sentence.ids), pausing, run)
        except EngineError as error:
            self._refuse_unknown(sentence, error)
            raise
        read = inputs.get("decoder_input_ids")
        self._decoder_ids = () if read is None else tuple(read[0].tolist())
        self._sentence, self._calls, self._off = sentence, calls, off

    def _refuse_unknown(self, sentence: Sentence, error: EngineError) -> None:
        """Say of a sentence that the model failed on which of its tokens there is no embedding of, if any."""
        if isinstance(error.__cause__, (TypeError, ValueError)):
            return  # it asks for more than tokens, or for others
        for number, text in zip(sentence.ids, sentence.tokens, strict=True):
            if number >= self.vocabulary:
                raise EngineError(
                    f"'{text}' is token {number}, and {self._outline.name} has {self.vocabulary} tokens: its folder "
                    "holds another model's tokenizer; put its own there"
                ) from error

    def inputs(self, sentence: Sentence) -> dict[str, Any]:
        """Give what the model is called with for a sentence, ids (1, tokens) each.

        The decoder of an encoder–decoder model reads the same sentence after its start token, and without the last
        one, which in training it is to predict. It is always given its ids: it would make up its own.

        Raises
        ------
        EngineError : when a sentence of token numbers has one that there is no token of, or the model reads no tokens,
            or not them alone.
        """
        taken = inspect.signature(self.model.forward).parameters
        asked = [name for name, each in taken.items() if each.default is each.empty and each.kind not in _ANY_NUMBER]
        others = [name for name in asked or list(taken)[:1] if name != "input_ids"]
        if others and ("input_ids" not in taken or asked):
            raise EngineError(f"{self._outline.name} reads {others[0]}, not text alone; its spectra work all the same")
        if isinstance(self.words, TokenNumbers):
            self.words.refuse_beyond(sentence.ids, self.vocabulary, self._outline.name)
        ids = torch.tensor([sentence.ids], device=self._device)
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        inputs |= on_no_page(self.model, ids)
        if "decoder_input_ids" in taken:
            config = self.model.config
            start = getattr(config, "decoder_start_token_id", None) if config.is_encoder_decoder else None
            own = (sentence.ids if start is None else (start, *sentence.ids))[: len(sentence.ids)]
            inputs["decoder_input_ids"] = torch.tensor([own], device=self._device)
        return inputs

    def running(self, tokens: int, breathe: Callable[[], None], run: Callable[[], Ran]) -> Ran:
        """Run the model, or what is built around it, as sentences are read: with kernels where they can.

        Parameters
        ----------
        tokens : of the sentence, for what is said when they do not fit.
        breathe : called between the blocks of what has no kernel.
        run : calls the model; called again where kernels fail.

        Raises
        ------
        EngineError : when the model fails.
        """
        mode = reading_with_kernels(self.model, breathe) if self.reads_with_kernels else reading_eagerly(self.model)
        try:
            with (
                self._lent(self.model),
                mode,
                activating_in_pieces(self.model),
                large_tensors_apart(tokens),
                choosing_by_numbers(self.model),
                inferring(),
            ):
                return run()
        except torch.OutOfMemoryError as error:
            if not self._kept:
                raise EngineError(f"{tokens} tokens do not fit on {self._device}; type a shorter sentence") from error
            self._kept.clear()  # the sentence that is wanted comes before those that were
        except EngineError:
            raise
        except Exception as error:  # whatever a model's own code raises
            if not self.reads_with_kernels:
                raise EngineError(
                    f"{self._outline.name} fails on this sentence: {first_line(error)}; try another one"
                ) from error
            self.reads_with_kernels = False  # what kernels fail on, the model's own functions may not
        # Once the error is gone, and with it what the model had computed until then.
        return self.running(tokens, breathe, run)

    def _need_room(self, tokens: int) -> None:
        """Refuse a sentence of which no layer's maps would fit into memory."""
        has_biases = any(isinstance(part, nn.Embedding) for each in self.modules.values() for part in each.modules())
        copies = 1 if self.reads_with_kernels and not has_biases else COPIES  # T5 makes a bias as large as the maps
        itemsize = self.model.dtype.itemsize if self._device == "cpu" else 0
        try:
            need_room_to_read(self._outline.attending_layers, self.model.config, tokens, copies, itemsize)
        except EngineError:
            if not self._kept:
                raise
            self._kept.clear()
            need_room_to_read(self._outline.attending_layers, self.model.config, tokens, copies, itemsize)

    def gather(self, layer: Head, gathering: Gathering, breathe: Callable[[], None]) -> Tokens:
        """Call one layer's attention module again, in blocks of queries where its code allows it."""
        queries, keys = self._tokens(layer)
        own = keys if self._sentence is None else self._sentence.tokens
        heads = self._outline.layer(layer).heads
        if self._gather_in_blocks(layer, (heads, len(queries), len(keys)), gathering, breathe):
            return queries, keys
        module = self.modules[layer]
        need_room(heads, len(queries), len(keys), COPIES)
        returned = self._call_again(module, *self._calls[layer])
        found = probabilities(module, returned, heads, len(keys))
        if found is not None and found.shape[3] == len(queries) + len(own):
            keys = (*queries, *own)  # one softmax over the decoder's own tokens and the encoder's
        if found is None or found.shape[2:] != (len(queries), len(keys)):
            known = reason_without_map(module, returned, heads, (len(queries), len(keys)))
            reason = f"{known}; its spectra still work" if known else why_no_numbers(self.model, module, breathe)
            raise NoMap(f"{layer.stack} {layer} of '{self._outline.model_type}' has no map to show: {reason}")
        del returned
        gathering.begin((heads, len(queries), len(keys)))
        gathering.put(0, found[0])
        return queries, keys

    def _tokens(self, layer: Head) -> Tokens:
        """Give the tokens along both axes of a layer's maps.

        Raises
        ------
        EngineError : when no sentence has been read, or not by this layer.
        """
        if self._sentence is None:
            raise EngineError("no sentence has been read; type one")
        if layer not in self._calls:
            raise NoMap(
                f"{layer.stack} {layer} took no part in reading this sentence and has no map to show; its spectra work"
            )
        own = self._sentence.tokens
        read = self.ids_along(layer.stack)
        queries = own if read == self._sentence.ids else self.words.texts(read)
        return queries, own if layer.stack == "cross" else queries

    def scoring(self, layer: Head, breathe: Callable[[], None]) -> tuple[Scoring, Tokens]:
        """Take one layer's scores apart by calling its attention module again, in float64 too."""
        queries, keys = tokens = self._tokens(layer)
        module, described = self.modules[layer], self.anatomy.modules[layer]
        heads = described.outline.heads
        need_room(heads, len(queries), len(keys), SCORING_COPIES)
        call = for_weights(module, *self._calls[layer])
        name, shape = f"{layer.stack} {layer}", (heads, len(queries), len(keys))
        try:
            with (
                self._lent(self.model),
                reading_eagerly(self.model),  # whatever less urgent is there
                at_hand(module),
                Telling(self.tell, "taking scores apart", "calls") as telling,
            ):
                projections = scoring_projections(self.model, described)
                steps = partial(telling.next, breathe, CALLS)
                return Scoring(name, module, projections, (call.args, call.kwargs), shape, steps), tokens
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise EngineError(f"the scores of {name} cannot be watched: {first_line(error)}; its map works") from error

    def _gather_in_blocks(
        self, layer: Head, shape: tuple[int, int, int], gathering: Gathering, breathe: Callable[[], None]
    ) -> bool:
        """Gather a layer's maps as its eager function makes them; False where the module does not just hand them on."""
        module = self.modules[layer]
        if not self.reads_with_kernels or type(module) in self._unsuitable or eager_function(type(module)) is None:
            return False
        gathering.expect(shape)
        call = for_weights(module, *self._calls[layer])
        try:
            with (
                self._lent(self.model),
                reading_with_kernels(self.model, breathe, gathering),
                inferring(),
            ):
                with large_tensors_apart(max(shape[1:])), choosing_by_numbers(self.model):
                    was_handed_on = gathering.was_handed_on(module(*call.args, **call.kwargs))
                    del call  # before there is the memory of maps
                if was_handed_on and gathering.make(breathe):
                    return True
        except torch.OutOfMemoryError as error:
            raise EngineError(f"this layer's maps do not fit on {self._device}; type a shorter sentence") from error
        except (Unsuitable, RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            pass  # called as it was made to be called, it may show its maps all the same
        self._unsuitable.add(type(module))
        gathering.undo()
        return False

    def _call_again(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an attention module once more, in its eager way."""
        call = for_weights(module, args, kwargs)
        try:
            with (
                self._lent(self.model),
                reading_eagerly(self.model),
                choosing_by_numbers(self.model),
                torch.inference_mode(),
            ):
                return module(*call.args, **call.kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise NoMap(
                f"{self._outline.name} cannot show this layer's maps: {first_line(error)}; its spectra still work"
            ) from error

    def observe(self, breathe: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads two rows of random tokens, for `prove`."""
        ids = two_rows(self.model).to(self._device)
        with self._lent(self.model), reading_eagerly(self.model):  # whatever less urgent is in the model
            return observe(self.model, self.anatomy.modules, ids, breathe)
