"""Names of checkpoints, and measures of heads over them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from engine.surveys.checkpoint_names import CheckpointName, log_spaced, names_of
from engine.surveys.measures import MeasureReader, labels_over_steps, measures_of, opening_measure
from engine.surveys.survey_folder import SurveyFolder, scan_files
from engine.values.errors import EngineError
from engine.values.table import Table
from tests.engine.surveys.small_survey import MODELS, STEPS, label, small_survey, value, write_checkpoint


def no_branches(name: str) -> list[str]:
    raise AssertionError(f"nobody asks the Hub for {name}")


def test_names_stand_for_checkpoints_once_each(tmp_path: Path) -> None:
    for step in (100, 20, 3):
        (tmp_path / "run" / f"checkpoint-{step}").mkdir(parents=True)
        (tmp_path / "run" / f"checkpoint-{step}" / "config.json").write_text("{}")
    (tmp_path / "run" / "checkpoint-7").mkdir()  # which is not whole yet
    run = str((tmp_path / "run").resolve())
    found = names_of([run, "a/b@step5,main", "a/b@step5", "demo", f"{run}/checkpoint-20"], no_branches)
    assert [(each.path, each.revision, each.step) for each in found] == [
        (f"{run}/checkpoint-3", "checkpoint-3", 3),
        (f"{run}/checkpoint-20", "checkpoint-20", 20),
        (f"{run}/checkpoint-100", "checkpoint-100", 100),
        ("a/b", "step5", 5),
        ("a/b", "main", None),
        ("demo", "main", None),
    ]
    for name, said in (
        ("demo@x", "demo has no branches"),
        (f"{run}@step1", "has no branches"),
        ("", "name is empty"),
        ("./nope", "there is no folder ./nope; check the path"),
    ):
        with pytest.raises(EngineError, match=said):
            names_of([name], no_branches)
    assert CheckpointName("a/b", "step5").folder == Path("model=a%2Fb", "revision=step5")


def test_a_run_that_goes_on_may_be_empty_and_its_newest_checkpoint_is_waited_for(tmp_path: Path) -> None:
    assert names_of([str(tmp_path)], no_branches, waits=True) == []
    for step, age in ((1, 60), (2, 0)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        for each in (folder / "config.json", folder):
            os.utime(each, (time.time() - age,) * 2)
    assert [each.step for each in names_of([str(tmp_path)], no_branches, waits=True)] == [1]
    assert [each.step for each in names_of([str(tmp_path)], no_branches)] == [1, 2]


def test_log_takes_the_steps_nearest_to_powers_of_two() -> None:
    pythia = [0, *(2**power for power in range(10)), *range(1000, 144_000, 1000)]
    [*found] = names_of(["a/b@log"], lambda name: ["main", *(f"step{step}" for step in pythia)])
    expected = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16000, 33000, 66000, 131000, 143000]
    assert [each.step for each in found] == expected
    assert log_spaced({7: "step7"}) == ["step7"]
    with pytest.raises(EngineError, match="no branches on the Hub that are named after a step"):
        names_of(["a/b@log"], lambda name: ["main"])


def test_measures_are_those_of_the_tables(tmp_path: Path) -> None:
    folder = small_survey(tmp_path / "survey")
    measures = measures_of(folder)
    assert [(each.name, each.has_chance) for each in measures] == [
        ("qk_stable_rank", True), ("ov_stable_rank", True), ("induction", False),
    ]  # fmt: skip
    assert opening_measure(measures).name == "induction"
    assert {each.energy for each in measures} == {None}


def test_values_stand_at_their_step_and_head_and_grow_with_the_survey(tmp_path: Path) -> None:
    folder = small_survey(tmp_path / "survey")
    reader = MeasureReader(opening_measure(measures_of(folder)))
    assert list(reader.read(SurveyFolder(folder.path))) == [(8, 8)]
    models = reader.models()
    assert tuple(models) == MODELS
    for model, shown in models.items():
        assert [each.step for each in shown.checkpoints] == [*STEPS]
        assert [str(head) for head in shown.heads] == ["L0H0", "L0H1", "L1H0", "L1H1"]
        expected = [[value(model, step, head.layer, head.head) for head in shown.heads] for step in STEPS]
        np.testing.assert_array_equal(shown.values, expected)
        np.testing.assert_allclose(shown.layer_means, shown.values.reshape(4, 2, 2).mean(axis=2))
    labels = labels_over_steps(folder, models[MODELS[0]].checkpoints, models[MODELS[0]].heads)
    assert labels == [[label(step, layer, head) for layer in (0, 1) for head in (0, 1)] for step in STEPS]
    table = models[MODELS[0]].table()
    assert table.columns == ("model", "revision", "step", "stack", "layer", "head", "induction")
    assert table.rows[4] == (MODELS[0], "step1", 1, "decoder", 0, "0", value(MODELS[0], 1, 0, 0))
    write_checkpoint(folder, MODELS[0], 1000)
    assert list(reader.read(SurveyFolder(folder.path))) == [(9, 9)]
    assert reader.models()[MODELS[0]].values.shape == (5, 4)
    assert list(reader.read(SurveyFolder(folder.path))) == []
    of_ranks = MeasureReader(measures_of(folder)[0])
    list(of_ranks.read(SurveyFolder(folder.path)))
    shown = of_ranks.models()[MODELS[1]]
    np.testing.assert_array_equal(shown.values, [[10.0, 10.0, 11.0, 11.0]] * 4)
    assert shown.chance is not None
    np.testing.assert_array_equal(shown.chance, np.full((4, 4), 6.0))


def test_a_checkpoint_that_is_measured_again_replaces_its_rows(tmp_path: Path) -> None:
    folder = small_survey(tmp_path / "survey")
    reader = MeasureReader(opening_measure(measures_of(folder)))
    list(reader.read(SurveyFolder(folder.path)))
    before = reader.models()[MODELS[0]].values
    checkpoint = reader.models()[MODELS[0]].checkpoints[1]
    rows = scan_files([folder.file(checkpoint, "patterns")]).collect().drop("model", "revision", "step")
    folder.write(checkpoint, Table("patterns", rows.with_columns(induction=0.125)), "{}")
    assert list(reader.read(SurveyFolder(folder.path))) == [(8, 8)]
    found = reader.models()
    np.testing.assert_array_equal(found[MODELS[0]].values, np.where(np.arange(4)[:, None] == 1, 0.125, before))
    assert found[MODELS[1]].values.shape == (4, 4)
