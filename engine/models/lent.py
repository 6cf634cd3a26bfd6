"""Using a model that belongs to somebody else, and giving it back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def not_learning(module: nn.Module) -> Iterator[None]:
    """Put a module into the state in which it computes and not learns, and every part of it back afterwards."""
    states = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, state in states.items():
            part.training = state


@contextmanager
def lent(model: Any) -> Iterator[None]:
    """Have a model of transformers attend in its eager way and not learn, and give it back as it was."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    chosen = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    try:
        with not_learning(model):
            for part in model.modules():  # of several towers each has a choice of its own
                if getattr(getattr(part, "config", None), "_attn_implementation", "eager") not in (None, "eager"):
                    setter = getattr(part, "set_attn_implementation", None)
                    if setter is not None:
                        setter("eager")
            yield
    finally:
        for key, config in configs.items():
            if chosen[key] is not None:
                config._attn_implementation = chosen[key]
