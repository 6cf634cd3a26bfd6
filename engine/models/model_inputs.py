"""What a model is called with: a sentence, random tokens that come again, or tokens whose positions are all zero."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.models.devices import weights_loaded
from engine.models.tokenizer import TokenNumbers, Words
from engine.values.attention import Sentence
from engine.values.errors import EngineError

ASKING_FOR_BOXES = frozenset({"bros", "udop"})
"""Types that read no text without boxes; others of pages make boxes that are zero by themselves."""

DISTANCES = (11, 17, 31, 53)
"""After how many tokens a token comes again, in a sequence for each; prime, so that no habit fits two of them."""

SEED = 0
"""Of the random tokens, together with the distance."""

POSITION_KEYS = {
    "xlnet": (".r", ".seg_embed"), "funnel": (".r_kernel", ".seg_embed"), "inkling_text": (".r_proj.weight",),
}  # fmt: skip
"""How parameters end, by type, that make scores of relative positions and segments: zero, they add nothing."""

POSITION_TABLES = {"roformer": "embed_positions"}
"""The table of rotations, by type, whose rows are all the first one while positions are held."""

WAVE = 4000
"""Samples of sound, of which an encoder of waves makes about ten states."""

STATES = 10
"""States that an encoder of sound makes which takes several frames together for each."""

_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""Kinds of parameters that stand for any number of arguments, or none."""


def vocabulary_of(model: Any) -> int:
    """Say how many tokens a model knows; no more than it can be asked for, where it does not say."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # models of several towers, which have no one table
        table = None
    if isinstance(table, nn.Embedding):
        return table.num_embeddings
    weight = getattr(table, "weight", None)
    sizes = [each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)]
    return int(weight.shape[0]) if isinstance(weight, Tensor) else min(sizes, default=1)


def sentence_inputs(model: Any, sentence: Sentence, words: Words, name: str, device: str) -> dict[str, Any]:
    """Give what a model of transformers is called with for a sentence, ids (1, tokens) each.

    The decoder of an encoder–decoder model reads the same sentence after its start token, and without the last one,
    which in training it is to predict. It is always given its ids: it would make up its own.

    Parameters
    ----------
    model : of transformers.
    sentence : what it is to read.
    words : what made ids of it.
    name : of the model, as errors say it.
    device : where the ids are to be.

    Raises
    ------
    EngineError : when a sentence of token numbers has one that there is no token of, or the model reads no tokens, or
        not them alone.
    """
    taken = inspect.signature(model.forward).parameters
    asked = [name for name, each in taken.items() if each.default is each.empty and each.kind not in _ANY_NUMBER]
    others = [name for name in asked or list(taken)[:1] if name != "input_ids"]
    if others and ("input_ids" not in taken or asked):
        raise EngineError(f"{name} reads {others[0]}, not text alone; its spectra work all the same")
    if isinstance(words, TokenNumbers):
        count = vocabulary_of(model)
        for each in sentence.ids:
            if each >= count:
                raise EngineError(f"{name} has no token {each}; type numbers from 0 to {count - 1}")
    ids = torch.tensor([sentence.ids], device=device)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    inputs |= _empty_boxes(model, ids)
    if "decoder_input_ids" in taken:
        config = model.config
        start = getattr(config, "decoder_start_token_id", None) if config.is_encoder_decoder else None
        own = (sentence.ids if start is None else (start, *sentence.ids))[: len(sentence.ids)]
        inputs["decoder_input_ids"] = torch.tensor([own], device=device)
    return inputs


def _empty_boxes(model: Any, ids: Tensor) -> dict[str, Tensor]:
    """Give a model that asks for each token's box on a page (sentences, tokens, 4) boxes that are zero."""
    is_asking = getattr(model.config, "model_type", "") in ASKING_FOR_BOXES
    return {"bbox": torch.zeros(*ids.shape, 4, device=ids.device)} if is_asking else {}


@dataclass(frozen=True)
class Repeat:
    """Different random tokens, then the same ones again, between what the tokenizer puts around text.

    Attributes
    ----------
    ids : of the whole sequence.
    distance : after how many tokens each comes again.
    """

    ids: tuple[int, ...]
    distance: int


def repeats(words: Words, vocabulary: int, context: int | None) -> tuple[Repeat, ...]:
    """Draw sequences of ordinary tokens, each repeated once, at the `DISTANCES` that a model has room for.

    They show which heads look for what they have seen, in whatever model. Where it has room for none, the distance is
    the longest that fits.

    Parameters
    ----------
    words : which says what ordinary tokens are.
    vocabulary : how many ids the model knows.
    context : the longest sequence the model reads, or None.

    Raises
    ------
    EngineError : when there is no room for two tokens twice.
    """
    ordinary = np.asarray(words.ordinary(vocabulary))
    before, after = words.frame()
    limits = [limit for limit in (context, words.limit) if limit is not None]
    room = min((limit - len(before) - len(after)) // 2 for limit in limits) if limits else max(DISTANCES)
    longest = min(room, len(ordinary))
    if longest < 2:
        raise EngineError("there is no room for random tokens that come again; duplicate and induction need four")
    made = []
    for distance in [each for each in DISTANCES if each <= longest] or [longest]:
        drawn = np.random.default_rng((SEED, distance)).choice(ordinary, distance, replace=False).tolist()
        made.append(Repeat((*before, *drawn, *drawn, *after), distance))
    return tuple(made)


def inputs_at_position_zero(model: Any, ids: Tensor, d_source: int | None = None) -> dict[str, Any]:
    """Give what a model is called with so that positions cancel: an explicit mask, no cache, all positions zero.

    Parameters
    ----------
    model : of transformers.
    ids : (sentences, tokens)
    d_source : width of the states of an encoder that a decoder without one of its own looks at; None where none does.
    """
    taken = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **_empty_boxes(model, ids)}
    if getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        inputs["decoder_input_ids"] = ids.flip(1)
        if channels := getattr(getattr(model.config, "decoder_config", None), "num_channels", 0):  # of sound, as Dia's
            inputs["decoder_input_ids"] = ids.flip(1)[..., None].expand(*ids.shape, channels)
    elif d_source is not None and "encoder_hidden_states" in taken:
        states = torch.randn(*ids.shape, d_source, generator=torch.Generator().manual_seed(0))
        inputs["encoder_hidden_states"] = states.to(model.device, model.dtype)
    shape = None if "input_ids" in taken else _shape_of_frames(model.config)
    if shape is not None and "input_features" in taken:
        del inputs["input_ids"], inputs["attention_mask"]
        inputs["input_features"] = _random_sound(model, len(ids), *shape)
    elif "input_ids" not in taken and "input_values" in taken:  # the wave itself, as Moonshine's
        wave = _random_sound(model, len(ids), WAVE)
        del inputs["input_ids"]
        inputs |= {"input_values": wave, "attention_mask": torch.ones_like(wave, dtype=ids.dtype)}
    inputs |= {name: torch.zeros_like(ids) for name in ("position_ids", "decoder_position_ids") if name in taken}
    for name, value in (("use_cache", False), ("output_attentions", True)):
        if name in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            inputs[name] = value
    return inputs


def _shape_of_frames(config: Any) -> tuple[int, int] | None:
    """Say of what shape an encoder of sound reads frames; None where it reads none that are known."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):  # as Whisper's
        return config.num_mel_bins, 2 * config.max_source_positions
    encoders: tuple[Any, Any] = getattr(config, "encoder_config", None), config
    for encoder in encoders:
        if hasattr(encoder, "subsampling_factor") and hasattr(encoder, "num_mel_bins"):  # as Parakeet's, or alone
            return STATES * encoder.subsampling_factor, encoder.num_mel_bins
    return None


def _random_sound(model: Any, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(model.device)


def rotation_modules(model: Any) -> list[nn.Module]:
    """List the modules that make rotations of queries and keys."""
    return [module for module in model.modules() if "Rotary" in type(module).__name__]


def takes_positions(rotation: nn.Module) -> bool:
    """Say whether a module makes its rotations from positions that it is handed."""
    return "position_ids" in inspect.signature(rotation.forward).parameters


@contextmanager
def rotations_at_zero(model: Any) -> Iterator[None]:
    """Hand the modules that make rotations positions that are all zero, whoever counts them."""

    def hold(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        call = inspect.signature(module.forward).bind(*args, **kwargs)
        positions = call.arguments.get("position_ids")
        if isinstance(positions, Tensor):
            call.arguments["position_ids"] = torch.zeros_like(positions)
        return call.args, call.kwargs

    hooks = [
        rotation.register_forward_pre_hook(hold, with_kwargs=True)
        for rotation in rotation_modules(model) if takes_positions(rotation)
    ]  # fmt: skip
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def position_tables_at_zero(model: Any, model_type: str) -> Iterator[None]:
    """Give a model's own tables of positions the same row everywhere, and put them back."""
    keys, table = POSITION_KEYS.get(model_type, ()), POSITION_TABLES.get(model_type)
    tables = [path for path, _ in model.named_parameters() if path.endswith(keys) or path.split(".")[-2:-1] == [table]]
    with weights_loaded(*(model.get_submodule(path.rpartition(".")[0]) for path in tables)):
        kept: list[tuple[nn.Parameter, Tensor]] = []
        for path in tables:
            parameter = model.get_parameter(path)
            kept.append((parameter, parameter.detach().clone()))
            parameter.data = (
                torch.zeros_like(parameter) if path.endswith(keys) else parameter[:1].repeat(len(parameter), 1)
            )
        try:
            yield
        finally:
            for parameter, value in kept:
                parameter.data = value
