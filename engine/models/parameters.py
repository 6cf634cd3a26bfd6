"""Every parameter of a checkpoint, with the tensors that the model ties together shown as tied."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.models.checkpoint import TensorEntry
from engine.models.configuration import read_config
from engine.values.model import Parameter

if TYPE_CHECKING:
    from torch import nn


def list_parameters(directory: Path, entries: Mapping[str, TensorEntry]) -> tuple[Parameter, ...]:
    """List a checkpoint's tensors as stored, then the names that the model ties to one of them.

    A tied name (``lm_head.weight``) has no tensor of its own in the files; its row names the one it shares.
    """
    stored = [Parameter(name, entry.shape, entry.dtype) for name, entry in entries.items()]
    ties = _ties(directory, entries)
    result = [
        Parameter(each.name, each.shape, each.dtype, ties[each.name]) if ties.get(each.name) in entries else each
        for each in stored
    ]
    for name, source in ties.items():
        if name not in entries and source in entries:
            result.append(Parameter(name, entries[source].shape, entries[source].dtype, source))
    return tuple(sorted(result, key=lambda each: _reading_order(each.name)))


def module_parameters(module: nn.Module) -> tuple[Parameter, ...]:
    """List the parameters of a module in memory; one that it has under two names is tied to its first."""
    first: dict[int, str] = {}
    result = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        source = first.setdefault(id(parameter), name)
        dtype = str(parameter.dtype).removeprefix("torch.")
        result.append(Parameter(name, tuple(parameter.shape), dtype, "" if source == name else source))
    return tuple(sorted(result, key=lambda each: _reading_order(each.name)))


def _reading_order(name: str) -> list[tuple[int, str]]:
    """Order dotted names with their numbers by value: layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def _ties(directory: Path, entries: Mapping[str, TensorEntry]) -> dict[str, str]:
    """Ask the model's own class which names share one tensor; building it on the meta device allocates nothing."""
    import torch
    import transformers

    from engine.models.tokens import silence

    silence()
    names = read_config(directory).get("architectures") or [""]
    model_class: Any = getattr(transformers, str(names[0]), None)
    if model_class is None:
        return {}
    try:
        config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True)
        with torch.device("meta"):
            model = model_class(config)
            model.tie_weights()
    except Exception:  # a class that cannot be built says nothing about ties, and the table is right without
        return {}
    # A checkpoint saved from the base model leaves out the name that the model with a head puts before it.
    prefix = f"{model.base_model_prefix}."
    first: dict[int, str] = {}
    ties: dict[str, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        stored = name if name in entries else name.removeprefix(prefix)
        source = first.setdefault(id(parameter), stored)
        if source != stored:
            ties[stored] = source
    return ties
