"""A GPU that is not there: tensors that say they are on one, real numbers, and the errors of a real one.

While a `PretendedGpu` is entered, what is put on `DEVICE` computes on the CPU, and whatever a real one would refuse is
refused: tensors of two devices in one operation, a generator of the CPU for a tensor of the GPU, an index on the GPU
into a tensor in main memory, and NumPy's view of a tensor that is not in main memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "lazy"
"""A device that torch can name without being built for it, where ``cuda`` cannot be."""

aten = torch.ops.aten
MAY_CROSS = (aten._to_copy.default, aten.copy_.default)
"""What moves numbers from one device to another."""

INDEXED = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)
"""What may take places in main memory of a tensor that is on a GPU."""


class OnGpu(Tensor):
    """A tensor that says it is on the GPU."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, real: Tensor) -> OnGpu:
        made: OnGpu = torch.Tensor._make_wrapper_subclass(
            cls, real.shape, strides=real.stride(), storage_offset=real.storage_offset(), dtype=real.dtype,
            device=torch.device(DEVICE),
        )  # fmt: skip
        made.numbers = real
        return made

    def data_ptr(self) -> int:
        return self.numbers.data_ptr()

    def tolist(self) -> Any:
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Refuse: the GPU is not entered."""
        raise AssertionError(f"{func} of a tensor on the GPU where there is none")


class PretendedGpu(TorchDispatchMode):
    """Stands in for a GPU on the thread that enters it.

    Parameters
    ----------
    has_float64 : whether it has this type.

    Attributes
    ----------
    operations : how many operations there were on it.
    """

    def __init__(self, has_float64: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        self.operations = 0
        self._has_float64 = has_float64

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do without torch's compiler, whose import takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do an operation on the CPU, and put its result where CUDA would."""
        kwargs = dict(kwargs or {})
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        on_gpu = any(isinstance(each, OnGpu) for each in given)
        self._check(func, args, kwargs, given)
        if on_gpu and func not in MAY_CROSS:
            self.operations += 1
        device = kwargs.get("device")
        to_gpu = on_gpu if device is None else torch.device(device).type == DEVICE
        if func is aten.copy_.default:
            to_gpu = isinstance(args[0], OnGpu)
        if device is not None:
            kwargs["device"] = torch.device("cpu")
        generator = kwargs.get("generator")
        assert generator is None or not to_gpu, "a generator of the CPU draws for a tensor on the GPU"
        with _disable_current_modes():
            real_args, real_kwargs = tree_map(_real, (args, kwargs))
            result = func(*real_args, **real_kwargs)
        by_real = {id(each.numbers): each for each in given if isinstance(each, OnGpu)}

        def put(each: Any) -> Any:
            if not isinstance(each, Tensor) or not to_gpu:
                return each
            if each.dtype == torch.float64 and not self._has_float64:
                raise TypeError(f"{func} makes float64 on a device that has none")
            known = by_real.get(id(each))  # what is changed in place stays the same tensor
            return OnGpu(each) if known is None else known

        return tree_map(put, result)

    @staticmethod
    def _check(func: Any, args: Any, kwargs: Any, given: list[Tensor]) -> None:
        """Refuse tensors of two devices, but for a single number in main memory beside others on the GPU."""
        if func in MAY_CROSS:
            return
        if func in INDEXED:
            places = [each for each in tree_leaves(args[1]) if isinstance(each, Tensor)]
            assert isinstance(args[0], OnGpu) or not any(isinstance(each, OnGpu) for each in places), (
                "an index on the GPU"
            )
            given = [each for each in given if not any(each is place for place in places)]
        devices = {each.device.type for each in given if isinstance(each, OnGpu) or each.ndim}
        if len(devices) > 1:
            raise RuntimeError(f"expected all tensors to be on the same device, {func} found {' and '.join(devices)}")


def _real(each: Any) -> Any:
    return each.numbers if isinstance(each, OnGpu) else each
