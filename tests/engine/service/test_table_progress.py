"""Tables that run the model report the layers that have run, and can be given up between any two."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.analysis import tables
from engine.analysis.open_model import OpenModel
from engine.values.errors import Superseded
from engine.values.heads import Head
from engine.values.progress import FOLLOWING, PREDICTING, SWITCHING, TAKING_APART, Progress, Work
from engine.values.table import Table
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.opening import open_on_thread, worked_out
from tests.tiny_models import VOCABULARY
from tests.tui.explorer import explorer, settle, shown, until
from tui.app.explorer import Explorer
from tui.views.table_view import TablePane

TEXT = "The cat sat on the mat."
LAYERS = 3


@contextmanager
def opened(folder: Path) -> Iterator[tuple[OpenModel, list[Progress]]]:
    """Open a model, and list its reports."""
    model, told = open_on_thread(folder), list[Progress]()
    model.tell = told.append
    yield model, told
    model.close()


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("gpt2", with_head=True, num_hidden_layers=LAYERS)


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


@pytest.fixture
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every step at once."""
    monkeypatch.setattr("engine.values.progress.REPORT_SECONDS", 0.0)


@pytest.mark.usefixtures("told_at_once")
@pytest.mark.parametrize(
    ("table", "activity", "unit"),
    [
        ("predictions", PREDICTING, "layers"),
        ("lens", FOLLOWING, "layers run"),
        ("contributions", TAKING_APART, "layers run"),
    ],
)
def test_reported_steps_are_the_layers_that_run(folder: Path, table: str, activity: str, unit: str) -> None:
    with opened(folder) as (model, told):
        if table != "predictions":
            worked_out(model, "predictions", Query(text=TEXT))
        told.clear()
        with attending() as called:
            worked_out(model, table, Query(text=TEXT))
    steps = [each for each in told if each.activity == activity]
    assert {each.unit for each in steps} == {unit}
    assert [each.done for each in steps] == list(range(len(called) + 1))
    assert {each.total for each in steps} == {len(called)}
    assert len(called) % LAYERS == 0
    assert [each.finished for each in steps] == [*[False] * len(called), True]


@pytest.mark.usefixtures("told_at_once")
def test_contributions_report_the_layers_of_all_their_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.contributions.ROWS_AT_ONCE", 5)  # of 12 heads, all of them, 5 others
    with opened(folder) as (model, told):
        worked_out(model, "predictions", Query(text=TEXT))
        told.clear()
        with attending() as called:
            worked_out(model, "contributions", Query(text=TEXT))
    assert len(called) == (2 + 3 + 1) * LAYERS
    assert {each.total for each in told} == {len(called)}
    assert [each.done for each in told] == list(range(len(called) + 1))


@pytest.mark.usefixtures("told_at_once")
def test_ablation_reports_heads_and_the_layer_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(folder) as (model, told):
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
    with opened(folder) as (model, _):
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


def held_back(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Hold tables back until an event, and list those that begin."""
    free, begun, table = threading.Event(), list[str](), tables.table

    def waiting(model: OpenModel, name: str, query: Query) -> Work[Table]:
        begun.append(name)
        while not free.wait(0.01):
            yield None
        return (yield from table(model, name, query))

    monkeypatch.setattr(tables, "table", waiting)
    return free, begun


def pane(app: Explorer) -> TablePane:
    active = app.views.active
    assert isinstance(active, TablePane)
    return active


async def test_the_view_shows_progress_and_escape_gives_it_up(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 0.0)
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT) as (app, pilot):
        free, begun = held_back(monkeypatch)
        await pilot.press("8")
        await until(pilot, lambda: pane(app).grid.message == "computing …")
        app.engine._advance(Progress(PREDICTING, 3, 40, "layers", 0.5))
        await until(pilot, lambda: pane(app).grid.message == "predicting: 3 of 40 layers, 75 s left; esc stops")
        assert shown(app.main.progress_line) == "predicting  3 / 40 layers · 75 s left"
        app.session.change(selected=Head("decoder", 1, 2))  # of the same table, which does not begin anew
        await until(pilot, lambda: begun == ["predictions"])
        app.main.action_leave()
        await until(pilot, lambda: pane(app).grid.message == "stopped, 8 goes on")
        free.set()
        await settle(pilot)
        assert pane(app).grid.message == "stopped, 8 goes on"
        await pilot.press("8")
        await settle(pilot)
        assert pane(app).view == "predictions"
        assert begun == ["predictions", "predictions"]
        assert pane(app).shown is not None


async def test_escape_stops_a_sweep_that_says_how_far_it_is_and_then_clears_the_filter(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 0.0)
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT) as (app, pilot):
        free, begun = held_back(monkeypatch)
        await pilot.press("9")
        await until(pilot, lambda: begun == ["ablation"])
        app.engine._advance(Progress(SWITCHING, 3, 4, "heads", 0.5, "layer 2 of 3"))
        await until(pilot, lambda: "3 of 8 heads, layer 2 of 3, 10 s left; esc stops" in pane(app).grid.message)
        assert shown(app.main.progress_line) == "ablation 3 / 8 heads · layer 2 of 3 · 10 s left"
        pane(app).filter_by("head = 1")
        pane(app).focus_view()
        await until(pilot, lambda: "/ Filter" in app.main.key_line.render().plain)
        await pilot.pause()
        assert "All rows" not in app.main.key_line.render().plain
        await pilot.press("escape")
        await until(pilot, lambda: "esc All rows" in app.main.key_line.render().plain)
        assert pane(app).narrowing is not None
        await pilot.press("escape")
        await until(pilot, lambda: "All rows" not in app.main.key_line.render().plain)
        assert pane(app).narrowing is None
        assert pane(app).grid.message == "stopped, 9 goes on"
        free.set()
        await pilot.press("9")
        await settle(pilot)
        assert pane(app).counts == (8, 8)
        assert not shown(app.main.progress_line)


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
    with opened(folder) as (model, told):
        worked_out(model, table, query)
    steps = [each for each in told if each.activity == activity]
    assert {(each.total, each.unit) for each in steps} == {(total, unit)}
    assert steps[0].done == 0
    assert steps[-1].finished


@pytest.mark.usefixtures("told_at_once")
def test_patterns_on_random_tokens_report_the_layers_that_read_and_that_are_measured(folder: Path) -> None:
    with opened(folder) as (model, told), attending() as called:
        worked_out(model, "patterns", Query(layer=Head("decoder", 0)))
    steps = [each for each in told if each.activity == "measuring on random tokens"]
    assert {each.total for each in steps} == {len(called)}
    assert sorted({each.done for each in steps}) == list(range(len(called) + 1))
