"""A survey measures each checkpoint as the command line would, once, and loses nothing that was measured."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

from engine import open_model, survey
from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.measures import measures_of
from engine.surveys.runner import SCHEDULER_GONE, SurveyProgress
from engine.surveys.survey_folder import SurveyFolder
from engine.surveys.tasks import DOWNLOADS, Order, measure
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from engine.values.views import Query
from tests import tiny_models
from tests.conftest import TinyModel
from tests.exporting import attn_tui
from tests.fake_hub import FakeHub, Repository, contents
from tests.opening import edited_weights
from tests.terminal import COMMAND
from tests.tiny_configurations import tiny_configuration

STEPS, WHOLE = (0, 1, 2, 4, 8), (0, 1, 2, 8)
PLACE = ("model", "revision", "step")


def training_run(folder: Path, steps: Sequence[int]) -> Path:
    """Save a random model for each step, as ``checkpoint-STEP``."""
    for step in steps:
        model = tiny_models.build(tiny_configuration("llama"), with_head=True, seed=step)
        tiny_models.save(model, folder / f"checkpoint-{step}")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a training run, whose checkpoint 4 is cut short."""
    folder = training_run(tmp_path_factory.mktemp("runs") / "run", STEPS)
    weights = folder / "checkpoint-4" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return folder


@pytest.fixture(scope="module")
def measured(run: Path, tmp_path_factory: pytest.TempPathFactory) -> SurveyFolder:
    """Survey that run by a cluster on this machine."""
    output = tmp_path_factory.mktemp("surveys") / "survey"
    return survey(str(run), output, ("ranks", "circuits"), workers=1)


def test_each_checkpoint_has_the_tables_that_the_library_gives(run: Path, measured: SurveyFolder) -> None:
    for name in ("ranks", "circuits"):
        table = measured.frame(name)
        assert table.columns[:3] == [*PLACE]
        for step in WHOLE:
            of_step = table.filter(pl.col("step") == step)
            assert set(of_step["revision"]) == {f"checkpoint-{step}"}
            assert of_step.drop(PLACE).equals(open_model(run / f"checkpoint-{step}", use_cache=False).table(name))


def test_a_checkpoint_that_cannot_be_measured_is_a_row_with_its_reason(measured: SurveyFolder, run: Path) -> None:
    [failure] = measured.failures.iter_rows(named=True)
    assert (failure["model"], failure["revision"], failure["step"]) == (str(run), "checkpoint-4", 4)
    assert "model.safetensors" in failure["reason"]
    assert sorted(each.step or 0 for each in measured.checkpoints) == [*WHOLE]


def test_the_files_are_read_by_their_folders_names_too(measured: SurveyFolder, run: Path) -> None:
    table = pl.read_parquet(measured.path / "*" / "*" / "ranks.parquet", hive_partitioning=True)
    assert table.equals(measured.frame("ranks"))
    assert json.loads((measured.path / "survey.json").read_text())["tables"] == ["ranks", "circuits"]


def test_only_what_is_missing_or_made_with_other_options_is_measured_again(run: Path, measured: SurveyFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in measured.path.rglob("*.parquet") if "revision" in str(path)}
    circuits = measured.frame("circuits").height
    os.utime(run / "checkpoint-0" / "model.safetensors")
    again = survey(run, measured.path, "ranks, circuits", energy=0.2, workers=1)
    assert {each.energy for each in measures_of(measured) if each.table == "ranks"} == {0.2}
    changed = {(path.parent.name[9:], path.stem) for path in before if path.stat().st_mtime_ns != before[path]}
    ranks = {(f"checkpoint-{step}", "ranks") for step in WHOLE}
    assert changed == {*ranks, ("checkpoint-0", "circuits")}, "circuits depend on the weights, but not on ε"
    assert again.frame("circuits").height == circuits


def age(folder: Path, seconds: float) -> None:
    """Let a folder be written some time ago."""
    for each in (*folder.iterdir(), folder):
        os.utime(each, (time.time() - seconds,) * 2)


def test_a_checkpoint_that_failed_is_tried_again_once_its_files_change(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", (1,))
    weights = run / "checkpoint-1" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    age(run / "checkpoint-1", 60)
    end = time.monotonic() + 60

    def report(progress: SurveyProgress) -> None:
        assert time.monotonic() < end
        if progress.failed and weights.stat().st_size < len(whole):
            weights.write_bytes(whole)
            age(run / "checkpoint-1", 30)
        if progress.done:
            assert (progress.total, progress.failed) == (1, 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survey(run, tmp_path / "survey", watch=True, workers=1, report=report)


def test_a_layer_that_is_left_out_is_a_row_with_its_reason(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", (1,))
    with edited_weights(run / "checkpoint-1") as tensors:
        tensors["model.layers.1.self_attn.q_proj.weight"][0, 0] = float("nan")
    checkpoint = CheckpointName(str(run), "checkpoint-1", 1, is_of_run=True)
    folder = SurveyFolder(tmp_path / "survey")
    order = Order(checkpoint, ("ranks",), folder, Query(), EngineOptions(use_cache=False), {"ranks": "{}"})
    outcome = measure(order, checkpoint.path)
    assert set(folder.frame("ranks")["layer"]) == {0}
    folder.gather_failures()
    assert folder.failures["reason"].to_list() == [outcome.left_out]
    assert outcome.left_out.startswith("decoder L1 is left out: model.layers.1.self_attn.q_proj.weight holds 1 NaN")


def test_branches_of_the_hub_are_downloaded_measured_and_removed(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)  # which the workers have from their environment
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    folders = [tiny_model("gpt2", initializer_range=scale) for scale in (0.02, 0.03)]
    first, second = map(contents, folders)
    steps = {f"step{step}": (first, second)[step % 2] for step in (0, 1, 1000)}
    hub.repositories["somebody/steps"] = Repository(first, steps)
    found = survey(["somebody/steps@step1", "somebody/steps@log"], tmp_path / "survey", workers=1)
    assert found.failures["reason"].to_list() == []
    assert [(each.revision, each.step) for each in found.checkpoints] == [
        ("step0", 0), ("step1", 1), ("step1000", 1000),
    ]  # fmt: skip
    assert not list((found.path / DOWNLOADS).iterdir())
    weights = [each for each in hub.requests if each.method == "GET" and each.path.endswith(".safetensors")]
    assert weights, "nothing was fetched"
    assert all(each.range for each in weights), "only the bytes of the heads"
    ranks = found.frame("ranks").filter(pl.col("revision") == "step1").drop(PLACE)
    assert ranks.equals(open_model(folders[1], use_cache=False).ranks())


@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        (2, ("demo", "--tables", "predictions"), "predictions needs a sentence"),
        (2, ("demo", "--tables", "rank"), "no table 'rank'; choose from ranks"),
        (1, ("empty",), "neither a config.json nor checkpoint-* folders"),
        (1, ("./nope",), "attn-tui: there is no folder ./nope; check the path"),
        (1, ("demo", "--watch"), "nothing to watch"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(code: int, arguments: tuple[str, ...], said: str, folder: Path) -> None:
    (folder / "empty").mkdir()
    done = attn_tui("survey", *arguments, "-o", "out", "--workers", "1", folder=folder)
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_options_of_models_are_refused_where_a_survey_is_opened(folder: Path) -> None:
    (folder / "survey.json").write_text("{}", encoding="utf-8")
    done = attn_tui(folder, "--text", "hi")
    said = "--text is for a model; a survey takes --head, --theme and --ascii"
    assert done.returncode == 2
    assert f"Error: {said}\n" in done.stderr


def test_events_are_lines_of_json_and_nothing_is_measured_twice(run: Path, folder: Path) -> None:
    command = ("survey", "--from", "list", "-o", "out", "--json", "--workers", "1", "--tables")
    (folder / "list").write_text(f"# two\n{run / 'checkpoint-0'}\n{run / 'checkpoint-4'}\n", encoding="utf-8")
    done = attn_tui(*command, "heads,patterns", folder=folder)
    *events, end = map(json.loads, done.stdout.splitlines())
    measured, failed = sorted(events, key=lambda event: event["revision"])
    assert (measured["event"], measured["rows"]) == ("measured", {"heads": 8, "patterns": 8})
    assert failed["event"] == "failed"
    assert "model.safetensors" in failed["reason"]
    assert end == {"event": "end", "measured": 1, "failed": 1, "here": 0}
    said = "attn-tui: 1 checkpoint measured, 1 could not be measured: out/failures.parquet says why; look at them with:"
    assert done.stderr.splitlines()[-1].startswith(said)
    assert done.returncode == 1
    (folder / "list").write_text(f"{run / 'checkpoint-0'}\n", encoding="utf-8")
    done = attn_tui(*command, "heads", folder=folder)
    assert json.loads(done.stdout) == {"event": "end", "measured": 0, "failed": 0, "here": 1}, "they have labels, too"
    assert done.returncode == 0


def test_ctrl_c_while_workers_begin_is_said_in_one_line(tmp_path: Path) -> None:
    command = [COMMAND, "survey", "demo", "-o", str(tmp_path / "survey"), "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        children = ["ps", "-o", "args=", "--ppid", str(running.pid)]
        while "spawn_main" not in subprocess.run(children, capture_output=True, text=True, check=False).stdout:
            assert running.poll() is None, "no worker begins"
            time.sleep(0.05)
        time.sleep(0.5)  # the workers import what they need
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate()[1]
    assert said == "attn-tui: 0 of 1 are measured; the same command goes on\nattn-tui: stopped\n"


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler and a worker as processes of their own; give its address and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--host", "127.0.0.1"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "1"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [
        subprocess.Popen([*dask, "--port", str(port)], **silent, start_new_session=True),  # type: ignore[call-overload]
        subprocess.Popen(worker, **silent, start_new_session=True),  # type: ignore[call-overload]
    ]
    yield address, running[0]
    for each in running:
        os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def test_workers_of_another_scheduler_write_the_same_tables_until_it_goes(
    run: Path, scheduler: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, process = scheduler
    deadline = time.monotonic() + 60
    while True:
        try:
            found = survey(str(run / "checkpoint-8"), tmp_path / "survey", scheduler=address)
            break
        except EngineError:
            assert time.monotonic() < deadline, "the scheduler does not begin"
            time.sleep(0.2)
    expected = open_model(run / "checkpoint-8", use_cache=False).ranks()
    assert found.frame("ranks").drop(PLACE).equals(expected)
    command = [COMMAND, "survey", str(run), "-o", str(tmp_path / "watched"), "--watch", "--scheduler", address]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watching:
        while not list(tmp_path.glob("watched/**/ranks.parquet")):
            assert watching.poll() is None, "nothing is measured"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        assert watching.communicate()[1] == f"attn-tui: {SCHEDULER_GONE}\n"
    assert watching.returncode == 1
