"""On which devices there is room for a model."""

from __future__ import annotations

import importlib.util

from engine.checkpoints.memory import free_memory
from engine.values.memory import FreeMemory, Placement, SentenceNeed, place_sentence


def free_memories() -> tuple[FreeMemory, ...]:
    """Say what is free in main memory and on each GPU of CUDA; it needs torch."""
    from engine.models.devices import free_of_gpus

    return FreeMemory("cpu", free_memory()), *free_of_gpus("cuda:0")


def place(model: str, need: SentenceNeed, wish: str) -> Placement:
    """Decide where a model reads sentences, by what is free now; unless that is to be the CPU it needs torch.

    Raises
    ------
    EngineError : when there is no such device as the person wishes.
    """
    cpu = FreeMemory("cpu", free_memory())
    chosen = cpu
    others: list[FreeMemory] = []
    if wish != "cpu":
        from engine.models.devices import choose_device, free_of_gpus

        device = choose_device(wish)
        if device.startswith("cuda"):
            chosen, *others = free_of_gpus(device, alone=wish not in ("auto", "cuda"))
        elif device != "cpu":
            chosen = FreeMemory(device, cpu.free)  # such a GPU shares the main memory
    return place_sentence(
        model, need, chosen, others, cpu,
        may_spread=wish in ("auto", "cuda"), has_accelerate=importlib.util.find_spec("accelerate") is not None,
    )  # fmt: skip
