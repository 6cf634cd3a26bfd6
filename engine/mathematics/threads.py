"""Pieces of work side by side, on as many threads as the caller has for linear algebra.

LAPACK spends half of an eigenvalue problem in steps that one core does as fast as two, so two matrices side by side
finish sooner than one after the other with two threads each. With more threads than cores, linear algebra waits at
every step, so the pieces share the caller's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

import torch

from engine.values.progress import Work

Result = TypeVar("Result")


def run_in_rounds(
    pieces: Sequence[Callable[[], Result]], at_once: int | None = None, done: Callable[[int], None] = lambda count: None
) -> Work[list[Result]]:
    """Run pieces, several at a time in each unit of work, and return their results in order.

    A unit runs ``at_once`` pieces, by default one for each of the caller's threads. ``done`` is called with the number
    of finished pieces.
    """
    results: list[Result] = []
    while len(results) < len(pieces):
        yield None
        threads = torch.get_num_threads()
        first, *others = pieces[len(results) : len(results) + (at_once or threads)]
        share = max(1, threads // (1 + len(others)))
        started = [_start(piece, share) for piece in others]
        torch.set_num_threads(share)
        try:
            results.append(first())
        finally:
            wait(started)
            torch.set_num_threads(threads)
        results += [each.result() for each in started]
        done(len(results))
    return results


def _start(piece: Callable[[], Result], threads: int) -> Future[Result]:
    future: Future[Result] = Future()

    def work() -> None:
        torch.set_num_threads(threads)
        try:
            future.set_result(piece())
        except BaseException as error:  # raised on the thread that waits for the result
            future.set_exception(error)

    threading.Thread(target=work, name="side by side", daemon=True).start()
    return future
