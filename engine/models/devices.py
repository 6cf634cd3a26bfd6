"""Choosing the device, and reading weights that accelerate has spread over several devices.

accelerate wraps each module's ``forward`` in a model that is spread: its hook loads the weights from main memory or
disk, runs the module and unloads them. In between a parameter has a shape alone, on PyTorch's meta device. Code that
reads parameters outside a module's ``forward`` loads them with the functions of this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.values import memory
from engine.values.errors import EngineError
from engine.values.memory import FreeMemory

NO_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "STATUS_NOT_INITIALIZED")
"""Parts of PyTorch's messages for a lack of memory that has no error class of its own: in main memory, or on a GPU for
its context and its libraries' handles."""


def lacks_memory(error: RuntimeError) -> bool:
    """Say whether an error is due to a lack of memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in NO_MEMORY)


class CheckedLookups(TorchFunctionMode):
    """Raises ``IndexError`` when a row is looked up that an embedding lacks, as PyTorch does on the CPU.

    On a GPU the kernel fails an assertion, after which the process cannot use the GPU any more.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
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
"""Kinds of devices without float64: Apple's GPUs."""


def spectra_device(device: str) -> str:
    """Give the device for float64 linear algebra."""
    return "cpu" if device.partition(":")[0] in WITHOUT_FLOAT64 else device


def widest_dtype(device: torch.device) -> torch.dtype:
    """Give the widest floating-point dtype that a device has."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def widen(x: Tensor) -> Tensor:
    """Convert to the widest dtype that the tensor's device has."""
    return x.to(widest_dtype(x.device))


def free_of_gpus(device: str, alone: bool = False) -> list[FreeMemory]:
    """Give the free memory of every CUDA GPU, the chosen one first or alone; nothing without a GPU.

    Asking a GPU takes some of its memory until the program ends.
    """
    if not torch.cuda.is_available():
        return []
    first = int(device.partition(":")[2] or torch.cuda.current_device())
    others = () if alone else (number for number in range(torch.cuda.device_count()) if number != first)
    numbers = [first, *others]
    names = {number: f"cuda:{number}" for number in numbers} | {first: device}
    free = dict.fromkeys(numbers, 0)
    for number in numbers:
        with suppress(RuntimeError):  # too little memory to ask, or another process has the GPU to itself
            free[number] = torch.cuda.mem_get_info(number)[0]
    return [FreeMemory(names[number], free[number]) for number in numbers]


def free_memories() -> tuple[FreeMemory, ...]:
    """Give the free memory of the machine and of each CUDA GPU."""
    return FreeMemory("cpu", memory.free_memory()), *free_of_gpus("cuda:0")


def describe_devices() -> str:
    """Name the devices that torch sees."""
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return ", ".join(["cpu", *names])


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    hook = getattr(module, "_hf_hook", None)
    return () if hook is None else tuple(getattr(hook, "hooks", (hook,)))


def _offload_hook(module: nn.Module) -> Any:
    """Give the hook that loads a module's own weights; None where they stay loaded."""
    return next((hook for hook in _hooks(module) if getattr(hook, "offload", False)), None)


def is_spread(model: nn.Module) -> bool:
    """Say whether accelerate has spread a model over devices."""
    return any(_hooks(module) for module in model.modules())


def computing_device(module: nn.Module) -> torch.device:
    """Give the device on which a module with a weight computes, wherever the weight is kept."""
    wanted = [device for hook in _hooks(module) if (device := getattr(hook, "execution_device", None)) is not None]
    weight: Any = module.weight
    device = wanted[0] if wanted else weight.device
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def weight_of(module: nn.Module, name: str = "weight") -> Tensor:
    """Give one of a module's own parameters, read from where it is kept."""
    here: Any = getattr(module, name)
    there: Tensor = _offload_hook(module).weights_map[name] if here.is_meta else here
    return there.detach()


@contextmanager
def weights_loaded(*modules: nn.Module) -> Iterator[None]:
    """Load the weights of modules and of all their parts, and keep them loaded."""
    with ExitStack() as stack:
        for part in dict.fromkeys(part for module in modules for part in module.modules()):
            hook = _offload_hook(part)
            if hook is not None:
                hook.pre_forward(part)
                hook.offload = False  # it still moves the inputs, and unloads nothing
                stack.callback(_unload, hook, part)
        yield


def _unload(hook: Any, part: nn.Module) -> None:
    hook.offload = True
    hook.post_forward(part, None)


def place_on_device(model: nn.Module, module: nn.Module, device: torch.device) -> None:
    """Make a module outside a spread model compute on a device.

    It gets copies of the parameters that it shares with offloaded weights, which are the same objects.
    """
    hooks: Any = importlib.import_module("accelerate.hooks")
    owners = {
        id(parameter): (owner, name)
        for owner in model.modules() if _offload_hook(owner) is not None
        for name, parameter in owner.named_parameters(recurse=False)
    }  # fmt: skip
    for name, parameter in list(module.named_parameters(recurse=False)):
        if id(parameter) in owners:
            copied = weight_of(*owners[id(parameter)]).to(device)
            setattr(module, name, nn.Parameter(copied, requires_grad=False))
    hooks.add_hook_to_module(module, hooks.AlignDevicesHook(device))
