"""How a model is run so that positions cancel: its arguments, and the tables of positions that take no argument."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.waiting import at_hand

POSITION_KEYS = {
    "xlnet": (".r", ".seg_embed"), "funnel": (".r_kernel", ".seg_embed"), "inkling_text": (".r_proj.weight",),
}  # fmt: skip
"""How parameters end, by type, that make scores of relative positions and segments: zero, they add nothing."""

POSITION_TABLES = {"roformer": "embed_positions"}
"""The table of rotations, by type, whose rows are all the first one while positions are held."""

ASKING_FOR_BOXES = frozenset({"bros", "udop"})
"""Types that read no text without boxes; others of pages make boxes that are zero by themselves."""

WAVE = 4000
"""Samples of sound, of which an encoder of waves makes about ten states."""

STATES = 10
"""States that an encoder of sound makes which takes several frames together for each."""


def arguments(model: Any, ids: Tensor, d_source: int | None = None) -> dict[str, Any]:
    """Make a model's arguments: an explicit mask, no cache, and positions that are all zero.

    Parameters
    ----------
    model : of transformers.
    ids : (sentences, tokens)
    d_source : width of the states of an encoder that a decoder without one of its own looks at; None where none does.
    """
    taken = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **on_no_page(model, ids)}
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
        inputs["input_features"] = _drawn(model, len(ids), *shape)
    elif "input_ids" not in taken and "input_values" in taken:  # the wave itself, as Moonshine's
        wave = _drawn(model, len(ids), WAVE)
        del inputs["input_ids"]
        inputs |= {"input_values": wave, "attention_mask": torch.ones_like(wave, dtype=ids.dtype)}
    inputs |= {name: torch.zeros_like(ids) for name in ("position_ids", "decoder_position_ids") if name in taken}
    for name, value in (("use_cache", False), ("output_attentions", True)):
        if name in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            inputs[name] = value
    return inputs


def on_no_page(model: Any, ids: Tensor) -> dict[str, Tensor]:
    """Give a model that asks for each token's box on a page (sentences, tokens, 4) boxes that are zero."""
    is_asking = getattr(model.config, "model_type", "") in ASKING_FOR_BOXES
    return {"bbox": torch.zeros(*ids.shape, 4, device=ids.device)} if is_asking else {}


def _shape_of_frames(config: Any) -> tuple[int, int] | None:
    """Say of what shape an encoder of sound reads frames; None where it reads none that are known."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):  # as Whisper's
        return config.num_mel_bins, 2 * config.max_source_positions
    encoders: tuple[Any, Any] = getattr(config, "encoder_config", None), config
    for encoder in encoders:
        if hasattr(encoder, "subsampling_factor") and hasattr(encoder, "num_mel_bins"):  # as Parakeet's, or alone
            return STATES * encoder.subsampling_factor, encoder.num_mel_bins
    return None


def _drawn(model: Any, *shape: int) -> Tensor:
    """Draw sound, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(model.device)


def attend_in_full(model: Any) -> None:
    """Let every token of a model with block-sparse attention see all others, as BigBird does for short sentences.

    It replaces attention modules, so that those found before are no longer the model's.
    """
    for module in list(model.modules()):
        if hasattr(module, "set_attention_type"):
            module.set_attention_type("original_full")


def rotations(model: Any) -> list[nn.Module]:
    """List the modules that make rotations of queries and keys."""
    return [module for module in model.modules() if "Rotary" in type(module).__name__]


def takes_positions(rotation: nn.Module) -> bool:
    """Say whether a module makes its rotations from positions that it is handed."""
    return "position_ids" in inspect.signature(rotation.forward).parameters


@contextmanager
def rotations_held(model: Any) -> Iterator[None]:
    """Hand the modules that make rotations positions that are all zero, whoever counts them."""

    def hold(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        call = inspect.signature(module.forward).bind(*args, **kwargs)
        positions = call.arguments.get("position_ids")
        if isinstance(positions, Tensor):
            call.arguments["position_ids"] = torch.zeros_like(positions)
        return call.args, call.kwargs

    hooks = [
        rotation.register_forward_pre_hook(hold, with_kwargs=True)
        for rotation in rotations(model) if takes_positions(rotation)
    ]  # fmt: skip
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def tables_held(model: Any, model_type: str) -> Iterator[None]:
    """Hold a model's own tables of positions still, and put them back."""
    keys, table = POSITION_KEYS.get(model_type, ()), POSITION_TABLES.get(model_type)
    tables = [path for path, _ in model.named_parameters() if path.endswith(keys) or path.split(".")[-2:-1] == [table]]
    with at_hand(*(model.get_submodule(path.rpartition(".")[0]) for path in tables)):
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
