"""Parallel pieces: ordered results, errors, and the end of a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from engine.mathematics.threads import run_in_rounds
from engine.values.progress import finish
from tests.opening import run_apart


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("threads", "pieces", "cores"), [(3, 3, 1), (3, 2, 1), (4, 2, 2), (1, 2, 1), (3, 1, 3)])
def test_pieces_share_the_threads_of_the_caller(threads: int, pieces: int, cores: int) -> None:
    torch.set_num_threads(threads)
    together = threading.Barrier(min(threads, pieces))

    def piece() -> int:
        together.wait(10)
        return torch.get_num_threads()

    assert finish(run_in_rounds([piece] * pieces)) == [cores] * pieces
    assert torch.get_num_threads() == threads


def test_an_error_in_a_piece_is_raised_by_the_work() -> None:
    def fails() -> int:
        raise ZeroDivisionError("no answer")

    with pytest.raises(ZeroDivisionError, match="no answer"):
        finish(run_in_rounds([lambda: 1, fails, lambda: 3]))
    assert finish(run_in_rounds([lambda: 4])) == [4]
    assert torch.get_num_threads() == 3


def test_a_unit_has_a_piece_for_each_thread() -> None:
    begun: list[int] = []
    counts: list[int] = []
    work = run_in_rounds([partial(begun.append, number) for number in range(7)], done=counts.append)
    assert next(work) is None
    assert begun == []
    next(work)
    assert sorted(begun) == [0, 1, 2]
    next(work)
    work.close()
    assert sorted(begun) == [0, 1, 2, 3, 4, 5]
    assert counts == [3, 6]


LEFT_AT_WORK = """
import threading, torch
from engine.mathematics.threads import run_in_rounds
from engine.service.queue import Queue, Urgency
from engine.values.progress import Lane

begun = threading.Event()

def piece():
    begun.set()
    return torch.linalg.svdvals(torch.randn(1200, 1200))

torch.set_num_threads(2)
Queue().submit(lambda: run_in_rounds([piece] * 2), Urgency.SWEEP, Lane.LAYERS)
assert begun.wait(60)
print("the program ends")
"""


def test_a_program_waits_for_pieces_that_compute() -> None:
    assert run_apart(LEFT_AT_WORK, OMP_NUM_THREADS="1") == "the program ends"


WRITING = """
import sys, threading
from pathlib import Path
from engine.store.files import requested_file
from engine.service.queue import Queue

begun = threading.Event()

def write(check):
    with requested_file(Path(sys.argv[1])) as partial:
        partial.write_text("rows")
        begun.set()
        while True:
            check()

Queue().write(write)
assert begun.wait(60)
"""


def test_an_unfinished_file_is_removed_at_the_end_of_the_program(tmp_path: Path) -> None:
    run_apart(WRITING, tmp_path / "heads.csv")
    assert list(tmp_path.glob(".heads*")) == []
    assert not (tmp_path / "heads.csv").exists()
