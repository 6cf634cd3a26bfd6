"""Whatever device fails or is short of memory while spectra are computed, the numbers are the same."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.service import computing
from engine.service.computing import TRIES, Computing, Factors, Way
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.spectra import FloatArray
from tests.dense_spectra import FACTORS, HEADS, SHARED, assert_same, dense_heads, dense_layer
from tests.opening import no_hurry


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def computer(notices: list[str]) -> Computing:
    return Computing("cpu", notices.append)


OUT_OF_MEMORY = (
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
)
FAILING = (
    RuntimeError("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnXsyevd`"),
    torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge"),  # type: ignore[attr-defined]
)
BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


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
    computer: Computing, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=2, holds_layers=True)
    put_on(device, computer, monkeypatch)
    for _ in range(2 * TRIES):
        assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert notices == ["cuda has little free memory; spectra of heads are computed a few at a time"]
    assert max(device.sizes) == HEADS
    assert set(device.sizes[-8:]) == {2}, "what was learnt is kept"
    assert_same(computer.layer(FACTORS, MATRICES, no_hurry), dense_layer())


def test_a_device_without_room_for_one_head_leaves_the_work_to_the_cpu(
    computer: Computing, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=0, holds_layers=True)
    put_on(device, computer, monkeypatch)
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert notices[-1] == "cuda has too little free memory; spectra of heads are computed on the CPU"
    tried = len(device.sizes)
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert len(device.sizes) == tried, "it is not asked again"


def test_a_device_without_room_for_a_whole_layer_leaves_whole_layers_to_the_cpu(
    computer: Computing, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=HEADS, holds_layers=False)
    put_on(device, computer, monkeypatch)
    assert_same(computer.layer(FACTORS, MATRICES, no_hurry), dense_layer())
    assert notices == ["cuda has too little free memory; spectra of whole layers are computed on the CPU"]
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert device.sizes, "heads still fit"


def test_heads_of_one_layer_that_were_few_at_a_time_may_be_fewer_than_share_a_key_in_another(
    computer: Computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=HEADS, holds_layers=True)
    put_on(device, computer, monkeypatch)
    monkeypatch.setattr(computer, "_heads_at_once", 1)
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert set(device.sizes) == {HEADS // SHARED}


@pytest.mark.parametrize(
    ("error", "says"),
    [
        *((RuntimeError(said), "has little free memory; spectra of heads are computed a few at a time")
          for said in OUT_OF_MEMORY),
        *((error, "cannot decompose such matrices; spectra of heads are computed on the CPU") for error in FAILING),
        (torch.AcceleratorError(f"{BUSY}\nmore of it"), f"fails ({BUSY}); spectra of heads are computed on the CPU"),
    ],
)  # fmt: skip
def test_what_a_gpus_libraries_fail_at_is_done_in_another_way(
    computer: Computing,
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
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert notices == [f"cuda {says}"]


def test_lapack_that_gives_up_is_not_asked_again(computer: Computing, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*piece: object) -> Tensor:
        raise FAILING[1]

    monkeypatch.setattr(computing, "_circuit", failing)
    with pytest.raises(RuntimeError, match="converge"):
        computer.heads(FACTORS, no_hurry)


def test_what_did_not_fit_is_let_go_of_before_less_is_tried(
    computer: Computing, monkeypatch: pytest.MonkeyPatch
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
        computer.heads(FACTORS, no_hurry)
    finally:
        gc.enable()
    assert kept == [0, 0]


def test_pieces_on_a_gpu_take_turns_at_a_few_streams_which_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made, entered = list[str](), list[object]()

    class Stream:
        """Stands in for a stream."""

        def __init__(self, device: str) -> None:
            made.append(device)

    class Entered:
        """Notes the stream that work is put on."""

        def __init__(self, stream: object) -> None:
            entered.append(stream)

        def __enter__(self) -> None:
            """Begin."""

        def __exit__(self, *error: object) -> None:
            """End."""

    monkeypatch.setattr(computing, "_STREAMS", defaultdict(list))
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", Entered)
    for _ in range(5):
        with computing._own_stream("cuda:1"), pytest.raises(RuntimeError), computing._own_stream("cuda:1"):
            raise RuntimeError("a piece that fails gives its stream back")
    with computing._own_stream("cuda:0"), computing._own_stream("cpu"):
        pass
    assert made == ["cuda:1", "cuda:1", "cuda:0"]
    assert len(entered) == 11
    assert all(one is not other for one, other in itertools.pairwise(entered)), "no two pieces have one at a time"


def test_a_gpu_that_fails_at_whatever_it_is_asked_leaves_the_work_to_the_cpu(
    computer: Computing, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SmallDevice(holds_heads=0, holds_layers=False)
    put_on(device, computer, monkeypatch)

    def failing() -> None:
        raise torch.AcceleratorError(BUSY)

    monkeypatch.setattr(torch.cuda, "empty_cache", failing)
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert notices[-1] == "cuda has too little free memory; spectra of heads are computed on the CPU"


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


def test_a_cpu_out_of_memory_is_said_in_one_line(computer: Computing, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*piece: object) -> Tensor:
        return torch.empty(2**60)

    monkeypatch.setattr(computing, "_matrix", too_much)
    with pytest.raises(EngineError, match="too little free memory for this layer's spectra"):
        computer.layer(FACTORS, MATRICES, no_hurry)


def test_another_error_is_not_taken_for_a_lack_of_memory(computer: Computing, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*piece: object) -> Tensor:
        return torch.ones(2) @ torch.ones(3)

    monkeypatch.setattr(computing, "_matrix", failing)
    with pytest.raises(RuntimeError, match="size"):
        computer.layer(FACTORS, MATRICES, no_hurry)
