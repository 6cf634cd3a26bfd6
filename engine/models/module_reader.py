"""Sentences through a module that no library wrote, and the attention that is seen while it computes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from engine.models.attending import Attending, Call
from engine.models.devices import memory_told
from engine.models.example import Example
from engine.models.handmade import Found
from engine.models.map_array import MapArray
from engine.models.map_reader import MapReader, Tokens
from engine.models.model_inputs import vocabulary_of
from engine.models.model_state import evaluating
from engine.models.module_logits import logits_at
from engine.models.predictor import Asked
from engine.models.scoring import Scoring
from engine.models.tokenizer import Words
from engine.models.tracing import trace
from engine.models.witness import Observation
from engine.values.attention import NOTHING_OFF, Off, Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.progress_report import READING, ProgressReporter, Tell, tell_nobody

EXAMPLE = "example"
"""The sentence that stands for what a module was called with, where it reads vectors and no tokens."""


class ModuleReader(MapReader):
    """A module in memory that reads sentences; nothing of it is changed.

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
        found: Mapping[Head, Found],
        example: Example | None,
        words: Words,
    ) -> None:
        self.outline, self.words = outline, words
        self.tell: Tell = tell_nobody
        self.folder: Path | None = None
        self._model, self._found, self._example = model, found, example
        self._sentence: Sentence | None = None
        self._calls: dict[nn.Module, Call] = {}

    @property
    def sentence(self) -> Sentence | None:
        """The one that was read last."""
        return self._sentence

    def sharing_model(self) -> Self:
        """Give another reader of the same module, which has read nothing yet; this one's sentence stays."""
        other = copy.copy(self)
        other._sentence, other._calls, other.tell = None, {}, tell_nobody
        return other

    def has_read(self, text: str, off: Off = NOTHING_OFF) -> bool:
        """Say whether a sentence is the one that was read last; none of the heads can be off."""
        return self._sentence is not None and self._sentence.text == text and not off.heads

    def forget(self, text: str) -> None:
        """Do nothing: no sentence is kept but the one that was read last."""

    @property
    def vocabulary(self) -> int:
        """How many rows its smallest embedding has.

        Raises
        ------
        EngineError : when it reads no tokens.
        """
        if self._example is None or not self._example.reads_tokens:
            raise EngineError(f"{self.outline.name} reads no tokens that random ones could stand for")
        return vocabulary_of(self._model)

    def read(self, text: str, check: Callable[[], None], off: Off = NOTHING_OFF) -> Sentence:
        """Run the module on a sentence, unless it is the one that was read last; none of its heads can be off."""
        if off.heads:
            raise EngineError(
                f"{self.outline.name} is no model of transformers; its heads cannot be switched off while it reads"
            )
        if self._sentence is not None and self._sentence.text == text:
            return self._sentence
        if self._example is None:
            raise EngineError(f"{self.outline.name} cannot be called by itself; give example=, what to call it with")
        self._sentence = None
        if self._example.reads_tokens:
            sentence = self.words.read(text, None)
            self._run(self._example.with_ids(torch.tensor([sentence.ids])), check)
        elif text.strip() == EXAMPLE:
            self._run(self._example, check)
            longest = max(self._maps_of(each).shape[1] for each in self._found.values())
            names = tuple(str(place) for place in range(longest))
            sentence = Sentence(text, tuple(range(longest)), names, longest)
        else:
            raise EngineError(
                f"{self.outline.name} reads vectors, no tokens; type {EXAMPLE} for the maps of what it was called with"
            )
        self._sentence = sentence
        return sentence

    def read_ids(self, ids: tuple[int, ...], check: Callable[[], None]) -> None:
        """Run the module on token ids in the place of a sentence."""
        if self._example is None or not self._example.reads_tokens:
            raise EngineError(f"{self.outline.name} reads no tokens")
        self._sentence = None
        self._run(self._example.with_ids(torch.tensor([ids])), check)
        self._sentence = Sentence("", ids, self.words.texts(ids), len(ids))

    def predicted(self, text: str, position: int | None, check: Callable[[], None]) -> tuple[Asked, Tensor]:
        """Read a sentence, and give what the module says comes after one of its tokens, the last unless it is named.

        Raises
        ------
        EngineError : when there is no such token, or what the module returns is no logits that can be told.
        """
        name = self.outline.name
        if self._example is None or not self._example.reads_tokens:
            raise EngineError(f"{name} reads no tokens, so it predicts none")
        if "decoder" not in self.outline.stacks:
            raise EngineError(
                f"{name} is no model of transformers, and its tokens look both ways: attn-tui does not know what it "
                "returns at a token, so it has no predictions"
            )
        sentence = self.words.read(text, None)
        count = len(sentence.ids)
        place = count - 1 if position is None else position
        if not 0 <= place < count:
            raise EngineError(f"the sentence has no token {place}: its tokens are 0 to {count - 1}")
        ids = torch.tensor([sentence.ids])
        self._sentence = None
        returned = self._run(self._example.with_ids(ids), check)
        self._sentence = sentence
        widths = frozenset(width for layer in self.outline.layers for width in (layer.d_model, layer.d_output))
        logits = logits_at(self._model, name, returned, (place, count), widths)
        return Asked(sentence, {"input_ids": ids}, sentence.tokens, place), logits

    def _run(self, example: Example, check: Callable[[], None]) -> Any:
        """Call the model, keep what its attention modules are called with, and give what it returns."""
        calls: dict[nn.Module, Call] = {}
        report = ProgressReporter(self.tell, READING, "layers")

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            report(len(calls), len(attention))
            check()
            calls.setdefault(module, Call(module, args, kwargs))

        attention = dict.fromkeys(each.module for each in self._found.values())
        hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in attention]
        try:
            with evaluating(self._model), memory_told(), torch.no_grad():
                returned = self._model(*example.args, **example.kwargs)
        except torch.OutOfMemoryError as error:
            raise EngineError("the sentence does not fit into memory; type a shorter one") from error
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, KeyError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EngineError(f"{self.outline.name} fails on this sentence: {reason[:200]}; try another one") from error
        finally:
            for hook in hooks:
                hook.remove()
            report.end()
        self._calls = calls
        return returned

    def gather(self, layer: Head, array: MapArray, check: Callable[[], None]) -> Tokens:
        """See the maps of one layer by calling its attention once more."""
        if self._sentence is None:
            raise EngineError("no sentence has been read; type one")
        weights = self._maps_of(self._found[layer])
        heads, queries, keys = weights.shape
        array.begin((heads, queries, keys))
        array.put(0, weights)
        tokens = self._sentence.tokens
        names = [tokens if count == len(tokens) else tuple(map(str, range(count))) for count in (queries, keys)]
        return names[0], names[1]

    def _maps_of(self, found: Found) -> Tensor:
        """Give a layer's probabilities, (heads, queries, keys)."""
        if found.module not in self._calls:
            raise EngineError(f"{found.path} took no part in reading this sentence; it has no attention map")
        call = self._calls[found.module]
        with evaluating(self._model), torch.no_grad():
            if isinstance(found.module, nn.MultiheadAttention):
                weights = _with_weights(call)[1]
                return weights[0] if weights.ndim > 3 else weights  # of several sentences the first
            attending = Attending()
            with attending.watching(found.module):
                call.again()
        return torch.cat([each.weights for each in attending.seen])

    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads its example."""
        if self._example is None:
            raise EngineError(f"{self.outline.name} cannot be called by itself; give example=, what to call it with")
        self._sentence = None
        self._run(self._example, check)
        seen: dict[Head, Observation] = {}
        with evaluating(self._model):
            for head, found in self._found.items():
                check()
                seen[head] = self._observed(found)
        return seen

    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[Scoring, Tokens]:
        """Refuse: what projects queries and keys has no module that is known by name."""
        raise EngineError(f"{self.outline.name} is no model of transformers; its scores cannot be split into terms")

    def _observed(self, found: Found) -> Observation:
        """Watch one layer's attention."""
        nothing = Observation(found.module, found.module, positions_are_held=False)
        if found.module not in self._calls:
            return nothing
        call = self._calls[found.module]
        if isinstance(found.module, nn.MultiheadAttention):
            with torch.no_grad():
                written, weights = _with_weights(call)
            taken = _bound(call).arguments
            turn = not found.module.batch_first and written.ndim == 3
            reads = {matrix: taken[name] for matrix, name in (("Q", "query"), ("K", "key"), ("V", "value"))}
            every = {**reads, "written": written}
            by_sentence = {name: each.transpose(0, 1) if turn else each for name, each in every.items()}
            if written.ndim == 2:
                by_sentence = {name: each[None] for name, each in by_sentence.items()}
                weights = weights[None]
            out = by_sentence.pop("written")
            return Observation(found.module, found.module, {}, by_sentence, out, out, weights, positions_are_held=False)
        traced = trace(found.module, call.again, found.path)
        sides = {"Q": traced.query, "K": traced.key, "V": traced.value, "O": traced.output}
        reads = {matrix: rows.read[None] for matrix, rows in sides.items()}
        last = traced.output.projections[0]
        out = last.by_token(last.written.detach())[None]
        if last.bias is not None and last.bias_is_apart:
            out = out + last.bias.detach()
        return Observation(
            found.module, found.module, {}, reads, reads["O"], out, traced.weights[None], positions_are_held=False
        )


def _bound(call: Call) -> inspect.BoundArguments:
    """Name the arguments of a call."""
    return inspect.signature(call.module.forward).bind(*call.args, **call.kwargs)


def _with_weights(call: Call) -> tuple[Tensor, Tensor]:
    """Call PyTorch's multi-head attention once more, and have every head's probabilities given back."""
    bound = _bound(call)
    bound.arguments |= {"need_weights": True, "average_attn_weights": False}
    written, weights = call.module(*bound.args, **bound.kwargs)
    return written, weights
