"""Spectra agree with those of dense matrices on every device, and when a device fails."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.analysis import decompositions
from engine.analysis.decompositions import Decomposer
from engine.mathematics import spectra
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.progress import finish
from engine.values.spectra import Arrays
from tests.conftest import CallsOf
from tests.engine.mathematics.dense_spectra import (
    FACTORS,
    assert_same,
    dense_heads,
    dense_layer,
    stacked,
    weights_of,
)
from tests.pretended_gpu import DEVICE, PretendedGpu

OUT_OF_MEMORY = (
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
)
FAILING = (
    RuntimeError("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnXsyevd`"),
    torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge"),  # type: ignore[attr-defined]
)
TOO_LITTLE = "has too little free memory"
BOTH = {"cuda:heads": "heads", "cuda:layer": "whole layers"}
"""Stand-ins for GPUs, and what each computes."""

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def decomposer(notices: list[str]) -> Decomposer:
    return Decomposer("cpu", notices.append)


WEIGHTS = weights_of(*FACTORS)


def heads(decomposer: Decomposer, matrices: Collection[str] = MATRICES) -> Arrays:
    return stacked(finish(decomposer.heads(WEIGHTS, matrices)))


def layer(decomposer: Decomposer, matrices: Collection[str] = MATRICES) -> Arrays:
    return stacked(finish(decomposer.layer(WEIGHTS, matrices)))


@pytest.mark.parametrize("piece", [1, 1000, 2**21])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_spectra_are_those_of_dense_matrices_in_pieces_of_any_size(
    decomposer: Decomposer, piece: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompositions, "PIECE", piece)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_same(heads(decomposer), dense_heads())
        assert_same(layer(decomposer), dense_layer())
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_zeros_are_no_work(decomposer: Decomposer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = dense_layer()
    monkeypatch.setattr(Decomposer, "_solve", pytest.fail)
    zeros = weights_of(*(torch.zeros_like(factor) for factor in FACTORS))
    [found] = finish(decomposer.layer(zeros))
    for matrix in MATRICES:
        np.testing.assert_array_equal(found[matrix], np.zeros_like(expected[matrix][0]))


class SmallDevice:
    """A stand-in for a GPU that computes on the CPU, or fails."""

    def __init__(self, error: RuntimeError | None = None, failing: Collection[str] = ()) -> None:
        self._error, self._failing = error, failing
        self.tried: list[str] = []

    def put_on(self, decomposer: Decomposer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give a decomposer such a GPU, named for what it computes."""
        monkeypatch.setattr(decomposer, "_devices", {kind: gpu for gpu, kind in BOTH.items()})
        move = torch.Tensor.to

        def to(tensor: Tensor, *where: Any, **how: Any) -> Tensor:
            if where[0] not in BOTH:
                return move(tensor, *where, **how)
            self.tried.append(where[0])
            if self._error is not None and where[0] in self._failing:
                raise self._error
            return tensor

        monkeypatch.setattr(torch.Tensor, "to", to)


@pytest.mark.parametrize(
    ("error", "says", "failing"),
    [
        (torch.OutOfMemoryError("out of memory"), TOO_LITTLE, BOTH),
        (torch.OutOfMemoryError("out of memory"), TOO_LITTLE, {"cuda:layer": "whole layers"}),
        *((RuntimeError(said), TOO_LITTLE, BOTH) for said in OUT_OF_MEMORY),
        *((error, "cannot decompose such matrices", BOTH) for error in FAILING),
        (torch.AcceleratorError(f"{BUSY}\nmore of it"), f"fails ({BUSY})", BOTH),
    ],
)
def test_the_cpu_takes_over_from_a_gpu_that_fails(
    decomposer: Decomposer, notices: list[str], error: RuntimeError, says: str, failing: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail() -> None:
        raise torch.AcceleratorError(BUSY)

    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    device = SmallDevice(error, failing)
    device.put_on(decomposer, monkeypatch)
    for _ in range(2):
        assert_same(heads(decomposer), dense_heads())
        assert_same(layer(decomposer), dense_layer())
    assert notices == [f"{gpu} {says}; spectra of {kind} are computed on the CPU" for gpu, kind in failing.items()]
    assert all((device.tried.count(gpu) == 1) == (gpu in failing) for gpu in BOTH)


def test_tensors_that_did_not_fit_are_freed_before_the_cpu_goes_on(
    decomposer: Decomposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, alive = list[weakref.ref[Tensor]](), list[int]()
    SmallDevice().put_on(decomposer, monkeypatch)
    compute, fails = spectra.circuit_singular_values, iter([True])

    def copying(own: Tensor, *arguments: Any) -> list[Tensor]:
        copied = own.clone()
        if next(fails, False):
            left.append(weakref.ref(copied))
            raise torch.OutOfMemoryError("out of memory")
        return compute(copied, *arguments)

    monkeypatch.setattr(decompositions, "circuit_singular_values", copying)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(sum(each() is not None for each in left)))
    gc.disable()
    try:
        heads(decomposer)
    finally:
        gc.enable()
    assert alive == [0]


def test_a_cpu_out_of_memory_is_said_in_one_line(decomposer: Decomposer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompositions, "circuit_singular_values", lambda *factors: torch.empty(2**60))
    with pytest.raises(EngineError, match="too little memory is free for the spectra"):
        layer(decomposer)


@pytest.mark.parametrize(
    ("device", "error"),
    [("cpu", RuntimeError("size of tensor")), ("cuda:layer", RuntimeError("size of tensor")), ("cpu", FAILING[1])],
)
def test_errors_that_are_not_of_the_device_are_raised(
    decomposer: Decomposer, device: str, error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*factors: object) -> list[Tensor]:
        raise error

    monkeypatch.setattr(decompositions, "circuit_singular_values", failing)
    SmallDevice().put_on(decomposer, monkeypatch)
    monkeypatch.setattr(decomposer, "_devices", {"whole layers": device})
    with pytest.raises(RuntimeError) as caught:
        layer(decomposer)
    assert caught.value is error


@pytest.fixture
def on_pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Decomposer:
    """Make a decomposer with a pretended GPU."""
    decomposer = Decomposer("cpu", pytest.fail)
    monkeypatch.setattr(decomposer, "_devices", dict.fromkeys(("heads", "whole layers"), DEVICE))
    solve = decomposer._solve

    def inside(*problem: Any) -> Arrays:
        with PretendedGpu():
            return solve(*problem)

    monkeypatch.setattr(decomposer, "_solve", inside)
    return decomposer


def test_a_gpu_gives_what_the_cpu_gives(on_pretended_gpu: Decomposer) -> None:
    assert_same(heads(on_pretended_gpu), dense_heads())
    assert_same(layer(on_pretended_gpu), dense_layer())


def test_only_the_factors_of_a_matrix_go_to_the_gpu(on_pretended_gpu: Decomposer, calls_of: CallsOf) -> None:
    computed = calls_of(decompositions, "matrix_singular_values")
    layer(on_pretended_gpu, ("K",))
    [(matrices,)] = computed
    assert matrices.device.type == DEVICE
    assert matrices.shape == (1, *FACTORS[1].flatten(0, 1).shape)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_gives_the_dense_spectra() -> None:
    decomposer = Decomposer("cuda", pytest.fail)
    assert_same(heads(decomposer), dense_heads())
    assert_same(layer(decomposer), dense_layer())
