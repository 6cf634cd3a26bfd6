"""Each lane does the most urgent unit, and a request that fails does not affect the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path

import pytest
import torch

from engine.mathematics.threads import run_in_rounds
from engine.service.queue import Queue, Urgency
from engine.store.files import log_file
from engine.values.errors import EngineError, Superseded
from engine.values.progress import Lane, Work, finish, one_unit
from tests.opening import run_apart

PATIENCE = 10.0
"""Seconds after which a test gives up."""

LANE = Lane.WEIGHTS


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.stop()


class Gate:
    """A unit that has begun on a lane, and runs until its gate is opened or the queue ends it."""

    def __init__(
        self, queue: Queue, urgency: Urgency = Urgency.SELECTED, lane: Lane = LANE, view: str = "",
        can_be_ended: bool = True,
    ) -> None:  # fmt: skip
        self.check = queue.check if can_be_ended else lambda: None
        self.calls = self.checks = 0
        self.begun, self.open = threading.Event(), threading.Event()
        self.answer = queue.submit(lambda: one_unit(self), urgency, lane, view)
        assert self.begun.wait(PATIENCE)

    def __call__(self) -> str:
        self.calls += 1
        self.begun.set()
        deadline = time.monotonic() + PATIENCE
        while not self.open.wait(0.002):
            assert time.monotonic() < deadline
            self.checks += 1
            self.check()
        return "through"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def say(queue: Queue, word: str, said: list[str], urgency: Urgency = Urgency.SELECTED, view: str = "") -> Future[str]:
    """Submit work that adds its word when it is done."""

    def unit() -> str:
        said.append(word)
        return word

    return queue.submit(lambda: one_unit(unit), urgency, LANE, view)


def test_the_most_urgent_work_comes_first_and_equally_urgent_work_in_order(queue: Queue) -> None:
    gate, said = Gate(queue), list[str]()
    order = [Urgency.SWEEP, Urgency.OPENING, Urgency.SENTENCE, Urgency.SELECTED]
    futures = [say(queue, f"{urgency.name}{number}", said, urgency) for number in (1, 2) for urgency in order]
    gate.open.set()
    wait(futures, PATIENCE)
    assert said == [f"{urgency.name}{number}" for urgency in reversed(order) for number in (1, 2)]


def test_the_latest_request_for_a_view_replaces_the_earlier_ones(queue: Queue) -> None:
    running, said = Gate(queue, Urgency.SENTENCE, view="map").answer, list[str]()
    waiting = say(queue, "waiting", said, Urgency.SENTENCE, "map")
    other = say(queue, "other", said, Urgency.SENTENCE, "ranks")
    latest = say(queue, "latest", said, Urgency.SENTENCE, "map")
    assert latest.result(PATIENCE) == "latest"
    for replaced in (running, waiting):
        with pytest.raises(Superseded):
            replaced.result(PATIENCE)
    assert other.result(PATIENCE) == "other"
    assert said == ["other", "latest"]


def test_work_can_be_given_up_before_it_starts(queue: Queue) -> None:
    gate, said = Gate(queue), list[str]()
    given_up = say(queue, "sweep", said, Urgency.SWEEP, "sweep")
    assert say(queue, "cancelled", said, Urgency.SWEEP).cancel()
    queue.give_up("sweep")
    queue.give_up("a view that nobody asked for")
    with pytest.raises(Superseded):
        given_up.result(0)
    gate.open.set()
    assert say(queue, "next", said, Urgency.SWEEP).result(PATIENCE) == "next"
    assert said == ["next"]


def test_a_long_unit_of_a_sweep_is_interrupted_for_urgent_work_and_begins_again(queue: Queue) -> None:
    labels = Gate(queue, Urgency.SWEEP)
    assert say(queue, "typed", [], Urgency.SENTENCE).result(PATIENCE) == "typed"
    assert not labels.answer.done()
    labels.open.set()
    assert labels.answer.result(PATIENCE) == "through"
    assert labels.calls == 2


def test_only_sweeps_are_interrupted_and_only_by_their_own_lane(queue: Queue) -> None:
    sentence, sweep = Gate(queue, Urgency.SENTENCE), Gate(queue, Urgency.SWEEP, Lane.LAYERS)
    waiting = say(queue, "next", [])
    assert queue.submit(lambda: one_unit(lambda: "map"), Urgency.SELECTED, Lane.MODEL).result(PATIENCE) == "map"
    checks = sentence.checks, sweep.checks
    until(lambda: sentence.checks > checks[0] + 2 and sweep.checks > checks[1] + 2)
    assert not waiting.done()
    for gate in (sentence, sweep):
        gate.open.set()
    assert [each.result(PATIENCE) for each in (sentence.answer, sweep.answer, waiting)] == [
        "through",
        "through",
        "next",
    ]
    assert (sentence.calls, sweep.calls) == (1, 1)


def raising(error: BaseException) -> Callable[[], Work[str]]:
    """Make work that fails in its second unit."""

    def work() -> Work[str]:
        yield None
        raise error

    return work


def test_engine_errors_are_answers(queue: Queue) -> None:
    with pytest.raises(EngineError, match=r"^layer 9 is not there$"):
        queue.submit(raising(EngineError("layer 9 is not there")), Urgency.SELECTED, LANE).result(PATIENCE)
    assert not log_file().exists()


@pytest.mark.parametrize(
    "error", [ValueError("odd\nand long"), KeyboardInterrupt(), SystemExit(3), MemoryError(), Exception()]
)
def test_unforeseen_errors_are_one_line_and_logged(error: BaseException, queue: Queue) -> None:
    with pytest.raises(EngineError) as caught:
        queue.submit(raising(error), Urgency.SELECTED, LANE).result(PATIENCE)
    assert type(error).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(log_file()) in str(caught.value)
    assert "Traceback" in log_file().read_text()
    assert say(queue, "alive", []).result(PATIENCE) == "alive"


def test_stopping_returns_at_once_and_answers_everybody(queue: Queue) -> None:
    gate = Gate(queue, Urgency.SENTENCE, can_be_ended=False)
    moving, said = Gate(queue, lane=Lane.MODEL), list[str]()
    waiting = [say(queue, "late", said, urgency) for urgency in list(Urgency)[1:]]
    queue.stop()
    for future in (gate.answer, moving.answer, *waiting, say(queue, "after", said)):
        with pytest.raises((Superseded, CancelledError)):
            future.result(0)
    gate.open.set()
    queue.join(PATIENCE)
    assert said == []


LEFT_AT_WORK = """
import threading, time, torch
from engine.mathematics.threads import run_in_rounds
from engine.service import queue as module
from engine.values.progress import Lane, one_unit

def decompose(size):
    begun.set()
    return torch.linalg.svdvals(torch.randn(size, size))

module.LONGEST_WAIT = 0.2
torch.set_num_threads(2)
queue, begun = module.Queue(), threading.Event()
for lane, work in (
    (Lane.LAYERS, lambda: one_unit(lambda: decompose(6000))),
    (Lane.WEIGHTS, lambda: run_in_rounds([lambda: decompose(1200)] * 2)),
):
    begun.clear()
    queue.submit(work, module.Urgency.SWEEP, lane)
    assert begun.wait(60)
print(time.time())
"""


def test_long_work_does_not_keep_a_program_alive() -> None:
    assert time.time() - float(run_apart(LEFT_AT_WORK, OMP_NUM_THREADS="1")) < 10


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
    assert list(tmp_path.glob("*heads*")) == []


@pytest.fixture
def own_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("own_threads")
@pytest.mark.parametrize(("threads", "pieces", "cores"), [(3, 3, 1), (3, 2, 1), (4, 2, 2), (1, 2, 1), (3, 1, 3)])
def test_pieces_share_the_threads_of_the_caller(threads: int, pieces: int, cores: int) -> None:
    together = threading.Barrier(min(threads, pieces))

    def piece() -> int:
        together.wait(PATIENCE)
        return torch.get_num_threads()

    torch.set_num_threads(threads)
    assert finish(run_in_rounds([piece] * pieces)) == [cores] * pieces
    assert torch.get_num_threads() == threads
