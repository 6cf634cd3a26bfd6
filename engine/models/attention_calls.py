"""What attention modules are called with while a model reads: kept, of a long sentence beside memory.

Only the call of the layer that is looked at is ever wanted again, and those of all layers would take as much memory as
a third of a layer's maps. So the states of a long sentence go into a file that has no name, and are read back from
there. The file is gone with the sentence or with the program, however that ends, and nobody else can open it.
"""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.values.heads import Head
from engine.values.progress import ProgressReporter

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call."""

STATES_NDIM = 3
"""Dimensions of states (sentences, tokens, width). What has more is a mask, which all layers share in memory."""

LARGE = 2**20
"""Bytes from which states are written beside memory."""

LEFT_FREE = 2**30
"""Bytes of a disk that are left to others."""


@dataclass(frozen=True)
class _Written:
    """Where a tensor is in a file, and what it is."""

    place: int
    shape: torch.Size
    dtype: torch.dtype
    nbytes: int


class AttentionCalls:
    """The arguments of every attention module's call, by layer.

    Parameters
    ----------
    folder : where large states are written, as long as something can be; None keeps all in memory.

    Attributes
    ----------
    by_layer : the arguments, or where they are written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.by_layer: dict[Head, Call] = {}
        self._folder = folder
        self._file: Any = None

    def keep(self, layer: Head, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the arguments of a layer's call."""
        self.by_layer[layer] = _changed((args, kwargs), self._write)

    def of(self, layer: Head) -> Call:
        """Give the arguments of a layer's call.

        Raises
        ------
        OSError : when they cannot be read back.
        """
        return _changed(self.by_layer[layer], self._read)

    def _write(self, value: Any) -> Any:
        """Write what are large states; they are kept themselves where the disk is full or cannot be written to."""
        if self._folder is None or not _is_large_state(value):
            return value
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # until nobody wants it
                weakref.finalize(self, self._file.close)
            if shutil.disk_usage(self._folder).free < LEFT_FREE + value.nbytes:
                raise OSError("the disk is nearly full")
            place = self._file.seek(0, os.SEEK_END)
            value.detach().view(-1).view(torch.uint8).numpy().tofile(self._file)
        except OSError:
            self._folder = None
            return value
        return _Written(place, value.shape, value.dtype, value.nbytes)

    def _read(self, value: Any) -> Any:
        """Read back what was written."""
        if not isinstance(value, _Written):
            return value
        self._file.seek(value.place)
        numbers = np.fromfile(self._file, np.uint8, value.nbytes)
        if len(numbers) < value.nbytes:
            raise OSError("the file has become shorter")
        return torch.from_numpy(numbers).view(value.dtype).view(value.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, in memory and on disk, each memory once."""
        sizes: dict[Any, int] = {}
        for value in tree_leaves(list(self.by_layer.values())):
            if isinstance(value, Tensor):
                sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            elif isinstance(value, _Written):
                sizes[value] = value.nbytes
        return sum(sizes.values())


def _changed(call: Call, change: Callable[[Any], Any]) -> Call:
    """Change the arguments of a call; what is the same object twice among them stays so."""
    args, kwargs = call
    changed: dict[int, Any] = {}
    for value in (*args, *kwargs.values()):
        if id(value) not in changed:
            changed[id(value)] = change(value)
    return tuple([changed[id(value)] for value in args]), {name: changed[id(kwargs[name])] for name in kwargs}


def _is_large_state(value: Any) -> bool:
    """Say whether something is a tensor in main memory of which every layer has its own."""
    return (
        type(value) is Tensor
        and value.ndim == STATES_NDIM
        and value.nbytes >= LARGE
        and value.device.type == "cpu"
        and value.is_contiguous()
    )


class _AllCalled(Exception):
    """Every attention module has been called: what the model does from there on, nobody looks at."""


@contextmanager
def keeping_calls(
    modules: Mapping[Head, nn.Module], calls: AttentionCalls, check: Callable[[], None], report: ProgressReporter
) -> Iterator[None]:
    """Keep the arguments of every attention module's call while the model runs, and end the run at the last of them.

    What follows is the last layer's mixing and, in a model that has one, the logits of all tokens, which are by far the
    largest of all that a sentence makes.

    Parameters
    ----------
    modules : the attention modules by layer; layers may share one, which is called for one after the other.
    calls : where they are kept, by layer.
    check : called before every module; it may raise to give up.
    report : told before every module how many have been called, of all.
    """
    waiting: dict[nn.Module, list[Head]] = {}
    for name, module in modules.items():
        waiting.setdefault(module, []).append(name)

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        report(len(calls.by_layer), len(modules))
        check()
        if waiting[module]:
            calls.keep(waiting[module].pop(0), args, kwargs)
        if len(calls.by_layer) == len(modules):
            raise _AllCalled

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in waiting]
    try:
        yield
    except _AllCalled as end:
        # In some versions of Python the frame that throws it in here holds it, and it, by its traceback, that frame:
        # with them the states of the last block would stay until the collector comes.
        end.__traceback__ = None
    finally:
        for hook in hooks:
            hook.remove()
        report.end()


def arguments_for_weights(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Change a module's arguments: without a cache, which holds this very sentence, and for its weights."""
    signature = inspect.signature(module.forward)
    call = signature.bind(*args, **kwargs)
    for name, value in call.arguments.items():
        if isinstance(value, transformers.Cache):
            call.arguments[name] = None
    if "output_attentions" in signature.parameters:
        call.arguments["output_attentions"] = True
    return call
