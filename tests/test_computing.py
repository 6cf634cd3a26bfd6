"""Whatever way a layer's spectra are computed in, the numbers are the same."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable

import pytest
import torch

from engine.service import computing
from engine.service.computing import TRIES, Computing, Factors, Way, Ways
from engine.service.crew import Crew
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.spectra import FloatArray
from tests.dense_spectra import FACTORS, assert_same, dense_heads, dense_layer
from tests.opening import no_hurry


@pytest.fixture
def computer() -> Computing:
    return Computing("cpu", print)


@pytest.mark.parametrize("way", [Way("cpu"), Way("cpu", is_beside=True), Way("cpu", "cpu")])
@pytest.mark.parametrize("piece", [1, 1000, 2**21])
def test_every_way_gives_the_dense_spectra(
    computer: Computing, way: Way, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "PIECE", piece)
    monkeypatch.setattr(computer, "_candidates", lambda whole: [way])
    assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
    assert_same(computer.layer(FACTORS, MATRICES, no_hurry), dense_layer())


def test_of_a_layer_only_the_matrices_asked_for_are_computed(computer: Computing) -> None:
    expected = dense_layer()
    assert_same(computer.layer(FACTORS, ("Q", "OV"), no_hurry), {matrix: expected[matrix] for matrix in ("Q", "OV")})


def test_matrices_too_large_to_stand_side_by_side_follow_one_another(
    computer: Computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    run = Crew.run

    def noting(crew: Crew, pieces: list[Callable[[], object]], breathe: Callable[[], None], at_once: int) -> object:
        seen.append(at_once)
        return run(crew, pieces, breathe, at_once)

    monkeypatch.setattr(Crew, "run", noting)
    computer.layer(FACTORS, MATRICES, no_hurry)
    monkeypatch.setattr(computing, "SIDE_BY_SIDE_BYTES", 1)
    assert_same(computer.layer(FACTORS, MATRICES, no_hurry), dense_layer())
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
        computer.layer((query, key, value, output), ("QK", "OV"), no_hurry)
    assert sorted(asked) == [("OV", True), ("OV", True), ("QK", False), ("QK", True)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_dense_spectra_in_every_way() -> None:
    notices: list[str] = []
    computer = Computing("cuda", notices.append)
    for _ in range(3 * TRIES + 1):
        assert_same(computer.heads(FACTORS, no_hurry), dense_heads())
        assert_same(computer.layer(FACTORS, MATRICES, no_hurry), dense_layer())
    assert not notices


def test_an_error_that_is_kept_keeps_none_of_the_factors(computer: Computing) -> None:
    def fail() -> None:
        raise EngineError("given up")

    kinds: list[Callable[[Factors], object]] = [
        lambda factors: computer.heads(factors, fail),
        lambda factors: computer.layer(factors, MATRICES, fail),
    ]
    gc.disable()  # which would find in the end what nobody lets go of
    try:
        for compute in kinds:
            factors = tuple(factor.clone() for factor in FACTORS)
            living = [weakref.ref(factor) for factor in factors]
            with pytest.raises(EngineError) as caught:
                compute(factors)  # type: ignore[arg-type]  # four of them
            traceback.clear_frames(caught.tb)  # as the engine's thread does
            del factors
            computer.heads(FACTORS, no_hurry)  # what had been begun is done by then
            assert [each() for each in living] == [None] * 4
    finally:
        gc.enable()
