"""The explorer of a survey: maps over steps, a head's curve, and what its keys do."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.survey_folder import SurveyFolder
from engine.values.table import Table
from tests.engine.surveys.small_survey import MODELS, STEPS, small_survey, value, write_checkpoint
from tests.exporting import written
from tests.tui.explorer import screen_text, until, until_shown, words
from tui.app import survey_explorer
from tui.app.survey_explorer import SurveyExplorer

COLUMNS = ("stack", "layer", "head", "label", "induction")


@pytest.fixture
def survey(tmp_path: Path) -> SurveyFolder:
    """Write a small survey."""
    return small_survey(tmp_path / "survey")


@pytest.fixture
def empty_survey(tmp_path: Path) -> SurveyFolder:
    """Make a survey of nothing yet."""
    made = SurveyFolder(tmp_path / "survey")
    made.create({})
    return made


@asynccontextmanager
async def explorer_of(
    survey: SurveyFolder, size: tuple[int, int] = (80, 24), *, head: str | None = None, said: str = ""
) -> AsyncIterator[tuple[SurveyExplorer, Pilot[None]]]:
    """Open the explorer on a survey, and wait until it says something, or else until it has read the survey."""
    app = SurveyExplorer(survey, head)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: said in words(app) if said else "H0" in screen_text(app) and bool(app.main.labels))
        yield app, pilot


def readout(model: str, step: int, layer: int, head: int) -> str:
    """Say what stands below the curve."""
    return f"step {step} · L{layer}H{head} {value(model, step, layer, head):.4g}"


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait until what each does is drawn."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def test_keys_and_names_go_through_steps_layers_heads_measures_and_models(survey: SurveyFolder) -> None:
    async with explorer_of(survey) as (app, pilot):
        assert readout(MODELS[0], 100, 0, 0) in screen_text(app)
        await press(pilot, "left")
        assert readout(MODELS[0], 10, 0, 0) in screen_text(app)
        await press(pilot, "down", "right_square_bracket")
        assert readout(MODELS[0], 10, 1, 1) in screen_text(app)
        await press(pilot, "left_curly_bracket", "home")
        assert readout(MODELS[0], 0, 0, 1) in screen_text(app)
        await press(pilot, "tab", "up", "end")
        assert readout(MODELS[0], 100, 0, 0) in screen_text(app)
        for typed, said in (
            ("L1H1", readout(MODELS[0], 100, 1, 1)),
            ("12", readout(MODELS[0], 10, 1, 1)),
            ("two", readout(MODELS[1], 10, 1, 1)),
            ("qk_stable_rank", "step 10 · L1H1 11 · chance 6"),
        ):
            await press(pilot, "colon", *typed, "enter")
            await until_shown(pilot, said)
        await press(pilot, "colon", *"L7", "enter")
        assert "no L7; give a head (L1H0), step, measure or model" in screen_text(app)
        await press(pilot, "escape", "m")
        await until(pilot, lambda: "ov_stable_rank" in screen_text(app) and "chance 1 " in screen_text(app))


async def test_it_begins_at_the_head_of_the_command_line(survey: SurveyFolder) -> None:
    for head, said in (("L1H1", readout(MODELS[0], 100, 1, 1)), ("L7", "no L7; give a head (L1H0)")):
        async with explorer_of(survey, head=head, said=said):
            pass


async def test_a_head_says_since_which_step_it_has_its_label_for_good(survey: SurveyFolder) -> None:
    async with explorer_of(survey) as (app, pilot):
        await press(pilot, "slash", *"indu", "enter")
        text = screen_text(app)
        assert "curve L1H0 · induction · induction since step 10" in text
        assert "H0 ind 10" in text
        assert "prev" not in text, "L0H1 has lost its label"
        await press(pilot, "slash", *"nothing", "enter")
        assert "no head has that name or label" in screen_text(app)
        await press(pilot, "escape")
        assert "curve L1H0" in screen_text(app)


async def test_the_same_head_of_all_models_is_drawn_with_signs(survey: SurveyFolder) -> None:
    async with explorer_of(survey, (160, 50)) as (app, pilot):
        await press(pilot, "C")
        assert f"● two {value(MODELS[1], 100, 0, 0):.4g}" in screen_text(app)
        await press(pilot, "B")
        assert f"● one {value(MODELS[0], 100, 0, 0):.4g}" in screen_text(app)
        assert "survey two" in screen_text(app)
    for place in survey.path.glob("model=*two/revision=*"):
        if place.name != "revision=step1":
            shutil.rmtree(place)
    async with explorer_of(SurveyFolder(survey.path), (160, 50)) as (app, pilot):
        await press(pilot, "C")
        assert "two has no such step" in screen_text(app)


async def test_what_failed_is_counted_and_a_message_goes_with_the_next_key(survey: SurveyFolder) -> None:
    survey.write_failure(CheckpointName(MODELS[0], "step5", 5), "it is cut short")
    survey.gather_failures()
    survey.write(CheckpointName("a/b"), Table.of_rows("ranks", ("layer",), [(0,)]), "{}")
    async with explorer_of(survey) as (app, pilot):
        await until_shown(pilot, "4 checkpoints · 3 models · 1 failed")
        await press(pilot, "n")
        assert "nothing was searched" in screen_text(app)
        await press(pilot, "left")
        assert "⏎ Open" in screen_text(app)


async def test_a_survey_without_measures_of_heads_or_of_failures_alone_says_so(empty_survey: SurveyFolder) -> None:
    empty_survey.write_failure(CheckpointName("a/b"), "it is cut short")
    empty_survey.gather_failures()
    async with explorer_of(empty_survey, said="1 checkpoint failed; failures.parquet") as (app, _):
        assert "waiting" not in screen_text(app)
    empty_survey.write(CheckpointName("a/b"), Table.of_rows("lens", ("position", "token"), [(0, "a")]), "{}")
    async with explorer_of(empty_survey, said="lens: no measures of heads; add one of ranks"):
        pass


async def test_a_checkpoint_that_is_gone_is_named(empty_survey: SurveyFolder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    table = Table.of_rows("patterns", COLUMNS, [("decoder", 0, "0", "induction", 0.25)])
    empty_survey.write(CheckpointName(str(run), "checkpoint-10", 10, is_of_run=True), table, "{}")
    async with explorer_of(empty_survey, (160, 50)) as (app, pilot):
        assert "curve L0H0 · induction · induction ─" in screen_text(app), "one checkpoint tells no step since which"
        await press(pilot, "enter")
        assert f"{run}/checkpoint-10 is not here any more" in screen_text(app)


async def test_an_empty_survey_is_waited_for_and_new_checkpoints_appear(
    empty_survey: SurveyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_explorer, "LOOK_SECONDS", 0.05)
    async with explorer_of(empty_survey, said="waiting for the survey's first checkpoint") as (app, pilot):
        survey = small_survey(empty_survey.path)
        await until_shown(pilot, readout(MODELS[0], 100, 0, 0))
        write_checkpoint(survey, MODELS[0], 1000)
        await until_shown(pilot, readout(MODELS[0], 1000, 0, 0))  # until a key has moved the cursor
        await press(pilot, "left")
        write_checkpoint(survey, MODELS[0], 10_000)
        await until_shown(pilot, "6 checkpoints")
        assert readout(MODELS[0], 100, 0, 0) in screen_text(app)


async def test_a_measure_is_written_a_curve_copied_and_a_head_opened(survey: SurveyFolder, folder: Path) -> None:
    async with explorer_of(survey) as (app, pilot):
        await press(pilot, "e")
        await until(pilot, (folder / "induction.csv").exists)
        rows = written(folder, "induction.csv")
        assert len(rows) == 16
        assert {float(row["induction"]) for row in rows if row["layer"] == "1" and row["head"] == "0"} == {
            value(MODELS[0], step, 1, 0) for step in STEPS
        }
        await press(pilot, "Y")
        assert app.clipboard == "\n".join(f"{step}\t{value(MODELS[0], step, 0, 0)!r}" for step in STEPS)
        await press(pilot, "y")
        assert app.clipboard == repr(value(MODELS[0], 100, 0, 0))
        opened: list[list[str]] = []
        app.open_explorer = opened.append  # type: ignore[method-assign, assignment]  # no terminal to give away
        await press(pilot, "down", "left", "enter")
        assert [each[3:] for each in opened] == [[MODELS[0], "--head", "L1H0", "--revision", "step10"]]


@pytest.mark.parametrize("size", [(40, 12), (160, 50)])
async def test_it_fits_its_terminal(size: tuple[int, int], survey: SurveyFolder) -> None:
    async with explorer_of(survey, size) as (app, pilot):
        assert "L1" in screen_text(app), "the map has room"
        await press(pilot, "z", "question_mark", "escape", "tab", "pagedown", "G")
        strips = app.screen._compositor.render_strips()
        assert len(strips) == size[1]
        assert {strip.cell_length for strip in strips} == {size[0]}
