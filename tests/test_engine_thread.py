"""One thread does the work, most urgent first; whatever happens to one request, the next is answered."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait

import pytest

from engine.service.options import log_file
from engine.service.thread import Breathe, EngineThread, Urgency
from engine.values.errors import EngineError, Superseded
from tests.opening import run_apart

PATIENCE = 10.0
"""Seconds after which a test gives up; nothing here takes as long."""


@pytest.fixture
def thread() -> Iterator[EngineThread]:
    """Start an engine thread of our own."""
    made = EngineThread()
    yield made
    made.stop()


class Gate:
    """Work that has begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.looks = 0

    def __call__(self, breathe: Breathe) -> str:
        """Look for more urgent work until the gate opens."""
        self.begun.set()
        deadline = time.monotonic() + PATIENCE
        while not self.open.wait(0.002):
            assert time.monotonic() < deadline
            breathe()
            self.looks += 1
        return "through"

    def without_breathing(self, breathe: Breathe) -> str:
        """Wait for the gate and look for nothing."""
        self.begun.set()
        assert self.open.wait(PATIENCE)
        return "through"


def saying(word: str, said: list[str]) -> Callable[[Breathe], str]:
    """Make work that notes when it is done."""

    def work(breathe: Breathe) -> str:
        said.append(word)
        return word

    return work


def test_the_most_urgent_work_comes_first_and_equals_in_their_order(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    thread.submit(gate.without_breathing, Urgency.SELECTED)
    assert gate.begun.wait(PATIENCE)
    order = [Urgency.SWEEP, Urgency.OPENING, Urgency.SENTENCE, Urgency.SELECTED]
    futures = [
        thread.submit(saying(f"{urgency.name}{number}", said), urgency) for number in (1, 2) for urgency in order
    ]
    gate.open.set()
    wait(futures, PATIENCE)
    assert said == [f"{urgency.name}{number}" for urgency in reversed(order) for number in (1, 2)]


def test_more_urgent_work_is_done_in_the_middle_of_less_urgent(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    sweep = thread.submit(gate, Urgency.SWEEP)
    assert gate.begun.wait(PATIENCE)
    assert thread.submit(saying("selected", said), Urgency.SELECTED).result(PATIENCE) == "selected"
    assert not sweep.done()
    gate.open.set()
    assert sweep.result(PATIENCE) == "through"


def test_urgent_work_is_itself_interrupted_by_more_urgent(thread: EngineThread) -> None:
    sweep, sentence = Gate(), Gate()
    outer = thread.submit(sweep, Urgency.SWEEP)
    assert sweep.begun.wait(PATIENCE)
    middle = thread.submit(sentence, Urgency.SENTENCE)
    assert sentence.begun.wait(PATIENCE)
    assert thread.submit(lambda breathe: "inner", Urgency.SELECTED).result(PATIENCE) == "inner"
    assert not middle.done()
    sentence.open.set()
    assert middle.result(PATIENCE) == "through"
    sweep.open.set()
    assert outer.result(PATIENCE) == "through"


@pytest.mark.parametrize("urgency", [Urgency.SENTENCE, Urgency.OPENING, Urgency.SWEEP])
def test_work_that_is_no_more_urgent_waits_for_its_turn(urgency: Urgency, thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    first = thread.submit(gate, Urgency.SENTENCE)
    assert gate.begun.wait(PATIENCE)
    second = thread.submit(saying("second", said), urgency)
    looks = gate.looks
    while gate.looks < looks + 5:
        time.sleep(0.002)
    assert said == []
    gate.open.set()
    wait([first, second], PATIENCE)
    assert said == ["second"]


def test_the_latest_request_for_a_view_replaces_the_earlier_ones(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    running = thread.submit(gate, Urgency.SENTENCE, "map")
    assert gate.begun.wait(PATIENCE)
    waiting = thread.submit(saying("waiting", said), Urgency.SENTENCE, "map")
    other = thread.submit(saying("other", said), Urgency.SENTENCE, "ranks")
    latest = thread.submit(saying("latest", said), Urgency.SENTENCE, "map")
    assert latest.result(PATIENCE) == "latest"
    for replaced in (running, waiting):
        with pytest.raises(Superseded):
            replaced.result(PATIENCE)
    assert other.result(PATIENCE) == "other"
    assert said == ["other", "latest"]


def test_work_without_a_view_replaces_nothing(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    thread.submit(gate.without_breathing, Urgency.SELECTED)
    futures = [thread.submit(saying(str(number), said), Urgency.SELECTED) for number in range(5)]
    gate.open.set()
    assert [future.result(PATIENCE) for future in futures] == said == ["0", "1", "2", "3", "4"]


def test_work_replaced_while_more_urgent_work_runs_inside_it_stops_right_after(thread: EngineThread) -> None:
    outer, inner = Gate(), Gate()
    replaced = thread.submit(outer, Urgency.SWEEP, "sweep")
    assert outer.begun.wait(PATIENCE)
    urgent = thread.submit(inner, Urgency.SELECTED)
    assert inner.begun.wait(PATIENCE)
    thread.give_up("sweep")
    looks = outer.looks
    inner.open.set()
    assert urgent.result(PATIENCE) == "through"
    with pytest.raises(Superseded):
        replaced.result(PATIENCE)
    assert outer.looks == looks


def test_work_can_be_given_up_before_it_starts(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    thread.submit(gate.without_breathing, Urgency.SELECTED)
    assert gate.begun.wait(PATIENCE)
    given_up = thread.submit(saying("sweep", said), Urgency.SWEEP, "sweep")
    cancelled = thread.submit(saying("cancelled", said), Urgency.SWEEP)
    assert cancelled.cancel()
    thread.give_up("sweep")
    thread.give_up("a view that nobody asked for")
    gate.open.set()
    with pytest.raises(Superseded):
        given_up.result(PATIENCE)
    assert thread.submit(saying("next", said), Urgency.SWEEP).result(PATIENCE) == "next"
    assert said == ["next"]


def raising(error: BaseException) -> Callable[[Breathe], str]:
    """Make work that fails."""

    def work(breathe: Breathe) -> str:
        raise error

    return work


def test_what_a_person_can_mend_is_said_as_it_is(thread: EngineThread) -> None:
    with pytest.raises(EngineError, match=r"^layer 9 is not there$"):
        thread.submit(raising(EngineError("layer 9 is not there")), Urgency.SELECTED).result(PATIENCE)
    assert not log_file().exists()


@pytest.mark.parametrize(
    "error",
    [ValueError("odd\nand long"), KeyboardInterrupt(), SystemExit(3), StopIteration(), MemoryError(), Exception()],
)
def test_what_nobody_foresaw_is_an_answer_in_one_line_and_kept_in_the_log(
    error: BaseException, thread: EngineThread
) -> None:
    with pytest.raises(EngineError) as caught:
        thread.submit(raising(error), Urgency.SELECTED).result(PATIENCE)
    assert type(error).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(log_file()) in str(caught.value)
    assert "Traceback" in log_file().read_text()
    assert thread.submit(lambda breathe: "alive", Urgency.SELECTED).result(PATIENCE) == "alive"


def test_an_error_inside_work_does_not_hurt_the_work_around_it(thread: EngineThread) -> None:
    gate = Gate()
    sweep = thread.submit(gate, Urgency.SWEEP)
    assert gate.begun.wait(PATIENCE)
    failing = thread.submit(raising(ValueError("odd")), Urgency.SELECTED)
    assert isinstance(failing.exception(PATIENCE), EngineError)
    gate.open.set()
    assert sweep.result(PATIENCE) == "through"


def test_requests_from_many_threads_are_all_answered(thread: EngineThread) -> None:
    futures: list[Future[int]] = []
    lock = threading.Lock()

    def answering(number: int) -> Callable[[Breathe], int]:
        return lambda breathe: number

    def ask(start: int) -> None:
        for number in range(start, start + 50):
            future = thread.submit(answering(number), Urgency(number % 4))
            with lock:
                futures.append(future)

    askers = [threading.Thread(target=ask, args=(50 * number,)) for number in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(PATIENCE)
    assert sorted(future.result(PATIENCE) for future in futures) == list(range(400))


def test_stopping_returns_at_once_and_answers_everybody(thread: EngineThread) -> None:
    gate, said = Gate(), list[str]()
    running = thread.submit(gate.without_breathing, Urgency.SENTENCE)
    assert gate.begun.wait(PATIENCE)
    waiting = [thread.submit(saying("late", said), urgency) for urgency in Urgency]
    started = time.monotonic()
    thread.stop()
    assert time.monotonic() - started < 0.2
    gate.open.set()
    assert running.result(PATIENCE) == "through"
    afterwards = thread.submit(saying("after the end", said), Urgency.SELECTED)
    for future in (*waiting, afterwards):
        with pytest.raises((Superseded, CancelledError)):
            future.result(2)
    assert said == []


def test_running_work_ends_at_its_next_step_when_the_thread_is_stopped(thread: EngineThread) -> None:
    gate = Gate()
    running = thread.submit(gate, Urgency.SWEEP)
    assert gate.begun.wait(PATIENCE)
    thread.stop()
    with pytest.raises(Superseded):
        running.result(PATIENCE)


BUSY = """
import sys, threading, time
from engine.service.thread import EngineThread, Urgency
thread, begun = EngineThread(), threading.Event()
thread.submit(lambda breathe: (begun.set(), time.sleep(60)), Urgency.SWEEP)
begun.wait()
if "stop" in sys.argv: thread.stop()
"""


@pytest.mark.parametrize("how", ["stop", "leave"])
def test_busy_work_never_keeps_the_process_alive(how: str) -> None:
    started = time.monotonic()
    run_apart(BUSY, how)
    assert time.monotonic() - started < 10


def test_what_work_was_at_goes_with_it_when_it_is_given_up(thread: EngineThread) -> None:
    class Large:
        """Stands for a layer's weights."""

    living: list[weakref.ref[Large]] = []
    begun = threading.Event()

    def work(breathe: Breathe) -> None:
        held = Large()
        living.append(weakref.ref(held))

        def within() -> Large:
            while True:
                begun.set()
                breathe()
                assert held

        within()

    gc.disable()  # which would find in the end what nobody lets go of
    try:
        given_up = thread.submit(work, Urgency.LARGE, "layer")
        assert begun.wait(PATIENCE)
        assert thread.submit(lambda breathe: "next", Urgency.LARGE, "layer").result(PATIENCE) == "next"
        with pytest.raises(Superseded):
            given_up.result(PATIENCE)
        assert living[0]() is None
    finally:
        gc.enable()
