"""Long work reports true progress, seldom, and can be given up between any two layers that run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.errors import Superseded
from engine.values.heads import Head
from engine.values.memory import MemoryReport, SentenceNeed
from engine.values.progress import (
    FOLLOWING,
    PREDICTING,
    SWITCHING,
    TAKING_APART,
    Progress,
    ProgressReporter,
    Work,
)
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.exporting import run
from tests.opening import PATIENCE, open_on_thread, start_engine, worked_out
from tests.tiny_models import VOCABULARY
from tests.tui.explorer import explorer, settle, until
from tui.app.explorer import Explorer
from tui.cli.headless import StatusLine
from tui.drawing.progress import progress_text
from tui.toolkit.messages import SentenceProgress
from tui.views.table_view import TablePane

TEXT = "The cat sat on the mat."
LAYERS = 3


@pytest.fixture
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.values.progress.REPORT_SECONDS", 0.0)


@pytest.fixture
def shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 0.0)


def watched(model: Path, dtype: str = "auto") -> tuple[Engine, list[Progress]]:
    engine, told = start_engine(model, dtype=dtype), list[Progress]()
    engine.watcher = told.append
    return engine, told


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_reported_layers_are_those_that_have_run(tiny_model: TinyModel, name: str) -> None:
    engine, told = watched(tiny_model(name))
    engine.read(TEXT).result(PATIENCE)
    layers = len(engine._model.outline.layers) if engine._model is not None else 0
    engine.stop()
    read = [each for each in told if each.unit == "layers"]
    assert [(each.done, each.total) for each in read] == [(done, layers) for done in range(layers + 1)]
    assert [each.finished for each in read] == [*[False] * layers, True]


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(("dtype", "share"), [("auto", 1.0), ("bfloat16", 0.5)])
def test_reported_bytes_are_those_of_the_weights(tiny_model: TinyModel, dtype: str, share: float) -> None:
    folder = tiny_model("llama")
    engine, told = watched(folder, dtype)
    engine.read(TEXT).result(PATIENCE)
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
    clock = Clock()
    monkeypatch.setattr("engine.values.progress.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_a_short_sentence_reports_nothing_and_reads_the_clock_once_a_layer(tiny_model: TinyModel, clock: Clock) -> None:
    engine, told = watched(tiny_model("gpt2"))
    engine.read(TEXT).result(PATIENCE)
    before = clock.looks
    engine.read("the dog").result(PATIENCE)
    layers = len(engine._model.outline.layers) if engine._model is not None else 0
    engine.stop()
    assert not told
    assert clock.looks - before <= layers + 2


def test_reports_are_few_and_the_time_left_is_that_of_the_layers_left(clock: Clock) -> None:
    told: list[Progress] = []
    report = ProgressReporter(told.append, "reading the sentence", "layers")
    for layer in range(40):
        for _ in range(25):  # a hook may be called as often as it likes
            report(layer, 40)
        clock.now += 0.1
    report.end()
    assert len(told) <= 4.0 / 0.3 + 1
    assert told[0].rate is None
    for each in told[4:-1]:
        assert each.remaining == pytest.approx(0.1 * (40 - each.done))
    assert told[-1].finished
    assert progress_text(told[-2]).startswith(f"reading the sentence {told[-2].done} / 40 layers · 1 s left")
    report.end()
    assert [each.finished for each in told].count(True) == 1


def hold_back(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> tuple[threading.Event, list[Any]]:
    """Hold a kind of work back until an event, and list the arguments of each that begins."""
    free, begun, own = threading.Event(), list[Any](), getattr(owner, name)

    def waiting(*arguments: Any) -> Work[Any]:
        begun.append(arguments)
        while not free.wait(0.01):
            yield None
        return (yield from own(*arguments))

    monkeypatch.setattr(owner, name, waiting)
    return free, begun


@pytest.mark.usefixtures("shown_at_once")
async def test_the_view_and_the_foot_show_the_progress_of_a_sentence(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await pilot.press("3")
        (free, _), pane = hold_back(monkeypatch, OpenModel, "read"), app.views.attention
        app.main.read(TEXT)
        await until(pilot, lambda: "is getting ready" in pane.message)
        app.engine._advance(Progress("importing torch", 3, 0, "seconds"))
        await until(pilot, lambda: pane.message.startswith("importing torch 3 s; then "))
        assert app.main.top_line.progress == "importing torch 3 s"
        app.engine._advance(Progress("reading weights", 5 * 10**9, 20 * 10**9, "bytes", 10**9))
        await until(pilot, lambda: "is loading: 5.0 GB of 20 GB, 15 s left; then it reads" in pane.message)
        app.engine._advance(Progress("reading the sentence", 3, 40, "layers"))
        await until(pilot, lambda: pane.message.endswith("is reading the sentence: 3 of 40 layers …"))
        app.engine._advance(Progress("reading the sentence", 4, 40, "layers", 0.5))
        await until(pilot, lambda: pane.message.endswith("4 of 40 layers, 75 s left …"))
        assert app.main.top_line.progress == "reading the sentence  4 / 40 layers · 75 s left"
        app.engine._advance(Progress("reading the sentence", 40, 40, "layers"))
        await until(pilot, lambda: not app.main.top_line.progress)
        free.set()
        await settle(pilot)
        assert pane.heatmap.pooled is not None


@pytest.mark.usefixtures("shown_at_once")
async def test_the_view_shows_the_progress_of_a_mean_over_layers(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT) as (app, pilot):
        (free, _), pane = hold_back(monkeypatch, OpenModel, "attention"), app.views.attention
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


@pytest.mark.usefixtures("told_at_once")
def test_the_command_shows_progress(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(StatusLine, "show", lambda self, progress: lines.append(progress_text(progress)))
    done = run(tiny_model("gpt2"), "attention", "--text", TEXT, "--layer", "0")
    assert done.exit_code == 0
    assert "reading the sentence 1 / 2 layers" in " ".join(lines)
    assert not done.stderr


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("gpt2", with_head=True, num_hidden_layers=LAYERS)


def opened(folder: Path) -> tuple[OpenModel, list[Progress]]:
    model, told = open_on_thread(folder), list[Progress]()
    model.tell = told.append
    return model, told


@contextmanager
def attending() -> Iterator[list[str]]:
    """List the calls of attention modules."""
    called: list[str] = []

    def note(module: torch.nn.Module, args: Any) -> None:
        if type(module).__name__ == "GPT2Attention":
            called.append("attention")

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        yield called
    finally:
        hook.remove()


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(
    ("table", "activity", "unit", "runs"),
    [
        ("predictions", PREDICTING, "layers", None),
        ("lens", FOLLOWING, "layers run", None),
        ("contributions", TAKING_APART, "layers run", None),
        ("contributions", TAKING_APART, "layers run", 2 + 3 + 1),
    ],
)
def test_reported_steps_are_the_layers_that_run(
    folder: Path, table: str, activity: str, unit: str, runs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runs is not None:
        monkeypatch.setattr("engine.models.contributions.ROWS_AT_ONCE", 5)  # of 12 heads, all of them, 5 others
    model, told = opened(folder)
    if table != "predictions":
        worked_out(model, "predictions", Query(text=TEXT))
    told.clear()
    with attending() as called:
        worked_out(model, table, Query(text=TEXT))
    assert len(called) % LAYERS == 0
    assert runs in (None, len(called) // LAYERS)
    steps = [each for each in told if each.activity == activity]
    assert {(each.total, each.unit) for each in steps} == {(len(called), unit)}
    assert [each.done for each in steps] == list(range(len(called) + 1))
    assert [each.finished for each in steps] == [*[False] * len(called), True]


@pytest.mark.usefixtures("told_at_once")
def test_ablation_reports_heads_and_the_layer_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, told = opened(folder)
    worked_out(model, "predictions", Query(text=TEXT))
    monkeypatch.setattr("engine.models.interventions.TOKENS_AT_ONCE", 1)
    told.clear()
    worked_out(model, "ablation", Query(text=TEXT, layer=Head("decoder", 1)))
    heads = [each for each in told if each.activity == SWITCHING]
    expected = [(head, f"layer {layer} of {LAYERS}") for head in range(4) for layer in range(1, LAYERS + 1)]
    assert [(each.done, each.note) for each in heads] == [*expected, (4, "")]
    assert {(each.total, each.unit) for each in heads} == {(4, "heads")}


@pytest.mark.parametrize("table", ["predictions", "lens", "contributions", "ablation"])
def test_a_table_is_given_up_before_the_next_layer(folder: Path, table: str) -> None:
    query = Query(text=TEXT, layer=Head("decoder", 0)) if table == "ablation" else Query(text=TEXT)
    model, _ = opened(folder)
    if table != "predictions":
        worked_out(model, "predictions", Query(text=TEXT))
    for most in range(LAYERS):
        with attending() as called:

            def check(most: int = most, called: list[str] = called) -> None:
                if len(called) > most:
                    raise Superseded("given up")

            model.check = check
            with pytest.raises(Superseded):
                worked_out(model, table, query)
        assert len(called) <= most + 1


def pane(app: Explorer) -> TablePane:
    active = app.views.active
    assert isinstance(active, TablePane)
    return active


@pytest.mark.usefixtures("shown_at_once")
async def test_the_view_shows_progress_and_escape_gives_it_up(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT) as (app, pilot):
        free, begun = hold_back(monkeypatch, tables, "table")
        await pilot.press("8")
        await until(pilot, lambda: pane(app).grid.message == "computing …")
        app.engine._advance(Progress(PREDICTING, 3, 40, "layers", 0.5))
        await until(pilot, lambda: pane(app).grid.message == "predicting: 3 of 40 layers, 75 s left; esc stops")
        assert app.main.top_line.progress == "predicting  3 / 40 layers · 75 s left"
        app.session.change(selected=Head("decoder", 1, 2))  # of the same table, which does not begin anew
        await until(pilot, lambda: [name for _, name, _ in begun] == ["predictions"])
        app.main.action_leave()
        await until(pilot, lambda: pane(app).grid.message == "stopped, 8 goes on")
        free.set()
        await settle(pilot)
        assert pane(app).grid.message == "stopped, 8 goes on"
        await pilot.press("8")
        await settle(pilot)
        assert pane(app).view == "predictions"
        assert [name for _, name, _ in begun] == ["predictions", "predictions"]
        assert pane(app).shown is not None


@pytest.mark.usefixtures("shown_at_once")
async def test_escape_stops_a_sweep_that_says_how_far_it_is_and_then_clears_the_filter(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT) as (app, pilot):
        free, begun = hold_back(monkeypatch, tables, "table")
        await pilot.press("9")
        await until(pilot, lambda: [name for _, name, _ in begun] == ["ablation"])
        app.engine._advance(Progress(SWITCHING, 3, 4, "heads", 0.5, "layer 2 of 3"))
        await until(pilot, lambda: "3 of 8 heads, layer 2 of 3, 10 s left; esc stops" in pane(app).grid.message)
        assert app.main.top_line.progress == "ablation 3 / 8 heads · layer 2 of 3 · 10 s left"
        pane(app).filter_by("head = 1")
        pane(app).focus_view()
        await until(pilot, lambda: "/ Filter" in app.main.key_line.render().plain)
        await pilot.pause()
        assert "All rows" not in app.main.key_line.render().plain
        await pilot.press("escape")
        await until(pilot, lambda: "esc All rows" in app.main.key_line.render().plain)
        assert pane(app).current_filter is not None
        await pilot.press("escape")
        await until(pilot, lambda: "All rows" not in app.main.key_line.render().plain)
        assert pane(app).current_filter is None
        assert pane(app).grid.message == "stopped, 9 goes on"
        free.set()
        await pilot.press("9")
        await settle(pilot)
        assert pane(app).counts == (8, 8)
        assert not app.main.top_line.progress


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(
    ("table", "query", "activity", "unit", "total"),
    [
        ("explain", Query(text=TEXT, layer=Head("decoder", 0), head=0), "splitting scores into terms", "calls", 4),
        ("composition", Query(layer=Head("decoder", 2), head=0), "comparing with earlier layers", "layers", 2),
        ("patterns", Query(text=TEXT), "patterns", "layers", LAYERS),
        ("rollout", Query(text=TEXT), "computing the rollout", "layers", LAYERS),
        ("circuits", Query(layer=Head("decoder", 0)), "measuring circuits", "heads", 4),
        ("directions", Query(layer=Head("decoder", 0), head=0), "projecting tokens", "tokens", VOCABULARY - 4),
    ],
)
def test_other_long_tables_report_steps_of_their_own(
    folder: Path, table: str, query: Query, activity: str, unit: str, total: int
) -> None:
    model, told = opened(folder)
    worked_out(model, table, query)
    steps = [each for each in told if each.activity == activity]
    assert {(each.total, each.unit) for each in steps} == {(total, unit)}
    assert steps[0].done == 0
    assert steps[-1].finished


@pytest.mark.usefixtures("told_at_once")
def test_patterns_on_random_tokens_report_the_layers_that_read_and_that_are_measured(folder: Path) -> None:
    model, told = opened(folder)
    with attending() as called:
        worked_out(model, "patterns", Query(layer=Head("decoder", 0)))
    steps = [each for each in told if each.activity == "measuring on random tokens"]
    assert {each.total for each in steps} == {len(called)}
    assert sorted({each.done for each in steps}) == list(range(len(called) + 1))
