"""Pieces side by side: results in order, urgent work let in, what is given up not begun, and nobody kept waiting."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from engine.service.crew import Crew
from engine.values.errors import Superseded

PATIENCE = 10.0
"""Seconds after which a test gives up; nothing here takes as long."""


def nothing() -> None:
    """Have nothing more urgent to do."""


def test_results_come_in_order_however_long_each_piece_takes() -> None:
    def piece(number: int) -> int:
        time.sleep(0.01 * (5 - number))
        return number * number

    assert Crew(3).run([partial(piece, number) for number in range(5)], nothing) == [0, 1, 4, 9, 16]


def test_no_pieces_give_no_results() -> None:
    assert Crew(2).run([], nothing) == []


@pytest.mark.parametrize(("size", "at_once", "expected"), [(3, None, 3), (3, 1, 1), (3, 2, 2), (1, None, 1)])
def test_as_many_pieces_run_at_once_as_are_allowed(size: int, at_once: int | None, expected: int) -> None:
    running, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(expected)

    def piece() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(PATIENCE)
        with lock:
            running -= 1

    Crew(size).run([piece] * (expected * 2), nothing, at_once)
    assert most == expected


def test_what_a_piece_raises_is_raised_where_the_results_are_wanted() -> None:
    def fails() -> int:
        raise ZeroDivisionError("no answer")

    crew = Crew(2)
    with pytest.raises(ZeroDivisionError, match="no answer"):
        crew.run([lambda: 1, fails, lambda: 3], nothing)
    assert crew.run([lambda: 4], nothing) == [4]


def test_pieces_that_have_not_begun_are_given_up_with_the_work() -> None:
    gate, begun = threading.Event(), []
    looks = iter(range(3))

    def piece(number: int) -> None:
        begun.append(number)
        gate.wait(PATIENCE)

    def replaced() -> None:
        if next(looks, None) is None:
            raise Superseded("replaced by a newer request")

    crew = Crew(2)
    with pytest.raises(Superseded):
        crew.run([partial(piece, number) for number in range(6)], replaced)
    gate.set()
    assert crew.run([lambda: "next"], nothing) == ["next"]
    assert sorted(begun) == [0, 1]


def test_urgent_work_does_its_pieces_itself_while_every_thread_is_taken() -> None:
    crew, gate, places = Crew(2), threading.Event(), []

    def urgent_piece() -> str:
        places.append(threading.current_thread())
        return "urgent"

    def breathe() -> None:
        if not places:
            answers.extend(crew.run([urgent_piece, urgent_piece], nothing))
            gate.set()

    answers: list[str] = []
    long_piece: Callable[[], bool] = partial(gate.wait, PATIENCE)
    assert crew.run([long_piece] * 2, breathe) == [True, True]
    assert answers == ["urgent", "urgent"]
    assert set(places) == {threading.current_thread()}


def test_its_threads_keep_no_program_alive() -> None:
    crew = Crew(2)
    crew.run([nothing] * 4, nothing)
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("crew")]
    assert mine
    assert all(thread.daemon for thread in mine)


def test_its_threads_end_with_it_and_keep_nothing_of_what_they_have_done() -> None:
    class Piece:
        def __call__(self) -> int:
            return 3

    crew, before, piece = Crew(2), set(threading.enumerate()), Piece()
    known = weakref.ref(piece)
    pieces: list[Callable[[], int]] = [piece, lambda: 4, lambda: 5]
    assert crew.run(pieces, nothing) == [3, 4, 5]
    mine = set(threading.enumerate()) - before
    assert {thread.name for thread in mine} == {"crew 1", "crew 2"}
    del piece, pieces
    end = time.monotonic() + PATIENCE
    while known() is not None and time.monotonic() < end:
        time.sleep(0.001)
    assert known() is None
    del crew
    for thread in mine:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in mine)
