"""Downloads from the Hub: each model once, complete, with progress; or one line that says why not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from engine.checkpoints import download
from engine.checkpoints.locate import locate
from engine.checkpoints.model_folders import find_in_cache
from engine.values.errors import Superseded
from engine.values.progress import Progress
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub, commit, contents
from tests.opening import not_found, open_folder

NAME = "somebody/tiny"

PIECE = constants.DOWNLOAD_CHUNK_SIZE
"""Bytes that the Hub's library writes at a time."""


@pytest.fixture
def files(hub: FakeHub, tiny_model: TinyModel) -> dict[str, bytes]:
    """Publish a model; give its files, which may then be changed."""
    return hub.add(NAME, tiny_model("gpt2")).files


def downloaded() -> tuple[Path, list[Progress]]:
    """Download the model; give its folder, and the progress from when the Hub has said what there is."""
    seen: list[Progress] = []
    folder = locate(NAME, report=seen.append).directory
    return folder, [progress for progress in seen if progress.total]


def test_a_model_is_downloaded_once_and_then_found_without_asking(hub: FakeHub, files: dict[str, bytes]) -> None:
    location = locate(NAME)
    assert contents(location.directory) == files
    assert (location.directory.name, location.name) == (commit(files), NAME)
    hub.requests.clear()
    assert locate(NAME) == location
    assert hub.requests == []


def test_progress_rises_to_the_total(files: dict[str, bytes]) -> None:
    files["long.txt"] = b" " * 8 * PIECE
    _, seen = downloaded()
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, sum(map(len, files.values())))
    assert len(set(done)) > 8
    assert {(each.total, each.activity, each.unit) for each in seen} == {(done[-1], f"downloading {NAME}", "bytes")}


UNNEEDED = {
    "README.md": b"text", "flax_model.msgpack": b"flax", "tf_model.h5": b"keras", "model.onnx": b"onnx",
    "onnx/model.onnx": b"onnx", "pytorch_model.bin": b"torch", "training_args.bin": b"pickle",
    "model.fp16.safetensors": b"half", "original/consolidated.00.pth": b"torch", "rust_model.ot": b"rust",
    "model.gguf": b"gguf", "picture.png": b"png",
}  # fmt: skip


def test_only_what_is_needed_is_fetched(hub: FakeHub, files: dict[str, bytes]) -> None:
    needed = sorted(files)
    files.update(UNNEEDED)
    locate(NAME)
    assert sorted(hub.fetched()) == needed


def test_pickled_weights_are_fetched_if_there_are_no_others(hub: FakeHub, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    hub.add(NAME, folder, **{name: UNNEEDED[name] for name in ("training_args.bin", "tf_model.h5")})
    location = locate(NAME)
    assert "training_args.bin" not in hub.fetched()
    assert len(open_folder(location.directory)[2].outline.layers) == 2


@pytest.mark.parametrize(("left_out", "reason"), [("config.json", "no config.json"), ("model.safetensors", "neither")])
def test_a_repository_without_a_checkpoint_is_not_downloaded(
    left_out: str, reason: str, hub: FakeHub, files: dict[str, bytes]
) -> None:
    del files[left_out]
    assert reason in not_found(NAME)
    assert hub.fetched() == []


@pytest.mark.usefixtures("files")
def test_another_revision_is_another_model(hub: FakeHub, tiny_model: TinyModel) -> None:
    other = hub.repositories[NAME].revisions["v2"] = contents(tiny_model("llama"))
    main, second = locate(NAME), locate(NAME, "v2")
    assert main.directory != second.directory
    assert contents(second.directory) == other
    hub.requests.clear()
    assert locate(NAME, commit(other)) == second
    assert hub.requests == []
    assert "v3" in not_found(NAME, "v3")


def test_a_broken_connection_is_resumed_where_it_broke(hub: FakeHub, files: dict[str, bytes]) -> None:
    files["long.txt"] = bytes(range(256)) * (3 * PIECE // 256)
    hub.cut_after = {"long.txt": 2 * PIECE + 1000}
    folder, seen = downloaded()
    assert contents(folder) == files
    ranges = [each.range for each in hub.requests if each.path.endswith("long.txt") and each.method == "GET"]
    assert ranges == ["", f"bytes={2 * PIECE}-"]
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total


def test_a_lost_network_gives_one_line_and_the_next_try_completes_the_model(
    hub: FakeHub, files: dict[str, bytes]
) -> None:
    hub.cut_after, hub.dies_of_cuts = {"model.safetensors": 100}, True
    line = not_found(NAME)
    assert NAME in line
    assert "demo" in line or "open it again to resume" in line
    hub.dead = False
    whole = {each.name for each in Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/*")}
    hub.requests.clear()
    assert contents(locate(NAME).directory) == files
    assert sorted(hub.fetched()) == sorted(files.keys() - whole)


def test_a_cancelled_download_leaves_nothing_that_looks_complete(hub: FakeHub, files: dict[str, bytes]) -> None:
    hub.pause = 0.01

    def give_up(progress: Progress) -> None:
        if progress.total and progress.done and "model.safetensors" in hub.fetched():
            raise Superseded("replaced by a newer request")

    with pytest.raises(Superseded):
        locate(NAME, report=give_up)
    assert find_in_cache(NAME, None) is None
    hub.requests.clear()
    hub.pause = 0.0
    folder, seen = downloaded()
    assert contents(folder) == files
    assert hub.fetched() == ["model.safetensors"], "complete files are not fetched again"
    assert seen[0].done > 0, "they count from the beginning"


@pytest.mark.usefixtures("files")
def test_a_disk_without_room_is_named_before_anything_is_fetched(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "disk_usage", lambda place: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match=r"1\.0 kB are free") as caught:
        download.fetch(NAME, None)
    line = str(download.download_error(NAME, None, download.describe_error(caught.value)))
    assert re.search("no room.*1.0 kB are free.*HF_HOME", line)
    assert hub.fetched() == []


@pytest.mark.usefixtures("files")
def test_the_line_about_a_model_that_cannot_be_had_says_why_and_what_to_do(hub: FakeHub) -> None:
    assert re.search("nobody/nothing.*private.*demo", not_found("nobody/nothing"))
    hub.repositories[NAME].refused = (403, "GatedRepo")
    assert re.search("gated.*hf auth login", not_found(NAME))
    hub.broken = 503
    line = not_found(NAME)
    assert "503" in line
    assert constants.HF_HUB_CACHE in line


def test_the_downloading_process_ends_with_the_program_that_started_it(hub: FakeHub) -> None:
    hub.hanging = ("/api/",)
    worker = subprocess.Popen(
        [sys.executable, "-m", "engine.checkpoints.download", NAME],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "HF_ENDPOINT": hub.url},
    )  # fmt: skip
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert b"asking" in worker.stdout.readline()
    worker.stdin.close()
    assert worker.wait(10) == 1
