"""Each lane does the most urgent unit, and a request that fails does not affect the others."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path

import pytest
import torch

from engine.mathematics.threads import run_in_rounds
from engine.service.queue import FILE_VIEW, NICENESS, Queue, Urgency
from engine.store.files import log_file
from engine.values.errors import EngineError, Superseded
from engine.values.progress import Lane, Work, finish, one_unit, restartable
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
    """A unit that runs until its gate is opened, and calls a check meanwhile."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self.check = check
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        deadline = time.monotonic() + PATIENCE
        while not self.open.wait(0.002):
            assert time.monotonic() < deadline
            self.check()
        return "through"

    def unit(self) -> Work[str]:
        return one_unit(self)


class Units:
    """Work of one unit every millisecond until its end is set."""

    def __init__(self) -> None:
        self.done, self.ends, self.is_closed = 0, threading.Event(), False

    def __call__(self) -> Work[str]:
        try:
            while not self.ends.wait(0.001):
                self.done += 1
                yield None
            return "through"
        except GeneratorExit:
            self.is_closed = True
            raise


def saying(word: str, said: list[str]) -> Callable[[], Work[str]]:
    """Make work that adds its word when it is done."""

    def unit() -> str:
        said.append(word)
        return word

    return lambda: one_unit(unit)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_most_urgent_work_comes_first_and_equally_urgent_work_in_order(queue: Queue) -> None:
    gate, said = Gate(), list[str]()
    queue.submit(gate.unit, Urgency.SELECTED, LANE)
    assert gate.begun.wait(PATIENCE)
    order = [Urgency.SWEEP, Urgency.OPENING, Urgency.SENTENCE, Urgency.SELECTED]
    futures = [
        queue.submit(saying(f"{urgency.name}{number}", said), urgency, LANE) for number in (1, 2) for urgency in order
    ]
    gate.open.set()
    wait(futures, PATIENCE)
    assert said == [f"{urgency.name}{number}" for urgency in reversed(order) for number in (1, 2)]


@pytest.mark.parametrize("urgency", [Urgency.SENTENCE, Urgency.OPENING, Urgency.SWEEP])
def test_work_that_is_not_more_urgent_waits(urgency: Urgency, queue: Queue) -> None:
    units, said = Units(), list[str]()
    first = queue.submit(units, Urgency.SENTENCE, LANE)
    until(lambda: units.done > 3)
    second = queue.submit(saying("second", said), urgency, LANE)
    done = units.done
    until(lambda: units.done > done + 5)
    assert said == []
    units.ends.set()
    wait([first, second], PATIENCE)
    assert said == ["second"]


def test_work_moves_to_the_lane_that_it_names_and_back(queue: Queue) -> None:
    places = []

    def work() -> Work[str]:
        for lane in (None, Lane.MODEL, None, Lane.LAYERS, Lane.WEIGHTS):
            yield lane
            places.append(threading.current_thread().name)
        return "done"

    assert queue.submit(work, Urgency.LARGE, Lane.WEIGHTS).result(PATIENCE) == "done"
    assert places == [f"lane {name}" for name in ("weights", "model", "model", "layers", "weights")]


def test_the_latest_request_for_a_view_replaces_the_earlier_ones(queue: Queue) -> None:
    gate, said = Gate(queue.check), list[str]()
    running = queue.submit(gate.unit, Urgency.SENTENCE, LANE, "map")
    assert gate.begun.wait(PATIENCE)
    waiting = queue.submit(saying("waiting", said), Urgency.SENTENCE, LANE, "map")
    other = queue.submit(saying("other", said), Urgency.SENTENCE, LANE, "ranks")
    latest = queue.submit(saying("latest", said), Urgency.SENTENCE, LANE, "map")
    assert latest.result(PATIENCE) == "latest"
    for replaced in (running, waiting):
        with pytest.raises(Superseded):
            replaced.result(PATIENCE)
    assert other.result(PATIENCE) == "other"
    assert said == ["other", "latest"]


def test_a_replaced_request_fails_at_once_and_its_work_is_closed(queue: Queue) -> None:
    units, gate = Units(), Gate()
    replaced = queue.submit(units, Urgency.SWEEP, LANE, "sweep")
    until(lambda: units.done > 3)
    urgent = queue.submit(gate.unit, Urgency.SELECTED, LANE)
    assert gate.begun.wait(PATIENCE)
    queue.give_up("sweep")
    with pytest.raises(Superseded):
        replaced.result(0)
    done = units.done
    gate.open.set()
    assert urgent.result(PATIENCE) == "through"
    until(lambda: units.is_closed)
    assert units.done == done


def test_work_can_be_given_up_before_it_starts(queue: Queue) -> None:
    gate, said = Gate(), list[str]()
    queue.submit(gate.unit, Urgency.SELECTED, LANE)
    assert gate.begun.wait(PATIENCE)
    given_up = queue.submit(saying("sweep", said), Urgency.SWEEP, LANE, "sweep")
    cancelled = queue.submit(saying("cancelled", said), Urgency.SWEEP, LANE)
    assert cancelled.cancel()
    queue.give_up("sweep")
    queue.give_up("a view that nobody asked for")
    with pytest.raises(Superseded):
        given_up.result(0)
    gate.open.set()
    assert queue.submit(saying("next", said), Urgency.SWEEP, LANE).result(PATIENCE) == "next"
    assert said == ["next"]


def test_only_the_work_of_one_owner_is_given_up(queue: Queue) -> None:
    mine, others = Units(), Units()
    first = queue.submit(mine, Urgency.SWEEP, Lane.WEIGHTS, owner="model")
    second = queue.submit(others, Urgency.SWEEP, Lane.MODEL, owner="another")
    until(lambda: mine.done > 0 and others.done > 0)
    queue.give_up_all("model", "another model has been opened")
    with pytest.raises(Superseded, match="another model"):
        first.result(0)
    others.ends.set()
    assert second.result(PATIENCE) == "through"


def test_requests_for_a_file_come_after_those_of_the_screen(queue: Queue) -> None:
    gate, said = Gate(), list[str]()
    queue.submit(gate.unit, Urgency.SELECTED, LANE)
    assert gate.begun.wait(PATIENCE)
    token = FILE_VIEW.set("writing")
    first = queue.submit(saying("file", said), Urgency.SELECTED, LANE)
    FILE_VIEW.reset(token)
    later = queue.submit(saying("sentence", said), Urgency.SENTENCE, LANE)
    gate.open.set()
    wait([first, later], PATIENCE)
    assert said == ["sentence", "file"]


@pytest.mark.parametrize("is_restartable", [True, False])
def test_a_long_unit_of_a_sweep_is_interrupted_for_urgent_work_and_begins_again(
    is_restartable: bool, queue: Queue
) -> None:
    reading, begun = Gate(queue.check), list[str]()

    def unit() -> str:
        begun.append(threading.current_thread().name)
        return reading()

    labels = queue.submit(lambda: restartable(unit) if is_restartable else one_unit(unit), Urgency.SWEEP, Lane.MODEL)
    assert reading.begun.wait(PATIENCE)
    assert queue.submit(lambda: one_unit(lambda: "typed"), Urgency.SENTENCE, Lane.MODEL).result(PATIENCE) == "typed"
    assert not labels.done()
    reading.open.set()
    assert labels.result(PATIENCE) == "through"
    assert len(begun) == 2


def test_only_sweeps_are_interrupted_and_only_by_their_own_lane(queue: Queue) -> None:
    sentence, sweep = Gate(queue.check), Gate(queue.check)
    first = queue.submit(sentence.unit, Urgency.SENTENCE, Lane.MODEL)
    second = queue.submit(sweep.unit, Urgency.SWEEP, Lane.LAYERS)
    assert sentence.begun.wait(PATIENCE)
    assert sweep.begun.wait(PATIENCE)
    waiting = queue.submit(lambda: one_unit(lambda: "next"), Urgency.SELECTED, Lane.MODEL)
    assert queue.submit(lambda: one_unit(lambda: "head"), Urgency.SELECTED, Lane.WEIGHTS).result(PATIENCE) == "head"
    time.sleep(0.02)
    assert not waiting.done()
    for gate in (sentence, sweep):
        gate.open.set()
    assert [each.result(PATIENCE) for each in (first, second, waiting)] == ["through", "through", "next"]


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
    "error",
    [ValueError("odd\nand long"), KeyboardInterrupt(), SystemExit(3), MemoryError(), Exception()],
)
def test_unforeseen_errors_are_one_line_and_logged(error: BaseException, queue: Queue) -> None:
    with pytest.raises(EngineError) as caught:
        queue.submit(raising(error), Urgency.SELECTED, LANE).result(PATIENCE)
    assert type(error).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(log_file()) in str(caught.value)
    assert "Traceback" in log_file().read_text()
    assert queue.submit(saying("alive", []), Urgency.SELECTED, LANE).result(PATIENCE) == "alive"


def test_requests_from_many_threads_are_all_answered(queue: Queue) -> None:
    futures: list[Future[int]] = []
    lock = threading.Lock()

    def answering(number: int) -> Callable[[], Work[int]]:
        def work() -> Work[int]:
            yield list(Lane)[number % 3]
            return number

        return work

    def ask(start: int) -> None:
        for number in range(start, start + 50):
            future = queue.submit(answering(number), Urgency(number % 4), list(Lane)[number % 4])
            with lock:
                futures.append(future)

    askers = [threading.Thread(target=ask, args=(50 * number,)) for number in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(PATIENCE)
    assert sorted(future.result(PATIENCE) for future in futures) == list(range(400))


def test_stopping_returns_at_once_and_answers_everybody(queue: Queue) -> None:
    gate, units, said = Gate(), Units(), list[str]()
    running = queue.submit(gate.unit, Urgency.SENTENCE, LANE)
    moving = queue.submit(units, Urgency.SWEEP, Lane.MODEL)
    assert gate.begun.wait(PATIENCE)
    until(lambda: units.done > 0)
    waiting = [queue.submit(saying("late", said), urgency, LANE) for urgency in list(Urgency)[1:]]
    queue.stop()
    for future in (running, moving, *waiting, queue.submit(saying("after", said), Urgency.SELECTED, LANE)):
        with pytest.raises((Superseded, CancelledError)):
            future.result(0)
    gate.open.set()
    until(lambda: units.is_closed)
    queue.join(PATIENCE)
    assert said == []


LEFT_AT_WORK = """
import sys, threading, time, torch
from engine.mathematics.threads import run_in_rounds
from engine.service import queue as module
from engine.values.progress import Lane, one_unit

def decompose(size):
    begun.set()
    return torch.linalg.svdvals(torch.randn(size, size))

module.LONGEST_WAIT = 0.2
torch.set_num_threads(2)
queue, begun = module.Queue(), threading.Event()
works = {
    "sleep": lambda: one_unit(lambda: (begun.set(), time.sleep(60))),
    "lapack": lambda: one_unit(lambda: decompose(6000)),
    "pieces": lambda: run_in_rounds([lambda: decompose(1200)] * 2),
}
queue.submit(works[sys.argv[1]], module.Urgency.SWEEP, Lane.LAYERS)
assert begun.wait(60)
if sys.argv[1] == "sleep":
    queue.stop()
print(time.time())
"""


@pytest.mark.parametrize("work", ["sleep", "lapack", "pieces"])
def test_long_work_does_not_keep_a_program_alive(work: str) -> None:
    assert time.time() - float(run_apart(LEFT_AT_WORK, work, OMP_NUM_THREADS="1")) < 10


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


@pytest.mark.parametrize(("threads", "pieces", "cores"), [(3, 3, 1), (3, 2, 1), (4, 2, 2), (1, 2, 1), (3, 1, 3)])
def test_pieces_share_the_threads_of_the_caller(threads: int, pieces: int, cores: int) -> None:
    together = threading.Barrier(min(threads, pieces))

    def piece() -> int:
        together.wait(PATIENCE)
        return torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert finish(run_in_rounds([piece] * pieces)) == [cores] * pieces
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_lanes_share_the_threads_of_linear_algebra(queue: Queue) -> None:
    from engine.service import queue as module

    total = module._all_threads.setdefault("torch", torch.get_num_threads())
    alone = queue.submit(lambda: one_unit(torch.get_num_threads), Urgency.SELECTED, Lane.WEIGHTS)
    assert alone.result(PATIENCE) == total
    gate = Gate()
    queue.submit(gate.unit, Urgency.LARGE, Lane.LAYERS)
    assert gate.begun.wait(PATIENCE)
    beside = queue.submit(lambda: one_unit(torch.get_num_threads), Urgency.SELECTED, Lane.WEIGHTS)
    assert beside.result(PATIENCE) == max(1, total // 2)
    gate.open.set()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere niceness is of a whole process")
def test_lanes_that_compute_have_a_lower_priority(queue: Queue) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)

    found = {
        lane: queue.submit(lambda: one_unit(niceness), Urgency.SELECTED, lane).result(PATIENCE) - niceness()
        for lane in Lane
    }
    assert found == {Lane.WEIGHTS: NICENESS, Lane.LAYERS: NICENESS, Lane.MODEL: NICENESS, Lane.FILES: 0}


def test_work_that_is_given_up_frees_its_memory(queue: Queue) -> None:
    class Large:
        """Stands for a layer's weights."""

    living: list[weakref.ref[Large]] = []
    begun = threading.Event()

    def unit() -> None:
        held = Large()
        living.append(weakref.ref(held))

        def within() -> Large:
            while True:
                begun.set()
                queue.check()
                assert held

        within()

    gc.disable()  # which would find in the end what nobody lets go of
    try:
        given_up = queue.submit(lambda: one_unit(unit), Urgency.LARGE, LANE, "layer")
        assert begun.wait(PATIENCE)
        assert queue.submit(saying("next", []), Urgency.LARGE, LANE, "layer").result(PATIENCE) == "next"
        with pytest.raises(Superseded):
            given_up.result(PATIENCE)
        assert living[0]() is None
    finally:
        gc.enable()
