"""A model of which some blocks are in main memory and the others on the pretended GPU, with accelerate's hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from tests.pretended_gpu import DEVICE, PretendedGpu


def lay_out(model: nn.Module, gpu_first: bool) -> None:
    """Put the first block, and all beside the blocks, on one device and the other blocks on the other one."""
    hooks: Any = pytest.importorskip("accelerate.hooks")
    big: Any = pytest.importorskip("accelerate.big_modeling")
    first, others = (DEVICE, "cpu") if gpu_first else ("cpu", DEVICE)
    numbers = {path: path.rpartition(".")[2] for path, _ in model.named_modules()}
    places = {
        path: first if number == "0" else others
        for path, number in numbers.items() if number.isdigit() and path.count(".") <= 2
    }  # fmt: skip
    for path in filter(None, numbers):
        if not any(f"{each}.".startswith(f"{path}.") or path.startswith(f"{each}.") for each in places):
            places[path] = first
    with PretendedGpu():
        for path, module in model.named_modules():
            if any(device == DEVICE and f"{path}.".startswith(f"{each}.") for each, device in places.items()):
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        there = nn.Parameter(parameter.detach().to(DEVICE), requires_grad=False)
                        module._parameters[name] = there
                for name, buffer in module._buffers.items():
                    module._buffers[name] = None if buffer is None else buffer.to(DEVICE)
        big.attach_align_device_hook_on_blocks(model, places, offload=dict.fromkeys(places, False))
        hooks.add_hook_to_module(model, hooks.AlignDevicesHook(io_same_device=True), append=True)


@contextmanager
def computing(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedGpu]:
    """Let a model compute on both; what torch does below the level at which the GPU is pretended is done above it."""
    make = torch.tensor

    def tensor(data: Any, device: Any = None, **options: Any) -> torch.Tensor:
        made = make(data, **options)
        return made if device is None else made.to(device)

    with monkeypatch.context() as changed, PretendedGpu() as gpu:
        changed.setattr(torch, "tensor", tensor)
        changed.setattr(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else torch.enable_grad())
        yield gpu
