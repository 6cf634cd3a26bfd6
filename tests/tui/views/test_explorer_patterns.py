"""Heads' labels and the rollout in the explorer: they come after the sweep, once a sentence has been read."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head, Label
from tests import planted_heads
from tests.conftest import CallsOf, TinyModel
from tests.exporting import written
from tests.tui.explorer import explorer, press, see, settle, shown, shown_map

TEXT = "The cat sat on the mat."


async def test_labels_come_with_the_first_sentence_and_stand_in_the_tree(tmp_path: Path, calls_of: CallsOf) -> None:
    asked = calls_of(Engine, "labels")
    async with explorer(planted_heads.save(tmp_path), head="L1H0") as (app, pilot):

        def notes() -> list[list[str]]:
            return [app.main.tree_widget.note(Head("decoder", 1, head)).split()[2:] for head in (0, 1)]

        assert notes() == [[], []]
        assert not asked, "no model is loaded for labels alone"
        app.main.read(TEXT)
        await see(pilot, title="spectra L1H0 · induction", text=" ind")
        assert notes() == [["ind"], ["self"]]
        assert app.main.top_line.progress == ""
        await see(pilot, "2", title="ranks layer 1  ")  # a layer has no label
        app.main.read("Another one.")
        await settle(pilot)
        assert len(asked) == 1


async def test_a_failure_of_the_labels_disturbs_nothing_and_is_tried_again(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch, calls_of: CallsOf
) -> None:
    answer: Future[dict[Head, Label]] = Future()
    answer.set_exception(EngineError("there is no memory"))
    async with explorer(tiny_model("gpt2"), head="L1H0") as (app, pilot):
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "labels", lambda engine, report: answer)
            app.main.read(TEXT)
            await press(pilot, "3")
        assert app.views.attention.heatmap.pooled is not None
        assert not app._notifications
        asked = calls_of(Engine, "labels")
        app.main.read("Another one.")
        await settle(pilot)
        assert len(asked) == 1


async def test_a_reaches_the_rollout_and_it_is_written(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT, head="L1H2") as (app, pilot):
        await see(pilot, *"3aaaa", slowly=True, title="attention rollout")
        found = shown_map(app)
        np.testing.assert_allclose(found.values.sum(1), 1, rtol=1e-5)
        assert found.chances is not None
        await press(pilot, "gg", "home", "j", "j", "l")
        weight, chance = float(found.values[2, 1]), float(found.chances[2, 1])
        assert shown(app.views.attention.readout_line).endswith(f"  {weight:.4f}  chance {chance:.4f}")
        await press(pilot, "e", "v")
    rows = written(folder, "*-rollout.csv")
    assert list(rows[0]) == ["stack", "query", "key", "query_token", "key_token", "weight", "weight_chance"]
    assert len(rows) == found.values.size
