"""Pieces of work side by side, on as many threads as the caller has for linear algebra.

LAPACK spends half of an eigenvalue problem in steps that one core does as fast as two, so two matrices side by side are
done sooner than one after the other with two threads each. Threads of linear algebra that are more than there are cores
wait for each other at every step, so the pieces share the threads that the caller has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from engine.values.progress import Work

Result = TypeVar("Result")


def in_rounds(
    pieces: Sequence[Callable[[], Result]], done: Callable[[int], None] = lambda count: None
) -> Work[list[Result]]:
    """Run pieces, as many in a unit as the caller has threads of linear algebra, and give their results in order.

    Parameters
    ----------
    done : called with how many pieces are done.
    """
    results: list[Result] = []
    while len(results) < len(pieces):
        yield None
        results += side_by_side(pieces[len(results) : len(results) + torch.get_num_threads()])
        done(len(results))
    return results


def side_by_side(pieces: Sequence[Callable[..., Result]], *arguments: object) -> list[Result]:
    """Run pieces on as many threads as the caller has for linear algebra, and give their results in order.

    Raises
    ------
    BaseException : the first that a piece raised; pieces that had not begun are left out.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(pieces))
    if workers <= 1:
        return [piece(*arguments) for piece in pieces]
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    places = iter(range(len(pieces)))  # whose next place one thread alone is given

    def work() -> None:
        torch.set_num_threads(threads // workers)
        for place in places:
            if errors:
                return
            try:
                results[place] = pieces[place](*arguments)
            except BaseException as error:  # raised on the thread that waits for the results
                errors.append(error)

    others = [threading.Thread(target=work, name="side by side", daemon=True) for _ in range(workers - 1)]
    try:
        for thread in others:
            thread.start()
        work()
    finally:
        for thread in others:
            thread.join()
        torch.set_num_threads(threads)
    if errors:
        raise errors.pop()
    return [results[place] for place in range(len(pieces))]
