"""Spectra agree with those of dense matrices on every device, and when a device fails."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.analysis import decompositions
from engine.analysis.decompositions import Decomposer
from engine.values.progress import finish
from tests.engine.mathematics.dense_spectra import (
    FACTORS,
    assert_same,
    dense_heads,
    dense_layer,
    stacked,
    weights_of,
)
from tests.opening import refused

TOO_LITTLE = "has too little free memory"
BOTH = {"cuda:heads": "heads", "cuda:layer": "whole layers"}
"""Stand-ins for GPUs, and what each computes."""

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


@pytest.fixture
def decomposer() -> Decomposer:
    return Decomposer("cpu", lambda notice: None)


WEIGHTS = weights_of(*FACTORS)


def assert_dense(decomposer: Decomposer) -> None:
    """Compare spectra of heads and of the whole layer with those of dense matrices."""
    assert_same(stacked(finish(decomposer.heads(WEIGHTS))), dense_heads())
    assert_same(stacked(finish(decomposer.layer(WEIGHTS))), dense_layer())


@pytest.mark.parametrize(("piece", "threads"), [(1, 2), (1000, 3), (2**21, 1)])
def test_spectra_are_those_of_dense_matrices_in_pieces_of_any_size(
    decomposer: Decomposer, piece: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompositions, "PIECE", piece)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_dense(decomposer)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def stand_in_for_gpus(
    decomposer: Decomposer,
    monkeypatch: pytest.MonkeyPatch,
    error: RuntimeError | None = None,
    failing: Collection[str] = (),
) -> list[str]:
    """Give a decomposer GPUs that compute on the CPU, or fail; list those that it tries."""
    move, tried = torch.Tensor.to, list[str]()

    def to(tensor: Tensor, *where: Any, **how: Any) -> Tensor:
        if where[0] not in BOTH:
            return move(tensor, *where, **how)
        tried.append(where[0])
        if error is not None and where[0] in failing:
            raise error
        return tensor

    monkeypatch.setattr(decomposer, "_devices", {kind: gpu for gpu, kind in BOTH.items()})
    monkeypatch.setattr(torch.Tensor, "to", to)
    return tried


@pytest.mark.parametrize(
    ("error", "says", "failing"),
    [
        (torch.OutOfMemoryError("out of memory"), TOO_LITTLE, {"cuda:layer": "whole layers"}),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), TOO_LITTLE, BOTH),
        (RuntimeError("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED"), "cannot decompose such matrices", BOTH),
        (torch.AcceleratorError(f"{BUSY}\nmore of it"), f"fails ({BUSY})", BOTH),
    ],
)
def test_the_cpu_takes_over_from_a_gpu_that_fails(
    error: RuntimeError, says: str, failing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise torch.AcceleratorError(BUSY)

    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    notices = list[str]()
    decomposer = Decomposer("cpu", notices.append)
    tried = stand_in_for_gpus(decomposer, monkeypatch, error, failing)
    for _ in range(2):
        assert_dense(decomposer)
    assert notices == [f"{gpu} {says}; spectra of {kind} are computed on the CPU" for gpu, kind in failing.items()]
    assert all((tried.count(gpu) == 1) == (gpu in failing) for gpu in BOTH)


def test_a_cpu_out_of_memory_is_said_in_one_line(decomposer: Decomposer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompositions, "circuit_singular_values", lambda *factors: torch.empty(2**60))
    said = refused(lambda: finish(decomposer.layer(WEIGHTS)))
    assert "too little memory is free for the spectra" in said


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_gives_the_dense_spectra() -> None:
    assert_dense(Decomposer("cuda", pytest.fail))
