"""The calls of attention modules while a model runs: kept, and changed so that a second one returns the weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import transformers
from torch import nn

from engine.models.maps import Pausing
from engine.values.heads import Head

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call."""


class _AllKept(Exception):
    """Every attention module has been called: what the model does from there on, nobody looks at."""


@contextmanager
def keeping_calls(modules: Mapping[Head, nn.Module], calls: dict[Head, Call], pausing: Pausing) -> Iterator[None]:
    """Keep the arguments of every attention module's call while the model runs, and end the run at the last of them.

    What follows is the last layer's mixing and, in a model that has one, the logits of all tokens, which are by far the
    largest of all that a sentence makes.

    Parameters
    ----------
    modules : the attention modules by layer; layers may share one.
    calls : where they are kept, by layer.
    pausing : called before every module; while it is, the model reads another sentence, of which nothing is kept.
    """

    def keeper(names: list[Head]) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        waiting = iter(names)  # a module that layers share is called for one after the other

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if pausing.is_paused:
                return  # another sentence, which is wanted sooner
            pausing()
            name = next(waiting, None)
            if name is not None:
                calls[name] = (args, kwargs)
            if len(calls) == len(modules):
                raise _AllKept

        return keep

    sharing: dict[nn.Module, list[Head]] = {}
    for name, module in modules.items():
        sharing.setdefault(module, []).append(name)
    hooks = [module.register_forward_pre_hook(keeper(names), with_kwargs=True) for module, names in sharing.items()]
    try:
        yield
    except _AllKept:
        pass
    finally:
        for hook in hooks:
            hook.remove()


def for_weights(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Change a module's arguments: without a cache, which holds this very sentence, and for its weights."""
    signature = inspect.signature(module.forward)
    call = signature.bind(*args, **kwargs)
    for name, value in call.arguments.items():
        if isinstance(value, transformers.Cache):
            call.arguments[name] = None
    if "output_attentions" in signature.parameters:
        call.arguments["output_attentions"] = True
    return call
