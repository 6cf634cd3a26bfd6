"""Long work reports true progress, seldom, and can be given up."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.progress import FOLLOWING, PREDICTING, SWITCHING, TAKING_APART, Progress, ProgressReporter, Work
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.exporting import run
from tests.opening import PATIENCE, open_on_thread, start_engine, worked_out
from tests.tiny_models import VOCABULARY
from tests.tui.explorer import active_table, explorer, settle, until
from tui.cli.status_line import StatusLine
from tui.drawing.progress import progress_text

TEXT = "The cat sat on the mat."


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
@pytest.mark.parametrize(("name", "layers"), [("gpt2", 2), ("t5", 2 + 3 + 3)])
def test_reported_layers_are_those_that_have_run(tiny_model: TinyModel, name: str, layers: int) -> None:
    engine, told = watched(tiny_model(name))
    engine.read(TEXT).result(PATIENCE)
    read = [(each.done, each.total, each.finished) for each in told if each.unit == "layers"]
    assert read == [(done, layers, done == layers) for done in range(layers + 1)]


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(("dtype", "share"), [("auto", 1.0), ("bfloat16", 0.5)])
def test_reported_bytes_are_those_of_the_weights(tiny_model: TinyModel, dtype: str, share: float) -> None:
    folder = tiny_model("llama")
    engine, told = watched(folder, dtype)
    engine.read(TEXT).result(PATIENCE)
    stored = sum(weight.nbytes for weight in load_file(folder / "model.safetensors").values())
    loaded = [each for each in told if each.unit == "bytes"]
    assert loaded[-2].done == loaded[-2].total == share * stored


def test_reports_are_few_and_the_time_left_is_that_of_the_layers_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = SimpleNamespace(now=0.0), list[Progress]()
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("engine.values.progress.time", clock)
    with ProgressReporter(told.append, "reading the sentence", "layers") as report:
        for layer in range(40):
            for _ in range(25):  # a hook may be called as often as it likes
                report(layer, 40)
            clock.now += 0.1
    assert len(told) <= 4.0 / 0.3 + 1
    assert told[0].rate is None
    for each in told[4:-1]:
        assert each.remaining == pytest.approx(0.1 * (40 - each.done))
    assert told[-1].finished
    assert progress_text(told[-2]).startswith(f"reading the sentence {told[-2].done} / 40 layers · 1 s left")
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
        await until(pilot, lambda: pane.message == "reading the sentence …")
        app.engine._advance(Progress("reading weights", 5 * 10**9, 20 * 10**9, "bytes", 10**9))
        await until(pilot, lambda: app.main.top_line.progress.endswith("1.0 GB/s · 15 s left"))
        app.engine._advance(Progress("reading the sentence", 4, 40, "layers", 0.5))
        await until(pilot, lambda: app.main.top_line.progress.endswith(" 4 / 40 layers · 75 s left"))
        app.engine._advance(Progress("reading the sentence", 40, 40, "layers"))
        await until(pilot, lambda: not app.main.top_line.progress)
        free.set()
        await settle(pilot)
        assert pane.heatmap.pooled is not None


@pytest.mark.usefixtures("told_at_once")
def test_the_command_shows_progress(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(StatusLine, "show", lambda self, progress: lines.append(progress_text(progress)))
    done = run(tiny_model("gpt2"), "attention", "--text", TEXT, "--layer", "0")
    assert done.exit_code == 0
    assert "reading the sentence 1 / 2 layers" in " ".join(lines)
    assert not done.stderr


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(
    ("table", "query", "activity", "unit", "total"),
    [
        ("predictions", Query(text=TEXT), PREDICTING, "layers", 3),
        ("lens", Query(text=TEXT), FOLLOWING, "layers run", None),
        ("contributions", Query(text=TEXT), TAKING_APART, "layers run", None),
        ("ablation", Query(text=TEXT, layer=Head("decoder", 1)), SWITCHING, "heads", 4),
        ("explain", Query(text=TEXT, layer=Head("decoder", 0), head=0), "splitting scores into terms", "calls", 4),
        ("composition", Query(layer=Head("decoder", 2), head=0), "comparing with earlier layers", "layers", 2),
        ("patterns", Query(text=TEXT), "patterns", "layers", 3),
        ("patterns", Query(layer=Head("decoder", 0)), "measuring on random tokens", "layers run", None),
        ("rollout", Query(text=TEXT), "computing the rollout", "layers", 3),
        ("circuits", Query(layer=Head("decoder", 0)), "measuring circuits", "heads", 4),
        ("directions", Query(layer=Head("decoder", 0), head=0), "projecting tokens", "tokens", VOCABULARY - 4),
    ],
)
def test_every_long_table_reports_its_steps_from_none_to_all(
    tiny_model: TinyModel, table: str, query: Query, activity: str, unit: str, total: int | None
) -> None:
    model, told = open_on_thread(tiny_model("gpt2", with_head=True, num_hidden_layers=3)), list[Progress]()
    model.tell = told.append
    worked_out(model, table, query)
    steps = [each for each in told if each.activity == activity]
    assert {(each.total, each.unit) for each in steps} == {(total or steps[-1].total, unit)}
    assert (steps[0].done, steps[-1].done) == (0, steps[-1].total)


@pytest.mark.usefixtures("shown_at_once")
async def test_the_view_shows_progress_and_escape_gives_it_up(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT) as (app, pilot):
        free, begun = hold_back(monkeypatch, tables, "table_states")
        await pilot.press("9")
        await until(pilot, lambda: [name for _, name, _ in begun] == ["ablation"])
        pane = active_table(app)
        app.engine._advance(Progress(SWITCHING, 3, 4, "heads", 0.5, "layer 2 of 3"))
        await until(pilot, lambda: app.main.top_line.progress == "ablation 3 / 8 heads · layer 2 of 3 · 10 s left")
        assert pane.grid.message.endswith("esc stops")
        app.main.action_leave()
        await until(pilot, lambda: pane.grid.message == "stopped, 9 goes on")
        free.set()
        await pilot.press("9")
        await settle(pilot)
        assert active_table(app).counts == (8, 8)
        assert not app.main.top_line.progress
