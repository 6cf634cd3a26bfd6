"""A model comes from the Hub once, whole, with honest progress; and when it does not come, one line says why."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import constants, file_download
from safetensors.torch import load_file

from engine.models.hub import find_in_cache
from engine.models.locate import locate
from engine.values.errors import Superseded
from engine.values.progress import Progress
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub, commit
from tests.opening import not_found, open_folder

NAME = "somebody/tiny"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Hub's client not wait between its attempts."""
    monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None, time=time.time))


def assert_is(folder: Path, original: Path) -> None:
    """Check that a downloaded model is the one that was published, to the last byte."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (original / name).read_bytes()


def test_a_model_is_downloaded_once_and_then_found_without_asking(hub: FakeHub, tiny_model: TinyModel) -> None:
    original = tiny_model("gpt2")
    repository = hub.add(NAME, original)
    location = locate(NAME)
    assert_is(location.directory, original)
    assert location.identity == commit(repository.files)
    assert location.name == NAME
    hub.requests.clear()
    assert locate(NAME) == location
    assert hub.requests == []


def test_progress_rises_to_the_total(hub: FakeHub, tiny_model: TinyModel) -> None:
    repository = hub.add(NAME, tiny_model("gpt2"))
    seen: list[Progress] = []
    locate(NAME, report=seen.append)
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, sum(map(len, repository.files.values())))
    assert len(set(done)) > 10
    assert {progress.total for progress in seen} == {done[-1]}
    assert {(progress.activity, progress.unit) for progress in seen} == {(f"downloading {NAME}", "bytes")}
    assert [progress.finished for progress in seen].count(True) < 4


def test_progress_counts_bytes_once_where_the_hub_reports_them_twice(
    hub: FakeHub, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The Hub's newer storage reports what came over the network and what was put together, on two bars of one class.
    reporting = pytest.importorskip("huggingface_hub.utils._xet_progress_reporting")
    repository = hub.add(NAME, tiny_model("gpt2"))
    seen: list[Progress] = []
    halfway: dict[int, int] = {}

    def in_two_steps(url: str, temp_file: Any, *, tqdm_class: type, expected_size: int, **rest: Any) -> None:
        content = repository.files[url.rpartition("/")[2]]
        reporter: Any = reporting.XetDownloadProgressReporter(
            reconstruction_desc="", total=expected_size, log_level=30, tqdm_class=tqdm_class
        )
        with reporter:
            for part in (len(content) // 2, len(content)):
                report = SimpleNamespace(
                    total_bytes=len(content), total_bytes_completed=part, total_transfer_bytes_completed=part,
                    total_bytes_completion_rate=1.0, total_transfer_bytes_completion_rate=1.0,
                )  # fmt: skip
                reporter.update_progress(report)
                halfway.setdefault(len(content), seen[-1].done)
        temp_file.write(content)

    monkeypatch.setattr(file_download, "http_get", in_two_steps)
    locate(NAME, report=seen.append)
    largest = max(halfway)
    assert halfway[largest] == seen[-1].total - largest + largest // 2


UNNEEDED = {
    "README.md": b"text", "flax_model.msgpack": b"flax", "tf_model.h5": b"keras", "model.onnx": b"onnx",
    "onnx/model.onnx": b"onnx", "pytorch_model.bin": b"torch", "training_args.bin": b"pickle",
    "model.fp16.safetensors": b"half", "original/consolidated.00.pth": b"torch", "rust_model.ot": b"rust",
    "model.gguf": b"gguf", "picture.png": b"png",
}  # fmt: skip


def test_only_what_is_needed_is_fetched(hub: FakeHub, tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    hub.add(NAME, folder, **UNNEEDED)
    locate(NAME)
    assert sorted(hub.fetched()) == sorted(each.name for each in folder.iterdir())


def test_old_weights_are_fetched_where_there_are_no_others(hub: FakeHub, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    hub.add(NAME, folder, **{name: UNNEEDED[name] for name in ("training_args.bin", "tf_model.h5")})
    location = locate(NAME)
    assert "training_args.bin" not in hub.fetched()
    assert len(open_folder(location.directory)[2].outline.layers) == 2


@pytest.mark.parametrize(("left_out", "reason"), [("config.json", "no config.json"), ("model.safetensors", "neither")])
def test_what_is_no_checkpoint_on_the_hub_is_not_downloaded(
    left_out: str, reason: str, hub: FakeHub, tiny_model: TinyModel
) -> None:
    del hub.add(NAME, tiny_model("gpt2")).files[left_out]
    assert reason in not_found(NAME)
    assert hub.fetched() == []


def test_another_revision_is_another_model(hub: FakeHub, tiny_model: TinyModel) -> None:
    other = tiny_model("llama")
    repository = hub.add(NAME, tiny_model("gpt2"))
    repository.revisions["v2"] = {each.name: each.read_bytes() for each in other.iterdir()}
    main, second = locate(NAME), locate(NAME, "v2")
    assert main.identity != second.identity
    assert_is(second.directory, other)
    hub.requests.clear()
    assert locate(NAME, commit(repository.revisions["v2"])) == second
    assert hub.requests == []
    assert "v3" in not_found(NAME, "v3")


def test_a_connection_cut_in_the_middle_is_taken_up_where_it_broke(
    hub: FakeHub, tiny_model: TinyModel, hasty: None
) -> None:
    original = tiny_model("gpt2")
    hub.add(NAME, original)
    hub.cut_after = {"model.safetensors": 30_000}
    seen: list[Progress] = []
    assert_is(locate(NAME, report=seen.append).directory, original)
    ranges = [each.range for each in hub.requests if each.path.endswith("model.safetensors") and each.method == "GET"]
    assert ranges[0] == ""
    assert 0 < int(ranges[1].removeprefix("bytes=").removesuffix("-")) <= 30_000
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_network_lost_in_the_middle_is_said_and_the_next_try_completes_the_model(
    name: str, hub: FakeHub, tiny_model: TinyModel, hasty: None
) -> None:
    original = tiny_model("gpt2")
    # A small model can have a larger tokenizer than weights.
    padding = b" " * (1000 + (original / "model.safetensors").stat().st_size)
    repository = hub.add(NAME, original)
    repository.files["tokenizer.json"] += padding
    hub.cut_after, hub.dies_of_cuts = {name: 100}, True
    line = not_found(NAME)
    assert NAME in line
    assert "demo" in line or "again" in line
    hub.dead = False
    fetched_before = set(hub.fetched()) - {name}
    hub.requests.clear()
    folder = locate(NAME).directory
    assert {each: (folder / each).read_bytes() for each in repository.files} == repository.files
    assert not fetched_before & set(hub.fetched())


def test_a_download_that_is_given_up_leaves_nothing_that_looks_complete(hub: FakeHub, tiny_model: TinyModel) -> None:
    original = tiny_model("gpt2")
    hub.add(NAME, original)

    def give_up(progress: Progress) -> None:
        if progress.done > progress.total * 0.7:
            raise Superseded("replaced by a newer request")

    with pytest.raises(Superseded):
        locate(NAME, report=give_up)
    assert find_in_cache(NAME, None) is None
    assert_is(locate(NAME).directory, original)


def test_a_model_that_is_not_there_is_said_to_be_missing_or_private(hub: FakeHub) -> None:
    line = not_found("nobody/nothing")
    assert "nobody/nothing" in line
    assert "private" in line
    assert "demo" in line


def test_a_gated_model_says_how_to_get_it(hub: FakeHub, tiny_model: TinyModel) -> None:
    hub.add(NAME, tiny_model("gpt2")).refused = (403, "GatedRepo")
    line = not_found(NAME)
    assert "gated" in line
    assert "hf auth login" in line


@pytest.mark.parametrize("status", [500, 503, 429, 418])
def test_a_hub_in_trouble_is_quoted(status: int, hub: FakeHub) -> None:
    hub.broken = status
    line = not_found(NAME)
    assert str(status) in line
    assert constants.HF_HUB_CACHE in line
