"""A model with a missing or damaged weight file: what is there is shown and exported, and one line names the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from engine.analysis.open_model import OpenModel
from engine.checkpoints.tensor_reader import read_pickled
from engine.values.heads import Head
from engine.values.progress import finish
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_checkpoint import stored_weights, write_shards
from tests.engine.mathematics.dense_spectra import assert_same_spectra
from tests.exporting import attn_tui, refusal
from tests.opening import open_on_thread, refused
from tests.tui.explorer import explorer, screen_text, settle

FIRST, SECOND, THIRD = (Head("decoder", number) for number in range(3))


def by_layer(folder: Path, is_pickled: bool = False) -> list[Path]:
    """Write a model's weights to one file for each layer, after a first one for what belongs to no layer."""
    weights = stored_weights(folder)
    layers = {name: re.search(r"layers\.(\d+)\.", name) for name in weights}
    numbers = {name: 1 if layer is None else 2 + int(layer[1]) for name, layer in layers.items()}
    return write_shards(folder, weights, numbers, is_pickled=is_pickled)


def cut(file: Path) -> None:
    """Keep only the first half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.fixture
def files(tiny_copy: TinyModel) -> list[Path]:
    """Make a model of three layers, each in a file of its own after a first one."""
    return by_layer(tiny_copy("llama", num_hidden_layers=3))


@pytest.fixture
def whole(tiny_model: TinyModel) -> OpenModel:
    return open_on_thread(tiny_model("llama", num_hidden_layers=3))


@pytest.fixture(params=[(False, False), (False, True), (True, False), (True, True)], ids=str)
def incomplete(request: pytest.FixtureRequest, tiny_copy: TinyModel) -> tuple[Path, str]:
    """Make a folder whose second layer's file is missing or cut; return it and how the message begins."""
    is_pickled, is_cut = request.param
    folder = tiny_copy("llama", num_hidden_layers=3)
    file = by_layer(folder, is_pickled)[2]
    if is_cut:
        cut(file)
        return folder, f"{file} is damaged or cut short"
    file.unlink()
    return folder, f"{file.name}, which "


def test_layers_that_are_there_have_spectra_and_the_others_one_line(
    incomplete: tuple[Path, str], whole: OpenModel
) -> None:
    folder, said = incomplete
    session = open_on_thread(folder)
    (note,) = session.outline.notes
    assert note.startswith(said)
    assert note.endswith("model again; until then 1 of 3 layers cannot be shown, and no sentence can be read")
    assert session.outline.layers == whole.outline.layers
    for layer in (FIRST, THIRD):
        for whole_layer in (False, True):
            assert_same_spectra(*(finish(each.spectra.layer(layer, whole_layer)) for each in (session, whole)))
    assert refused(lambda: finish(session.spectra.layer(SECOND, False))).startswith(said)


async def test_every_view_says_that_no_sentence_can_be_read_before_one_is_typed(files: list[Path]) -> None:
    files[2].unlink()
    async with explorer(files[2].parent, head="L0H1", size=(120, 40)) as (app, pilot):
        await pilot.press("z")  # show the view alone
        for key in "3A8T":
            await pilot.press(key)
            await settle(pilot)
            said = " ".join(screen_text(app).replace("│", " ").split())
            assert "copy it there, or download or save the model again;" in said, key
            assert "press i and type" not in said


def test_a_layer_that_is_there_is_exported_and_the_whole_model_is_not(
    incomplete: tuple[Path, str], tmp_path: Path
) -> None:
    folder, said = incomplete
    out = tmp_path / "ranks.csv"
    asked = (["ranks"], ["spectrum", "--layer", "1"], ["attention", "--text", "hi"])
    lines = [refusal(folder, *words, "-o", out) for words in asked]
    assert all(f"attn-tui: {said}" in line for line in lines)
    assert "; a sentence is read by the whole model" in lines[-1]
    assert not any(tmp_path.glob("*.csv*"))
    done = attn_tui("export", folder, "ranks", "--layer", "2", "-o", out)
    assert done.returncode == 0
    assert "1 of 3 layers cannot be shown" in done.stderr
    assert out.read_text().count("\n") > 1


def test_a_model_without_any_layers_file_is_refused_and_a_file_is_named(files: list[Path]) -> None:
    first, *layers = files
    for file in layers:
        file.unlink()
    said = "model-2-of-4.safetensors, which model.safetensors.index.json lists, is not in"
    assert said in refusal(first.parent, "ranks")
    cut(first)
    assert "damaged or cut short" in refusal(first.parent, "ranks")


def test_a_pickled_file_of_something_else_gives_our_own_line(tmp_path: Path) -> None:
    file = tmp_path / "pytorch_model.bin"
    file.write_text("<html>not found</html>")
    said = refused(lambda: read_pickled(file))
    assert said.endswith("is not a readable PyTorch weight file; download the model again")
    torch.save({"a": torch.ones(2), "b": print}, file)
    assert re.search("holds code besides tensors, .* save_pretrained$", refused(lambda: read_pickled(file)))
