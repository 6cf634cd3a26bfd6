"""Finding a model: a folder, the demo, the cache of the Hub; and the line when there is none."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from engine.checkpoints import download
from engine.checkpoints.locate import locate
from engine.checkpoints.model_folders import cached_models
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub, point_at
from tests.opening import not_found, run_apart
from tui.screens.model_list import enter_does

NAME = "somebody/tiny"


def test_a_folder_comes_before_the_hub_and_home_may_be_written_with_a_tilde(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_copy("gpt2").rename(Path.home() / "model")
    monkeypatch.chdir(Path.home())
    for name in ("model", "./model/", "~/model"):
        assert locate(name).directory == folder


PATHS = ["", "  ", "./missing", "../missing", "/no/such/folder", "~/missing", "a/b/c", "missing/"]
NEITHER = ["bad name", "a--b", "-a", "a..b", "né", "a\nb", "x" * 200, "a\x00b", "[bold]", "a/b.git"]


@pytest.mark.parametrize("name", [*PATHS, *NEITHER])
def test_a_path_or_an_impossible_name_is_not_looked_for_on_the_hub(name: str, hub: FakeHub) -> None:
    assert not_found(name)
    assert hub.requests == []


def test_a_training_run_names_its_last_checkpoint_and_how_to_see_all_of_it(tmp_path: Path) -> None:
    for step in (900, 4000):
        (tmp_path / f"checkpoint-{step}").mkdir()
    said = not_found(str(tmp_path))
    assert f"{tmp_path / 'checkpoint-4000'}, or" in said
    assert f"attn-tui survey {tmp_path} -o FOLDER" in said


def test_a_survey_is_no_model_and_names_what_shows_it(tmp_path: Path) -> None:
    (tmp_path / "survey.json").write_text("{}", encoding="utf-8")
    assert f"is a survey; look at it with: attn-tui {tmp_path}" in not_found(str(tmp_path))


def test_a_weight_file_without_a_configuration_is_no_model(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    (folder / "config.json").unlink()
    assert "give the folder with its config.json" in not_found(str(folder / "model.safetensors"))


def test_a_hub_that_never_answers_is_given_up_soon(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.hanging = ("/api/",)
    assert download.ANSWER_SECONDS <= 8
    monkeypatch.setattr(download, "ANSWER_SECONDS", 1.0)
    started = time.monotonic()
    line = not_found(NAME)
    assert time.monotonic() - started < 10
    assert constants.HF_HUB_CACHE in line
    assert "attn-tui demo" in line


LOCATE = """
from engine.checkpoints import download
from engine.checkpoints.locate import locate
from engine.values.errors import EngineError
try: print(locate("somebody/tiny").directory)
except EngineError as error: print(error)
"""


def test_the_hubs_environment_variables_hold(hub: FakeHub, tiny_model: TinyModel, tmp_path: Path) -> None:
    hub.add(NAME, tiny_model("gpt2"))
    folder = locate(NAME).directory
    hub.requests.clear()
    assert run_apart(LOCATE, HF_HUB_OFFLINE="1", HF_HUB_CACHE=constants.HF_HUB_CACHE) == str(folder)
    line = run_apart(LOCATE, HF_HUB_OFFLINE="1", HF_ENDPOINT=hub.url, HF_HUB_CACHE=str(tmp_path / "empty"))
    assert "HF_HUB_OFFLINE" in line
    assert hub.requests == []


def test_the_models_of_the_cache_are_listed_last_used_first(hub: FakeHub, tiny_model: TinyModel) -> None:
    hub.add(NAME, tiny_model("gpt2"))
    downloaded = locate(NAME).directory.parents[1]
    for name, used in {"somebody/old": 1e9, "somebody/new": 2e9, "somebody/half": 3e9}.items():
        copy = downloaded.with_name(f"models--{name.replace('/', '--')}")
        shutil.copytree(downloaded, copy, symlinks=True)
        for file in locate(name).directory.iterdir():
            is_read_for_the_list = name == "somebody/old" and file.name == "config.json"
            os.utime(file.resolve(), (4e9,) * 2 if is_read_for_the_list else (used, used))
            if name == "somebody/half" and file.name == "model.safetensors":
                file.unlink()
    shutil.rmtree(downloaded)
    found = [(each.name, each.model_type, each.layers, each.heads, each.missing) for each in cached_models()]
    assert found == [
        ("somebody/half", "gpt2", 2, 4, "weights"),
        ("somebody/new", "gpt2", 2, 4, ""),
        ("somebody/old", "gpt2", 2, 4, ""),
    ]


def test_an_incomplete_model_is_listed_with_what_is_missing(
    hub: FakeHub, tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, tiny_model("gpt2"))
    snapshot = locate(NAME).directory
    (snapshot / "model.safetensors").resolve().unlink()  # a dangling link remains
    held = sum(each.stat().st_size for each in snapshot.iterdir() if each.is_file())
    (found,) = cached_models()
    assert (found.name, found.size, found.missing) == (NAME, held, "weights")
    point_at("http://127.0.0.1:9", tmp_path / "cache", monkeypatch)
    said = f"{NAME} is not complete in the local cache ({tmp_path / 'cache'}) and the Hub cannot be"
    assert not_found(NAME).startswith(said)
    assert enter_does(found, NAME, "Enter") == f"{NAME} is not complete: weights; Enter downloads what is missing"


def test_the_address_of_no_model_is_refused_with_what_to_type() -> None:
    assert "give an id, such as gpt2" in not_found("https://huggingface.co/datasets/a/b")
