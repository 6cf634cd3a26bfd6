"""Reading sentences with a hand-written PyTorch module by watching its attention compute.

While the module runs, calls of PyTorch's functions pass through a function mode
(``torch.overrides.TorchFunctionMode``), which keeps the probabilities of every softmax over scores and of every fused
attention.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from engine.architectures.outline import AttentionModule
from engine.models.attention_capture import Check
from engine.models.devices import CheckedLookups, lacks_memory
from engine.models.loaded_model import vocabulary_size
from engine.models.proof import Observation
from engine.models.reader import Blocks, MapReader, Text, Tokens, evaluation_mode
from engine.models.score_formula import SOFTMAXES, ScoreFormula
from engine.models.tokenizer import Words
from engine.values.attention import Sentence
from engine.values.errors import EngineError, NoMap
from engine.values.heads import NOTHING_OFF, STACKS, Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import READING, ProgressReporter, Tell, tell_nobody

EXAMPLE = "example"
"""The sentence to type for a module that reads vectors: it stands for the example that the module is called with."""

FUSED, MULTI_HEAD = functional.scaled_dot_product_attention, functional.multi_head_attention_forward
"""PyTorch's own attention functions, without projections and with them."""

EXAMPLE_TOKENS = 11
"""Length of a made-up example; few widths in models are equal to it."""


@dataclass(frozen=True)
class ModuleCall:
    """A call of a module."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def repeat(self) -> Any:
        """Call the module again, without a cache, which would hold the sentence already."""
        args = (_without_cache(value) for value in self.args)
        return self.module(*args, **{name: _without_cache(value) for name, value in self.kwargs.items()})


def _without_cache(value: Any) -> Any:
    return None if type(value).__name__.endswith("Cache") else value


WatchedAttention: TypeAlias = tuple[tuple[ModuleCall, ...], Tensor]
"""One computation of attention, for the first sentence of a batch: the calls of the modules that were running, the
innermost last, and the probabilities (heads, queries, keys)."""


class AttentionWatch(TorchFunctionMode):
    """Keeps every computation of attention while it is entered, in ``seen``, and what projections read and write.

    Parameters
    ----------
    parameters : of each projection, by matrix; and the output projection's bias as ``bias``, if it has one.
    """

    def __init__(self, parameters: Mapping[str, Sequence[Tensor]] = MappingProxyType({})) -> None:
        super().__init__()
        self.seen: list[WatchedAttention] = []
        self._running: list[ModuleCall] = []
        self._stored = {
            matrix: {each.untyped_storage().data_ptr() for each in several} for matrix, several in parameters.items()
        }
        self._bias = next(iter(parameters.get("bias", ())), torch.zeros(()))
        self._reads: dict[str, Tensor] = {}
        self._written: Tensor | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is FUSED:
            return self._fused(*args, **kwargs)
        if func is MULTI_HEAD:
            self._keep(func(*args, **{**kwargs, "need_weights": True, "average_attn_weights": False})[1])
        result = func(*args, **kwargs)
        if func in SOFTMAXES and result.ndim > 2:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if isinstance(dim, int) and dim % result.ndim == result.ndim - 1:
                self._keep(result)
        if self._stored:
            self._keep_projection(func, args, result)
        return result

    def _keep(self, weights: Any) -> None:
        first = weights[0] if weights.ndim > 3 else weights
        self.seen.append((tuple(self._running), first.detach().flatten(0, -3)))

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Compute PyTorch's fused attention by its definition, which has the probabilities that the function hides."""
        if enable_gqa:
            group = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None:
            is_choice = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if is_choice else scores + attn_mask
        weights = scores.softmax(-1)
        self._keep(weights)
        return weights @ value

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[Self]:
        """Watch a model without gradients, and keep track of the modules that are running."""

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._running.append(ModuleCall(module, args, kwargs))

        def leave(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self._running.pop()

        with ExitStack() as stack:
            for module in model.modules():
                stack.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
                stack.enter_context(module.register_forward_hook(leave, always_call=True))
            stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)  # it computes whole layers in one function
            with torch.no_grad(), self:
                yield self

    @property
    def weights(self) -> Tensor:
        """The probabilities of all computations, (heads, queries, keys); `EngineError` where their shapes differ."""
        found = [weights for _, weights in self.seen]
        if len({weights.shape[1:] for weights in found}) != 1:
            raise EngineError("it computes several kinds of attention in one call; attn-tui follows one")
        return torch.cat(found)

    def _keep_projection(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Keep the argument before a parameter, as in ``linear(x, W)``, ``x @ W`` and ``addmm(b, x, W)``."""
        stored = [each.untyped_storage().data_ptr() if isinstance(each, Tensor) else 0 for each in args]
        if func is MULTI_HEAD:  # its arguments have the tokens first, and one sentence may have no axis
            reads = [each if each.ndim == 2 else each[:, 0] for each in (*args[:3], result[0])]
            self._reads, self._written = dict(zip("QKV", reads[:3], strict=True)), reads[3]
        elif isinstance(result, Tensor):
            pairs = [(args[place - 1], each) for place, each in enumerate(stored) if place and each]
            for matrix, own in self._stored.items():
                read = next((read for read, each in pairs if each in own and isinstance(read, Tensor)), None)
                if read is not None and matrix not in self._reads and matrix != "bias":
                    self._reads[matrix] = _by_token(read)
                    if matrix == "O":
                        is_apart = self._stored.get("bias", set()).isdisjoint(stored)
                        self._written = _by_token(result + self._bias if is_apart else result)

    def observation(self, module: nn.Module) -> Observation:
        """Give what was seen as `engine.models.proof.prove` takes it."""
        weights = self.weights
        counts = dict(zip("QKV", (weights.shape[1], weights.shape[2], weights.shape[2]), strict=True))
        reads = {matrix: self._reads[matrix][None, :count] for matrix, count in counts.items() if matrix in self._reads}
        written = None if self._written is None else self._written[None, : weights.shape[1]]
        return Observation(
            module, module, reads=reads, written=written if len(reads) == len(counts) else None,
            probabilities=weights[None], positions_are_held=False,
        )  # fmt: skip


def _by_token(x: Tensor) -> Tensor:
    """Reshape to (tokens of all sentences, width); heads may have an axis of their own."""
    together = x.flatten(2) if x.ndim > 3 else x
    return together.detach().reshape(-1, together.shape[-1])


@dataclass(frozen=True)
class Example:
    """A module's arguments for one sentence."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Example | None:
        """Take one argument, a tuple of them, or a dictionary of named ones; None gives None."""
        if given is None or isinstance(given, dict):
            return None if given is None else cls((), given)
        return cls(given if isinstance(given, tuple) else (given,))

    @property
    def reads_tokens(self) -> bool:
        """Whether an argument holds token ids."""
        return any(_is_ids(each) for each in (*self.args, *self.kwargs.values()))

    def with_ids(self, ids: tuple[int, ...]) -> Example:
        """Replace the token ids by those of another sentence."""

        def put(value: Any) -> Any:
            return torch.tensor([ids], device=value.device) if _is_ids(value) else value

        return Example(tuple(map(put, self.args)), {name: put(value) for name, value in self.kwargs.items()})


def _is_ids(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32) and value.ndim == 2


def watch_call(module: nn.Module, given: Example | None) -> tuple[Example, list[WatchedAttention]]:
    """Call a module with the given or made-up examples until one call computes attention.

    Raises `EngineError` when no call succeeds, or none computes attention that can be seen.
    """
    failure, has_run = "attn-tui found no input for it", False
    for example in [given] if given is not None else _examples(module):
        try:
            with CheckedLookups(), AttentionWatch().watching(module) as watch:
                module(*example.args, **example.kwargs)
        except Exception as error:  # whatever a person's own code raises
            failure = " ".join(str(error).split())[:200] or type(error).__name__
            continue
        if watch.seen:
            return example, watch.seen
        has_run = True
    name = type(module).__name__
    if has_run:
        raise EngineError(f"{name} computes no softmax attention that attn-tui can see: no softmax over scores")
    raise EngineError(f"{name} cannot be called ({failure}); give its input as example=")


def _examples(module: nn.Module) -> Iterator[Example]:
    generator = torch.Generator().manual_seed(0)
    parts = list(module.modules())
    like = next(module.parameters(), torch.zeros(1))
    has_tokens_first = any(isinstance(each, nn.MultiheadAttention) and not each.batch_first for each in parts)

    def vectors(width: int) -> Tensor:
        x = torch.randn(1, EXAMPLE_TOKENS, width, generator=generator).to(like)
        return x.transpose(0, 1) if has_tokens_first else x

    if isinstance(module, nn.MultiheadAttention):
        by_width = {width: vectors(width) for width in (module.embed_dim, module.kdim, module.vdim)}
        yield Example(tuple(by_width[width] for width in (module.embed_dim, module.kdim, module.vdim)))
    taken = inspect.signature(module.forward).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = max(1, sum(each.default is each.empty and each.kind in positional for each in taken))
    for table in dict.fromkeys(each.num_embeddings for each in parts if isinstance(each, nn.Embedding)):
        yield Example((torch.randint(table, (1, EXAMPLE_TOKENS), generator=generator).to(like.device),) * required)
    for width in dict.fromkeys(width for each in module.parameters() for width in reversed(each.shape)):
        yield Example((vectors(width),) * required)


@dataclass(frozen=True)
class FoundAttention:
    """An attention module that was found by running the model.

    Attributes
    ----------
    described : how it is cut into heads.
    module : the innermost one that holds all projections.
    parameters : gives those of its projections now, as `AttentionWatch` takes them.
    observed : what it read and wrote when it was found.
    """

    described: AttentionModule
    module: nn.Module
    parameters: Callable[[], Mapping[str, Sequence[Tensor]]]
    observed: Observation

    def with_marks(self, *, is_output_proven: bool, are_scores_proven: bool) -> FoundAttention:
        """Mark that other things than its matrices take part, as its own numbers show."""
        outline, module = self.described.outline, self.module
        marks = [] if are_scores_proven else ["scores beyond QK"]
        marks += [] if is_output_proven else ["outputs beyond OV"]
        if isinstance(module, nn.MultiheadAttention) and (module.bias_k is not None or module.add_zero_attn):
            marks = ["added key and value"]
        outline = replace(outline, marks=(*marks, *outline.marks))
        return replace(self, described=replace(self.described, outline=outline))

    @property
    def is_causal(self) -> bool:
        """Whether no token looks at a later one."""
        probabilities = self.observed.probabilities
        assert probabilities is not None
        return probabilities.shape[-1] == probabilities.shape[-2] and not bool(probabilities.triu(1).any())

    def stack(self, default: str) -> str:
        """Name its stack: cross where queries and keys read different states, else as its path says, or the default."""
        reads = self.observed.reads
        if {"Q", "K"} <= reads.keys() and not torch.equal(reads["Q"], reads["K"]):
            return "cross"
        named = next((part for part in self.described.outline.module.split(".") if part in STACKS), None)
        return named or default


class ModuleReader(MapReader):
    """A hand-written module that reads sentences; it is not changed."""

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
        self._name = outline.name
        self._model, self._found, self._example = model, found, example
        self.sentence: Sentence | None = None
        self._calls: dict[nn.Module, ModuleCall] = {}

    def sharing_model(self) -> Self:
        """Give another reader of the same module, without a sentence."""
        other = copy.copy(self)
        other.sentence, other._calls, other.tell = None, {}, tell_nobody
        return other

    def _example_of_tokens(self, reason: str = "") -> Example:
        if not self._example.reads_tokens:
            raise EngineError(f"{self._name} reads no tokens{reason}")
        return self._example

    @property
    def vocabulary(self) -> int:
        """The number of rows of its smallest embedding."""
        self._example_of_tokens(" that random ones could stand for")
        return vocabulary_size(self._model)

    def read(self, text: Text, check: Check, off: Off = NOTHING_OFF) -> Sentence:
        """Run the module on a sentence, unless it was read last; its heads cannot be switched off."""
        if off.heads:
            raise EngineError(f"{self._name} is not a transformers model; its heads cannot be switched off")
        if self.sentence is not None and self.sentence.text == text:
            return self.sentence
        if not isinstance(text, str):
            self._run(self._example_of_tokens().with_ids(text), check)
            sentence = Sentence("", text, self.words.texts(text), len(text))
        elif self._example.reads_tokens:
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

    def _run(self, example: Example, check: Check) -> None:
        self.sentence = None
        calls: dict[nn.Module, ModuleCall] = {}
        attention = dict.fromkeys(each.module for each in self._found.values())

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            report(len(calls), len(attention))
            check()
            calls.setdefault(module, ModuleCall(module, args, kwargs))

        try:
            with ExitStack() as hooks, ProgressReporter(self.tell, READING, "layers") as report:
                for module in attention:
                    hooks.enter_context(module.register_forward_pre_hook(keep, with_kwargs=True))
                with evaluation_mode(self._model), CheckedLookups(), torch.no_grad():
                    self._model(*example.args, **example.kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, KeyError) as error:
            if isinstance(error, RuntimeError) and lacks_memory(error):
                raise EngineError("the sentence does not fit in memory; type a shorter one") from error
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EngineError(f"{self._name} fails on this sentence: {reason[:200]}; try another one") from error
        self._calls = calls

    def blocks(self, layer: Head, check: Check) -> Blocks:
        """Give one layer's maps by calling its attention again."""
        if self.sentence is None:
            raise EngineError("no sentence has been read; type one")
        weights = self._watch(layer).weights
        own = self.sentence.tokens
        queries, keys = (own if count == len(own) else tuple(map(str, range(count))) for count in weights.shape[1:])
        yield (queries, keys), 0, weights

    def _watch(self, layer: Head) -> AttentionWatch:
        found = self._found[layer]
        if found.module not in self._calls:
            raise NoMap(f"{self.outline.layer(layer).module} did not run on this sentence; it has no attention map")
        with evaluation_mode(self._model), AttentionWatch(found.parameters()).watching(found.module) as watch:
            self._calls[found.module].repeat()
        return watch

    def observe(self, check: Check) -> dict[Head, Observation]:
        """Watch every attention module while the model reads its example."""
        self._run(self._example, check)
        seen: dict[Head, Observation] = {}
        for head, found in self._found.items():
            check()
            seen[head] = self._watch(head).observation(found.module)
        return seen

    def scoring(self, layer: Head, check: Check) -> tuple[ScoreFormula, Tokens]:
        """Refuse: the modules of its projections are not known by name."""
        raise EngineError(f"{self._name} is not a transformers model; its scores cannot be split into terms")
