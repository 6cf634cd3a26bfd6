"""Whatever way a layer's spectra are computed in, and whatever device fails on the way, the numbers are the same."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.service import computing
from engine.service.computing import TRIES, Computing, Factors, Way, Ways
from engine.service.crew import Crew
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.spectra import FloatArray

HEADS, SHARED, WIDTH, D_MODEL = 8, 4, 6, 40


def nothing() -> None:
    """Have nothing more urgent to do."""


@pytest.fixture
def factors() -> Factors:
    """Draw a layer whose heads share keys and values."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    shared = draw(SHARED, WIDTH, D_MODEL), draw(SHARED, WIDTH, D_MODEL)
    return draw(HEADS, WIDTH, D_MODEL), *shared, draw(HEADS, D_MODEL, WIDTH)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def computer(notices: list[str]) -> Computing:
    return Computing("cpu", notices.append)


def dense_heads(factors: Factors) -> dict[str, FloatArray]:
    """Compute by dense float64 decompositions, head by head."""
    query, key, value, output = (factor.double() for factor in factors)
    found: dict[str, list[FloatArray]] = {matrix: [] for matrix in MATRICES}
    for head in range(HEADS):
        q, k, v, o = query[head], key[head // 2], value[head // 2], output[head]
        dense = {"Q": q, "K": k, "V": v, "O": o, "QK": q.T @ k, "OV": v.T @ o.T}
        for matrix, weights in dense.items():
            found[matrix].append(torch.linalg.svdvals(weights)[:WIDTH].numpy())
    return {matrix: np.stack(rows) for matrix, rows in found.items()}


def dense_layer(factors: Factors) -> dict[str, FloatArray]:
    """Compute the same of the whole layer."""
    query, key, value, output = (factor.double() for factor in factors)
    qk = sum((query[head].T @ key[head // 2] for head in range(HEADS)), torch.zeros(D_MODEL, D_MODEL))
    ov = sum((value[head // 2].T @ output[head].T for head in range(HEADS)), torch.zeros(D_MODEL, D_MODEL))
    rows = {"Q": query.flatten(0, 1), "K": key.flatten(0, 1), "V": value.flatten(0, 1), "O": output.mT.flatten(0, 1)}
    rank = SHARED * WIDTH
    return {
        **{matrix: torch.linalg.svdvals(weights).numpy()[None] for matrix, weights in rows.items()},
        "QK": torch.linalg.svdvals(qk).numpy()[None, :rank],
        "OV": torch.linalg.svdvals(ov).numpy()[None, :rank],
    }


def assert_same(found: dict[str, FloatArray], expected: dict[str, FloatArray]) -> None:
    assert list(found) == list(expected)
    for matrix, values in expected.items():
        np.testing.assert_allclose(found[matrix], values, rtol=1e-7, err_msg=matrix)


@pytest.mark.parametrize("way", [Way("cpu"), Way("cpu", is_beside=True), Way("cpu", "cpu")])
@pytest.mark.parametrize("piece", [1, 1000, 2**21])
def test_every_way_gives_the_dense_spectra(
    computer: Computing, factors: Factors, way: Way, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "PIECE", piece)
    monkeypatch.setattr(computer, "_candidates", lambda whole: [way])
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert_same(computer.layer(factors, MATRICES, nothing), dense_layer(factors))


def test_of_a_layer_only_the_matrices_asked_for_are_computed(computer: Computing, factors: Factors) -> None:
    expected = dense_layer(factors)
    assert_same(computer.layer(factors, ("Q", "OV"), nothing), {matrix: expected[matrix] for matrix in ("Q", "OV")})


def test_matrices_too_large_to_stand_side_by_side_follow_one_another(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    run = Crew.run

    def noting(crew: Crew, pieces: list[Callable[[], object]], breathe: Callable[[], None], at_once: int) -> object:
        seen.append(at_once)
        return run(crew, pieces, breathe, at_once)

    monkeypatch.setattr(Crew, "run", noting)
    computer.layer(factors, MATRICES, nothing)
    monkeypatch.setattr(computing, "SIDE_BY_SIDE_BYTES", 1)
    assert_same(computer.layer(factors, MATRICES, nothing), dense_layer(factors))
    assert seen[0] is not None
    assert seen[0] > 6
    assert seen[1] == 1


def test_each_way_is_tried_before_the_fastest_is_kept() -> None:
    slow, fast = Way("cpu"), Way("cpu", is_beside=True)
    ways = Ways([slow, fast])
    tried = []
    for seconds in (0.1, 0.4, 9.0, 0.3):
        tried.append(ways.choose())
        ways.learn(tried[-1], seconds)
    assert tried == [slow] * TRIES + [fast] * TRIES
    assert ways.choose() == slow, "the quickest of its tries counts: the first of them loads libraries"
    other = Ways([slow, fast])
    for way, seconds in ((slow, 0.4), (slow, 0.5), (fast, 9.0), (fast, 0.3)):
        other.learn(way, seconds)
    assert other.choose() == fast


def test_a_machine_of_few_threads_does_not_try_what_is_known_to_be_slower(computer: Computing) -> None:
    computer._crew = Crew(2)
    assert computer._candidates(("Q", "K")) == [Way("cpu", is_beside=True)]
    computer._crew = Crew(16)
    assert computer._candidates(("Q", "K")) == [Way("cpu", is_beside=True), Way("cpu")]


def test_products_are_no_longer_squared_once_a_layer_has_shown_that_it_does_not_pay(
    computer: Computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []
    compute = computing._matrix

    def noting(way: Way, matrix: str, factors: Factors, is_squared: bool) -> FloatArray:
        asked.append((matrix, is_squared))
        return compute(way, matrix, factors, is_squared)

    monkeypatch.setattr(computing, "_matrix", noting)
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 40, 80, generator=generator, dtype=torch.float64) for _ in range(3))
    output = torch.randn(2, 80, 40, generator=generator, dtype=torch.float64)
    query *= torch.logspace(0, -40, 80, dtype=torch.float64)  # most of QK's singular values are too small
    for _ in range(2):
        computer.layer((query, key, value, output), ("QK", "OV"), nothing)
    assert sorted(asked) == [("OV", True), ("OV", True), ("QK", False), ("QK", True)]


class SmallDevice:
    """Stands in for a GPU whose memory holds some heads: pieces sent to it are computed here, or do not fit."""

    def __init__(self, holds_heads: int, holds_layers: bool) -> None:
        self._circuit, self._matrix = computing._circuit, computing._matrix
        self.holds_heads = holds_heads
        self.holds_layers = holds_layers
        self.sizes: list[int] = []

    def circuit(self, way: Way, circuit: str, own: Tensor, shared: Tensor) -> dict[str, FloatArray]:
        """Compute a piece of heads."""
        if way.device == "cpu":
            return self._circuit(way, circuit, own, shared)
        self.sizes.append(len(own))
        if len(own) > self.holds_heads:
            raise torch.OutOfMemoryError("out of memory")
        return self._circuit(Way("cpu"), circuit, own, shared)

    def matrix(self, way: Way, matrix: str, factors: Factors, is_squared: bool) -> FloatArray:
        """Compute a whole layer's matrix."""
        if way.device != "cpu" and not self.holds_layers:
            raise torch.OutOfMemoryError("out of memory")
        return self._matrix(Way("cpu"), matrix, factors, is_squared)


def put_on(device: SmallDevice, computer: Computing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a computer believe that it has such a GPU."""
    monkeypatch.setattr(computing, "_circuit", device.circuit)
    monkeypatch.setattr(computing, "_matrix", device.matrix)
    monkeypatch.setattr(computer, "_devices", {False: "cuda", True: "cuda"})


def test_a_device_short_of_memory_gets_fewer_heads_at_a_time(
    computer: Computing, factors: Factors, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=2, holds_layers=True)
    put_on(device, computer, monkeypatch)
    for _ in range(2 * TRIES):
        assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert notices == ["cuda has little free memory; spectra of heads are computed a few at a time"]
    assert max(device.sizes) == HEADS
    assert set(device.sizes[-8:]) == {2}, "what was learnt is kept"
    assert_same(computer.layer(factors, MATRICES, nothing), dense_layer(factors))


def test_a_device_without_room_for_one_head_leaves_the_work_to_the_cpu(
    computer: Computing, factors: Factors, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=0, holds_layers=True)
    put_on(device, computer, monkeypatch)
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert notices[-1] == "cuda has too little free memory; spectra of heads are computed on the CPU"
    tried = len(device.sizes)
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert len(device.sizes) == tried, "it is not asked again"


def test_a_device_without_room_for_a_whole_layer_leaves_whole_layers_to_the_cpu(
    computer: Computing, factors: Factors, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=HEADS, holds_layers=False)
    put_on(device, computer, monkeypatch)
    assert_same(computer.layer(factors, MATRICES, nothing), dense_layer(factors))
    assert notices == ["cuda has too little free memory; spectra of whole layers are computed on the CPU"]
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert device.sizes, "heads still fit"


def test_heads_of_one_layer_that_were_few_at_a_time_may_be_fewer_than_share_a_key_in_another(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=HEADS, holds_layers=True)
    put_on(device, computer, monkeypatch)
    monkeypatch.setattr(computer, "_heads_at_once", 1)
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert set(device.sizes) == {HEADS // SHARED}


OUT_OF_MEMORY = (
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
)
FAILING = (
    RuntimeError("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnXsyevd`"),
    torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge"),  # type: ignore[attr-defined]
)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        *((RuntimeError(said), "has little free memory; spectra of heads are computed a few at a time")
          for said in OUT_OF_MEMORY),
        *((error, "cannot decompose such matrices; spectra of heads are computed on the CPU") for error in FAILING),
    ],
)  # fmt: skip
def test_what_a_gpus_libraries_fail_at_is_done_in_another_way(
    computer: Computing,
    factors: Factors,
    notices: list[str],
    error: RuntimeError,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = SmallDevice(holds_heads=HEADS, holds_layers=True)
    compute, errors = device.circuit, [error]

    def failing(way: Way, *arguments: Any) -> dict[str, FloatArray]:
        if way.device != "cpu" and errors:
            raise errors.pop()
        return compute(way, *arguments)

    monkeypatch.setattr(device, "circuit", failing)
    put_on(device, computer, monkeypatch)
    assert_same(computer.heads(factors, nothing), dense_heads(factors))
    assert notices == [f"cuda {says}"]


def test_lapack_that_gives_up_is_not_asked_again(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*piece: object) -> Tensor:
        raise FAILING[1]

    monkeypatch.setattr(computing, "_circuit", failing)
    with pytest.raises(RuntimeError, match="converge"):
        computer.heads(factors, nothing)


def test_what_did_not_fit_is_let_go_of_before_less_is_tried(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, left = SmallDevice(holds_heads=2, holds_layers=True), list[weakref.ref[Tensor]]()
    compute = device.circuit

    def copying(way: Way, circuit: str, own: Tensor, shared: Tensor) -> dict[str, FloatArray]:
        copied = own.clone()
        left.append(weakref.ref(copied))
        return compute(way, circuit, copied, shared)

    kept: list[int] = []
    monkeypatch.setattr(device, "circuit", copying)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: kept.append(sum(each() is not None for each in left)))
    put_on(device, computer, monkeypatch)
    gc.disable()
    try:
        computer.heads(factors, nothing)
    finally:
        gc.enable()
    assert kept == [0, 0]


def test_the_libraries_of_a_gpu_are_loaded_by_one_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = list[int](), list[int]()

    def taking_time(matrix: Tensor) -> Tensor:
        inside.append(1)
        time.sleep(0.02)
        most.append(len(inside))
        return matrix[0]

    monkeypatch.setattr(computing, "_LOADED", set())
    monkeypatch.setattr(torch, "eye", lambda size, **_: torch.zeros(size, size))
    monkeypatch.setattr(torch.linalg, "eigvalsh", taking_time)
    threads = [threading.Thread(target=computing._load_libraries, args=("cuda",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_cpu_out_of_memory_is_said_in_one_line(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*piece: object) -> Tensor:
        return torch.empty(2**60)

    monkeypatch.setattr(computing, "_matrix", too_much)
    with pytest.raises(EngineError, match="too little free memory for this layer's spectra"):
        computer.layer(factors, MATRICES, nothing)


def test_another_error_is_not_taken_for_a_lack_of_memory(
    computer: Computing, factors: Factors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*piece: object) -> Tensor:
        return torch.ones(2) @ torch.ones(3)

    monkeypatch.setattr(computing, "_matrix", failing)
    with pytest.raises(RuntimeError, match="size"):
        computer.layer(factors, MATRICES, nothing)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_dense_spectra_in_every_way(factors: Factors, notices: list[str]) -> None:
    computer = Computing("cuda", notices.append)
    for _ in range(3 * TRIES + 1):
        assert_same(computer.heads(factors, nothing), dense_heads(factors))
        assert_same(computer.layer(factors, MATRICES, nothing), dense_layer(factors))
    assert not notices
