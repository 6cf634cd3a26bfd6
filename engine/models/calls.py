"""The calls of attention modules while a model runs: kept, and changed so that a second one returns the weights."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from engine.models.kept_calls import Call, KeptCalls
from engine.models.maps import Pausing
from engine.models.telling import Telling
from engine.models.waiting import is_spread
from engine.values.heads import Head

REMEMBERED = 4
"""Calls of attention modules that a mask is looked for in: a block of a decoder makes two of them, with two masks."""


class _AllKept(Exception):
    """Every attention module has been called: what the model does from there on, nobody looks at."""


@contextmanager
def keeping_calls(
    modules: Mapping[Head, nn.Module], calls: KeptCalls, pausing: Pausing, telling: Telling
) -> Iterator[None]:
    """Keep the arguments of every attention module's call while the model runs, and end the run at the last of them.

    What follows is the last layer's mixing and, in a model that has one, the logits of all tokens, which are by far the
    largest of all that a sentence makes.

    Parameters
    ----------
    modules : the attention modules by layer; layers may share one.
    calls : where they are kept, by layer.
    pausing : called before every module; while it is, the model reads another sentence, of which nothing is kept.
    telling : told before every module how many have been called, of all.
    """
    shared = _Shared()

    def keeper(names: list[Head]) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        waiting = iter(names)  # a module that layers share is called for one after the other

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if pausing.is_paused:
                return  # another sentence, which is wanted sooner
            telling(len(calls), len(modules))
            pausing()
            name = next(waiting, None)
            if name is not None:
                calls.keep(name, shared(args, kwargs) if is_spread(module) else (args, kwargs))
            if len(calls) == len(modules):
                raise _AllKept

        return keep

    sharing: dict[nn.Module, list[Head]] = {}
    for name, module in modules.items():
        sharing.setdefault(module, []).append(name)
    hooks = [module.register_forward_pre_hook(keeper(names), with_kwargs=True) for module, names in sharing.items()]
    try:
        yield
    except _AllKept as end:
        # In some versions of Python the frame that throws it in here holds it, and it, by its traceback, that frame:
        # with them the states of the last block would stay until the collector comes.
        end.__traceback__ = None
    finally:
        for hook in hooks:
            hook.remove()
        telling.end()


class _Shared:
    """Lets layers of a model that is spread over devices keep one mask and one set of rotations for each device.

    Such a model hands every block on another device than the first a copy of its own. A mask is as large as a head's
    map, so that the copies of all layers would be more than everything else that is kept.
    """

    def __init__(self) -> None:
        self._seen: deque[list[Tensor]] = deque(maxlen=REMEMBERED)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Give a call with what one of the last calls had in the place of what is equal to it."""
        own: list[Tensor] = []

        def known(value: Any) -> Any:
            if type(value) in (tuple, list):
                return type(value)(map(known, value))
            if not isinstance(value, Tensor):
                return value
            for each in (each for call in self._seen for each in call):
                is_alike = each.device == value.device and each.shape == value.shape and each.dtype == value.dtype
                if is_alike and (each is value or torch.equal(each, value)):
                    value = each
                    break
            own.append(value)
            return value

        found = tuple(map(known, args)), {name: known(value) for name, value in kwargs.items()}
        self._seen.append(own)
        return found


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
