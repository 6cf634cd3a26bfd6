"""Reading sentences with a PyTorch module that no library wrote."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.architectures.outline import AttentionModule
from engine.models.attention_maps import MapArray
from engine.models.devices import CheckedLookups, lacks_memory
from engine.models.loaded_model import vocabulary_of
from engine.models.module_watch import Example, ModuleCall, ProjectionWatch
from engine.models.predictions import Asked, checked_position
from engine.models.proof import Observation
from engine.models.reader import MapReader, Tokens, evaluating
from engine.models.score_formula import ScoreFormula
from engine.models.tokenizer import Words
from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, STACKS, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

EXAMPLE = "example"
"""The sentence that stands for what a module was called with, where it reads vectors and no tokens."""

OF_ONE = 1e-2
"""How far the sum of probabilities may be from one, in the 16 bits that they may have been computed in."""


@dataclass(frozen=True)
class FoundAttention:
    """One attention module of somebody else's.

    Attributes
    ----------
    described : how it is cut into heads.
    module : the innermost one that holds all projections.
    parameters : what its projections are made of, as `ProjectionWatch` takes them.
    observed : what it read and wrote when it was found.
    """

    described: AttentionModule
    module: nn.Module
    parameters: Mapping[str, Sequence[Tensor]]
    observed: Observation

    def marked(self, *, is_output_proven: bool, are_scores_proven: bool) -> FoundAttention:
        """Mark what its own numbers show to take part besides its matrices."""
        outline, module = self.described.outline, self.module
        marks = [] if are_scores_proven else ["scores beyond QK"]
        marks += [] if is_output_proven else ["outputs beyond OV"]
        if isinstance(module, nn.MultiheadAttention) and (module.bias_k is not None or module.add_zero_attn):
            marks = ["added key and value"]
        return replace(
            self, described=replace(self.described, outline=replace(outline, marks=(*marks, *outline.marks)))
        )

    @property
    def looks_back(self) -> bool:
        """Whether no token looks at a later one."""
        probabilities = self.observed.probabilities
        assert probabilities is not None
        return probabilities.shape[-1] == probabilities.shape[-2] and not bool(probabilities.triu(1).any())

    def stack(self, *, is_causal: bool) -> str:
        """Say which stack it is in: across, where keys are of others than queries; else as its name or masks say."""
        reads = self.observed.reads
        if {"Q", "K"} <= reads.keys() and not torch.equal(reads["Q"], reads["K"]):
            return "cross"
        named = next((part for part in self.described.outline.module.split(".") if part in STACKS), None)
        return named or ("decoder" if is_causal else "encoder")


class ModuleReader(MapReader):
    """A module that no library wrote, which reads sentences; nothing of it is changed.

    Parameters
    ----------
    model : the module.
    outline : what is known of it.
    found : by layer, what computes its attention.
    example : what it can be called with.
    words : what makes ids of text.
    """

    def __init__(
        self,
        model: nn.Module,
        outline: ModelOutline,
        found: Mapping[Head, FoundAttention],
        example: Example,
        words: Words,
    ) -> None:
        self.outline, self.words = outline, words
        self.tell: Tell = tell_nobody
        self.folder: Path | None = None
        self._name = outline.name
        self._model, self._found, self._example = model, found, example
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

    def _example_of_tokens(self, reason: str = "") -> Example:
        """Give the example where it is of tokens; else that is said, with what it is the reason of."""
        if not self._example.reads_tokens:
            raise EngineError(f"{self._name} reads no tokens{reason}")
        return self._example

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
            longest = max(self._watch(each).weights.shape[1] for each in self._found)
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
        weights = self._watch(layer).weights
        heads, queries, keys = weights.shape
        array.begin((heads, queries, keys))
        array.put(0, weights)
        tokens = self.sentence.tokens
        names = [tokens if count == len(tokens) else tuple(map(str, range(count))) for count in (queries, keys)]
        return names[0], names[1]

    def _watch(self, layer: Head) -> ProjectionWatch:
        """Call a layer's attention once more as it was called, and see what it computes."""
        found = self._found[layer]
        if found.module not in self._calls:
            raise EngineError(
                f"{self.outline.layer(layer).module} took no part in reading this sentence; it has no attention map"
            )
        with evaluating(self._model), ProjectionWatch(found.parameters).watching(found.module) as watch:
            self._calls[found.module].again()
        return watch

    def observe(self, check: Callable[[], None]) -> dict[Head, Observation]:
        """Watch every attention module while the model reads its example."""
        self._run(self._example, check)
        seen: dict[Head, Observation] = {}
        for head, found in self._found.items():
            check()
            seen[head] = self._watch(head).observation(found.module)
        return seen

    def scoring(self, layer: Head, check: Callable[[], None]) -> tuple[ScoreFormula, Tokens]:
        """Refuse: what projects queries and keys has no module that is known by name."""
        raise EngineError(f"{self._name} is no model of transformers; its scores cannot be split into terms")
