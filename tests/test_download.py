"""A model comes from the Hub once, whole, with honest progress; and when it does not come, one line says why."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import constants, file_download
from safetensors.torch import load_file

from engine.models import download
from engine.models.hub import find_in_cache
from engine.models.locate import locate
from engine.models.pace import Pace
from engine.models.transfer import Transfer
from engine.values.errors import Superseded
from engine.values.progress import Progress
from tests.conftest import TinyModel
from tests.fake_hub import FakeHub, commit
from tests.opening import not_found, open_folder

NAME = "somebody/tiny"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait between attempts."""
    monkeypatch.setattr(download, "WAITS", (0.0,) * download.TRIES)
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
    hub.pause = 0.01
    seen: list[Progress] = []
    locate(NAME, report=seen.append)
    seen = [progress for progress in seen if progress.total]  # before, the Hub is asked what there is
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, sum(map(len, repository.files.values())))
    assert len(set(done)) > 10
    assert {progress.total for progress in seen} == {done[-1]}
    assert {(progress.activity, progress.unit) for progress in seen} == {(f"downloading {NAME}", "bytes")}


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
    done = [progress.done for progress in seen if progress.total]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total
    assert any("trying again (1 of" in progress.note for progress in seen)


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
    assert "demo" in line or "open it again to go on" in line
    hub.dead = False
    fetched_before = set(hub.fetched()) - {name}
    hub.requests.clear()
    folder = locate(NAME).directory
    assert {each: (folder / each).read_bytes() for each in repository.files} == repository.files
    assert not fetched_before & set(hub.fetched())


def test_a_download_that_is_given_up_leaves_nothing_that_looks_complete(hub: FakeHub, tiny_model: TinyModel) -> None:
    original = tiny_model("gpt2")
    size = len(hub.add(NAME, original).files["model.safetensors"])
    hub.pause = 0.01

    def give_up(progress: Progress) -> None:
        if progress.total and progress.done > progress.total * 0.7:
            raise Superseded("replaced by a newer request")

    with pytest.raises(Superseded):
        locate(NAME, report=give_up)
    assert find_in_cache(NAME, None) is None
    hub.requests.clear()
    hub.pause = 0.0
    seen: list[Progress] = []
    assert_is(locate(NAME, report=seen.append).directory, original)
    assert hub.fetched() == ["model.safetensors"], "what is whole is not fetched again"
    (start,) = [int(each.range.removeprefix("bytes=").removesuffix("-")) for each in hub.requests if each.range]
    assert size * 0.5 < start < size
    begun = next(progress.done for progress in seen if progress.total)
    assert begun > 0, "what is there is counted from the beginning"


def test_a_server_that_sends_the_whole_file_again_does_no_harm(hub: FakeHub, tiny_model: TinyModel) -> None:
    original = tiny_model("gpt2")
    hub.add(NAME, original)
    hub.pause = 0.01

    def give_up(progress: Progress) -> None:
        if progress.total and progress.done > progress.total * 0.5:
            raise Superseded("replaced by a newer request")

    with pytest.raises(Superseded):
        locate(NAME, report=give_up)
    hub.pause, hub.ignores_ranges = 0.0, True
    assert_is(locate(NAME).directory, original)
    assert any(each.range for each in hub.requests)


def test_a_part_that_is_too_long_is_thrown_away(hub: FakeHub, tiny_model: TinyModel) -> None:
    original = tiny_model("gpt2")
    content = hub.add(NAME, original).files["model.safetensors"]
    blobs = Path(constants.HF_HUB_CACHE) / "models--somebody--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(content).hexdigest()}.incomplete").write_bytes(content + b"more")
    assert_is(locate(NAME).directory, original)


def test_a_disk_without_room_is_said_before_anything_is_fetched(
    hub: FakeHub, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, tiny_model("gpt2"))
    monkeypatch.setattr(download, "disk_usage", lambda place: SimpleNamespace(free=1000))
    line = not_found(NAME)
    assert "no room" in line
    assert "1.0 kB are free" in line
    assert "HF_HOME" in line
    assert hub.fetched() == []


def test_the_time_left_follows_from_the_mean_rate_of_the_last_seconds() -> None:
    pace = Pace()
    assert pace.rate(0.0, 0) is None
    assert pace.rate(0.5, 100) is None, "too early to tell"
    assert pace.rate(2.0, 400) == 200
    for second in range(3, 100):
        rate = pace.rate(float(second), 400 + 50 * (second - 2))
    assert rate == 50, "what was long ago does not count"
    assert Progress("", 1000, 2000, "bytes", rate).remaining == 20
    assert Progress("", 1000, 2000, "bytes").remaining is None
    assert pace.rate(130.0, 400 + 50 * 97) is None, "nothing comes any more"


def test_what_an_earlier_try_left_does_not_count_as_speed(hub: FakeHub, tiny_model: TinyModel) -> None:
    content = hub.add(NAME, tiny_model("gpt2")).files["model.safetensors"]
    blobs = Path(constants.HF_HUB_CACHE) / "models--somebody--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(content).hexdigest()}.incomplete").write_bytes(content[:-100])
    transfer = Transfer(NAME, commit(hub.repositories[NAME].files), "model.safetensors", len(content))
    transfer.run()
    assert (transfer.fetched, transfer.received) == (100, len(content))


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
