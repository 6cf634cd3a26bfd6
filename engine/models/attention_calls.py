"""What attention modules are called with while a model reads: kept, of a long sentence beside memory.

Only the call of the layer that is looked at is ever wanted again, and those of all layers would take as much memory as
a third of a layer's maps. So the states of a long sentence go into a file that has no name, and are read back from
there. The file is gone with the sentence or with the program, however that ends, and nobody else can open it.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from engine.values.errors import EngineError
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

    @property
    def nbytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


class _NamelessFile:
    """A file without a name, made when something is to be written; where nothing can be, nothing more is tried."""

    def __init__(self, folder: Path) -> None:
        self._folder: Path | None = folder
        self._file: Any = None
        self._end = 0

    def write(self, numbers: Tensor) -> _Written | None:
        """Write a tensor; None where the disk is full or cannot be written to."""
        if self._folder is None:
            return None
        try:
            self._append(memoryview(_as_bytes(numbers)))
        except OSError:
            self._folder = None
            return None
        written = _Written(self._end, numbers.shape, numbers.dtype)
        self._end += written.nbytes
        return written

    def _append(self, rest: memoryview) -> None:
        assert self._folder is not None  # something is written to it
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # until nobody wants it
            weakref.finalize(self, self._file.close)
        if shutil.disk_usage(self._folder).free < LEFT_FREE + len(rest):
            raise OSError("the disk is nearly full")
        self._file.seek(self._end)
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self, written: _Written) -> Tensor:
        """Read a tensor back.

        Raises
        ------
        OSError : when it cannot be read.
        """
        numbers = torch.empty(written.shape, dtype=written.dtype)
        rest = memoryview(_as_bytes(numbers))
        self._file.seek(written.place)
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError("the file has become shorter")
            rest = rest[count:]
        return numbers


def _as_bytes(numbers: Tensor) -> Any:
    return numbers.detach().view(-1).view(torch.uint8).numpy()


class AttentionCalls(Mapping[Head, Call]):
    """The arguments of every attention module's call, by layer.

    Parameters
    ----------
    folder : where large states are written; None keeps all in memory.

    Attributes
    ----------
    is_lost : whether something cannot be read back, so that the sentence has to be read again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._calls: dict[Head, Call] = {}
        self._file = None if folder is None else _NamelessFile(folder)
        self.is_lost = False

    def keep(self, layer: Head, call: Call) -> None:
        """Keep the arguments of a layer's call."""
        aside: dict[int, _Written | Tensor] = {}

        def put_aside(value: Any) -> Any:
            if self._file is None or not _is_large_state(value):
                return value
            if id(value) not in aside:
                aside[id(value)] = self._file.write(value) or value
            return aside[id(value)]

        self._calls[layer] = _changed(call, put_aside)

    def __getitem__(self, layer: Head) -> Call:
        """Give the arguments of a layer's call; what is the same object twice among them stays so.

        Raises
        ------
        EngineError : when they cannot be read back.
        """
        found: dict[int, Tensor] = {}

        def read(value: Any) -> Any:
            if not isinstance(value, _Written):
                return value
            assert self._file is not None
            if value.place not in found:
                found[value.place] = self._file.read(value)
            return found[value.place]

        try:
            call: Call = _changed(self._calls[layer], read)
        except OSError as error:
            self.is_lost = True
            reason = error.strerror or error
            raise EngineError(
                f"what was kept of this sentence on disk cannot be read back ({reason}); look again and it is read anew"
            ) from error
        return call

    def __iter__(self) -> Iterator[Head]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, in memory and on disk, each memory once."""
        sizes: dict[Any, int] = {}

        def count(value: Any) -> None:
            if isinstance(value, Tensor):
                sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            elif isinstance(value, _Written):
                sizes["aside", value.place] = value.nbytes

        _changed(list(self._calls.values()), count)
        return sum(sizes.values())


def _is_large_state(value: Any) -> bool:
    """Say whether something is a tensor in main memory of which every layer has its own."""
    return (
        type(value) is Tensor
        and value.ndim == STATES_NDIM
        and value.nbytes >= LARGE
        and value.device.type == "cpu"
        and value.is_contiguous()
    )


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change what is in nested tuples, lists and dictionaries."""
    if type(value) in (tuple, list):
        return type(value)(_changed(each, change) for each in value)
    if type(value) is dict:
        return {name: _changed(each, change) for name, each in value.items()}
    return change(value)


class _AllKept(Exception):
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
    modules : the attention modules by layer; layers may share one.
    calls : where they are kept, by layer.
    check : called before every module; it may raise to give up.
    report : told before every module how many have been called, of all.
    """

    def keeper(names: list[Head]) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        waiting = iter(names)  # a module that layers share is called for one after the other

        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            report(len(calls), len(modules))
            check()
            name = next(waiting, None)
            if name is not None:
                calls.keep(name, (args, kwargs))
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
