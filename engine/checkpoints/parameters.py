"""Every parameter of a checkpoint, with the tensors that the model ties together shown as tied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import TensorEntry
from engine.checkpoints.size_bounds import bounded
from engine.values.outline import Parameter

if TYPE_CHECKING:
    from torch import nn


def stored_parameters(entries: Mapping[str, TensorEntry]) -> tuple[Parameter, ...]:
    """List tensors as stored, in reading order."""
    stored = (Parameter(name, entry.shape, entry.dtype, entry.stored_bytes) for name, entry in entries.items())
    return tuple(sorted(stored, key=lambda each: _reading_order(each.name)))


def list_parameters(entries: Mapping[str, TensorEntry], directory: Path | None) -> tuple[Parameter, ...]:
    """List a checkpoint's tensors as stored, and the names that the model ties to one of them.

    A tied name (``lm_head.weight``) mostly has no tensor of its own in the files; its row names the one it shares.

    Parameters
    ----------
    entries : of the tensors.
    directory : of the configuration, whose class says what is tied; None does not ask, for that takes seconds.
    """
    ties = {} if directory is None else _ties(directory, entries)
    result = [replace(each, tied_to=ties.get(each.name, "")) for each in stored_parameters(entries)]
    for name in ties.keys() - entries.keys():
        source = entries[ties[name]]
        result.append(Parameter(name, source.shape, source.dtype, 0, ties[name]))
    return tuple(sorted(result, key=lambda each: _reading_order(each.name)))


def module_parameters(module: nn.Module) -> tuple[Parameter, ...]:
    """List the parameters of a module in memory; one that it has under two names is tied to its first."""
    first: dict[int, str] = {}
    result = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        source = first.setdefault(id(parameter), name)
        dtype = str(parameter.dtype).removeprefix("torch.")
        is_own = source == name
        own_bytes = parameter.nbytes if is_own else 0
        result.append(Parameter(name, tuple(parameter.shape), dtype, own_bytes, "" if is_own else source))
    return tuple(sorted(result, key=lambda each: _reading_order(each.name)))


def _reading_order(name: str) -> list[tuple[int, str]]:
    """Order dotted names with their numbers by value: layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def _ties(directory: Path, entries: Mapping[str, TensorEntry]) -> dict[str, str]:
    """Ask the model's own class which names share a tensor, and name the first of them that is stored.

    Building the model on the meta device allocates nothing.
    """
    import torch

    from engine.checkpoints.library_imports import IMPORTING

    with IMPORTING:
        from engine.checkpoints.transformers_library import class_named, library_config
    try:
        config = library_config(directory)
        named: Any = next(filter(None, (class_named(name, config) for name in config.architectures or ())), None)
        if named is None:
            return {}
        with bounded(entries, is_packed=False), torch.device("meta"):
            model = named(config)
            model.tie_weights()
    except Exception:  # a class that cannot be built says nothing about ties, and the table is right without
        return {}
    # A checkpoint saved from the base model leaves out the name that the model with a head puts before it.
    prefix = f"{model.base_model_prefix}."
    names_of: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names_of.setdefault(id(parameter), []).append(name if name in entries else name.removeprefix(prefix))
    ties: dict[str, str] = {}
    for several in names_of.values():
        source = next((name for name in several if name in entries), None)
        if source is not None:
            ties |= {name: source for name in several if name != source}
    return ties
