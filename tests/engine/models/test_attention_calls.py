"""What a long sentence leaves beside memory: read back bit for bit, never found by others, and done without."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.analysis.open_model import OpenModel
from engine.checkpoints.source import Source
from engine.models import attention_capture
from engine.models.attention_capture import AttentionCalls
from engine.models.reader import Reader
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import finish
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_folder, open_reader

LAYER = Head("decoder", 1)
TEXT = " ".join(["the cat sat on the mat, and Mary gave a drink to John."] * 60)
TOKENS = 520


def is_open(folder: Path) -> list[os.stat_result]:
    """List the files of a folder that this process has open, by name or without one."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(str(folder.resolve())):
                found.append(os.fstat(int(number)))
        except FileNotFoundError:  # the listing itself
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists the files that are open")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_read_back_bit_for_bit_and_masks_stay_where_they_are(tmp_path: Path, dtype: torch.dtype) -> None:
    states = torch.randn(1, 3, 2**20).to(dtype)
    states[0, 0, 0] = torch.nan
    mask, small = torch.zeros(1, 1, 1024, 1024), torch.ones(1, 3, 5)
    calls = AttentionCalls(tmp_path / "new" / "folder")
    calls.keep(Head("decoder", 0), (states,), {"mask": mask, "same": states, "small": small, "none": None})
    calls.keep(LAYER, (2 * states,), {"mask": mask})
    assert calls.nbytes == 2 * states.nbytes + mask.nbytes + small.nbytes
    expected = states.view(torch.uint8).clone()
    states.zero_()  # nobody's memory any more
    (found,), named = calls.of(Head("decoder", 0))
    assert torch.equal(found.view(torch.uint8), expected)
    assert named["same"] is found
    assert named["mask"] is mask
    assert named["small"] is small
    assert named["none"] is None
    again = calls.of(LAYER)[0][0]
    assert torch.equal(again.nan_to_num(), (2 * expected.view(dtype).view(again.shape)).nan_to_num())


@needs_proc
def test_the_file_has_no_name_is_nobody_elses_and_goes_with_the_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    calls = AttentionCalls(folder)
    calls.keep(LAYER, (torch.randn(1, 1024, 512),), {})
    (file,) = is_open(folder)
    assert list(folder.iterdir()) == []
    assert file.st_nlink == 0
    assert file.st_mode & 0o777 == 0o600
    assert file.st_size == 1024 * 512 * 4
    del calls
    gc.collect()
    assert is_open(folder) == []


@pytest.fixture
def folder(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", max_position_embeddings=TOKENS)


@pytest.fixture
def reader(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Load a model of whose states all are large."""
    monkeypatch.setattr(attention_capture, "LARGE", 1)
    found = open_reader(folder)
    found.folder = tmp_path / "cache"
    return found


def maps(reader: Reader) -> list[np.ndarray[Any, Any]]:
    """Read a long sentence, and make all layers' maps."""
    assert len(reader.read(TEXT, no_hurry).ids) == TOKENS
    return [reader.layer_maps(Head("decoder", layer)).weights for layer in (1, 0, 1)]


@needs_proc
def test_maps_from_disk_are_those_from_memory(folder: Path, reader: Reader, tmp_path: Path) -> None:
    in_memory = open_reader(folder)
    in_memory.folder = None
    for found, expected in zip(maps(reader), maps(in_memory), strict=True):
        np.testing.assert_array_equal(found, expected)
    (file,) = is_open(tmp_path / "cache")
    assert file.st_size >= 2 * TOKENS * 32 * 4  # what two layers read


def full(**_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@needs_proc
@pytest.mark.parametrize("harm", ["no folder can be made", "the disk is full", "hardly any room", "none is wanted"])
def test_where_nothing_can_be_written_memory_keeps_it(
    harm: str, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = maps(reader)
    reader._readings.clear()
    if harm == "no folder can be made":
        (tmp_path / "file").touch()
        reader.folder = tmp_path / "file" / "cache"
    elif harm == "the disk is full":
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
    elif harm == "hardly any room":
        monkeypatch.setattr(attention_capture, "LEFT_FREE", 2**62)
    else:
        reader.folder = None
    for found, wanted in zip(maps(reader), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert [file.st_size for file in is_open(tmp_path) if file.st_size] == []


def test_what_cannot_be_read_back_is_said_and_the_sentence_is_read_anew(reader: Reader) -> None:
    expected = maps(reader)
    assert reader._reading is not None
    os.ftruncate(reader._reading.calls._file.fileno(), 0)
    with pytest.raises(EngineError, match=r"cannot be read back .*; look again and it is read anew"):
        reader.layer_maps(LAYER)
    assert not reader.has_read(TEXT)
    reader.read("The cat sat.", no_hurry)  # what is lost is not kept as a sentence of before either
    np.testing.assert_array_equal(maps(reader)[0], expected[0])


@needs_proc
@pytest.mark.parametrize("use_cache", [True, False])
def test_without_the_cache_nothing_is_written(
    use_cache: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_capture, "LARGE", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source: Source = open_folder(folder)[0]
    reader = finish(OpenModel(source, EngineOptions(device="cpu", use_cache=use_cache)).reader())
    reader.read(TEXT, no_hurry)
    assert len(is_open(tmp_path)) == use_cache
