"""Which device the work runs on, and where weights are that are spread over several.

accelerate wraps each module's ``forward`` in a model that is spread: its hook brings the weights from main memory or
disk, runs the module and lets them go again, so that in between a parameter is a shape alone (on PyTorch's meta
device). Whoever looks at parameters beside the module's own computing has them brought here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.values import memory
from engine.values.errors import EngineError
from engine.values.memory import FreeMemory

NO_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "STATUS_NOT_INITIALIZED")
"""In what PyTorch says when memory is short: main memory, a GPU's for its context, and for handles of its libraries,
of which only tensors have an error of their own."""


def lacks_memory(error: RuntimeError) -> bool:
    """Say whether something failed for want of memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in NO_MEMORY)


class CheckedLookups(TorchFunctionMode):
    """Raises ``IndexError`` where a row is looked up that an embedding lacks, as PyTorch does on the CPU.

    On a GPU its kernel fails an assertion, after which nothing computes there until the process ends.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at the places before they are looked up."""
        if func is nn.functional.embedding and len(args) > 1:
            places, rows = args[0], len(args[1])
            if places.device.type not in ("cpu", "meta") and places.numel():
                first, last = map(int, places.aminmax())
                if first < 0 or last >= rows:
                    raise IndexError(f"row {min(first, 0) or last} of an embedding of {rows} rows")
        return func(*args, **(kwargs or {}))


def choose_device(wish: str) -> str:
    """Turn ``auto`` into the best device there is, and check any other wish.

    Raises `EngineError` when this machine has no such device.
    """
    if wish == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wish.partition(":")
    if kind == "cuda" and not (torch.cuda.is_available() and int(number or 0) < torch.cuda.device_count()):
        raise EngineError(f"there is no device {wish}: torch sees {torch.cuda.device_count()} GPUs; try --device cpu")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise EngineError("there is no device mps on this machine; try --device cpu")
    return wish


WITHOUT_FLOAT64 = frozenset({"mps"})
"""Kinds of devices that compute in no wider type than float32: Apple's GPUs."""


def spectra_device(device: str) -> str:
    """Say where float64 linear algebra runs."""
    return "cpu" if device.partition(":")[0] in WITHOUT_FLOAT64 else device


def widest_dtype(device: torch.device) -> torch.dtype:
    """Give the widest type in which a device computes."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def widen(x: Tensor) -> Tensor:
    """Take numbers in the widest type that their device has."""
    return x.to(widest_dtype(x.device))


def free_of_gpus(device: str, alone: bool = False) -> list[FreeMemory]:
    """Ask every GPU of CUDA what is free, the chosen one first or alone; none where there is no GPU.

    To be asked takes some of a GPU's memory, for as long as the program runs; where there is not even that, or others
    have the GPU to themselves, none is free.
    """
    if not torch.cuda.is_available():
        return []
    first = int(device.partition(":")[2] or torch.cuda.current_device())
    others = () if alone else (number for number in range(torch.cuda.device_count()) if number != first)
    numbers = [first, *others]
    names = {number: f"cuda:{number}" for number in numbers} | {first: device}
    return [FreeMemory(names[number], _free_of(number)) for number in numbers]


def free_memories() -> tuple[FreeMemory, ...]:
    """Say what is free in main memory and on each GPU of CUDA."""
    return FreeMemory("cpu", memory.free_memory()), *free_of_gpus("cuda:0")


def _free_of(number: int) -> int:
    """Ask one GPU how many bytes are free."""
    try:
        return torch.cuda.mem_get_info(number)[0]
    except RuntimeError:
        return 0


def describe_devices() -> str:
    """Name the devices that torch sees."""
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return ", ".join(["cpu", *names])


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    hook = getattr(module, "_hf_hook", None)
    return () if hook is None else tuple(getattr(hook, "hooks", (hook,)))


def _bringing(module: nn.Module) -> Any:
    """Give the hook that brings a module's own weights; None where they do not wait."""
    return next((hook for hook in _hooks(module) if getattr(hook, "offload", False)), None)


def is_spread(model: nn.Module) -> bool:
    """Say whether accelerate has laid a model out."""
    return any(_hooks(module) for module in model.modules())


def computing_device(module: nn.Module) -> torch.device:
    """Say where a module with a weight computes, wherever the weight waits."""
    wanted = [device for hook in _hooks(module) if (device := getattr(hook, "execution_device", None)) is not None]
    weight: Any = module.weight
    device = wanted[0] if wanted else weight.device
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def weight_of(module: nn.Module, name: str = "weight") -> Tensor:
    """Give one of a module's own parameters, read from where it waits if it does."""
    here: Any = getattr(module, name)
    there: Tensor = _bringing(module).weights_map[name] if here.is_meta else here
    return there.detach()


@contextmanager
def weights_loaded(*modules: nn.Module) -> Iterator[None]:
    """Bring the weights of modules and of all their parts, and keep them for a while, whoever computes with them."""
    with ExitStack() as stack:
        for part in dict.fromkeys(part for module in modules for part in module.modules()):
            hook = _bringing(part)
            if hook is not None:
                hook.pre_forward(part)
                hook.offload = False  # it brings what the part is called with, and lets nothing go
                stack.callback(_let_go, hook, part)
        yield


def _let_go(hook: Any, part: nn.Module) -> None:
    hook.offload = True
    hook.post_forward(part, None)


def place_on_device(model: nn.Module, module: nn.Module, device: torch.device) -> None:
    """Have a module beside a model that accelerate has laid out compute on a device.

    Of the parameters that it shares with weights that wait, it gets copies; those that are tied are the same objects.
    """
    hooks: Any = importlib.import_module("accelerate.hooks")
    owners = {
        id(parameter): (owner, name)
        for owner in model.modules() if _bringing(owner) is not None
        for name, parameter in owner.named_parameters(recurse=False)
    }  # fmt: skip
    for name, parameter in list(module.named_parameters(recurse=False)):
        if id(parameter) in owners:
            copied = weight_of(*owners[id(parameter)]).to(device)
            setattr(module, name, nn.Parameter(copied, requires_grad=False))
    hooks.add_hook_to_module(module, hooks.AlignDevicesHook(device))
