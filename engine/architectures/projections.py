"""Which modules keep attention projections, found by the rules among nothing but names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from engine.architectures.rules import ENDINGS, RULES, Rule


def sibling(module: str, name: str) -> str:
    """Join a module's dotted name and a name relative to it.

    Examples
    --------
    >>> sibling("layer.0.attention.self", "../output.dense")
    'layer.0.attention.output.dense'
    """
    while name.startswith("../"):
        module, name = module.rpartition(".")[0], name[3:]
    return f"{module}.{name}" if module else name


def tensor_of(tensors: Container[str], module: str, name: str) -> str | None:
    """Find the tensor of a projection beside a module, which may be that of a module inside it."""
    path = sibling(module, name)
    return next((path + ending for ending in ENDINGS if path + ending in tensors), None)


def attention_modules(
    tensors: Iterable[str], model_type: str = "", config: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Rule]]:
    """Find every attention module's dotted name and the first rule that fits all of its projections.

    Parameters
    ----------
    tensors : names of a checkpoint's tensors, or of a loaded model's parameters.
    model_type, config : where given, rules that are for other types or settings are passed over.
    """
    names = frozenset(tensors)
    owners = _owners(names, ENDINGS)
    found: set[str] = set()
    for rule in RULES:
        if config is not None and not rule.suits(model_type, config):
            continue
        for module in owners.get(rule.query, ()):
            if module not in found and all(tensor_of(names, module, each) for each in rule.needed):
                found.add(module)
                yield module, rule


def unfitting_modules(
    tensors: Iterable[str], found: Container[str], model_type: str, config: Mapping[str, Any]
) -> Iterator[str]:
    """Find modules that have something called like a query, and neither fit a rule nor are a part of one that does.

    Parameters
    ----------
    tensors : names of a checkpoint's tensors.
    found : the modules that fit.
    model_type, config : rules that are for other types or settings are passed over.
    """
    owners = _owners(frozenset(tensors), [ending for ending in ENDINGS if ending])
    for leaf in dict.fromkeys(rule.query for rule in RULES if rule.suits(model_type, config)):
        for module in owners.get(leaf, ()):
            parts = module.split(".")
            if not any(".".join(parts[: end + 1]) in found for end in range(len(parts))):
                yield module


def _owners(names: Iterable[str], endings: Iterable[str]) -> dict[str, dict[str, None]]:
    """List the modules, in order, that own each name of a projection."""
    owners: dict[str, dict[str, None]] = {}
    for name in sorted(names):
        for ending in endings:
            if name.endswith(ending):
                owner, _, leaf = name.removesuffix(ending).rpartition(".")
                owners.setdefault(leaf, {})[owner] = None
    return owners
