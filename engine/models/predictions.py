"""What a model predicts at a token: as it is, after each block, and with heads switched off.

Reading maps needs no language-modelling head, so the head is added for the first prediction: the class with a head is
made without memory (on PyTorch's meta device), the loaded model becomes its body, and the few other tensors are read
from the checkpoint, or tied to the embedding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from engine.architectures.rules import sibling
from engine.architectures.tensors import Tensors
from engine.architectures.vocabulary import UNEMBEDDINGS
from engine.checkpoints.transformers_library import class_named, first_line, silence_transformers
from engine.mathematics.tokens import root_mean_square
from engine.models.attention_capture import Check
from engine.models.devices import is_spread, place_on_device
from engine.models.interventions import ResidualStream, blocks_around, heads_per_run
from engine.models.model_loader import input_device
from engine.models.reader import Reader
from engine.models.tokenizer import Words
from engine.values.display_text import visible
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, Off
from engine.values.progress import AVERAGING, FOLLOWING, PREDICTING, SWITCHING, ProgressReporter, Tell, in_heads

LOGIT_SLACK = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""How far rounding in a model's own arithmetic may move a logit, relative to the largest."""


@dataclass(frozen=True)
class Prompt:
    """A sentence as a model reads it, and the token of it at which the model predicts.

    Attributes
    ----------
    inputs : of the model, ids (1, tokens); a mask may replace the token.
    tokens : texts of the tokens that ``position`` counts: the decoder's where it reads its own.
    position : of the token, from 0.
    """

    inputs: Mapping[str, Any]
    tokens: tuple[str, ...]
    position: int

    @property
    def place(self) -> tuple[int, str]:
        """The position and the token there."""
        return self.position, self.tokens[self.position]


class Predictor:
    """A loaded model with its language-modelling head. ``check`` is called before each layer, and may raise to stop.

    Raises `EngineError` when the model has no language-modelling head.
    """

    def __init__(self, reader: Reader, tensors: Tensors) -> None:
        self._reader = reader
        outline = reader.anatomy.outline
        self.name = outline.name
        self.outline = outline
        self.stack = "decoder" if "decoder" in outline.stacks else "encoder"
        self.is_masked = self.stack == "encoder"
        self.words = reader.words
        self.model: Any = with_head(reader.model, tensors, outline.name, is_masked=self.is_masked)
        unembedding = unembedding_of(self.model)
        assert unembedding is not None  # `with_head` gives a model with one
        self.unembedding = unembedding
        self.outputs = reader.outputs
        paths = {module: path for path, module in reader.model.named_modules()}
        own = [paths[module] for layer, module in reader.modules.items() if layer.stack == self.stack]
        self.stream = ResidualStream(blocks_around(dict(reader.model.named_modules()), own))
        self._means: tuple[str, dict[Head, Tensor]] = ("", {})
        self._run_modules: set[nn.Module] = set()
        self._step: Callable[[], None] = lambda: None

    @contextmanager
    def reporting(self, activity: str, runs: int, tell: Tell | None = None) -> Iterator[None]:
        """Report progress over so many runs of the model."""
        unit = "layers" if runs == 1 else "layers run"
        with ProgressReporter(tell or self._reader.tell, activity, unit) as report:
            self._step = partial(report.step, runs * len(self._reader.modules))
            try:
                yield
            finally:
                self._step = lambda: None

    def is_run(self, layer: Head) -> bool:
        """Say whether a layer took part in any prediction; cross-attention may not."""
        return self._reader.modules[layer] in self._run_modules

    def prompt(self, text: str, position: int | None) -> Prompt:
        """Give the model's inputs for a prediction at a position.

        Without a position it is the last token; of a masked model the sentence's first mask, or else its last token of
        text. A masked model reads a mask in place of the token. Raises `EngineError` when the sentence has no such
        token.
        """
        sentence = self.words.read(text, self._reader.anatomy.outline.context)
        mask = self.words.mask if self.is_masked else None
        if self.is_masked and mask is None and type(self.model).__name__.endswith("ForMaskedLM"):
            raise EngineError(
                f"{self.name} predicts masked tokens, but its tokenizer has no mask token, so it predicts nothing"
            )
        if mask is not None:
            plain = [place for place, each in enumerate(sentence.ids) if each not in self.words.special]
            masks = [place for place, each in enumerate(sentence.ids) if each == mask]
            position = position if position is not None else next(iter([*masks, *reversed(plain)]), None)
        inputs = self._reader.inputs(sentence)
        read = inputs.get("decoder_input_ids", inputs["input_ids"])
        count = read.shape[1]
        position = choose_position(position, count)
        if mask is not None:
            read[0, position] = mask
        return Prompt(inputs, self.words.texts(read[0].tolist()), position)

    def logits(self, prompt: Prompt, check: Check) -> Tensor:
        """Give the logits of the token after the prompt's position, or of the mask: (vocabulary,) float32."""
        with self.reporting(PREDICTING, 1):
            return self.run(prompt, check)[0]

    def logits_without(self, prompt: Prompt, off: Off, check: Check) -> Tensor:
        """Give the logits with heads switched off, all together: (vocabulary,) float32."""
        means = self.means(prompt, check) if off.by_mean else None
        with self.reporting(SWITCHING, 1):
            return self.run(prompt, check, self.outputs.switching(off.heads, means))[0]

    def logits_without_each(
        self, prompt: Prompt, heads: Sequence[Head], check: Check, *, by_mean: bool
    ) -> Iterator[tuple[Head, Tensor]]:
        """Yield each head and the logits with this head switched off alone, (vocabulary,) float32."""
        means = self.means(prompt, check) if by_mean else None
        tokens = max(each.shape[1] for each in prompt.inputs.values() if isinstance(each, Tensor))
        tried = list(heads_per_run(heads, tokens))
        done = 0
        tell = in_heads(self._reader.tell, len(heads), lambda: done, len(self._reader.modules))
        with self.reporting(SWITCHING, len(tried), tell):
            for some in tried:
                check()
                found = self.run(prompt, check, self.outputs.switching(some, means, one_by_one=True), len(some))
                done += len(some)
                yield from zip(some, found, strict=True)

    def means(self, prompt: Prompt, check: Check) -> dict[Head, Tensor]:
        """Give the means over the tokens of what output projections read with no head off, by layer."""
        key = repr([each.tolist() for each in prompt.inputs.values() if isinstance(each, Tensor)])
        if self._means[0] != key:
            means: dict[Head, Tensor] = {}
            with self.reporting(AVERAGING, 1):
                layers = [layer for layer in self.outputs.layers if self.is_run(layer)]
                self.run(prompt, check, self.outputs.keeping_means(layers, means))
            self._means = (key, means)
        return self._means[1]

    def lens(
        self, prompt: Prompt, at_once: int, check: Check, *, everywhere: bool
    ) -> Iterator[tuple[Tensor, slice, Tensor]]:
        """Run what follows the last block on the residual stream before and after each block, at one or every token.

        Yields
        ------
        states : (1 + blocks, tokens, width), before the first block and after every block; the same each time.
        some : the range of the states, counted block by block, whose logits follow; at most ``at_once``.
        logits : (len(some), vocabulary) float32.

        Raises
        ------
        EngineError : when there is no single residual stream, or what follows the last block needs more than its
            states.
        """
        seen: list[Tensor] = []
        tokens, place = (len(prompt.tokens), prompt.position) if everywhere else (1, 0)
        pieces = math.ceil(tokens * (1 + len(self.stream.blocks)) / at_once)
        with self.reporting(FOLLOWING, 2 + pieces):
            position = None if everywhere else prompt.position
            [own] = self.run(prompt, check, self.stream.watching(position, len(prompt.tokens), seen))
            states = torch.stack([state.to(seen[-1].device) for state in seen])  # blocks may be on several devices
            ends = torch.stack([states[0, place], states[-1, place]])
            found = self._logits_of_states(prompt, ends, len(seen) - 1, check)[1]
            slack = LOGIT_SLACK.get(next(self.model.parameters()).dtype, 4e-2)
            if not bool((found - own).abs().max() <= slack * own.abs().max().clamp_min(1e-6)):
                raise EngineError(self._no_lens)
            flat = states.flatten(0, 1)
            for start in range(0, len(flat), at_once):
                some = slice(start, min(start + at_once, len(flat)))
                yield states, some, self._logits_of_states(prompt, flat[some], len(seen) - 1, check)

    def _logits_of_states(self, prompt: Prompt, states: Tensor, calls: int, check: Check) -> Tensor:
        """Give the logits, (states, vocabulary) float32, if the last of so many calls of blocks gave (states, width).

        `EngineError` when what follows needs more than the states.
        """
        for sentences in (1, len(states)):  # a few models need one sentence per state from the start
            try:
                with self.stream.ending_with(calls, states):
                    found = self.run_tokens(prompt, sentences, check)
            except Superseded:
                raise
            except EngineError:
                continue
            if len(found) == len(states):
                return found
        raise EngineError(self._no_lens)

    @property
    def _no_lens(self) -> str:
        return f"what {self.name} does after its last block needs more than one state, so it has no lens"

    def run_tokens(self, prompt: Prompt, count: int, check: Check) -> Tensor:
        """Run the model on so many sentences of one token: (sentences, vocabulary) float32 logits."""
        first = {name: each[:, :1] if isinstance(each, Tensor) else each for name, each in prompt.inputs.items()}
        single = replace(prompt, inputs=first, tokens=prompt.tokens[:1], position=0)
        return self.run(single, check, copies=count)

    def run(
        self, prompt: Prompt, check: Check, around: AbstractContextManager[None] | None = None, copies: int = 1
    ) -> Tensor:
        """Run the model on copies of a sentence within a context: logits of the prompt's token, (copies, vocabulary).

        Only this token is unembedded; the logits are in float32.
        """
        tokens, position = len(prompt.tokens), prompt.position
        inputs = {
            name: each.expand(copies, *each.shape[1:]) if isinstance(each, Tensor) else each
            for name, each in prompt.inputs.items()
        }

        def one_token(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            x = args[0]
            if isinstance(x, Tensor) and x.ndim == 3 and x.shape[1] == tokens:
                return (x[:, position : position + 1], *args[1:])
            return None

        def before_layer(module: nn.Module, args: tuple[Any, ...]) -> None:
            self._run_modules.add(module)
            self._step()
            check()

        with self._reader.running(tokens, check), ExitStack() as stack:
            for module in dict.fromkeys(self._reader.modules.values()):
                stack.enter_context(module.register_forward_pre_hook(before_layer))
            stack.enter_context(self.unembedding.register_forward_pre_hook(one_token))
            stack.enter_context(around or nullcontext())
            logits = _logits(self.model(**inputs))
            return logits[:, position if logits.shape[1] == tokens else 0].float().cpu()


@dataclass(frozen=True)
class MeasuredLogit:
    """One token's logit, or its difference from another's.

    Attributes
    ----------
    token : id of the token.
    against : id of the token whose logit is subtracted; None for none.
    """

    token: int
    against: int | None = None

    def of(self, logits: Tensor) -> Tensor:
        """Measure it in logits, (…, vocabulary): (…) float64.

        Examples
        --------
        >>> MeasuredLogit(0, against=2).of(torch.tensor([3.0, 2.0, 1.5])).item()
        1.5
        """
        own = logits[..., self.token].double()
        return own if self.against is None else own - logits[..., self.against].double()

    def spread(self, logits: Tensor) -> float:
        """Give its root mean square for tokens drawn at random from (vocabulary,) logits.

        For the difference of two draws that is √2 times the standard deviation.
        """
        if self.against is None:
            return float(root_mean_square(logits))
        finite = logits[logits.isfinite()].double()
        return math.sqrt(2) * float(finite.std(correction=0))

    def texts(self, words: Words) -> tuple[str, ...]:
        """Give the text of each of its tokens."""
        return words.texts([self.token] if self.against is None else [self.token, self.against])


def find_token(words: Words, name: str, text: str, count: int) -> int:
    """Find a token's id by its text, with or without a leading space, or by ``#`` and its id.

    Invisible characters, such as joiners, may be typed as they are or as tables escape them. Raises `EngineError` when
    the model's first ``count`` ids have no such token.
    """
    if text.startswith("#") and text[1:].isdigit():
        if int(text[1:]) >= count:
            raise EngineError(f"there is no token {text}: ids go from 0 to {count - 1}")
        return int(text[1:])
    ids = list(words.known(count))
    by_text = dict(zip(reversed(words.texts(ids)), reversed(ids), strict=True))
    for spelling in (text, f" {text}", text.strip()):
        if (found := by_text.get(visible(spelling))) is not None:
            return found
    raise EngineError(f"'{text}' is not one token of {name}; give a token from predictions, or # and its id")


def choose_position(position: int | None, tokens: int) -> int:
    """Give a token's position, by default the last; `EngineError` when the sentence has no such token."""
    place = tokens - 1 if position is None else position
    if not 0 <= place < tokens:
        raise EngineError(f"the sentence has no token {place}: its tokens are 0 to {tokens - 1}")
    return place


def _logits(result: Any) -> Tensor:
    """Give the logits, (sentences, tokens, vocabulary), in what a model returns."""
    for name in ("logits", "prediction_logits"):
        if isinstance(found := getattr(result, name, None), Tensor):
            return found
    found = result[0]
    assert isinstance(found, Tensor)
    return found


MAPPINGS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING",
)  # fmt: skip
"""transformers' lists of classes with a head, in the order in which they are searched."""


def with_head(model: Any, tensors: Tensors, name: str, *, is_masked: bool) -> Any:
    """Give a loaded model of transformers with its language-modelling head; the model itself where it has one.

    The model becomes a part of the result and is not changed. ``is_masked`` looks for heads of masked models first.
    Raises `EngineError` when its type has no such head, or its checkpoint was saved without one.
    """
    if unembedding_of(model) is not None:
        return model
    reasons = []
    silence_transformers()
    for chosen in _classes(model.config, is_masked):
        try:
            return _wrap(chosen, model, tensors)
        except EngineError as error:
            reasons.append(str(error))
        except Exception as error:  # whatever a class raises for another's configuration
            reasons.append(f"{chosen.__name__}: {first_line(error)}")
    reason = next(iter(reasons), "transformers has no class with one for its type")
    raise EngineError(f"{name} has no language-modelling head to predict with ({reason}); its maps and spectra work")


def unembedding_of(model: Any) -> nn.Module | None:
    """Give the module that makes logits of a model's last states; None without a head."""
    try:
        found = model.get_output_embeddings()
    except (NotImplementedError, AttributeError, TypeError):
        return None
    return found if isinstance(found, nn.Module) else None


def _classes(config: Any, is_masked: bool) -> Iterator[Any]:
    """Yield the classes with a head that fit a configuration: the class that it names, then those of its type."""
    found = [class_named(name, config) for name in getattr(config, "architectures", None) or ()]
    for mapping in [*MAPPINGS[2:], *MAPPINGS[:2]] if is_masked else MAPPINGS:
        entry = getattr(transformers, mapping).get(type(config), None)
        found += list(entry) if isinstance(entry, (tuple, list)) else [entry]
    yield from dict.fromkeys(each for each in found if hasattr(each, "get_output_embeddings"))


def _wrap(chosen: Any, model: Any, tensors: Tensors) -> Any:
    with torch.device("meta"):
        whole = chosen(model.config).eval()
    if unembedding_of(whole) is None:
        raise EngineError(f"{chosen.__name__} writes no logits")
    place = _body_paths(whole, model)
    own = [name for name, _ in _tensors(whole) if not any(name.startswith(f"{path}.") for path in place)]
    for path in place:
        parent, _, leaf = path.rpartition(".")
        setattr(whole.get_submodule(parent), leaf, model if len(place) == 1 else model.get_submodule(path))
    spread = is_spread(model)
    like = next(model.parameters())
    device = torch.device(input_device(model)) if spread else like.device
    missing = {name for name in own if not _fill(whole, name, tensors, like.dtype, device)}
    if missing:
        whole.tie_weights(missing_keys=set(missing))
    if spread:
        for path in filter(None, dict.fromkeys(name.rpartition(".")[0] for name in own)):
            place_on_device(model, whole.get_submodule(path), device)
    left = [name for name, tensor in _tensors(whole) if name in missing and tensor.is_meta]
    if left:
        raise EngineError(f"{left[0]} is not among the tensors that were read, nor tied to one of them")
    return whole


def _body_paths(whole: Any, model: Any) -> tuple[str, ...]:
    """Give the paths that the loaded body takes in a class with a head: one of its type, or all its children's."""
    prefix = getattr(whole, "base_model_prefix", "")
    paths = [prefix, *(f"{prefix}.{name}" for name, _ in getattr(whole, prefix, nn.Module()).named_children())]
    paths += [name for name, _ in whole.named_children()]
    named = dict(whole.named_modules())
    for path in filter(None, paths):
        if type(named.get(path)) is type(model):
            return (path,)
    children = {name: type(child) for name, child in model.named_children()}
    if children and all(type(getattr(whole, name, None)) is kind for name, kind in children.items()):
        return tuple(children)
    raise EngineError(f"{type(whole).__name__} has no place for a {type(model).__name__}")


def _tensors(whole: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from whole.named_parameters(remove_duplicate=False)
    yield from whole.named_buffers(remove_duplicate=False)


def _fill(whole: nn.Module, name: str, tensors: Tensors, dtype: torch.dtype, device: torch.device) -> bool:
    """Read a tensor of the head; give False where it is not stored."""
    parent_name, _, leaf = name.rpartition(".")
    parent = whole.get_submodule(parent_name)
    names = [name, sibling(parent_name, {"weight": "gamma", "bias": "beta"}.get(leaf, leaf))]  # norms in older ones
    if parent is unembedding_of(whole):
        names += [f"{each}.{leaf}" for each in UNEMBEDDINGS]  # names in older checkpoints
    stored = next((each for each in names if each in tensors.entries), None)
    if stored is not None:
        value = tensors.read(stored).to(device=device, dtype=dtype if dtype.is_floating_point else None)
    elif leaf == "final_logits_bias":  # a buffer, which is zero where a checkpoint lacks it
        value = torch.zeros_like(getattr(parent, leaf), device=device, dtype=dtype)
    else:
        return False
    if value.shape != getattr(parent, leaf).shape:
        return False
    if leaf in dict(parent.named_parameters(recurse=False)):
        setattr(parent, leaf, nn.Parameter(value, requires_grad=False))
    else:
        parent.register_buffer(leaf, value, persistent=False)
    return True
