"""Weight files that change while they are open: the program shows what it opened, or one line that says so."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoints.locate import locate
from engine.checkpoints.source import FolderSource
from engine.checkpoints.tensor_reader import Checkpoint
from engine.models.model_loader import load_reader
from engine.values.heads import Head
from engine.values.progress import finish
from tests.conftest import TinyModel
from tests.opening import open_on_thread, refused, start_engine

SAID = " has changed since the model was opened; open it again"
FIRST, OTHER = Head("decoder", 0, 0), Head("decoder", 0, 3)


def cut_short(file: Path) -> None:
    """Truncate a file in place, as a program that rewrites it does first."""
    with file.open("r+b") as stream:
        stream.truncate(100)


@pytest.mark.parametrize("rows", [32, 16])
def test_a_replaced_file_is_not_taken_for_the_one_that_was_opened(rows: int, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    opened, source = Checkpoint(folder), FolderSource(locate(str(folder)))
    first, second = (f"layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1))
    held = opened.read(first)
    kept, changed = held.clone(), {name: 2 * each for name, each in load_file(folder / "model.safetensors").items()}
    changed[second] = changed[second][:rows]
    save_file(changed, folder / "other", metadata={"format": "pt"})
    (folder / "other").replace(folder / "model.safetensors")
    assert refused(lambda: opened.read(second)).endswith("model.safetensors" + SAID)
    assert refused(lambda: load_reader(source, "cpu", "auto")).endswith("model.safetensors" + SAID)
    assert torch.equal(held, kept)
    assert torch.equal(Checkpoint(folder).read(second), changed[second])


def test_mapped_memory_is_not_read_once_its_file_was_cut_short(tiny_copy: TinyModel) -> None:
    """Reading it would end the program and leave the terminal unusable."""
    folder = tiny_copy("llama")
    opened = open_on_thread(folder)
    finish(opened.spectra.head(FIRST))
    finish(opened.read("the cat"))
    cut_short(folder / "model.safetensors")
    for work in (opened.spectra.head(OTHER), opened.read("the dog sat")):
        assert refused(partial(finish, work)).endswith("model.safetensors" + SAID)


def test_only_a_model_in_memory_still_reads_sentences_when_its_folder_was_deleted(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    loaded, opened, unread = open_on_thread(folder), start_engine(folder), open_on_thread(folder)
    finish(loaded.spectra.head(FIRST))
    finish(loaded.read("the cat"))
    shutil.rmtree(folder)
    assert "llama-copy is not there any more" in refused(lambda: finish(unread.read("the cat")))
    assert "model.safetensors cannot be read" in refused(lambda: finish(loaded.spectra.head(OTHER)))
    finish(loaded.read("the dog sat"))
    assert "llama-copy" in refused(opened.read("the dog sat").result)
