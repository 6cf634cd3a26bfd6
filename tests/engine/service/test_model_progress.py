"""Loading a model and reading a sentence report true progress, seldom, and for short sentences not at all."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors import safe_open

from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.attention import AttentionMaps, Sentence
from engine.values.heads import NOTHING_OFF, Off
from engine.values.memory import MemoryReport, SentenceNeed
from engine.values.progress import Lane, Progress, ProgressReporter, Work
from tests.conftest import TinyModel
from tests.exporting import run
from tests.opening import PATIENCE, start_engine
from tests.tui.explorer import explorer, settle, shown, until
from tui.cli.headless import StatusLine
from tui.drawing.progress import progress_text
from tui.toolkit.messages import SentenceProgress

SENTENCE = "The cat sat on the mat."


def watched(model: Path, dtype: str = "auto") -> tuple[Engine, list[Progress]]:
    engine, told = start_engine(model, dtype=dtype), list[Progress]()
    engine.watcher = told.append
    return engine, told


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_reported_layers_are_those_that_have_run(
    tiny_model: TinyModel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.progress.REPORT_SECONDS", 0.0)
    engine, told = watched(tiny_model(name))
    engine.read(SENTENCE).result(PATIENCE)
    layers = len(engine._model.outline.layers) if engine._model is not None else 0
    engine.stop()
    read = [each for each in told if each.unit == "layers"]
    assert [(each.done, each.total) for each in read] == [(done, layers) for done in range(layers + 1)]
    assert [each.finished for each in read] == [*[False] * layers, True]


@pytest.mark.parametrize(("dtype", "share"), [("auto", 1.0), ("bfloat16", 0.5)])
def test_reported_bytes_are_those_of_the_weights(
    tiny_model: TinyModel, dtype: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.values.progress.REPORT_SECONDS", 0.0)
    folder = tiny_model("llama")
    engine, told = watched(folder, dtype)
    engine.read(SENTENCE).result(PATIENCE)
    engine.stop()
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        stored = sum(file.get_tensor(name).nbytes for name in file.keys() if name != "lm_head.weight")  # noqa: SIM118
    loaded = [each for each in told if each.unit == "bytes"]
    assert loaded[-2].done == loaded[-2].total == share * stored


class Clock:
    """A clock that the test sets, and how often it was read."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Use a clock of the test's own for progress."""
    clock = Clock()
    monkeypatch.setattr("engine.values.progress.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_a_short_sentence_reports_nothing_and_reads_the_clock_once_a_layer(tiny_model: TinyModel, clock: Clock) -> None:
    engine, told = watched(tiny_model("gpt2"))
    engine.read(SENTENCE).result(PATIENCE)
    before = clock.looks
    engine.read("the dog").result(PATIENCE)
    layers = len(engine._model.outline.layers) if engine._model is not None else 0
    engine.stop()
    assert not told
    assert clock.looks - before <= layers + 2


def test_reports_are_few_and_the_time_left_is_that_of_the_layers_left(clock: Clock) -> None:
    told: list[Progress] = []
    telling = ProgressReporter(told.append, "reading the sentence", "layers")
    for layer in range(40):
        for _ in range(25):  # a hook may be called as often as it likes
            telling(layer, 40)
        clock.now += 0.1
    telling.end()
    assert len(told) <= 4.0 / 0.3 + 1
    assert told[0].rate is None
    for each in told[4:-1]:
        assert each.remaining == pytest.approx(0.1 * (40 - each.done))
    assert told[-1].finished
    assert progress_text(told[-2]).startswith(f"reading the sentence {told[-2].done} / 40 layers · 1 s left")
    telling.end()
    assert [each.finished for each in told].count(True) == 1


def held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold sentences back until an event."""
    free, read = threading.Event(), OpenModel.read

    def waiting(self: OpenModel, text: str, off: Off = NOTHING_OFF) -> Work[Sentence]:
        while not free.wait(0.01):
            yield Lane.MODEL
        return (yield from read(self, text, off))

    monkeypatch.setattr(OpenModel, "read", waiting)
    return free


async def test_the_view_and_the_foot_show_the_progress_of_a_sentence(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 0.0)
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await pilot.press("3")
        free, pane = held_back(monkeypatch), app.views.attention
        app.main.read(SENTENCE)
        await until(pilot, lambda: "is getting ready" in pane.message)
        app.engine._advance(Progress("importing torch", 3, 0, "seconds"))
        await until(pilot, lambda: pane.message.startswith("importing torch 3 s; then "))
        assert shown(app.main.progress_line) == "importing torch 3 s"
        app.engine._advance(Progress("reading weights", 5 * 10**9, 20 * 10**9, "bytes", 10**9))
        await until(pilot, lambda: "is loading: 5.0 GB of 20 GB, 15 s left; then it reads" in pane.message)
        app.engine._advance(Progress("reading the sentence", 3, 40, "layers"))
        await until(pilot, lambda: pane.message.endswith("is reading the sentence: 3 of 40 layers …"))
        app.engine._advance(Progress("reading the sentence", 4, 40, "layers", 0.5))
        await until(pilot, lambda: pane.message.endswith("4 of 40 layers, 75 s left …"))
        assert shown(app.main.progress_line) == "reading the sentence  4 / 40 layers · 75 s left"
        app.engine._advance(Progress("reading the sentence", 40, 40, "layers"))
        await until(pilot, lambda: not shown(app.main.progress_line))
        free.set()
        await settle(pilot)
        assert pane.heatmap.pooled is not None


async def test_the_view_shows_the_progress_of_a_mean_over_layers(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 0.0)
    async with explorer(tiny_model("gpt2"), text=SENTENCE) as (app, pilot):
        free, maps, pane = threading.Event(), OpenModel.attention, app.views.attention

        def waiting(self: OpenModel, text: str, stack: str, layer: int | None, *rest: Any) -> Work[AttentionMaps]:
            assert free.wait(PATIENCE)
            return (yield from maps(self, text, stack, layer, *rest))

        monkeypatch.setattr(OpenModel, "attention", waiting)
        await pilot.press("3", "a", "a")
        await until(pilot, lambda: pane.message == "computing …")
        app.engine._advance(Progress("computing maps", 3, 40, "layers", 0.5))
        await until(pilot, lambda: pane.message == "computing maps: 3 of 40 layers, 75 s left …")
        free.set()
        await settle(pilot)
        assert pane.heatmap.pooled is not None


def test_only_the_newest_report_waits_to_be_drawn() -> None:
    first, second = (SentenceProgress(Progress("reading the sentence", done, 40, "layers")) for done in (1, 2))
    assert second.can_replace(first)


async def test_before_the_gpus_are_known_the_headers_say_what_is_needed(tiny_model: TinyModel) -> None:
    need = SentenceNeed(812 * 10**9, 812 * 10**9, 0, "bfloat16", "")
    async with explorer(tiny_model("gpt2")) as (app, _):
        assert app.main.stores is not None
        maps = app.main.stores.maps
        maps.note_memory(MemoryReport(191, 812 * 10**9, 1, need, None, 19 * 10**9))
        assert "needs 812 GB to read a sentence (bfloat16), 19 GB are free in main memory" in maps.reading
        maps.note_memory(MemoryReport(191, 812 * 10**9, 1, need, None, 500 * 10**9))
        assert maps.reading.endswith(" is getting ready to read the sentence …")


def test_the_command_shows_the_same(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.values.progress.REPORT_SECONDS", 0.0)
    lines: list[str] = []
    monkeypatch.setattr(StatusLine, "show", lambda self, progress: lines.append(progress_text(progress)))
    done = run(tiny_model("gpt2"), "attention", "--text", SENTENCE, "--layer", "0")
    assert done.exit_code == 0
    assert "reading the sentence 1 / 2 layers" in " ".join(lines)
    assert not done.stderr
